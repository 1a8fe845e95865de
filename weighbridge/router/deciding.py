"""From the outcome of the chain to a decision: pure, so that a table of cases tests it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weighbridge.decision import (
    Decision,
    FieldEvidence,
    Json,
    Question,
    Reason,
    ReviewEntry,
    Toss,
    Weighing,
    label,
)
from weighbridge.router.chain import Wanted
from weighbridge.router.gate import Gate, Opinion
from weighbridge.router.outcome import Answered, Outcome
from weighbridge.router.weighing import Scales
from weighbridge.schemas.task import JudgedField, Task, value_at
from weighbridge.schemas.ticket import Ticket

_UNSURE = frozenset({Reason.LOW_MASS, Reason.LOW_PROBABILITY, Reason.LOW_SUPPORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision, and how it came about.

    Args:
        decision: without a `review_id`.
        weighings: of its fields; empty if nobody answered.
        toss: of the audit coin; None without a coin.
    """

    decision: Decision
    weighings: Mapping[str, Weighing]
    toss: Toss | None


def decide(
    task: Task,
    ticket: Ticket,
    outcome: Outcome,
    scales: Scales,
    *,
    signs: tuple[str, ...],
    toss: Toss | None = None,
) -> Decided:
    """Accept an answer, or say why a person must look.

    Args:
        task: what was asked.
        ticket: about what.
        outcome: who answered, if anybody did.
        scales: what the answer is weighed by.
        signs: of an injection (`injection.signs`); the notes of each field name them.
        toss: of the audit coin for this ticket.
    """
    suspicion = (Reason.INJECTION_SUSPECTED,) if signs else ()
    answered = outcome.answered
    if answered is None:
        cause = Reason.REFUSAL if outcome.refused else Reason.NO_ANSWER
        if ticket.is_empty:
            cause = Reason.EMPTY_TICKET
        decision = Decision(
            ticket_id=ticket.id,
            task=task.name,
            status="review",
            value=None,
            reasons=(cause, *suspicion),
            trail=outcome.trail,
        )
        return Decided(decision=decision, weighings={}, toss=toss)
    provider, model = answered.provider.name, answered.reply.model or answered.provider.model
    fields, alarms = _judged(task, answered, scales, model=model)
    if signs:
        note = f"injection signs: {', '.join(signs)}"
        fields = {name: replace(f, notes=(*f.notes, note)) for name, f in fields.items()}
    objections = [f.reason for f in fields.values() if f.required and f.reason is not None]
    if not any(f.required for f in fields.values()) and scales.gate.without_evidence != "accept":
        objections.append(Reason.NO_EVIDENCE)  # nothing that the decision depends on was weighed
    concerns = (*suspicion, *answered.reply.concerns)
    reasons = tuple(dict.fromkeys((*concerns, *alarms, *objections)))
    decision = Decision(
        ticket_id=ticket.id,
        task=task.name,
        status="review" if reasons else "accepted",
        value=answered.accepted.typed,
        fields=fields,
        reasons=reasons,
        reasoning=answered.accepted.reasoning,
        provider=provider,
        model=model,
        trail=outcome.trail,
    )
    weighings = scales.weighings(task, decision, is_suspicious=bool(concerns))
    return _tossed(decision, scales, weighings, toss)


def decide_again(task: Task, decision: Decision, scales: Scales, *, toss: Toss | None) -> Decided:
    """What an accepted decision about another ticket's same words is for this one.

    Args:
        task: what was asked.
        decision: from the cache, on this ticket.
        scales: the same that it was made by.
        toss: of the audit coin for this ticket.
    """
    weighings = scales.weighings(task, decision, is_suspicious=False)
    return _tossed(decision, scales, weighings, toss)


def record_entry(decided: Decided) -> ReviewEntry:
    """What the queue is told of a decision that needs nobody: statistics, and no text."""
    return ReviewEntry(
        dedupe_key="",
        decision=decided.decision,
        ticket={},
        questions=(),
        weighings=decided.weighings,
        toss=decided.toss,
    )


