"""Decisions come back as they were, to whom they belong, and only those that were accepted."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from stage import KEY, TASK, Fixed, Stage, answer

from weighbridge.decision import Attempt, Decision, FailureKind, FieldEvidence, Reason, Source
from weighbridge.providers.protocol import Failure, Inquiry, Provider
from weighbridge.router.cache import FROM_CACHE, Cache, DecisionCache, MemoryCache
from weighbridge.router.chain import Policy
from weighbridge.router.gate import Gate
from weighbridge.schemas.labels import Label
from weighbridge.schemas.redaction import Redactor
from weighbridge.schemas.task import LogitBias, Task, Triage
from weighbridge.schemas.ticket import Ticket

TICKET = Ticket.of({"id": "t-1", "subject": "Billing", "body": "I was charged twice, canary-text."})
WORDS: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"enum": ["bug", "wish"]}, "reply_to": {"type": "string"}},
    "required": ["kind", "reply_to"],
}
QUOTING = Task.from_schema(WORDS, instructions="Answer.")


class Report(BaseModel):
    """A model that changes what it reads: names, types and values."""

    model_config = ConfigDict(hide_input_in_errors=True)

    kind: Literal["bug", "wish"] = Field(alias="Kind")
    tags: frozenset[str] = frozenset()
    score: float = 0.0

    @field_validator("score")
    @classmethod
    def _not_seven(cls, score: float) -> float:
        if score == 7:
            raise ValueError("seven")
        return score


REPORT = Task.from_model(Report, instructions="Report.")


@dataclass
class Kept:
    """A cache that shows what it was given."""

    records: dict[str, str] = field(default_factory=dict)

    async def get(self, key: str) -> str | None:
        return self.records.get(key)

    def put(self, key: str, record: str) -> None:
        self.records[key] = record

    def close(self) -> None:
        """Nothing to let go of."""


def providers(*names: str, stage: Stage | None = None) -> tuple[Provider, ...]:
    return (stage or Stage({name: [answer()] for name in names})).router()._providers


def cache(kept: Cache | None = None, **changes: Any) -> DecisionCache:
    given_: dict[str, Any] = {
        "providers": providers("a", "b"),
        "gate": Gate(),
        "policy": Policy(),
    }
    return DecisionCache(kept or Kept(), **{**given_, **changes})


def key(
    decisions: DecisionCache | None = None,
    task: Task = TASK,
    ticket: Ticket = TICKET,
    redact: Redactor | None = None,
) -> str:
    redacted = redact and redact(ticket.text)
    found = (decisions or cache()).key(task, ticket, redacted, is_suspicious=False)
    assert found is not None
    return found


def recalled(kept: Cache, task: Task, ticket: Ticket = TICKET) -> Decision | None:
    found = asyncio.run(cache(kept).recall("k", task, ticket))
    return None if found is None else found.decision


def accepted(value: Any, task: Task = TASK, **changes: Any) -> Decision:
    return Decision(
        **{
            "ticket_id": "another",
            "task": task.name,
            "status": "accepted",
            "value": value,
            "provider": "a",
            "model": "m-1",
            **changes,
        }
    )


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
EVIDENCE = st.builds(
    FieldEvidence,
    value=TEXTS | st.none() | st.booleans() | st.integers(),
    source=st.sampled_from(Source.__args__),  # type: ignore[attr-defined]
    probability=st.none() | FLOATS,
    mass=st.none() | st.tuples(FLOATS, FLOATS),
    support=st.none() | FLOATS,
    options=st.dictionaries(TEXTS, FLOATS),
    required=st.booleans(),
    accepted=st.booleans(),
    reason=st.none() | st.sampled_from(Reason),
    notes=st.lists(TEXTS).map(tuple),
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)
VALUES = st.one_of(
    st.tuples(
        st.just(TASK),
        st.fixed_dictionaries(
            {
                "category": st.sampled_from(["billing", "bug"]),
                "priority": st.sampled_from(["low", "high"]),
            }
        ),
    ),
    st.tuples(
        st.just(REPORT),
        st.fixed_dictionaries(
            {"Kind": st.sampled_from(["bug", "wish"])},
            optional={
                "tags": st.lists(TEXTS, unique=True),
                "score": FLOATS.filter(lambda score: score != 7),
            },
        ),
    ),
    st.tuples(st.just(Task.from_schema({}, instructions="Anything.")), PLAIN),
)


@given(asked=VALUES, fields=st.dictionaries(TEXTS, EVIDENCE))
def test_decision_that_comes_out_equals_the_one_that_went_in(asked, fields) -> None:
    """Whatever the task, but for what belongs to the ticket: its id, its trail, its reasons."""
    task, value = asked
    failed = Attempt(provider="x", model="y", failure=FailureKind.TRANSIENT, detail="canary")
    before = accepted(
        task.typed(value), task, fields=fields, reasoning="canary", trail=(failed, failed)
    )
    kept = MemoryCache()
    cache(kept).keep("k", before, value)
    hit = Attempt(provider="a", model="m-1", detail=FROM_CACHE, cost_usd=0.0)
    after = recalled(kept, task)
    assert after == replace(before, ticket_id="t-1", reasoning="", trail=(hit,))
    assert repr(after.value) == repr(before.value), "of the same types too"


def test_what_a_router_has_decided_comes_back_without_asking_anybody() -> None:
    stage = Stage({"a": [answer()]})
    decision = stage.router().triage(TICKET)
    kept = Kept()
    decisions = cache(kept, providers=providers(stage=stage))
    k = key(decisions)
    decisions.keep(k, decision, decision.value.model_dump(exclude_none=True))
    again = asyncio.run(
        decisions.recall(k, TASK, Ticket.of({"id": "t-2", "body": TICKET.body}))
    ).decision
    assert (again.value, again.fields) == (decision.value, decision.fields)
    assert (again.status, again.ticket_id, again.provider) == ("accepted", "t-2", "a")
    assert [(a.detail, a.cost_usd, a.failure) for a in again.trail] == [(FROM_CACHE, 0.0, None)]
    assert stage.hits("a") == 1
    (record,) = kept.records.values()
    for canary in ("canary", "t-1", "Billing", KEY):
        assert canary not in record + k
    assert set(json.loads(record)) == {"value", "fields", "provider", "model"}


def test_plain_answer_of_one_caller_is_not_that_of_the_next() -> None:
    """Whoever changes a dictionary that came out changes nothing but their own."""
    kept = MemoryCache()
    value = {"kind": "bug", "reply_to": "x"}
    cache(kept).keep("k", accepted(value, QUOTING), value)
    value["kind"] = "changed"
    first = recalled(kept, QUOTING)
    first.value["kind"] = "changed"
    assert recalled(kept, QUOTING).value == {"kind": "bug", "reply_to": "x"}


@pytest.mark.parametrize(
    ("task", "value", "is_known"),
    [
        (REPORT, {"Kind": "bug", "score": 6.0}, True),
        (REPORT, {"Kind": "bug", "score": 7.0}, False),
        (REPORT, {"Kind": "idea"}, False),
        (REPORT, {"kind": "bug"}, False),
        (QUOTING, {"kind": "bug", "reply_to": "x"}, True),
        (QUOTING, {"kind": "idea", "reply_to": "x"}, False),
    ],
)
def test_value_that_the_task_does_not_permit_is_a_miss(task, value, is_known) -> None:
    """Such as one that was kept before the task's model or schema became stricter."""
    kept = Kept()
    cache(kept).keep("k", accepted(None), value)
    assert (recalled(kept, task) is not None) is is_known


