"""The queue's SQL: each change of hands is one UPDATE that finds, takes and returns its row.

Two statements, a SELECT and then an UPDATE, could hand one item to two people.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Update, and_, func, or_, select, update

from weighbridge.review.items import State
from weighbridge.store.queue_tables import LEASED, NOT_DONE, item_table

_item = item_table.c
_IN_ORDER = (_item.priority.desc(), _item.created_at, _item.id)


def claim(owner: str, token: str, *, now: int, until: int, item_id: str | None) -> Update:
    """Take the first item that waits, or the one that is named, unless somebody holds it."""
    named = and_(_item.id == item_id, _is_free(now))
    return (
        update(item_table)
        .where(_first(_waits(now)) if item_id is None else named)
        .values(
            state=State.LEASED,
            lease_owner=owner,
            lease_token=token,
            lease_until=until,
            version=_item.version + 1,
        )
        .returning(item_table)
    )


def renew(owner: str, *, now: int, until: int, item_id: str | None) -> Update:
    """Prolong a lease of `owner`, its token unchanged: a page that shows the item stays valid.

    Without `item_id` only a lease that still runs counts; with it, also one that has ended while
    nobody else took the item.
    """
    own = and_(LEASED, _item.lease_owner == owner)
    running, named = and_(own, _item.lease_until >= now), and_(own, _item.id == item_id)
    return (
        update(item_table)
        .where(_first(running) if item_id is None else named)
        .values(lease_until=until, version=_item.version + 1)
        .returning(item_table)
    )


def finish(item_id: str, *, owner: str, token: str, now: int) -> Update:
    """Close an item for the holder of its lease. The time at which the lease ends plays no part."""
    return (
        update(item_table)
        .where(
            _item.id == item_id,
            _item.state == State.LEASED,
            _item.lease_owner == owner,
            _item.lease_token == token,
        )
        .values(
            state=State.DONE,
            lease_owner=None,
            lease_token=None,
            lease_until=None,
            version=_item.version + 1,
            done_at=now,
        )
        .returning(item_table)
    )


def waiting(now: int, limit: int) -> Select[*tuple[Any, ...]]:
    """Items that could be claimed, in the order in which they would be."""
    return select(item_table).where(_waits(now)).order_by(*_IN_ORDER).limit(limit)


def num_waiting_and_oldest(now: int) -> Select[int, int | None]:
    """How many items could be claimed, and when the oldest of them was made."""
    return select(func.count(), func.min(_item.created_at)).where(_waits(now))


def _is_free(now: int) -> ColumnElement[bool]:
    return or_(
        _item.state == State.OPEN, and_(_item.state == State.LEASED, _item.lease_until < now)
    )


def _waits(now: int) -> ColumnElement[bool]:
    return and_(NOT_DONE, _is_free(now), _item.not_before <= now)


def _first(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    first = select(_item.id).where(condition).order_by(*_IN_ORDER).limit(1)
    # Without `correlate` SQLAlchemy would take the inner table for the outer one.
    return _item.id == first.correlate(None).scalar_subquery()