def review_entry(task: Task, ticket: Ticket, decided: Decided, value: Json) -> ReviewEntry:
    """What the queue needs to put a decision in front of a person.

    Args:
        task: what was asked.
        ticket: about what.
        decided: with status "review".
        value: the answer as plain JSON; None if there is none.
    """
    identity = "\0".join((task.fingerprint, ticket.id, ticket.content_hash))
    questions = tuple(_question(field, value) for field in task.fields)
    return ReviewEntry(
        dedupe_key=hashlib.sha256(identity.encode()).hexdigest(),
        decision=decided.decision,
        ticket=ticket.model_dump(mode="json"),
        questions=questions or (Question(field="answer", options=(), machine=value),),
        weighings=decided.weighings,
        toss=decided.toss,
    )


def _tossed(
    decision: Decision,
    scales: Scales,
    weighings: Mapping[str, Weighing],
    toss: Toss | None,
) -> Decided:
    """The audit coin has the last word: what would be accepted may yet go to a person."""
    if decision.status == "accepted":
        if toss is not None and toss.is_audit:
            decision = replace(decision, status="review", reasons=(Reason.AUDIT,))
        elif (guarantee := scales.guarantee(decision, weighings)) is not None:
            decision = replace(decision, guarantee=guarantee)
    return Decided(decision=decision, weighings=weighings, toss=toss)


def _judged(
    task: Task, answered: Answered, scales: Scales, *, model: str
) -> tuple[Mapping[str, FieldEvidence], tuple[Reason, ...]]:
    """The fields as gate and audits judge them, and what audits say of the whole answer."""
    fields: dict[str, FieldEvidence] = {}
    alarms: tuple[Reason, ...] = ()
    for name, (evidence, second) in _weighed(task, answered).items():
        ruling = scales.ruling(
            task, name, evidence.source, provider=answered.provider.name, model=model
        )
        fields[name] = scales.gate.judge(evidence, second=second, ruling=ruling)
        if ruling.is_alarmed and evidence.required:
            alarms = (Reason.ALARM,)
    return fields, alarms


def _weighed(task: Task, answered: Answered) -> Mapping[str, tuple[FieldEvidence, Opinion]]:
    """What is known of each field, and what another provider says of it."""
    accepted = answered.accepted
    known = answered.evidence
    fields: dict[str, tuple[FieldEvidence, Opinion]] = {}
    for field in task.fields:
        value = value_at(accepted.value, field.path)
        found = known.get(field.name, FieldEvidence(value=value, source="none"))
        notes = found.notes
        if note := accepted.notes.get(field.name):
            notes = (*notes, note)
        if answered.weaker is not None:
            notes = (*notes, f"escalated: {answered.weaker.provider.name} was unsure")
        opinion: Opinion = "none"
        if answered.second is not None:
            other = value_at(answered.second.accepted.value, field.path)
            opinion = "agrees" if label(other) == label(value) else "differs"
            notes = (*notes, f"second_opinion: {answered.second.provider.name} {opinion}")
        fields[field.name] = (
            replace(found, value=value, required=field.required, notes=notes),
            opinion,
        )
    return fields


def lacks(task: Task, answered: Answered, gate: Gate, *, may_escalate: bool) -> Wanted:
    """What an answer still lacks before a person must look.

    Audits have no say in it: who is asked for more, and about which tickets, must be the same
    before and after a certificate, or it would speak of answers that are no longer given.

    Args:
        task: what was asked.
        answered: the first valid answer.
        gate: the thresholds.
        may_escalate: whether there is a stronger provider.
    """
    if not may_escalate and gate.without_evidence != "second_opinion":
        return Wanted.NOTHING  # there is nobody to be asked for more
    needed = _needed(task, answered, gate)
    if not needed or all(evidence.accepted for evidence in needed):
        return Wanted.NOTHING
    if may_escalate and any(evidence.reason in _UNSURE for evidence in needed):
        return Wanted.STRONGER
    if gate.without_evidence == "second_opinion":
        agreed = _needed(task, replace(answered, second=answered), gate)
        if all(evidence.accepted for evidence in agreed):
            return Wanted.SECOND_OPINION
    return Wanted.NOTHING


def _needed(task: Task, answered: Answered, gate: Gate) -> list[FieldEvidence]:
    """The fields that a decision depends on, as the gate alone judges them."""
    return [
        gate.judge(evidence, second=opinion)
        for evidence, opinion in _weighed(task, answered).values()
        if evidence.required
    ]


def _question(field: JudgedField, value: Any) -> Question:
    return Question(
        field=field.name,
        options=field.options,
        descriptions={name: known.description for name, known in field.labels.items()},
        machine=value_at(value, field.path),
        required=field.required,
    )
