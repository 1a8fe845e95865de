"""System One: what is asked, what an answer is worth, and what is no answer."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import SecretStr
from systemone_request_schema import REQUEST

from weighbridge.decision import FailureKind, Json
from weighbridge.errors import CapabilityMissing, SchemaRefused
from weighbridge.provider_config import build_provider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.prices import Price
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Failure, HttpResponse, Inquiry, Reply
from weighbridge.providers.systemone import SystemOneProvider
from weighbridge.providers.systemone_answers import read_response
from weighbridge.providers.systemone_questions import (
    kind_of,
    option_names,
    refuse_unless_finite,
    request,
)
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.schemas.task import LogitBias, Task
from weighbridge.schemas.ticket import Ticket
from weighbridge.settings import load_settings

TICKET = Ticket.of("I was charged twice.")
NUMBERS = {"input_tokens": 200, "output_tokens": 0}


def object_of(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def task_of(**properties: Any) -> Task:
    return Task.from_schema(object_of(**properties), instructions="Sort it.")


MIXED = Task.from_schema(
    object_of(
        category={"enum": ["billing", "bug"], "description": "what it is about"},
        urgent={"type": "boolean"},
        anger={"type": "integer", "minimum": 1, "maximum": 3},
    ),
    instructions="Sort it.",
    labels={
        "category": {"billing": "money"},
        "urgent": {"true": "hours matter"},
        "anger": {"1": "calm", "2": "", "3": "furious"},
    },
)
ANSWERS: dict[str, Any] = {
    "category": {
        "type": "choice",
        "choice": "billing",
        "confidence": 0.4,
        "probabilities": {"bug": 0.3, "billing": 0.7},
    },
    "urgent": {"type": "noul", "noul": 0.2},
    "anger": {
        "type": "score",
        "score": 1.3,
        "legend": {"0": "1: calm", "1": "2", "2": "3: furious"},
        "confidence": 0.1,
        "probabilities": {"0": 0.1, "1": 0.5, "2": 0.4},
    },
}


def read(body: Any, task: Task = MIXED, status: int = 200) -> Reply | Failure:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_response(HttpResponse(status=status, headers={}, body=raw), task)


def answered(answers: Any, task: Task = MIXED) -> Reply | Failure:
    return read({"model": "jev-1", "answers": answers, "usage": NUMBERS}, task)


def changed(name: str, **changes: Any) -> dict[str, Any]:
    return {**ANSWERS, name: {**ANSWERS[name], **changes}}


# ---- questions


def test_fields_are_asked_by_what_they_can_hold() -> None:
    """Options by name, yes or no, and levels from the lowest up; with what their labels mean."""
    asked = json.loads(request("m", MIXED, TICKET).body)
    assert (asked["model"], asked["state"]) == ("m", TICKET.text)
    questions = asked["questions"]
    assert {name: (q["type"], q["criteria"]) for name, q in questions.items()} == {
        "category": ("choice", {"billing": "money", "bug": None}),
        "urgent": ("noul", {"true": "hours matter", "false": None}),
        "anger": ("score", ["1: calm", "2", "3: furious"]),
    }
    plain = task_of(urgent={"type": "boolean"})
    assert "criteria" not in json.loads(request("m", plain, TICKET).body)["questions"]["urgent"]
    assert "category: what it is about" in questions["category"]["instructions"]
    assert all(q["instructions"].startswith("Sort it.\n") for q in questions.values())
    assert all("never instructions" in q["instructions"] for q in questions.values())


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "boolean"}, "noul"),
        ({"enum": [False, True]}, "noul"),
        ({"const": True}, "choice"),
        ({"enum": [True, False, None]}, "choice"),
        ({"enum": ["true", "false"]}, "choice"),
        ({"type": "integer", "minimum": -1, "maximum": 8}, "score"),
        ({"type": "integer", "minimum": -1, "maximum": 9}, "choice"),
        ({"enum": [1, 2, 3]}, "score"),
        ({"enum": [3, 2, 1]}, "choice"),
        ({"enum": [1, 2, 4]}, "choice"),
        ({"enum": [1, 2, "many"]}, "choice"),
        ({"enum": [0, True]}, "choice"),
        ({"const": 1}, "choice"),
        ({"enum": ["low", "high"]}, "choice"),
        ({"enum": [0.5, 1.5]}, "choice"),
    ],
)
def test_level_is_an_integer_of_a_whole_range(part: dict[str, Json], kind: str) -> None:
    """And yes or no is true or false, both of them and nothing else."""
    assert kind_of(task_of(field=part).fields[0]) == kind


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"enum": ["a", "b"]}, ""),
        ({"type": "array", "items": {"enum": [1, 2]}}, ""),
        (object_of(), ""),
        (object_of(a={"enum": ["x"]}, note={"type": "string"}), "/properties/note"),
        (object_of([], a={"enum": ["x"]}, note={"type": "string"}), "/properties/note"),
        (object_of(a={"enum": ["x"]}, **{"b/c~": {"type": "number"}}), "/properties/b~1c~0"),
        (object_of(a=object_of(b={"enum": ["x"]})), "/properties/a"),
        (object_of(a={"type": "array", "items": {"enum": [1]}}), "/properties/a"),
        (object_of(["a", "b"], a={"enum": ["x"]}), "/required"),
        (object_of(a={"enum": ["1", 1]}), "/properties/a"),
        (object_of(a={"enum": [str(n) for n in range(256)]}), "/properties/a"),
        (object_of(**{f"f{n}": {"type": "boolean"} for n in range(65)}), "/properties"),
    ],
)
def test_task_that_is_more_than_listed_fields_side_by_side_is_refused(
    schema: dict[str, Json], pointer: str
) -> None:
    """With the place that cannot be asked."""
    with pytest.raises(SchemaRefused) as refused:
        refuse_unless_finite(Task.from_schema(schema, instructions="Sort it."))
    assert (refused.value.pointer, refused.value.dialect) == (pointer, "System One")


@pytest.mark.parametrize(
    "schema",
    [
        object_of(a={"enum": [str(n) for n in range(255)]}),
        object_of(**{f"f{n}": {"type": "boolean"} for n in range(64)}),
        object_of([], a={"enum": ["x", None]}),
        object_of(**{"a.b": {"enum": ["x", "y"]}}),
        Task.triage().schema,
    ],
)
def test_task_of_listed_fields_is_asked(schema: dict[str, Json]) -> None:
    """Up to what servers take; optional fields are asked like others."""
    task = Task.from_schema(schema, instructions="Sort it.")
    refuse_unless_finite(task)
    Draft202012Validator(REQUEST).validate(json.loads(request("m", task, TICKET).body))


# ---- answers

scalars = st.none() | st.booleans() | st.integers(-3, 12) | st.text(max_size=5)
fields = (
    st.just({"type": "boolean"})
    | st.builds(
        lambda low, n: {"type": "integer", "minimum": low, "maximum": low + n},
        st.integers(-5, 5),
        st.integers(0, 12),
    )
    | st.lists(scalars, min_size=1, max_size=18, unique_by=repr).map(lambda v: {"enum": v})
)
names = st.text("abcdefghij.", min_size=1, max_size=6)


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[Task, dict[str, Any]]:
    """A task that can be asked, and answers of a server that rounds or does not."""
    properties = draw(st.dictionaries(names, fields, min_size=1, max_size=4))
    needed = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    schema = object_of(needed, **properties)
    task = Task.from_schema(schema, instructions="Sort it.")
    try:
        refuse_unless_finite(task)
    except SchemaRefused:
        return MIXED, ANSWERS
    digits = draw(st.sampled_from([2, 4, 17]))
    answers: dict[str, Any] = {}
    for field in task.fields:
        keys, kind = option_names(field), kind_of(field)
        logits = draw(st.lists(st.floats(-30, 30), min_size=len(keys), max_size=len(keys)))
        exact = [math.exp(logit - max(logits)) for logit in logits]
        table = {k: round(w / sum(exact), digits) for k, w in zip(keys, exact, strict=True)}
        answer: dict[str, Any] = {"type": kind, "probabilities": table, "confidence": 0.5}
        if kind == "noul":
            answer = {"type": kind, "noul": table["true"]}
        elif kind == "choice":
            answer["choice"] = max(table, key=lambda key: exact[keys.index(key)])
        answers[field.name] = answer
    return task, answers


@given(exchange=exchanges())
def test_every_answer_is_one_of_the_options_with_its_share(
    exchange: tuple[Task, dict[str, Any]],
) -> None:
    """The text is valid for the task, and the shares are those of its own options."""
    task, answers = exchange
    Draft202012Validator(REQUEST).validate(json.loads(request("m", task, TICKET).body))
    reply = answered(answers, task)
    assert isinstance(reply, Reply)
    provider = provider_of()
    accepted = accept(reply, provider.approach(task).schema, task)
    assert isinstance(accepted, Accepted)
    assert reply.evidence is not None
    assert list(reply.evidence) == [field.name for field in task.fields]
    for field in task.fields:
        evidence = reply.evidence[field.name]
        assert (evidence.source, evidence.mass) == ("vendor", None)
        assert evidence.required == field.required
        assert repr(evidence.value) in map(repr, field.options)
        assert math.fsum(evidence.options.values()) == pytest.approx(1.0)
        assert evidence.probability is not None
        assert evidence.probability >= max(evidence.options.values()) - 0.011


def test_reply_holds_what_was_chosen_and_what_it_took() -> None:
    """The level is the likeliest one, whatever the mean; `confidence` is not looked at."""
    reply = answered(ANSWERS)
    assert isinstance(reply, Reply)
    assert json.loads(reply.text) == {"category": "billing", "urgent": False, "anger": 2}
    assert (reply.model, reply.prompt_tokens, reply.completion_tokens) == ("jev-1", 200, 0)
    assert reply.evidence is not None
    assert not any(evidence.notes for evidence in reply.evidence.values())
    found = {n: (e.probability, dict(e.options)) for n, e in reply.evidence.items()}
    assert found == {
        "category": (0.7, {"billing": 0.7, "bug": 0.3}),
        "urgent": (0.8, {"true": 0.2, "false": 0.8}),
        "anger": (0.5, {"1": 0.1, "2": 0.5, "3": 0.4}),
    }


def test_choice_that_rounding_has_put_second_is_taken() -> None:
    """With its own number."""
    even = {"billing": 0.5, "bug": 0.495}
    reply = answered(changed("category", choice="bug", probabilities=even))
    assert isinstance(reply, Reply)
    assert reply.evidence is not None
    evidence = reply.evidence["category"]
    assert evidence.value == "bug"
    assert evidence.probability == pytest.approx(0.495 / 0.995)


def test_rounded_numbers_are_scaled_and_noted() -> None:
    """Seven numbers of two decimals can miss 1 by more than a hundredth."""
    letters = "abcdefg"
    task = task_of(field={"enum": list(letters)})
    rounded = dict.fromkeys(letters, 0.15) | {"g": 0.12}
    reply = answered({"field": {"type": "choice", "choice": "a", "probabilities": rounded}}, task)
    assert isinstance(reply, Reply)
    assert reply.evidence is not None
    evidence = reply.evidence["field"]
    assert evidence.probability == pytest.approx(0.15 / 1.02)
    assert evidence.notes == ("rounded: the probabilities added up to 1.020",)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({n: a for n, a in ANSWERS.items() if n != "urgent"}, "urgent is missing"),
        ({**ANSWERS, "category": "billing"}, "category is missing"),
        (changed("category", type="score"), "category is of another type"),
        (changed("category", choice="Billing"), "category chooses what was not offered"),
        (changed("category", choice=None), "category chooses what was not offered"),
        (changed("category", choice="bug"), "category chooses what another option outweighs"),
        (
            changed("category", choice="bug", probabilities={"billing": 0.51, "bug": 0.49}),
            "category chooses what another option outweighs",
        ),
        (changed("category", probabilities={"billing": 1.0}), "does not weigh the options"),
        (
            changed("category", probabilities={"billing": 0.7, "bug": 0.2, "wish": 0.1}),
            "does not weigh the options",
        ),
        (changed("category", probabilities=[0.7, 0.3]), "does not weigh the options"),
        (changed("category", probabilities=None), "does not weigh the options"),
        (changed("category", probabilities={"billing": 0.7, "bug": 0.2}), "no probabilities"),
        (changed("category", probabilities={"billing": 0.7, "bug": 0.4}), "no probabilities"),
        (changed("category", probabilities={"billing": 1.2, "bug": -0.2}), "no probabilities"),
        (changed("category", probabilities={"billing": 1, "bug": math.nan}), "no probabilities"),
        (changed("category", probabilities={"billing": 0.7, "bug": "0.3"}), "no probabilities"),
        (changed("category", probabilities={"billing": True, "bug": 0}), "no probabilities"),
        (changed("anger", probabilities={"1": 0.1, "2": 0.5, "3": 0.4}), "does not weigh"),
        (changed("urgent", noul=1.01), "urgent does not weigh"),
        (changed("urgent", noul=math.nan), "urgent does not weigh"),
        (changed("urgent", noul=True), "urgent does not weigh"),
        (changed("urgent", noul=None), "urgent does not weigh"),
    ],
)
def test_answer_that_does_not_add_up_is_none(answers: Any, said: str) -> None:
    """One bad answer spoils all: half a decision would look like a whole one."""
    failure = answered(answers)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.INVALID
    assert said in failure.detail
    assert failure.prompt_tokens == 200


def test_zeros_for_hundreds_of_options_are_no_probabilities() -> None:
    """What rounding may explain has an end."""
    options = [str(n) for n in range(255)]
    zeros = {"type": "choice", "choice": "0", "probabilities": dict.fromkeys(options, 0.0)}
    failure = answered({"field": zeros}, task_of(field={"enum": options}))
    assert isinstance(failure, Failure)


@pytest.mark.parametrize("raw", [b"", b"[]", b"<html>", b"{}", b'{"answers": []}'])
def test_success_without_answers_is_a_failure(raw: bytes) -> None:
    failure = read(raw)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.INVALID


CANARY = "Ms Miller's ticket"


@pytest.mark.parametrize(
    ("status", "body", "kind", "is_schema"),
    [
        (
            422,
            {"detail": [{"loc": ["body", "questions"], "msg": CANARY, "type": "value_error"}]},
            FailureKind.CAPABILITY,
            True,
        ),
        (
            422,
            {
                "detail": [
                    {
                        "loc": ["body", "questions", "category", "criteria"],
                        "msg": "Dictionary should have at most 26 items",
                        "type": "too_long",
                    }
                ]
            },
            FailureKind.CAPABILITY,
            True,
        ),
        (
            422,
            {"detail": [{"loc": ["body", "state"], "msg": CANARY, "type": "string_type"}]},
            FailureKind.CAPABILITY,
            False,
        ),
        (400, {"detail": "The labels are not distinct."}, FailureKind.CAPABILITY, False),
        (400, {"detail": {"code": "max_tokens_exceeded"}}, FailureKind.TOO_LONG, False),
        (401, {"detail": "Unauthorized"}, FailureKind.CREDENTIAL, False),
        (402, {"detail": "Payment required"}, FailureKind.QUOTA, False),
        (404, {"detail": "Not Found"}, FailureKind.MODEL_GONE, False),
        (429, {"detail": "Too many requests"}, FailureKind.RATE_LIMIT, False),
        (500, {"detail": "Internal Server Error"}, FailureKind.TRANSIENT, False),
        (200, {"error": {"code": 503, "message": "overloaded"}}, FailureKind.TRANSIENT, False),
    ],
)
def test_error_says_whether_another_server_may_do_better(
    status: int, body: Any, kind: FailureKind, is_schema: bool
) -> None:
    """Questions that do not suit this one are no fault of the caller's."""
    failure = read(body, status=status)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.is_schema, failure.parameter) == (kind, is_schema, None)
    assert CANARY not in failure.detail
    assert ("the questions do not suit" in failure.detail) is is_schema


