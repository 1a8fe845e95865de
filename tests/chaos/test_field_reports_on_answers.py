"""What went wrong for others with answers and schemas; one test each, named after it.

The docstring names the thread. Every test puts vendors that behave as in the report in front of a
real router. What went wrong with asking and waiting is in `test_field_reports`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from scene import ANSWER, Scene, failures
from servers import RIGHT, WRONG, Call, answers, in_turn, says, status

from weighbridge.schemas.task import LogitBias, Task

PROSE = "This looks like a bug."
TOLD_NOT_TO = {"x_should_retry": "false"}
LABEL = "account_access"  # stands in the schema, and in no ticket


def ollama(text: str, reason: str = "stop") -> bytes:
    """The body of an answer in Ollama's own format."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"message": message, "done": True, "done_reason": reason}).encode()


def schema_task(properties: dict[str, Any], *required: str, **rest: Any) -> Task:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": [*required]}
    schema |= {"additionalProperties": False, **rest}
    return Task.from_schema(schema, instructions="Read the ticket.")


def in_format(call: Call) -> Any:
    """The schema that a request asks the server to enforce."""
    return call.body["response_format"]["json_schema"]


# Structured output across a fallback


@pytest.mark.parametrize("text", [json.dumps(RIGHT), PROSE])
def test_schema_was_dropped_on_the_fallback_route(scene: Scene, text: str) -> None:
    """mnfst/llm-gateway#2419: the second provider speaks another format and got no schema."""
    scene.add("a", status(503, **TOLD_NOT_TO))
    b = scene.add("b", says(200, ollama(text)), kind="ollama")
    decision = scene.decide()
    assert LABEL in json.dumps(b.calls[0].body["format"])
    assert decision.status == ("review" if text == PROSE else "accepted")
    assert decision.value == (None if text == PROSE else ANSWER)


def test_ignored_schema_cooled_a_healthy_provider(scene: Scene) -> None:
    """tashfeenahmed/freellmapi#516: accepted and ignored is no outage; the next one answers."""
    a, b = (
        scene.add("a", in_turn(answers(PROSE), answers(PROSE), answers())),
        scene.add("b", answers()),
    )
    with scene.router() as router:
        first, second = scene.ask(router, "First"), scene.ask(router, "Second")
    assert (first.provider, failures(first)) == ("b", ["invalid"] * 2)
    assert (second.provider, failures(second)) == ("a", [None])
    assert (a.hits, b.hits) == (3, 1)


async def _refuses_schema(call: Call) -> None:
    refused = status(400, "unsupported_parameter: response_format is not supported")
    await (refused if "response_format" in call.body else answers())(call)


def test_same_refusal_was_paid_for_with_every_ticket(scene: Scene) -> None:
    """NousResearch/hermes-agent#113966 and #92908: a refused schema killed the task, each time.

    One refusal is paid for; a second router over the same database pays for none.
    """
    a, b = scene.add("a", _refuses_schema), scene.add("b", answers())
    for tickets in (["First", "Second"], ["Third"]):
        with scene.router() as router:
            decisions = [scene.ask(router, ticket) for ticket in tickets]
        assert {d.provider for d in decisions} == {"a"}
    assert ["response_format" in call.body for call in a.calls] == [True, False, False, False]
    assert b.hits == 0


@pytest.mark.parametrize("bad", ["", PROSE, '{"category": "refund"}', "null", "[]"])
def test_invalid_answers_never_fell_back(scene: Scene, bad: str) -> None:
    """pydantic/pydantic-ai#2837: what was wrong with an answer was found outside the chain."""
    a, b = scene.add("a", answers(bad)), scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("b", ANSWER)
    assert (a.hits, b.hits) == (2, 1)


def test_first_run_worked_and_the_second_raised(scene: Scene) -> None:
    """pydantic/pydantic-ai#3104: one run left its settings in the model that the next one used."""
    number = schema_task({"account": {"type": "integer"}}, "account")

    async def by_schema(call: Call) -> None:
        asks_number = "account" in in_format(call)["schema"]["properties"]
        await answers(answer={"account": 7} if asks_number else RIGHT)(call)

    scene.add("a", status(503, **TOLD_NOT_TO))
    b = scene.add("b", by_schema)
    with scene.router() as router:
        for _ in range(3):
            assert scene.ask(router).value == ANSWER
            assert scene.ask(router, task=number).value == {"account": 7}
    assert b.hits == 6


