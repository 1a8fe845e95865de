"""Outbox: what webhooks are to be told, kept until each of them has heard it.

Whoever delivers takes a lease on one row at a time. Of one item's events a webhook is sent the
second only when it has heard the first, or when that was given up.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, select, update

from weighbridge.decision import Json
from weighbridge.review.telling.subscriptions import EventKind
from weighbridge.store import dialect
from weighbridge.store.database import Database
from weighbridge.store.outbox_tables import outbox_table
from weighbridge.store.times import moment

_outbox = outbox_table.c


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEvent:
    """One event for one webhook.

    Args:
        id: of the row.
        event_id: the same for all webhooks and all attempts.
        target: name of the webhook.
        kind: what happened.
        item_id: to which item.
        payload: what is sent.
        created_at: UTC.
        attempts: how many failed.
        next_at: UTC, the next attempt is not before that.
        done_at: UTC, when the webhook took it; None until then.
        parked_at: UTC, when it was given up; None otherwise.
        last_error: why the last attempt failed; never what a server said.
    """

    id: int
    event_id: str
    target: str
    kind: EventKind
    item_id: str
    payload: Mapping[str, Json] = field(repr=False)
    created_at: datetime
    attempts: int
    next_at: datetime
    done_at: datetime | None
    parked_at: datetime | None
    last_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An event that is being delivered.

    Args:
        event: what.
        token: proves the lease.
    """

    event: OutboxEvent
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """One webhook's share of the outbox.

    Args:
        num_pending: events that are still to be delivered.
        num_parked: that were given up.
        num_done: that were delivered and are kept for now.
        oldest: UTC, when the oldest pending one happened; None without any.
    """

    num_pending: int
    num_parked: int
    num_done: int
    oldest: datetime | None


class Outbox:
    """The outbox as those see it who deliver from it, and who look after them.

    Any method raises `QueueUnavailable` when the database fails.

    Args:
        database: left open.
        clock: seconds since 1970; by default the clock that all users of the database share.
        new_token: proves a lease; must not be guessable.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] | None = None,
        new_token: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:
        self._database, self._clock, self._new_token = database, clock, new_token

    def take(self, targets: Collection[str], *, lease_s: float) -> Taken | None:
        """Lease the next event that is due for one of the webhooks; None if none is."""
        with self._writing() as (connection, now):
            token = self._new_token()
            found = _due(targets, now).cte("found").prefix_with("MATERIALIZED")
            row = connection.execute(
                update(outbox_table)
                .where(_outbox.id == select(found.c.id).scalar_subquery())
                .values(lease_token=token, lease_until=now + round(lease_s * 1e6))
                .returning(outbox_table)
            ).one_or_none()
        return None if row is None else Taken(event=_event_from(row), token=token)

    def delivered(self, taken: Taken) -> None:
        """The webhook has it."""
        with self._writing() as (connection, now):
            # Whether the lease still holds plays no part: it was heard.
            connection.execute(
                update(outbox_table)
                .where(_outbox.id == taken.event.id, _outbox.done_at.is_(None))
                .values(done_at=now, parked_at=None, lease_token=None, lease_until=0, last_error="")
            )

    def failed(self, taken: Taken, problem: str, *, wait_s: float | None) -> None:
        """An attempt failed; does nothing if somebody else has taken the event since.

        Args:
            taken: what was tried.
            problem: why, in words that hold nothing a server said.
            wait_s: until the next attempt; None gives up.
        """
        with self._writing() as (connection, now):
            again = {"parked_at": now} if wait_s is None else {"next_at": now + round(wait_s * 1e6)}
            connection.execute(
                update(outbox_table)
                .where(_outbox.id == taken.event.id, _outbox.lease_token == taken.token)
                .values(
                    attempts=_outbox.attempts + 1,
                    lease_token=None,
                    lease_until=0,
                    last_error=problem,
                    **again,
                )
            )

    def events(
        self, *, is_parked: bool | None = None, target: str | None = None, limit: int = 100
    ) -> list[OutboxEvent]:
        """Up to `limit` events that were not delivered, the oldest first.

        Args:
            is_parked: whether those that were given up; None: both.
            target: for this webhook alone.
            limit: of the list.
        """
        conditions: list[ColumnElement[bool]] = [_outbox.done_at.is_(None)]
        if is_parked is not None:
            parked = _outbox.parked_at.is_not(None)
            conditions.append(parked if is_parked else ~parked)
        if target is not None:
            conditions.append(_outbox.target == target)
        in_order = select(outbox_table).where(*conditions).order_by(_outbox.id).limit(limit)
        with self._database.reading() as connection:
            return [_event_from(row) for row in connection.execute(in_order)]

    def backlog(self) -> dict[str, Backlog]:
        """How much there is for each webhook, by name; for people, not for loops."""
        pending = and_(*_pending())
        counts = select(
            _outbox.target,
            func.count().filter(pending).label("pending"),
            func.count(_outbox.parked_at).label("parked"),
            func.count(_outbox.done_at).label("done"),
            func.min(_outbox.created_at).filter(pending).label("oldest"),
        ).group_by(_outbox.target)
        with self._database.reading() as connection:
            return {
                row.target: Backlog(
                    num_pending=row.pending,
                    num_parked=row.parked,
                    num_done=row.done,
                    oldest=None if row.oldest is None else moment(row.oldest),
                )
                for row in connection.execute(counts.order_by(_outbox.target))
            }

    def retry(self, *, target: str | None = None, event_ids: Sequence[str] = ()) -> int:
        """Try anew what was given up, at once; returns how many events that are.

        Args:
            target: for this webhook alone.
            event_ids: only these.
        """
        conditions: list[ColumnElement[bool]] = [_outbox.parked_at.is_not(None)]
        if target is not None:
            conditions.append(_outbox.target == target)
        if event_ids:
            conditions.append(_outbox.event_id.in_(event_ids))
        with self._writing() as (connection, _):
            again = update(outbox_table).values(parked_at=None, attempts=0, next_at=0)
            return len(connection.execute(again.where(*conditions).returning(_outbox.id)).all())

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, int]]:
        with self._database.writing() as connection:
            yield connection, dialect.now_us(connection, self._clock)


def _pending(table: Any = outbox_table) -> list[Any]:
    return [table.c.done_at.is_(None), table.c.parked_at.is_(None)]


def _due(targets: Collection[str], now: int) -> Any:
    """The row to deliver next: first those that have waited longest since they were due."""
    earlier = outbox_table.alias("earlier")
    return (
        select(_outbox.id)
        .where(
            *_pending(),
            _outbox.target.in_(sorted(targets)),
            _outbox.next_at <= now,
            _outbox.lease_until <= now,
            ~exists().where(
                *_pending(earlier),
                earlier.c.item_id == _outbox.item_id,
                earlier.c.target == _outbox.target,
                earlier.c.id < _outbox.id,
            ),
        )
        .order_by(_outbox.next_at, _outbox.id)
        .limit(1)
        .with_for_update(skip_locked=True, key_share=True, of=outbox_table)
    )


def _event_from(row: Row[Any]) -> OutboxEvent:
    return OutboxEvent(
        id=row.id,
        event_id=row.event_id,
        target=row.target,
        kind=EventKind(row.kind),
        item_id=row.item_id,
        payload=row.payload_json,
        created_at=moment(row.created_at),
        attempts=row.attempts,
        next_at=moment(row.next_at),
        done_at=None if row.done_at is None else moment(row.done_at),
        parked_at=None if row.parked_at is None else moment(row.parked_at),
        last_error=row.last_error,
    )