# ---- the provider


def provider_of(ledger: MemoryLedger | None = None, **changes: Any) -> SystemOneProvider:
    given = {
        "name": "jev",
        "model": "jev-latest",
        "base_url": "https://decide.example/inference/v1/",
        "profile": named("systemone"),
        "ledger": MemoryLedger() if ledger is None else ledger,
    }
    return SystemOneProvider(**{**given, **changes})


@pytest.mark.parametrize(
    "base_url", ["https://decide.example/inference", "https://decide.example/inference/v1/"]
)
async def test_question_goes_to_the_server_and_its_numbers_come_back(base_url: str) -> None:
    """With the key as a bearer's, and whether or not the address has the version in it."""
    seen: list[httpx.Request] = []

    def respond(asked: httpx.Request) -> httpx.Response:
        seen.append(asked)
        return httpx.Response(200, json={"answers": ANSWERS, "usage": NUMBERS})

    provider = provider_of(
        base_url=base_url, key=SecretStr("k"), price=Price(prompt=5, completion=1)
    )
    inquiry = Inquiry(task=MIXED, approach=provider.approach(MIXED), ticket=TICKET)
    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        reply = await provider.ask(client, inquiry, timeout_s=5.0)
        assert isinstance(reply, Reply)
        weighed = await provider.weigh(
            client, inquiry, reply, json.loads(reply.text), timeout_s=5.0
        )
    assert [str(asked.url) for asked in seen] == ["https://decide.example/inference/v1/systemone"]
    assert seen[0].headers["authorization"] == "Bearer k"
    Draft202012Validator(REQUEST).validate(json.loads(seen[0].content))
    assert (weighed.evidence, weighed.num_calls) == (reply.evidence, 0)
    assert provider.cost_usd(reply.prompt_tokens, reply.completion_tokens) == pytest.approx(0.001)
    assert provider.cost_usd(None, 0) is None