WHOLE = (
    '{"value": {"category": "bug", "priority": "low"}, "fields": {}, "provider": "a", "model": "m"}'
)


@given(cut=st.integers(0, len(WHOLE) - 1), junk=st.text())
def test_record_that_is_not_whole_is_a_miss(cut, junk) -> None:
    assert recalled(Kept({"k": WHOLE}), TASK) is not None
    assert recalled(Kept({"k": WHOLE[:cut]}), TASK) is None
    assert recalled(Kept({"k": junk}), TASK) is None


@pytest.mark.parametrize(
    "record",
    [
        "[]",
        "null",
        "{}",
        WHOLE.replace('"fields": {}', '"fields": []'),
        WHOLE.replace('"fields": {}', '"fields": {"category": 1}'),
        WHOLE.replace('"fields": {}', '"fields": {"category": {"mass": null}}'),
        WHOLE.replace(
            '"fields": {}',
            '"fields": {"category": {"value": 1, "source": "none",'
            ' "mass": null, "reason": "new", "notes": []}}',
        ),
        WHOLE.replace('"provider": "a", ', ""),
    ],
)
def test_record_of_another_shape_is_a_miss(record) -> None:
    assert recalled(Kept({"k": record}), TASK) is None


def test_number_that_json_cannot_spell_is_not_kept() -> None:
    kept = Kept()
    nan = FieldEvidence(value="low", source="exact", probability=float("nan"))
    cache(kept).keep("k", accepted(None, fields={"priority": nan}), {})
    assert kept.records == {}


def test_only_accepted_decisions_are_kept() -> None:
    kept = Kept()
    value = {"category": "bug", "priority": "low"}
    cache(kept).keep("k", replace(accepted(Triage(**value)), status="review"), value)
    assert kept.records == {}
    cache(kept).keep("k", accepted(Triage(**value)), value)
    assert list(kept.records) == ["k"]


