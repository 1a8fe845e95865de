"""Rulings, confidences and the audit coin: what audits change of a decision, without any chain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from answered import NOBODY, TICKET, outcome, task
from hypothesis import given
from hypothesis import strategies as st
from stage import TASK, Fixed

from weighbridge.decision import (
    CalibrationKey,
    FieldEvidence,
    Guarantee,
    Reason,
    Ruling,
    Source,
    Toss,
)
from weighbridge.router.deciding import decide, decide_again, lacks, review_entry
from weighbridge.router.gate import VETOES, Gate
from weighbridge.router.weighing import Scales
from weighbridge.schemas.labels import Label
from weighbridge.schemas.task import Task

DRAWN, PASSED_BY = Toss(u=0.01, rate=0.02), Toss(u=0.5, rate=0.02)
SOURCES: tuple[Source, ...] = get_args(Source)

shares = st.none() | st.floats(0, 1) | st.just(float("nan"))
evidence = st.builds(
    FieldEvidence,
    value=st.just("bug"),
    source=st.sampled_from(SOURCES),
    probability=shares,
    mass=st.none() | st.tuples(st.floats(0, 1), st.just(1.0)),
    support=st.none() | st.floats(0, 1),
)
gates = st.builds(
    Gate,
    probability=st.floats(0, 1),
    without_evidence=st.sampled_from(["review", "accept", "second_opinion"]),
)
opinions = st.sampled_from(["agrees", "differs", "none"])
thresholds = st.floats(0.001, 1)


def guarantee(threshold: float = 0.9, risk: float = 0.02, **changes: Any) -> Guarantee:
    return Guarantee(
        **{
            "certificate": "7",
            "risk": risk,
            "confidence": 0.95,
            "threshold": threshold,
            "num_labels": 300,
            "expires_at": datetime(2027, 1, 1, tzinfo=UTC),
            **changes,
        }
    )


def weight(probability: float = 0.95, source: Source = "premask") -> FieldEvidence:
    return FieldEvidence(value="?", source=source, probability=probability, mass=(1.0, 1.0))


def scales(*rulings: Ruling, gate: Gate | None = None, **by_field: Ruling) -> Scales:
    fixed = Fixed(rulings[0] if rulings else Ruling(), by_field)
    return Scales(gate=gate or Gate(), rulings=fixed)


# --- the gate under rulings ------------------------------------------------------------------


@given(evidence, gates, opinions, thresholds)
def test_certificate_accepts_exactly_what_reaches_its_threshold(found, gate, second, threshold):
    """Unless there is a veto; whatever the gate's own rule for the source would say."""
    judged = gate.judge(found, second=second, ruling=Ruling(guarantee=guarantee(threshold)))
    reaches = found.probability is not None and found.probability >= threshold
    assert judged.accepted == (reaches and judged.reason not in VETOES)
    assert judged.accepted == (judged.reason is None)


@given(evidence, gates, opinions)
def test_alarm_accepts_nothing(found, gate, second):
    judged = gate.judge(found, second=second, ruling=Ruling(is_alarmed=True))
    assert not judged.accepted
    assert judged.reason in VETOES | {Reason.ALARM}


@given(evidence, gates, opinions, st.floats(0, 1))
def test_calibrator_counts_in_place_of_the_probability(found, gate, second, right):
    """For numbers of every source; never for an answer without a number, or one of 0."""
    judged = gate.judge(found, second=second, ruling=Ruling(probability=lambda _: right))
    is_known = found.probability is not None and found.probability > 0
    is_vetoed = judged.reason in VETOES
    assert judged.accepted == (is_known and not is_vetoed and right >= gate.probability)


@given(evidence, gates, opinions)
def test_without_a_ruling_the_gates_own_rules_hold(found, gate, second):
    assert gate.judge(found, second=second, ruling=Ruling()) == gate.judge(found, second=second)


