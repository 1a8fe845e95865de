"""Plain: items, verdicts and history as JSON values, whole, for machines to read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from weighbridge.decision import Json
from weighbridge.review.items import Event, Item, Slot, Verdict
from weighbridge.review.queueing.rows import question_json


def item_json(item: Item, *, is_blind: bool = False) -> dict[str, Json]:
    """All that an item holds, but for leases.

    Args:
        item: as it was read.
        is_blind: leave out what the machine and other people say, for somebody who is to judge it.
    """
    questions = [question_json(question) for question in item.questions]
    if is_blind:
        questions = [{**question, "machine": None} for question in questions]
    return {
        "id": item.id,
        "ticket_id": item.ticket_id,
        "task": item.task,
        "state": item.state.value,
        "reasons": list(item.reasons),
        "is_audit": item.is_audit,
        "is_blind": item.is_blind,
        "needed": item.needed,
        "round": item.round,
        "uncertainty": item.uncertainty,
        "version": item.version,
        "created_at": _time(item.created_at),
        "due_at": _time(item.due_at),
        "assignee": item.assignee,
        "done_at": _time(item.done_at),
        "settled_no": item.settled_no,
        "resolved_kind": item.resolved_kind,
        "resolution": None if item.resolution is None else dict(item.resolution),
        "erased_at": _time(item.erased_at),
        "ticket": dict(item.ticket),
        "decision": None if is_blind else dict(item.decision),
        "questions": [*questions],
        "slots": [] if is_blind else [_slot_json(slot) for slot in item.slots],
        "verdicts": [] if is_blind else [verdict_json(verdict) for verdict in item.verdicts],
    }


def verdict_json(verdict: Verdict) -> dict[str, Json]:
    """All that a verdict holds."""
    return {
        "id": verdict.id,
        "round": verdict.round,
        "reviewer": verdict.reviewer,
        "kind": verdict.kind,
        "values": dict(verdict.values),
        "machine": dict(verdict.machine),
        "was_shown": verdict.was_shown,
        "is_adjudication": verdict.is_adjudication,
        "opened_at": _time(verdict.opened_at),
        "submitted_at": _time(verdict.submitted_at),
        "note": verdict.note,
        "supersedes": verdict.supersedes,
    }


def events_json(events: Iterable[Event]) -> list[Json]:
    """All that a history holds, the oldest first."""
    return [
        {
            "at": _time(event.at),
            "actor": event.actor,
            "kind": event.kind,
            "detail": dict(event.detail),
        }
        for event in events
    ]


def _slot_json(slot: Slot) -> dict[str, Json]:
    return {
        "kind": slot.kind.value,
        "state": slot.state.value,
        "owner": slot.owner,
        "lease_until": _time(slot.lease_until),
        "assignee": slot.assignee,
        "skips": slot.skips,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
