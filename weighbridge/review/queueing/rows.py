"""Between the queue's values and its rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from weighbridge.decision import Json, Question, ReviewId
from weighbridge.review.items import Event, Item, Lease, Slot, SlotKind, SlotState, State, Verdict
from weighbridge.store.times import moment


def item_from(
    row: Row[Any],
    slots: Iterable[Row[Any]],
    verdicts: Iterable[Row[Any]],
    *,
    leased: Row[Any] | None = None,
) -> Item:
    """An item as it was read.

    Args:
        row: of the item.
        slots: of its present round.
        verdicts: of all rounds, the oldest first.
        leased: the slot whose lease is handed out with the item.
    """
    return Item(
        id=ReviewId(row.id),
        ticket_id=row.ticket_id,
        task=row.task,
        state=State(row.state),
        ticket=row.ticket_json,
        decision=row.decision_json,
        questions=questions_from(row.questions_json),
        reasons=split(row.reasons),
        is_audit=row.is_audit,
        needed=row.needed,
        round=row.round,
        uncertainty=row.uncertainty,
        version=row.version,
        created_at=moment(row.created_at),
        due_at=_moment_or_none(row.due_at),
        assignee=row.assignee,
        done_at=_moment_or_none(row.done_at),
        settled_no=row.settled_no,
        resolved_kind=row.resolved_kind,
        resolution=row.resolution_json,
        erased_at=_moment_or_none(row.erased_at),
        lease=None if leased is None else _lease_from(leased),
        slots=tuple(map(_slot_from, slots)),
        verdicts=tuple(map(verdict_from, verdicts)),
    )


def verdict_from(row: Row[Any]) -> Verdict:
    """A verdict as it was read."""
    return Verdict(
        id=row.id,
        item_id=ReviewId(row.item_id),
        round=row.round,
        reviewer=row.reviewer,
        kind=row.kind,
        values=row.values_json,
        machine=row.machine_json,
        was_shown=row.was_shown,
        is_adjudication=row.is_adjudication,
        opened_at=moment(row.opened_at),
        submitted_at=moment(row.submitted_at),
        note=row.note,
        supersedes=row.supersedes,
    )


def event_from(row: Row[Any]) -> Event:
    """A line of the history as it was read."""
    return Event(at=moment(row.at), actor=row.actor, kind=row.kind, detail=row.detail_json)


def questions_from(stored: Iterable[dict[str, Any]]) -> tuple[Question, ...]:
    """The questions of an item, whatever has become of the task since."""
    return tuple(Question(**{**each, "options": tuple(each["options"])}) for each in stored)


def question_json(question: Question) -> dict[str, Json]:
    """A question as it is stored."""
    return {
        "field": question.field,
        "options": list(question.options),
        "descriptions": dict(question.descriptions),
        "machine": question.machine,
        "required": question.required,
    }


def joined(codes: Iterable[str]) -> str:
    """Codes as one text, which an index can count."""
    return ",".join(codes)


def split(codes: str) -> tuple[str, ...]:
    """What `joined` has joined."""
    return tuple(codes.split(",")) if codes else ()


def _lease_from(slot: Row[Any]) -> Lease:
    return Lease(
        token=slot.lease_token,
        until=moment(slot.lease_until),
        opened_at=moment(slot.opened_at),
        kind=SlotKind(slot.kind),
    )


def _slot_from(row: Row[Any]) -> Slot:
    return Slot(
        kind=SlotKind(row.kind),
        state=SlotState(row.state),
        owner=row.owner,
        lease_until=_moment_or_none(row.lease_until),
        assignee=row.assignee or None,
        skips=row.skips,
    )


def _moment_or_none(us: int | None) -> datetime | None:
    return None if us is None else moment(us)