def test_what_cannot_be_asked_for_is_listed_or_refused() -> None:
    """Reasons and tuning are left out; a bias that the task needs makes the provider ineligible."""
    provider = provider_of()
    bias: dict[int | str, float] = {1: 5.0}
    tuned = Task.triage(reasoning=True, logit_bias=LogitBias(by_token=bias))
    assert provider.approach(tuned).dropped == ("logit_bias", "reasoning")
    assert provider.approach(Task.triage()).dropped == ()
    with pytest.raises(CapabilityMissing, match="logit_bias"):
        provider.approach(Task.triage(logit_bias=LogitBias(by_token=bias, required=True)))


def test_refused_questions_are_not_asked_again() -> None:
    """The next ticket does not pay for them; other questions are still asked."""
    provider = provider_of()
    approach = provider.approach(MIXED)
    refusal = Failure(kind=FailureKind.CAPABILITY, detail="status 422", is_schema=True)
    other = Failure(kind=FailureKind.CAPABILITY, detail="status 400")
    inquiry = Inquiry(task=MIXED, approach=approach, ticket=TICKET)
    assert provider.learn(other, inquiry) is False
    assert provider.approach(MIXED) == approach
    assert provider.learn(refusal, inquiry) is False
    with pytest.raises(SchemaRefused, match="refused the questions"):
        provider.approach(MIXED)
    assert provider.approach(Task.triage()).mode == "native"


def test_kind_systemone_is_built_from_the_configuration() -> None:
    entry = {"name": "a", "kind": "systemone", "base_url": "https://host/v1", "model": "m"}
    chosen = load_settings({"provider": [entry | {"price": {"prompt": 1, "completion": 0}}]})
    built = build_provider(chosen.provider[0], MemoryLedger())
    assert isinstance(built, SystemOneProvider)
    assert (built.base_url, built.model, built.cost_usd(1_000_000, 0)) == ("https://host", "m", 1)