@given(evidence, gates, opinions)
def test_veto_is_the_same_whatever_audits_say(found, gate, second):
    """So a confidence of 0 means the same before a certificate and after it."""
    rulings = (
        Ruling(),
        Ruling(is_alarmed=True),
        Ruling(guarantee=guarantee()),
        Ruling(probability=lambda c: c),
    )
    reasons = [gate.judge(found, second=second, ruling=ruling).reason for ruling in rulings]
    assert len({reason if reason in VETOES else None for reason in reasons}) == 1


# --- confidences -----------------------------------------------------------------------------


@given(evidence, gates, thresholds, st.sampled_from([(), (Reason.LANGUAGE,)]), st.booleans())
def test_thresholding_the_confidence_reproduces_acceptance(
    found, gate, threshold, concerns, is_suspicious
):
    """What a certificate is about is what the gate accepts."""
    by = scales(Ruling(guarantee=guarantee(threshold)), gate=gate)
    ended = outcome(concerns=concerns, category=found)
    decided = decide(TASK, TICKET, ended, by, signs=("override",) * is_suspicious)
    weighing = decided.weighings["category"]
    assert (weighing.confidence >= threshold) == (decided.decision.status == "accepted")
    assert weighing.passed == (decided.decision.status == "accepted")
    assert 0 <= weighing.confidence <= 1


def test_decision_without_an_answer_is_not_weighed():
    assert decide(TASK, TICKET, NOBODY, scales(), signs=()).weighings == {}


def key_of(by: Scales | None = None, asked: Task = TASK, **who: str) -> CalibrationKey:
    names = {"name": "category", "source": "premask", "provider": "a", "model": "m-1", **who}
    return (by or Scales(gate=Gate())).key(asked, **names)  # type: ignore[arg-type]


def test_key_changes_with_all_that_a_confidence_depends_on():
    """A label's phrases change what a prior sees, another veto what a 0 means."""
    hinted = {"billing": Label(phrases=("My card!",)), "bug": Label()}
    others = [
        key_of(provider="b"),
        key_of(model="m-2"),
        key_of(source="postmask"),
        key_of(name="priority"),
        key_of(asked=Task.triage(categories=["billing"], priorities=["low", "high"])),
        key_of(asked=Task.triage(categories=hinted, priorities=["low", "high"])),
        key_of(Scales(gate=Gate(mass=0.4))),
        key_of(Scales(gate=Gate(support=0.4))),
        key_of(Scales(gate=Gate(without_evidence="second_opinion"))),
        key_of(Scales(gate=Gate(), stronger=("b",))),
        key_of(Scales(gate=Gate(probability=0.7), stronger=("b",))),
    ]
    assert len({key_of(), *others}) == 1 + len(others)


def test_key_does_not_change_with_what_only_decides():
    """Thresholds are applied to a confidence and are no part of it."""
    same = [
        key_of(Scales(gate=Gate(probability=0.7))),
        key_of(Scales(gate=Gate(without_evidence="accept"))),
        key_of(asked=task("category", "priority")),
        key_of(Scales(gate=Gate(), rulings=Fixed())),
    ]
    assert {key_of(), *same} == {key_of()}


def test_model_of_the_key_is_the_one_that_was_reported():
    decided = decide(TASK, TICKET, outcome(category=weight()), scales(), signs=())
    key = decided.weighings["category"].key
    assert (key.provider, key.model, key.field, key.source) == ("a", "m", "category", "premask")
    assert key.schema == TASK.schema_hash
    assert key.prompt.startswith(TASK.fingerprint)


# --- guarantee, alarm, audit -----------------------------------------------------------------


