"""The claim in SQL: one UPDATE that finds, takes and returns a slot.

Two statements, a SELECT and then an UPDATE, could hand one slot to two people.

A slot that is free lies in one of a few *lanes*: leases that ended, the longest ago first; then
what is kept for the reviewer, and what is for anybody, adjudications before reviews, in the order
of work. Every lane is one walk through one index, so that what is leased, is kept for others or
waits for an adjudicator is not walked past. They are tried in turn within the one statement.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Update,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    update,
)

from weighbridge.review.items import SlotKind, SlotState
from weighbridge.store.columns import CleanText
from weighbridge.store.queue_tables import skip_table, slot_table

MAX_LEASE_US: Final = 86_400 * 10**6

_Name: TypeAlias = str | ColumnElement[str]
_Time: TypeAlias = int | ColumnElement[int]

_REVIEWER = bindparam("reviewer", type_=CleanText)
_TOKEN = bindparam("token", type_=CleanText)
_NOW = bindparam("now", type_=BigInteger)
_UNTIL = bindparam("until", type_=BigInteger)

_slot = slot_table.c
# Not bound: a partial index serves only a query that names its state.
_IS_OPEN: Final[ColumnElement[str]] = literal_column(f"'{SlotState.OPEN}'")
_IS_LEASED: Final[ColumnElement[str]] = literal_column(f"'{SlotState.LEASED}'")


class Lane(NamedTuple):
    """Which slots lie in it, and in which order they are taken."""

    where: ColumnElement[bool]
    order_by: tuple[ColumnElement[Any], ColumnElement[Any]]


@cache
def claim(*, may_adjudicate: bool) -> Update:
    """Take the first free slot that `reviewer` may have, and return it.

    Built once: that takes longer than finding the slot. Runs with the parameters `reviewer`,
    `token`, `now` and `until`.
    """
    slot = slot_table.alias("free")
    firsts = [
        select(slot.c.id)
        .where(lane.where)
        .order_by(*lane.order_by)
        .limit(1)
        # On PostgreSQL, claims at the same time pass over each other's rows.
        .with_for_update(skip_locked=True, key_share=True)
        for lane in lanes(slot, _REVIEWER, now=_NOW, may_adjudicate=may_adjudicate)
    ]
    # No lane is looked at after the first that gives a slot. The CTE is materialised, since a bare
    # subquery of an UPDATE may be run again there, and lock more than one row.
    first = select(func.coalesce(*(first.scalar_subquery() for first in firsts)).label("id"))
    found = first.cte("found").prefix_with("MATERIALIZED")
    return _lease().where(_slot.id == select(found.c.id).scalar_subquery())


@cache
def claim_slot() -> Update:
    """Take the slot of that `slot_id`, which the transaction has locked and may give away.

    Its other parameters are those of `claim`.
    """
    return _lease().where(_slot.id == bindparam("slot_id", type_=BigInteger))


@cache
def renew_first() -> Update:
    """Prolong the first lease of `reviewer` that still runs, until `until`, its token unchanged."""
    running = _slot.state == _IS_LEASED, _slot.owner == _REVIEWER, ~_has_ended(slot_table, _NOW)
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
        .values(lease_until=_UNTIL)
        .returning(slot_table)
    )


def lanes(slot: FromClause, owner: _Name, *, now: _Time, may_adjudicate: bool) -> list[Lane]:
    """The lanes that are open to `owner`, over rows of `slot`; the first comes first."""
    kinds = [SlotKind.ADJUDICATE, SlotKind.REVIEW] if may_adjudicate else [SlotKind.REVIEW]
    may_have = _may_have(slot, owner, now)
    ended = [
        Lane(
            and_(
                slot.c.state == _IS_LEASED,
                end,
                or_(*(slot.c.kind == kind for kind in kinds)),
                or_(slot.c.assignee == "", slot.c.assignee == owner),
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


def is_free(slot: FromClause, now: _Time) -> ColumnElement[bool]:
    """Whether nobody has the slot, now or any more."""
    return or_(slot.c.state == _IS_OPEN, and_(slot.c.state == _IS_LEASED, _has_ended(slot, now)))


def is_leased(slot: FromClause) -> ColumnElement[bool]:
    """Whether somebody has it, or had it last."""
    return slot.c.state == _IS_LEASED


def _lease() -> Update:
    return (
        update(slot_table)
        .values(
            state=SlotState.LEASED,
            owner=_REVIEWER,
            lease_token=_TOKEN,
            lease_until=_UNTIL,
            opened_at=_NOW,
        )
        .returning(slot_table)
    )


def _has_ended(slot: FromClause, now: _Time) -> ColumnElement[bool]:
    return or_(*_endings(slot, now))


def _endings(slot: FromClause, now: _Time) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """A lease is over in its time, or if only a clock that was ahead can have given it."""
    return slot.c.lease_until < now, slot.c.lease_until > now + MAX_LEASE_US


def _may_have(slot: FromClause, owner: _Name, now: _Time) -> ColumnElement[bool]:
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