def test_suspicious_and_local_tickets_have_no_key() -> None:
    decisions = cache()
    local = Ticket.of({"body": TICKET.body, "local_only": True})
    assert decisions.key(TASK, TICKET, None, is_suspicious=True) is None
    assert decisions.key(TASK, local, None, is_suspicious=False) is None
    assert decisions.key(TASK, TICKET, None, is_suspicious=False) is not None


def test_key_is_that_of_the_text_alone() -> None:
    """Neither the id of a ticket nor what travels along unread changes what models are shown."""
    other = Ticket.of({"id": "x", "body": TICKET.text, "metadata": {"plan": "team"}})
    assert key(ticket=other) == key()


def learned() -> tuple[Provider, ...]:
    found = providers("a", "b")
    failure = Failure(
        kind=FailureKind.CAPABILITY, detail="", status=400, parameter="json_schema_strict"
    )
    inquiry = Inquiry(task=TASK, approach=found[0].approach(TASK), ticket=TICKET)
    assert found[0].learn(failure, inquiry)
    return found


ORDER: dict[str, Any] = {"categories": ["billing", "bug"], "priorities": ["low", "high"]}
CHANGES: dict[str, dict[str, Any]] = {
    "text": {"ticket": Ticket.of("I was charged thrice.")},
    "instructions": {"task": Task.triage(**ORDER, instructions="Other.")},
    "labels": {"task": Task.triage(categories=["billing", "wish"], priorities=["low", "high"])},
    "description": {
        "task": Task.triage(categories={"billing": "", "bug": "b"}, priorities=["low", "high"])
    },
    "phrases": {
        "task": Task.triage(
            categories={"billing": "", "bug": Label(phrases=("It broke.",))},
            priorities=["low", "high"],
        )
    },
    "required": {"task": Task.triage(**ORDER, required=["category", "priority"])},
    "reasoning": {"task": Task.triage(**ORDER, reasoning=True)},
    "logit bias": {"task": Task.triage(**ORDER, logit_bias=LogitBias(by_token={"bug": 1.0}))},
    "provider": {"decisions": lambda: cache(providers=providers("a", "c"))},
    "order": {"decisions": lambda: cache(providers=providers("b", "a"))},
    "fewer": {"decisions": lambda: cache(providers=providers("a"))},
    "mode": {"decisions": lambda: cache(providers=learned())},
    "mass": {"decisions": lambda: cache(gate=Gate(mass=0.51))},
    "probability": {"decisions": lambda: cache(gate=Gate(probability=0.81))},
    "support": {"decisions": lambda: cache(gate=Gate(support=0.51))},
    "untried": {"decisions": lambda: cache(gate=Gate(without_evidence="accept"))},
    "strategy": {"decisions": lambda: cache(policy=Policy(strategy="cheapest"))},
    "stronger": {"decisions": lambda: cache(policy=Policy(stronger=("b",)))},
    "calibration": {"decisions": lambda: cache(rulings=Fixed(version="2"))},
    "settings": {"decisions": lambda: cache(settings="2")},
}


@pytest.mark.parametrize("change", CHANGES)
def test_anything_that_could_change_the_answer_changes_the_key(change) -> None:
    """And each in a way of its own."""
    keys = {}
    for name, changed in CHANGES.items():
        arguments = {n: v() if callable(v) else v for n, v in changed.items()}
        keys[name] = key(**arguments)
        if name == change:
            assert key(**{n: v() if callable(v) else v for n, v in changed.items()}) == keys[name]
    assert keys[change] != key()
    assert [name for name, other in keys.items() if other == keys[change]] == [change]


def test_key_changes_with_the_version_of_the_package(monkeypatch) -> None:
    before = key()
    monkeypatch.setattr("weighbridge.__version__", "9.9.9")
    assert key() != before


def mail(address: str) -> Ticket:
    return Ticket.of(f"Please write to {address} about the bill.")


class Here:
    """The same provider, on this machine."""

    is_remote = False

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)


@pytest.mark.parametrize(
    ("task", "is_local_asked", "redact", "is_shared"),
    [
        (TASK, False, Redactor(), True),
        (TASK, True, Redactor(), False),
        (QUOTING, False, Redactor(), False),
        (TASK, False, None, False),
    ],
    ids=["options alone", "the local engine reads it all", "answers can quote", "not redacted"],
)
def test_tickets_that_differ_only_in_what_is_hidden_share_what_nobody_could_tell_apart(
    task, is_local_asked, redact, is_shared
) -> None:
    """An address is put back into an answer: the next customer must not read it."""
    found = providers("a", "b")
    asked = (found[0], Here(found[1])) if is_local_asked else found
    decisions = cache(providers=asked)
    one, other = mail("al@b.example"), mail("bo@b.example")
    assert (key(decisions, task, one, redact) == key(decisions, task, other, redact)) is is_shared
    assert key(decisions, task, one, redact) == key(decisions, task, mail("al@b.example"), redact)
    assert "al@b.example" not in key(decisions, task, one, redact)
