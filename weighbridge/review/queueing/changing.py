"""Changing an item otherwise than by judging it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, update

from weighbridge.decision import Json
from weighbridge.errors import ChangeRefused
from weighbridge.review.items import Item, SlotKind, SlotState, State
from weighbridge.review.queueing.history import record
from weighbridge.review.queueing.intake import add_slots, close_slots
from weighbridge.review.queueing.ordering import sort_key
from weighbridge.review.queueing.reading import locked, read
from weighbridge.store.queue_tables import item_table, slot_table

_item, _slot = item_table.c, slot_table.c


def note(connection: Connection, item_id: str, by: str, text: str, now: int) -> Item:
    """Write something beside the item, for colleagues."""
    item = locked(connection, item_id)
    record(connection, item.id, now, by, "noted", {"text": text})
    return _changed(connection, item, {})


def assign(connection: Connection, item_id: str, to: str | None, by: str, now: int) -> Item:
    """Keep the item for one person, or for nobody any more; who holds it goes on holding it."""
    item = _unsettled(connection, item_id)
    connection.execute(update(slot_table).where(*_waits(item)).values(assignee=to or ""))
    record(connection, item.id, now, by, "assigned", {"to": to})
    return _changed(connection, item, {"assignee": to or None})


def set_due(
    connection: Connection,
    item_id: str,
    due_at: int | None,
    not_before: int,
    by: str,
    now: int,
    *,
    head_start_s: float,
) -> Item:
    """Say by when the item should be judged, and from when on it is offered."""
    item = _unsettled(connection, item_id)
    place = sort_key(item.created_at, item.uncertainty, due_at, head_start_s=head_start_s)
    connection.execute(
        update(slot_table).where(*_waits(item)).values(sort_key=place, not_before=not_before)
    )
    record(connection, item.id, now, by, "due_set", {"due_at": due_at, "not_before": not_before})
    return _changed(connection, item, {"due_at": due_at, "sort_key": place})


def cancel(connection: Connection, item_id: str, by: str, reason: str, now: int) -> Item:
    """Take the item out of the queue unjudged; harmless when repeated."""
    item = locked(connection, item_id)
    if item.state == State.CANCELLED:
        return read(connection, item.id)
    if item.state == State.DONE:
        raise ChangeRefused(item.id, "it is already done")
    close_slots(connection, item.id, item.round)
    record(connection, item.id, now, by, "cancelled", {"reason": reason})
    return _changed(connection, item, {"state": State.CANCELLED})


def reopen(
    connection: Connection, item_id: str, by: str, reason: str, needed: int, now: int
) -> Item:
    """Start another round about a settled or cancelled item; what was said before is kept."""
    item = locked(connection, item_id)
    if item.state not in (State.DONE, State.CANCELLED):
        raise ChangeRefused(item.id, "it is still open")
    if item.erased_at is not None:
        raise ChangeRefused(item.id, "its text was erased, so nobody can judge it")
    values = {
        "state": State.OPEN,
        "round": item.round + 1,
        "needed": needed,
        "done_at": None,
        "settled_no": None,
        "resolved_kind": None,
        "resolution_json": None,
    }
    add_slots(connection, {**item._mapping, **values}, SlotKind.REVIEW, needed)
    detail: dict[str, Json] = {"reason": reason, "needed": needed}
    record(connection, item.id, now, by, "reopened", detail)
    return _changed(connection, item, values)


def _unsettled(connection: Connection, item_id: str) -> Row[Any]:
    item = locked(connection, item_id)
    if item.state in (State.DONE, State.CANCELLED):
        raise ChangeRefused(item.id, f"it is already {item.state}")
    return item


def _waits(item: Row[Any]) -> list[Any]:
    return [
        _slot.item_id == item.id,
        _slot.round == item.round,
        _slot.state.in_([SlotState.OPEN, SlotState.LEASED]),
    ]


def _changed(connection: Connection, item: Row[Any], values: dict[str, Any]) -> Item:
    connection.execute(
        update(item_table)
        .where(_item.id == item.id)
        .values({**values, "version": _item.version + 1})
    )
    return read(connection, item.id)
