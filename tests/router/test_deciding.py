"""From the outcome of the chain to a decision, without any chain."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from answered import EMPTY, NOBODY, REFUSED, TICKET, outcome, task
from hypothesis import given
from hypothesis import strategies as st
from stage import TASK

from weighbridge.decision import Decision, FieldEvidence, Reason, Source
from weighbridge.router.deciding import Decided, review_entry
from weighbridge.router.deciding import decide as decide_by
from weighbridge.router.gate import Gate
from weighbridge.router.outcome import Outcome
from weighbridge.router.weighing import Scales
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket


def decide(asked: Task, ticket: Ticket, ended: Outcome, gate: Gate, **others: Any) -> Decision:
    return decided(asked, ticket, ended, gate, **others).decision


def decided(asked: Task, ticket: Ticket, ended: Outcome, gate: Gate, **others: Any) -> Decided:
    return decide_by(asked, ticket, ended, Scales(gate=gate), **{"signs": (), **others})


def weight(source: Source = "premask", probability: float = 1.0) -> FieldEvidence:
    return FieldEvidence(value="?", source=source, probability=probability, mass=(1.0, 1.0))


@pytest.mark.parametrize(
    ("ticket", "ended", "is_suspicious", "reasons"),
    [
        (TICKET, NOBODY, False, ("no_answer",)),
        (TICKET, REFUSED, False, ("refusal",)),
        (TICKET, NOBODY, True, ("no_answer", "injection_suspected")),
        (EMPTY, NOBODY, False, ("empty_ticket",)),
        (EMPTY, NOBODY, True, ("empty_ticket", "injection_suspected")),
    ],
)
def test_without_an_answer_there_is_a_reason_and_no_value(
    ticket: Ticket, ended: Outcome, is_suspicious: bool, reasons: tuple[str, ...]
) -> None:
    """Never a default label."""
    decision = decide(TASK, ticket, ended, Gate(), signs=("override",) * is_suspicious)
    assert (decision.status, decision.reasons) == ("review", reasons)
    assert (decision.value, decision.provider, dict(decision.fields)) == (None, None, {})


WEIGHTS = st.none() | st.builds(weight, st.sampled_from(["premask", "postmask"]), st.floats(0, 1))


@given(
    is_suspicious=st.booleans(),
    concerns=st.lists(st.sampled_from([Reason.LANGUAGE, Reason.NO_EVIDENCE]), max_size=3),
    category=WEIGHTS,
    priority=WEIGHTS,
    required=st.sampled_from([(), ("category",), ("priority",), ("category", "priority")]),
    without_evidence=st.sampled_from(["review", "accept"]),
)
def test_decision_is_accepted_exactly_when_nothing_speaks_against_it(
    is_suspicious: bool,
    concerns: list[Reason],
    category: FieldEvidence | None,
    priority: FieldEvidence | None,
    required: tuple[str, ...],
    without_evidence: Any,
) -> None:
    """No number outweighs a suspicion, a concern, or a required field that was not accepted."""
    evidence = {
        name: found
        for name, found in (("category", category), ("priority", priority))
        if found is not None
    }
    asked = task(*required)
    gate = Gate(without_evidence=without_evidence)
    ended = outcome(task=asked, concerns=tuple(concerns), **evidence)
    decision = decide(asked, TICKET, ended, gate, signs=("override",) * is_suspicious)
    assert (decision.status == "accepted") == (decision.reasons == ())
    assert len(set(decision.reasons)) == len(decision.reasons)
    assert is_suspicious == (decision.reasons[:1] == ("injection_suspected",))
    assert set(concerns) <= set(decision.reasons)
    needed = [found for found in decision.fields.values() if found.required]
    if decision.status == "accepted":
        assert all(found.accepted for found in needed)
        assert needed or without_evidence == "accept"
    for found in decision.fields.values():
        assert found.accepted == (found.reason is None)
        assert found.value in ("billing", "high"), "the answer's own, whatever the evidence says"


def test_weightier_reasons_come_first() -> None:
    """Suspicion, then what the provider saw, then the fields in the task's order."""
    asked = task("category", "priority")
    ended = outcome(
        task=asked,
        concerns=(Reason.LANGUAGE,),
        category=weight("postmask"),
        priority=weight(probability=0.1),
    )
    decision = decide(asked, TICKET, ended, Gate(), signs=("override",))
    assert decision.reasons == (
        "injection_suspected",
        "language",
        "uncalibrated",
        "low_probability",
    )


@pytest.mark.parametrize(
    ("required", "status"),
    [(("category",), "accepted"), (("priority",), "review"), (("category", "priority"), "review")],
)
def test_advisory_field_is_judged_and_decides_nothing(
    required: tuple[str, ...], status: str
) -> None:
    asked = task(*required)
    ended = outcome(task=asked, category=weight(), priority=weight(probability=0.1))
    decision = decide(asked, TICKET, ended, Gate(), signs=())
    assert decision.status == status
    assert [f.accepted for f in decision.fields.values()] == [True, False]


def test_field_that_nobody_weighed_is_kept_without_evidence() -> None:
    decision = decide(TASK, TICKET, outcome(), Gate(), signs=())
    assert [f.source for f in decision.fields.values()] == ["none", "none"]
    assert decision.reasons == ("no_evidence",)


def test_option_that_was_put_right_says_so_beside_its_evidence() -> None:
    text = '{"category": "BILLING", "priority": "high"}'
    ended = outcome(text=text, category=weight())
    decision = decide(TASK, TICKET, ended, Gate(), signs=())
    assert decision.fields["category"].value == "billing"
    assert [note.split(":")[0] for note in decision.fields["category"].notes] == ["case_restored"]
    assert decision.fields["priority"].notes == ()


def test_same_question_about_the_same_ticket_is_one_entry() -> None:
    """Another ticket, another text, another prompt or other labels make another."""
    others = {"id": "t-1", "body": "Other"}, {"id": "t-9", "body": TICKET.body}
    tickets = [TICKET, *map(Ticket.of, others)]
    tasks = [TASK, task("category", "priority"), Task.triage(categories=["billing"])]
    keys = []
    for asked, ticket in itertools.product(tasks, tickets):
        nobody = decided(asked, ticket, NOBODY, Gate())
        first, second = (review_entry(asked, ticket, nobody, None).dedupe_key for _ in range(2))
        assert first == second
        keys.append(first)
    # What is required changes nothing about what the ticket is asked.
    assert len(set(keys)) == 6


def test_person_is_asked_about_each_field_with_the_machine_s_answer() -> None:
    machine = decided(TASK, TICKET, outcome(), Gate())
    entry = review_entry(TASK, TICKET, machine, {"category": "billing", "priority": "high"})
    assert [(q.field, q.machine, q.options, q.required) for q in entry.questions] == [
        ("category", "billing", ("billing", "bug"), True),
        ("priority", "high", ("low", "high"), False),
    ]


def test_notes_of_every_field_name_the_signs_of_an_injection_and_only_then() -> None:
    """The reviewer is told what to look for."""
    for signs, notes in ((("leak", "override"), ("injection signs: leak, override",)), ((), ())):
        decision = decide(TASK, TICKET, outcome(), Gate(), signs=signs)
        assert [field.notes for field in decision.fields.values()] == [notes, notes]
