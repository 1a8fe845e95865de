"""From the outcome of the chain to a decision: pure, so that a table of cases tests it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weighbridge.decision import Decision, FieldEvidence, Json, Question, Reason, ReviewEntry, label
from weighbridge.router.chain import Wanted
from weighbridge.router.gate import Gate, Opinion
from weighbridge.router.outcome import Answered, Outcome
from weighbridge.schemas.task import JudgedField, Task, value_at
from weighbridge.schemas.ticket import Ticket

_UNSURE = frozenset({Reason.LOW_MASS, Reason.LOW_PROBABILITY, Reason.LOW_SUPPORT})


def decide(
    task: Task, ticket: Ticket, outcome: Outcome, gate: Gate, *, signs: tuple[str, ...]
) -> Decision:
    """Accept an answer, or say why a person must look.

    Args:
        task: what was asked.
        ticket: about what.
        outcome: who answered, if anybody did.
        gate: the thresholds.
        signs: of an injection (`injection.signs`); the notes of each field name them.

    Returns:
        A decision without a `review_id`.
    """
    suspicion = (Reason.INJECTION_SUSPECTED,) if signs else ()
    answered = outcome.answered
    if answered is None:
        cause = Reason.REFUSAL if outcome.refused else Reason.NO_ANSWER
        if ticket.is_empty:
            cause = Reason.EMPTY_TICKET
        return Decision(
            ticket_id=ticket.id,
            task=task.name,
            status="review",
            value=None,
            reasons=(cause, *suspicion),
            trail=outcome.trail,
        )
    fields = _judged(task, answered, gate)
    if signs:
        note = f"injection signs: {', '.join(signs)}"
        fields = {name: replace(f, notes=(*f.notes, note)) for name, f in fields.items()}
    objections = [f.reason for f in fields.values() if f.required and f.reason is not None]
    if not any(f.required for f in fields.values()) and gate.without_evidence != "accept":
        objections.append(Reason.NO_EVIDENCE)  # nothing that the decision depends on was weighed
    reasons = tuple(dict.fromkeys((*suspicion, *answered.reply.concerns, *objections)))
    return Decision(
        ticket_id=ticket.id,
        task=task.name,
        status="review" if reasons else "accepted",
        value=answered.accepted.typed,
        fields=fields,
        reasons=reasons,
        reasoning=answered.accepted.reasoning,
        provider=answered.provider.name,
        model=answered.reply.model or answered.provider.model,
        trail=outcome.trail,
    )


def review_entry(task: Task, ticket: Ticket, decision: Decision, value: Json) -> ReviewEntry:
    """What the queue needs to put a decision in front of a person.

    Args:
        task: what was asked.
        ticket: about what.
        decision: with status "review".
        value: the answer as plain JSON; None if there is none.
    """
    identity = "\0".join((task.fingerprint, ticket.id, ticket.content_hash))
    questions = tuple(_question(field, value) for field in task.fields)
    return ReviewEntry(
        dedupe_key=hashlib.sha256(identity.encode()).hexdigest(),
        decision=decision,
        ticket=ticket.model_dump(mode="json"),
        questions=questions or (Question(field="answer", options=(), machine=value),),
    )


def _judged(task: Task, answered: Answered, gate: Gate) -> Mapping[str, FieldEvidence]:
    accepted = answered.accepted
    known = answered.evidence
    fields: dict[str, FieldEvidence] = {}
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
        fields[field.name] = gate.judge(
            replace(found, value=value, required=field.required, notes=notes), second=opinion
        )
    return fields


def lacks(task: Task, answered: Answered, gate: Gate, *, may_escalate: bool) -> Wanted:
    """What an answer still lacks before a person must look.

    Args:
        task: what was asked.
        answered: the first valid answer.
        gate: the thresholds.
        may_escalate: whether there is a stronger provider.
    """
    if not may_escalate and gate.without_evidence != "second_opinion":
        return Wanted.NOTHING  # there is nobody to be asked for more
    needed = [evidence for evidence in _judged(task, answered, gate).values() if evidence.required]
    if not needed or all(evidence.accepted for evidence in needed):
        return Wanted.NOTHING
    if may_escalate and any(evidence.reason in _UNSURE for evidence in needed):
        return Wanted.STRONGER
    if gate.without_evidence == "second_opinion":
        agreed = _judged(task, replace(answered, second=answered), gate).values()
        if all(evidence.accepted for evidence in agreed if evidence.required):
            return Wanted.SECOND_OPINION
    return Wanted.NOTHING


def _question(field: JudgedField, value: Any) -> Question:
    return Question(
        field=field.name,
        options=field.options,
        descriptions={name: known.description for name, known in field.labels.items()},
        machine=value_at(value, field.path),
        required=field.required,
    )