def test_capability_mismatch_stopped_the_chain(scene: Scene) -> None:
    """pydantic/pydantic-ai#8532 and #8559: who cannot do it is passed over, with the reason."""
    a = scene.add("a", answers(answer=WRONG), profile="groq")
    b = scene.add("b", answers(), profile="openai", model="gpt-4o-mini")
    bias = LogitBias(by_token={42: 5.0}, required=True)
    with scene.router() as router:
        decision = scene.ask(router, task=Task.triage(logit_bias=bias))
    assert (decision.provider, decision.value) == ("b", ANSWER)
    assert failures(decision) == ["capability"]
    assert "logit_bias" in decision.trail[0].detail
    assert b.calls[0].body["logit_bias"] == {"42": 5}
    assert (a.hits, b.hits) == (0, 1)


@pytest.mark.parametrize(
    "told",
    [
        "invalid_value: Your response_format is fine, but messages[1].content is not a string",
        "invalid_request_error: json_schema name 'x' is longer than 64 characters",
        "invalid_value: invalid schema of messages",
    ],
)
def test_any_400_that_named_the_schema_was_taken_for_unsupported(scene: Scene, told: str) -> None:
    """iTestFlow/iTestFlow-Agent#197: a substring swallowed other errors and lost the schema."""
    a, b = scene.add("a", status(400, told)), scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, ticket) for ticket in ("First", "Second")]
    assert [failures(d) for d in decisions] == [["caller_fault"]] * 2
    assert all(in_format(call)["strict"] for call in a.calls)
    assert (a.hits, b.hits) == (2, 0)


# Dropped parameters


@pytest.mark.parametrize("kept", [True, False])
def test_schema_was_dropped_for_a_model_nobody_had_registered(scene: Scene, kept: bool) -> None:
    """BerriAI/litellm#38269: prose came back as a success."""
    a = scene.add("a", answers() if kept else answers(PROSE), model="vendor/unheard-of-9b")
    decision = scene.decide()
    assert all(in_format(call)["strict"] is True for call in a.calls)
    assert all(LABEL in json.dumps(in_format(call)["schema"]) for call in a.calls)
    assert decision.status == ("accepted" if kept else "review")


# A good status that is no success


def test_answer_was_invented_where_none_came(scene: Scene) -> None:
    """diegosouzapw/OmniRoute#3424: an error's text came back as if a model had said it."""
    scene.add("a", says(200, b'{"choices": []}'))
    decision = scene.decide()
    assert (decision.status, decision.value, decision.provider) == ("review", None, None)
    assert decision.reasons == ("no_answer",)
    assert decision.fields == {}


@pytest.mark.parametrize(
    ("finish", "message", "failure", "times"),
    [
        ("content_filter", {}, "filtered", 1),
        ("length", {}, "truncated", 2),
        ("stop", {"reasoning_content": json.dumps(WRONG)}, "invalid", 2),
        ("stop", {"refusal": "No."}, "refusal", 1),
        ("error", {}, "transient", 3),
    ],
)
def test_all_empty_answers_were_one_case(
    scene: Scene, finish: str, message: dict[str, str], failure: str, times: int
) -> None:
    """diegosouzapw/OmniRoute#4942: why there is no text decides what helps."""
    a = scene.add("a", answers("", finish=finish, **message))
    b = scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("b", ANSWER)
    assert failures(decision) == [failure] * times
    assert (a.hits, b.hits) == (times, 1)


# Truncation


@pytest.mark.parametrize(
    "text", ['{"category": "bug", "priority": "lo', '{"category": "bug", "priority": "low"', "{"]
)
@pytest.mark.parametrize("finish", ["length", "stop", None])
def test_truncated_answer_was_repaired(scene: Scene, text: str, finish: str | None) -> None:
    """mastra-ai/mastra#24442, vectorize-io/hindsight#3685: whoever cut it, nothing is completed."""
    scene.add("a", answers(text, finish=finish))
    scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("b", ANSWER)


@pytest.mark.parametrize("finish", ["length", None, "tool_use", "unheard_of"])
def test_answer_that_may_be_cut_passed_since_it_was_valid(scene: Scene, finish: str | None) -> None:
    """browser-use/browser-use#5148: without a positive "stop" nobody knows what is missing."""
    scene.add("a", answers(finish=finish, answer=WRONG))
    scene.add("b", answers())
    assert scene.decide().value == ANSWER


def test_truncation_is_met_with_more_room_once(scene: Scene) -> None:
    """The other half of both reports: an answer that was cut for want of room can be had."""
    a = scene.add("a", in_turn(answers(finish="length"), answers()))
    decision = scene.decide()
    assert (decision.provider, failures(decision)) == ("a", ["truncated", None])
    first, second = (call.body["max_completion_tokens"] for call in a.calls)
    assert second > first


# Thinking against JSON


async def _ignores_format_without_thinking(call: Call) -> None:
    constrains = call.body.get("think") is not False and "format" in call.body
    await says(200, ollama(json.dumps(RIGHT) if constrains else PROSE))(call)


