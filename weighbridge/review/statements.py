"""The claim in SQL: one UPDATE that finds, takes and returns a slot.

Two statements, a SELECT and then an UPDATE, could hand one slot to two people.

A slot that is free lies in one of a few *lanes*: leases that ended, the longest ago first; then
what is kept for the reviewer, and what is for anybody, adjudications before reviews, in the order
of work. Every lane is one walk through one index, so that what is leased, is kept for others or
waits for an adjudicator is not walked past. They are tried in turn within the one statement.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Update,
    and_,
    func,
    literal_column,
    or_,
    select,
    update,
)

from weighbridge.review.items import SlotKind, SlotState
from weighbridge.store.queue_tables import skip_table, slot_table

MAX_LEASE_US: Final = 86_400 * 10**6

_slot = slot_table.c
# Not bound: a partial index serves only a query that names its state.
_IS_OPEN: Final[ColumnElement[str]] = literal_column(f"'{SlotState.OPEN}'")
_IS_LEASED: Final[ColumnElement[str]] = literal_column(f"'{SlotState.LEASED}'")


class Lane(NamedTuple):
    """Which slots lie in it, and in which order they are taken."""

    where: ColumnElement[bool]
    order_by: tuple[ColumnElement[Any], ColumnElement[Any]]


def claim(owner: str, token: str, *, now: int, until: int, may_adjudicate: bool) -> Update:
    """Take the first free slot that `owner` may have, and return it."""
    slot = slot_table.alias("free")
    firsts = [
        select(slot.c.id)
        .where(lane.where)
        .order_by(*lane.order_by)
        .limit(1)
        # On PostgreSQL, claims at the same time pass over each other's rows.
        .with_for_update(skip_locked=True, key_share=True)
        for lane in lanes(slot, owner, now=now, may_adjudicate=may_adjudicate)
    ]
    # No lane is looked at after the first that gives a slot. The CTE is materialised, since a bare
    # subquery of an UPDATE may be run again there, and lock more than one row.
    first = select(func.coalesce(*(first.scalar_subquery() for first in firsts)).label("id"))
    found = first.cte("found").prefix_with("MATERIALIZED")
    return _lease(owner, token, now=now, until=until).where(
        _slot.id == select(found.c.id).scalar_subquery()
    )


def claim_slot(slot_id: int, owner: str, token: str, *, now: int, until: int) -> Update:
    """Take one slot, which the transaction has locked and found free."""
    return _lease(owner, token, now=now, until=until).where(_slot.id == slot_id)


def renew_first(owner: str, *, now: int, until: int) -> Update:
    """Prolong the first lease of `owner` that still runs, its token unchanged."""
    running = _slot.state == _IS_LEASED, _slot.owner == owner, ~_has_ended(slot_table, now)
    first = (
        select(_slot.id)
        .where(*running)
        .order_by(_slot.sort_key, _slot.id)
        .limit(1)
        .correlate(None)  # or SQLAlchemy would take the inner table for the outer one
    )
    return (
        update(slot_table)
        # Said twice: on PostgreSQL the row may have changed hands since it was found.
        .where(_slot.id == first.scalar_subquery(), *running)
        .values(lease_until=until)
        .returning(slot_table)
    )


def lanes(slot: FromClause, owner: str, *, now: int, may_adjudicate: bool) -> list[Lane]:
    """The lanes that are open to `owner`, over rows of `slot`; the first comes first."""
    kinds = [SlotKind.ADJUDICATE, SlotKind.REVIEW] if may_adjudicate else [SlotKind.REVIEW]
    may_have = _may_have(slot, owner, now)
    ended = [
        Lane(
            and_(
                slot.c.state == _IS_LEASED,
                end,
                slot.c.kind.in_(kinds),
                slot.c.assignee.in_(["", owner]),
                may_have,
            ),
            (slot.c.lease_until, slot.c.id),
        )
        # Two lanes, so that each is one piece of the index.
        for end in _endings(slot, now)
    ]
    untaken = [
        Lane(
            and_(
                slot.c.state == _IS_OPEN,
                slot.c.kind == kind,
                slot.c.assignee == assignee,
                may_have,
            ),
            (slot.c.sort_key, slot.c.id),
        )
        for assignee in (owner, "")
        for kind in kinds
    ]
    return ended + untaken


def is_free(slot: FromClause, now: int) -> ColumnElement[bool]:
    """Whether nobody has the slot, now or any more."""
    return or_(slot.c.state == _IS_OPEN, and_(slot.c.state == _IS_LEASED, _has_ended(slot, now)))


def is_leased(slot: FromClause) -> ColumnElement[bool]:
    """Whether somebody has it, or had it last."""
    return slot.c.state == _IS_LEASED


def _lease(owner: str, token: str, *, now: int, until: int) -> Update:
    return (
        update(slot_table)
        .values(
            state=SlotState.LEASED,
            owner=owner,
            lease_token=token,
            lease_until=until,
            opened_at=now,
        )
        .returning(slot_table)
    )


def _has_ended(slot: FromClause, now: int) -> ColumnElement[bool]:
    return or_(*_endings(slot, now))


def _endings(slot: FromClause, now: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """A lease is over in its time, or if only a clock that was ahead can have given it."""
    return slot.c.lease_until < now, slot.c.lease_until > now + MAX_LEASE_US


def _may_have(slot: FromClause, owner: str, now: int) -> ColumnElement[bool]:
    other, skip = slot_table.alias("other"), skip_table.c
    judged = select(other.c.id).where(
        other.c.item_id == slot.c.item_id,
        other.c.round == slot.c.round,
        other.c.owner == owner,
        other.c.id != slot.c.id,
    )
    skipped = select(skip.item_id).where(skip.item_id == slot.c.item_id, skip.reviewer == owner)
    # The offset says nothing but keeps PostgreSQL from making joins of the two: it would then
    # read all slots of this person, if need be the whole table, for the one slot that is wanted.
    has_judged, has_skipped = (each.limit(1).offset(0).exists() for each in (judged, skipped))
    return and_(slot.c.not_before <= now, ~has_judged, ~has_skipped)