def test_guarantee_is_that_of_the_weakest_required_field():
    """One that is kept on average is weaker than any; without one for a field there is none."""
    both = task("category", "priority")
    ended = outcome(task=both, category=weight(), priority=weight())
    strong, weak, mean = guarantee(), guarantee(risk=0.05), guarantee(confidence=None)
    for category, priority, wanted in (
        (strong, weak, weak),
        (weak, strong, weak),
        (mean, weak, mean),
        (strong, None, None),
    ):
        by = scales(category=Ruling(guarantee=category), priority=Ruling(guarantee=priority))
        decision = decide(both, TICKET, ended, by, signs=()).decision
        assert (decision.status, decision.guarantee) == ("accepted", wanted)
    by = scales(category=Ruling(guarantee=strong))
    assert decide(TASK, TICKET, ended, by, signs=()).decision.guarantee == strong


def test_certificate_that_came_after_the_gate_covers_only_what_it_would_accept():
    """Between judging and promising another one may come into force, of a higher threshold."""
    accepted = decide(TASK, TICKET, outcome(category=weight(0.85)), scales(), signs=())
    for threshold in (0.8, 0.85, 0.9):
        late = guarantee(threshold)
        covering = scales(Ruling(guarantee=late)).guarantee(accepted.decision, accepted.weighings)
        assert covering == (late if threshold <= 0.85 else None)


def test_alarm_of_a_required_field_is_told_beside_what_else_speaks_against_it():
    by = scales(category=Ruling(is_alarmed=True))
    faint = replace(weight(), mass=(0.1, 0.1))
    decision = decide(TASK, TICKET, outcome(category=faint), by, signs=()).decision
    assert decision.reasons == ("alarm", "low_mass")
    assert decision.guarantee is None
    advisory = scales(priority=Ruling(is_alarmed=True))
    ended = outcome(category=weight(), priority=weight())
    decision = decide(TASK, TICKET, ended, advisory, signs=()).decision
    assert decision.status == "accepted"
    assert decision.fields["priority"].reason is Reason.ALARM


@pytest.mark.parametrize("ruling", [Ruling(), Ruling(guarantee=guarantee())])
def test_drawn_ticket_goes_to_a_person_though_nothing_is_wrong_with_it(ruling):
    """Its fields stay accepted, and count as passed; it is covered by nothing."""
    by = scales(ruling)
    decided = decide(TASK, TICKET, outcome(category=weight()), by, signs=(), toss=DRAWN)
    decision = decided.decision
    assert (decision.status, decision.reasons, decision.guarantee) == ("review", ("audit",), None)
    assert decision.fields["category"].accepted
    assert decided.weighings["category"].passed
    assert review_entry(TASK, TICKET, decided, None).is_audit
    other = decide(TASK, TICKET, outcome(category=weight()), by, signs=(), toss=PASSED_BY)
    assert other.decision.status == "accepted"
    assert other.weighings == decided.weighings


def test_drawn_ticket_that_goes_to_a_person_anyway_keeps_its_reasons():
    """It is an audit all the same, and to be judged blind."""
    ended = outcome(category=weight(0.1))
    decided = decide(TASK, TICKET, ended, scales(), signs=(), toss=DRAWN)
    assert decided.decision.reasons == ("low_probability",)
    assert review_entry(TASK, TICKET, decided, None).is_audit


def test_kept_decision_is_tossed_and_covered_like_a_new_one():
    by = scales(Ruling(guarantee=guarantee()))
    new = decide(TASK, TICKET, outcome(category=weight()), by, signs=(), toss=PASSED_BY)
    kept = replace(new.decision, guarantee=None)
    assert decide_again(TASK, kept, by, toss=PASSED_BY) == new
    drawn = decide_again(TASK, kept, by, toss=DRAWN)
    assert (drawn.decision.status, drawn.decision.reasons) == ("review", ("audit",))


def test_who_is_asked_for_more_does_not_depend_on_audits():
    """Else a certificate would speak of answers that are no longer given."""
    ended = outcome(category=weight(0.1))
    assert ended.answered is not None
    assert lacks(TASK, ended.answered, Gate(), may_escalate=True).name == "STRONGER"