def test_format_was_ignored_where_thinking_was_off(scene: Scene) -> None:
    """ollama/ollama#15260, #14645 and #14850: a 200, and prose in it."""
    a = scene.add("a", _ignores_format_without_thinking, kind="ollama", thinking="off")
    b = scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, f"Ticket {number}") for number in range(3)]
    assert {(d.provider, d.value) for d in decisions} == {("b", ANSWER)}
    assert a.hits <= 6
    assert b.hits == 3


@pytest.mark.parametrize("kind", ["openai", "ollama", "anthropic", "gemini"])
def test_answer_went_on_without_end(scene: Scene, kind: str) -> None:
    """vllm-project/vllm#52011: an open schema led to endless digits; every request has a cap."""
    a = scene.add("a", status(500, **TOLD_NOT_TO), kind=kind)
    with scene.router() as router:
        scene.ask(router, task=schema_task({"any": {}}, "any"))
    caps = {"max_tokens", "max_completion_tokens", "num_predict", "maxOutputTokens"}
    places = [call.body | call.body.get("options", {}) | call.body.get("generationConfig", {})
              for call in a.calls]  # fmt: skip
    assert a.hits == 1
    assert all(caps & place.keys() for place in places)


# Rewritten schemas


def test_open_object_was_sent_as_strict(scene: Scene) -> None:
    """openai/openai-python#2740: what strict mode would change is never sent as strict."""
    task = schema_task({"category": {"enum": ["bug"]}}, "category", additionalProperties=True)
    a = scene.add("a", answers(answer={"category": "bug", "note": "x"}))
    with scene.router() as router:
        decision = scene.ask(router, task=task)
    assert "response_format" not in a.calls[0].body
    assert decision.value == {"category": "bug", "note": "x"}


@pytest.mark.parametrize(("sent", "value"), [(None, {"id": 1}), ("x", {"id": 1, "note": "x"})])
def test_optional_field_became_null(scene: Scene, sent: str | None, value: Any) -> None:
    """langchain-ai/langchain#29075: strict mode makes absent fields null; on the way back not."""
    task = schema_task({"id": {"type": "integer"}, "note": {"type": "string"}}, "id")
    a = scene.add("a", answers(answer={"id": 1, "note": sent}))
    with scene.router() as router:
        decision = scene.ask(router, task=task)
    assert in_format(a.calls[0])["schema"]["required"] == ["id", "note"]
    assert decision.value == value


@pytest.mark.parametrize(("number", "by"), [(5, "a"), (6, "b")])
def test_bound_that_the_wire_cannot_carry_was_lost(scene: Scene, number: int, by: str) -> None:
    """BerriAI/litellm#20813 and #21045: it is kept from Anthropic's wire, and checked here."""
    task = schema_task({"stars": {"type": "integer", "minimum": 1, "maximum": 5}}, "stars")
    content = [{"type": "text", "text": json.dumps({"stars": number})}]
    reply: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
    }
    reply |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    a = scene.add("a", says(200, json.dumps(reply).encode()), kind="anthropic")
    scene.add("b", answers(answer={"stars": 4}))
    with scene.router() as router:
        decision = scene.ask(router, task=task)
    sent = a.calls[0].body["output_config"]["format"]["schema"]["properties"]["stars"]
    assert (sent["type"], "maximum" in sent) == ("integer", False)
    assert (decision.provider, decision.value) == (by, {"stars": 5 if by == "a" else 4})


# JSON


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (f"```json\n{json.dumps(WRONG)}\n```\nor was it ```json\n{json.dumps(RIGHT)}\n```", "b"),
        (f"Here it is:\n```json\n{json.dumps(WRONG)}\n```", "b"),
        (f"```json\n{json.dumps(WRONG)}", "b"),
        (f"```json\n{json.dumps(RIGHT)}\n```", "a"),
    ],
)
def test_fence_was_cut_out_of_the_middle(scene: Scene, text: str, by: str) -> None:
    """mealie-recipes/mealie#8133: a fence is taken off where it is the whole answer alone."""
    scene.add("a", answers(text))
    scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == (by, ANSWER)


@pytest.mark.parametrize(
    "text",
    [
        '{"category": "bug", "priority": "low", "priority": "high"}',
        '{"category": "bug", "priority": "low", "category": "bug"}',
        '{"category": "bug", "priority": "low", "weight": NaN}',
        '{"category": "bug", "priority": -Infinity}',
        f"{json.dumps(WRONG)}{json.dumps(WRONG)}",
    ],
)
def test_json_of_two_meanings_was_read_as_one(scene: Scene, text: str) -> None:
    """comet-ml/opik#7854: duplicate keys, NaN, two verdicts."""
    scene.add("a", answers(text))
    scene.add("b", answers())
    assert scene.decide().value == ANSWER
