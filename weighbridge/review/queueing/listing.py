"""Listing: which items there are, and whose turn it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    cast,
    exists,
    literal,
    select,
    tuple_,
    type_coerce,
)

from weighbridge.decision import ReviewId
from weighbridge.errors import ItemNotFound
from weighbridge.review.items import Event, Item, State
from weighbridge.review.overviews import Mine, Search
from weighbridge.review.queueing import statements
from weighbridge.review.queueing.reading import items_of
from weighbridge.review.queueing.rows import event_from, verdict_from
from weighbridge.store.columns import CleanText
from weighbridge.store.queue_tables import (
    UNSETTLED,
    event_table,
    item_table,
    slot_table,
    verdict_table,
)
from weighbridge.store.times import microseconds

NUM_RECENT: Final = 10

_item, _slot, _verdict = item_table.c, slot_table.c, verdict_table.c


def waiting(connection: Connection, limit: int, now: int) -> list[Item]:
    """Items with a place that nobody has, in the order of work."""
    has_place = exists().where(
        _slot.item_id == _item.id,
        _slot.round == _item.round,
        _slot.not_before <= now,
        statements.is_free(slot_table, now),
    )
    in_order = select(item_table).where(UNSETTLED, has_place).order_by(_item.sort_key, _item.id)
    return items_of(connection, connection.execute(in_order.limit(limit)).all())


def waiting_for(
    connection: Connection, reviewer: str, limit: int, now: int, *, may_adjudicate: bool
) -> list[Item]:
    """Items that `reviewer` could claim, in the order in which they would get them."""
    slot, other = slot_table.alias("offered"), slot_table.alias("earlier")
    here, there = (
        statements.lanes(each, reviewer, now=now, may_adjudicate=may_adjudicate)
        for each in (slot, other)
    )
    ids: dict[str, None] = {}
    for lane, same in zip(here, there, strict=True):
        # Of an item's slots in a lane the first counts; what another lane holds may be found twice.
        is_first = ~exists().where(
            other.c.item_id == slot.c.item_id,
            same.where,
            tuple_(*same.order_by) < tuple_(*lane.order_by),
        )
        in_order = select(slot.c.item_id).where(lane.where, is_first).order_by(*lane.order_by)
        ids |= dict.fromkeys(connection.scalars(in_order.limit(limit)))
    return _by_id(connection, [*ids][:limit])


def search(
    connection: Connection, wanted: Search, after: ReviewId | None, limit: int
) -> list[Item]:
    """Items that meet all conditions, the newest first, from behind the item `after` on."""
    conditions = list(_conditions(wanted))
    if after is not None:
        last = connection.scalar(select(_item.created_at).where(_item.id == after))
        if last is None:
            raise ItemNotFound(after)
        conditions.append(tuple_(_item.created_at, _item.id) < tuple_(last, after))
    newest_first = (
        select(item_table)
        .where(*conditions)
        .order_by(_item.created_at.desc(), _item.id.desc())
        .limit(limit)
    )
    return items_of(connection, connection.execute(newest_first).all())


def history(connection: Connection, item_id: str) -> tuple[Event, ...]:
    """All that was done with an item, the oldest first."""
    lines = select(event_table).where(event_table.c.item_id == item_id).order_by(event_table.c.id)
    found = tuple(map(event_from, connection.execute(lines)))
    if not found:  # no item is without the line that it was enqueued
        raise ItemNotFound(item_id)
    return found


def alike(connection: Connection, item_id: str, limit: int | None = None) -> list[ReviewId]:
    """The other items whose tickets say the same and may get the same answer, in work order."""
    row = connection.execute(select(_item.group_key).where(_item.id == item_id)).one_or_none()
    if row is None:
        raise ItemNotFound(item_id)
    if not row.group_key:
        return []
    twins = (
        select(_item.id)
        .where(
            UNSETTLED,
            _item.group_key == row.group_key,
            _item.id != item_id,
            # What is judged blind is judged alone.
            _item.state == State.OPEN,
            ~_item.is_audit,
            _item.needed == 1,
        )
        .order_by(_item.sort_key, _item.id)
        .limit(limit)
    )
    return [ReviewId(twin) for twin in connection.scalars(twins)]


def mine(connection: Connection, reviewer: str) -> Mine:
    """What a reviewer holds, and what they judged last."""
    held = connection.execute(
        select(slot_table)
        .where(statements.is_leased(slot_table), _slot.owner == reviewer)
        .order_by(_slot.sort_key, _slot.id)
    ).all()
    rows = {
        row.id: row
        for row in connection.execute(
            select(item_table).where(_item.id.in_([slot.item_id for slot in held]))
        )
    }
    leased = {slot.item_id: slot for slot in held}
    items = items_of(connection, [rows[item_id] for item_id in leased], leased)
    undo = verdict_table.alias("undo")
    recent = (
        select(verdict_table)
        .where(
            _verdict.reviewer == reviewer,
            _verdict.kind != "undo",
            ~exists().where(undo.c.supersedes == _verdict.id),
        )
        .order_by(_verdict.id.desc())
        .limit(NUM_RECENT)
    )
    return Mine(leased=tuple(items), recent=tuple(map(verdict_from, connection.execute(recent))))


def settled(connection: Connection, since: int | datetime, limit: int) -> list[Item]:
    """Settled items in the order of their settling."""
    # An item that was taken up again has no number until it is settled anew.
    condition = (
        _item.done_at >= microseconds(since)
        if isinstance(since, datetime)
        else _item.settled_no > since
    )
    in_order = (
        select(item_table)
        .where(condition, _item.settled_no.is_not(None))
        .order_by(_item.settled_no)
        .limit(limit)
    )
    return items_of(connection, connection.execute(in_order).all())


def _conditions(wanted: Search) -> Iterator[ColumnElement[bool]]:
    for column, value in (
        (_item.task, wanted.task),
        (_item.ticket_id, wanted.ticket_id),
        (_item.assignee, wanted.assignee),
        (_item.is_audit, wanted.is_audit),
    ):
        if value is not None:
            yield column == value
    if wanted.states:
        yield _item.state.in_(sorted(wanted.states))
    if wanted.reason is not None:
        commas = type_coerce(literal(",") + _item.reasons + ",", CleanText)
        yield commas.contains(f",{wanted.reason},", autoescape=True)
    if wanted.reviewer is not None:
        # Not EXISTS, which would look for verdicts on each item in turn.
        judged = select(_verdict.item_id).where(_verdict.reviewer == wanted.reviewer)
        yield _item.id.in_(judged)
    if wanted.since is not None:
        yield _item.created_at >= microseconds(wanted.since)
    if wanted.until is not None:
        yield _item.created_at < microseconds(wanted.until)
    if wanted.text:
        # As it is stored: JSON in ASCII, inside a string.
        escaped = json.dumps(wanted.text)[1:-1]
        yield cast(_item.ticket_json, Text).icontains(escaped, autoescape=True)


def _by_id(connection: Connection, ids: Sequence[str]) -> list[Item]:
    found = connection.execute(select(item_table).where(_item.id.in_(ids))).all()
    place = {item_id: number for number, item_id in enumerate(ids)}
    return items_of(connection, sorted(found, key=lambda row: place[row.id]))
