"""The scenarios on which the peers were measured: A misbehaves, B answers rightly.

Wherever A is no use, B's answer is the decision; where A's own answer is right, B is not asked; and
A is asked once where asking again cannot help. When both are down, a person is asked.
"""

from __future__ import annotations

import json
from concurrent.futures import Future

import pytest
from scene import ANSWER, Met, Row, Scene, failures
from servers import RIGHT, WRONG, Call, answers, completion, hangs, in_turn, says, status

from weighbridge.schemas.task import LogitBias, Task

BIASED = Task.triage(logit_bias=LogitBias(by_token={42: 1.0}))


ROWS = [
    Row("429_retry_after_1", status(429, retry_after="1"), "rate_limit", 3),
    Row("429_no_wait", status(429, "rate_limit_exceeded: slow down"), "rate_limit"),
    Row("insufficient_quota", status(429, "insufficient_quota: no"), "quota"),
    Row("500_always", status(500), "transient", 3),
    Row("hangs", hangs, "transient"),
    Row("401", status(401, "invalid_api_key: no"), "credential"),
    Row("404_model", status(404, "model_not_found: no"), "model_gone"),
    Row("refusal", says(200, completion("", refusal="I will not.")), "refusal"),
    Row("length_valid", answers(finish="length", answer=WRONG), "truncated", 2),
    Row("length_chopped", answers('{"category": "bu', finish="length"), "truncated", 2),
    Row("filter_valid", answers(finish="content_filter", answer=WRONG), "filtered"),
    Row("empty_choices", says(200, b'{"choices": []}'), "invalid", 2),
    Row(
        "error_in_200",
        says(200, b'{"error": {"message": "overloaded", "code": 401}}'),
        "credential",
    ),
    Row("prose", answers("This looks like a bug."), "invalid", 2),
    Row("braces_in_prose", answers(f"It is {json.dumps(WRONG)}, I think."), "invalid", 2),
    Row("wrong_enum", answers(answer={"category": "refund", "priority": "low"}), "invalid", 2),
    Row("extra_field", answers(answer={**WRONG, "confidence": 0.99}), "invalid", 2),
    Row("missing_field", answers(answer={"priority": "low"}), "invalid", 2),
    Row(
        "duplicate_keys",
        answers('{"category": "bug", "category": "billing", "priority": "low"}'),
        "invalid",
        2,
    ),
    Row("nan", answers('{"category": "bug", "priority": NaN}'), "invalid", 2),
    Row("lone_surrogate", answers('{"category": "bug\\ud83d", "priority": "low"}'), "invalid", 2),
    Row(
        "enum_in_wrong_case",
        answers(answer={"category": "Billing", "priority": "HIGH"}),
        None,
        by="a",
    ),
    Row("think_block", answers(f"<think>Money.</think>{json.dumps(RIGHT)}"), None, by="a"),
    Row("fence", answers(f"```json\n{json.dumps(RIGHT)}\n```"), None, by="a"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_right_answer_is_the_decision(met: dict[str, Future[Met]], row: Row) -> None:
    row.check(met[row.name].result())


@pytest.mark.parametrize(
    ("kind", "sent", "good"),
    [
        *(("number", bad, 0.5) for bad in ("NaN", "Infinity", "-Infinity", "1e999")),
        *(("string", bad, "fine") for bad in (r'"\ud83d"', r'"\udc00 x"', '"\n"')),
    ],
)
def test_what_json_does_not_have_is_no_answer(
    scene: Scene, kind: str, sent: str, good: float | str
) -> None:
    """In a field where the schema alone would let it pass: NaN is a number to many parsers."""
    task = Task.from_schema(
        {
            "type": "object",
            "properties": {"it": {"type": kind}},
            "required": ["it"],
            "additionalProperties": False,
        },
        instructions="Read the ticket.",
    )
    a = scene.add("a", answers(f'{{"it": {sent}}}'))
    b = scene.add("b", answers(answer={"it": good}))
    with scene.router() as router:
        decision = scene.ask(router, task=task)
    assert (decision.provider, decision.value) == ("b", {"it": good})
    assert (a.hits, b.hits) == (2, 1)


async def _refuses_bias(call: Call) -> None:
    told = "unsupported_parameter: logit_bias is not supported with this model"
    await (status(400, told) if "logit_bias" in call.body else answers())(call)


async def _refuses_schema(call: Call) -> None:
    told = "Invalid schema for response_format 'triage'"
    await (status(400, f": {told}") if "response_format" in call.body else answers())(call)


def test_unsupported_logit_bias_is_left_out_and_never_sent_again(scene: Scene) -> None:
    """Tuning can be done without: A answers when asked otherwise, and is not asked so again."""
    a = scene.add("a", _refuses_bias, profile="openai", model="gpt-4o-mini")
    b = scene.add("b", answers())
    with scene.router() as router:
        first = scene.ask(router, task=BIASED)
        second = scene.ask(router, "Another ticket", task=BIASED)
    assert (first.provider, second.provider) == ("a", "a")
    assert failures(first) == ["capability", None]
    assert first.trail[-1].dropped == ("logit_bias",)
    assert ["logit_bias" in call.body for call in a.calls] == [True, False, False]
    assert b.hits == 0


def test_rejected_schema_is_shown_to_the_model_and_still_checked(scene: Scene) -> None:
    """Refused, then shown: the constraint moves from the wire into the prompt, never away."""
    a, b = scene.add("a", _refuses_schema), scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, ticket) for ticket in ("First", "Second")]
    assert [d.provider for d in decisions] == ["a", "a"]
    assert failures(decisions[0]) == ["capability", None]
    assert (a.hits, b.hits) == (3, 0)
    for call in a.calls[1:]:
        assert "account_access" in call.prompt
        assert "response_format" not in call.body


def test_shown_schema_that_is_ignored_leads_to_the_next(scene: Scene) -> None:
    """Refused, shown, and then answered with prose."""
    refused = status(400, ": Invalid schema for response_format 'triage'")
    a = scene.add("a", in_turn(refused, answers("A bug, surely.")))
    b = scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("b", ANSWER)
    assert failures(decision) == ["capability", "invalid", "invalid"]
    assert (a.hits, b.hits) == (3, 1)


def test_with_both_down_a_person_is_asked(scene: Scene) -> None:
    a, b = scene.add("a", status(500, retry_after="0.02")), scene.add("b", status(401))
    decision = scene.decide()
    assert (decision.status, decision.value) == ("review", None)
    assert decision.reasons == ("no_answer",)
    assert (a.hits, b.hits) == (3, 1)
    assert failures(decision) + failures(decision, "b") == ["transient"] * 3 + ["credential"]
