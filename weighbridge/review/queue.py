"""ReviewQueue: entries go in once, one person at a time judges each, and nothing is lost."""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select
from sqlalchemy.dialects.sqlite import insert as insert_or_keep

from weighbridge.decision import Json, ReviewEntry, ReviewId
from weighbridge.errors import (
    ItemNotFound,
    LeaseLost,
    QueueError,
    QueueUnavailable,
    VerdictInvalid,
)
from weighbridge.review import statements
from weighbridge.review.ids import time_ordered_id
from weighbridge.review.items import Item, State, Stats
from weighbridge.review.rows import item_from, item_row, questions_from
from weighbridge.review.verdicts import judge
from weighbridge.store.database import Database
from weighbridge.store.queue_tables import event_table, item_table, verdict_table

_MACHINE = "weighbridge"  # the actor of what no person did
_MAX_VALUES = 10_000  # in one statement; SQLite allows 32,766


class ReviewQueue:
    """The queue over one database; safe to use from many threads and processes at once.

    Every method is one transaction and may wait for the database, so an event loop should call it
    in a thread. Any of them raises `QueueUnavailable` when the database fails.

    Args:
        database: the queue closes it.
        clock: seconds since 1970.
        new_id: of an item; by default `ids.time_ordered_id` of the clock.
        new_token: proves a lease; must not be guessable.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] | None = None,
        new_token: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id or (lambda: time_ordered_id(self._now()))
        self._new_token = new_token

    def enqueue(self, entry: ReviewEntry) -> ReviewId:
        """Put an entry into the queue, unless one with its dedupe key is or was there.

        Returns:
            The id of the new item, or of the one that was there first.

        Raises:
            QueueUnavailable: with the entry's decision in it.
        """
        now, item_id = self._now(), ReviewId(self._new_id())
        statement = (
            insert_or_keep(item_table)
            .values(item_row(entry, item_id, now))
            # Named, so that a clash of ids is an error and not taken for a repetition.
            .on_conflict_do_nothing(index_elements=[item_table.c.dedupe_key])
            .returning(item_table.c.id)
        )
        try:
            with self._database.writing() as connection:
                if connection.scalar(statement) is None:
                    same = item_table.c.dedupe_key == entry.dedupe_key
                    return ReviewId(connection.scalars(select(item_table.c.id).where(same)).one())
                _record(connection, item_id, now, _MACHINE, "enqueued", {})
        except QueueUnavailable as error:
            raise QueueUnavailable(error.database, error.problem, entry.decision) from None
        return item_id

    def claim(
        self, reviewer: str, *, lease_s: float = 900.0, item_id: str | None = None
    ) -> Item | None:
        """Lease the first item that waits, or the one that is named, to `reviewer`.

        Whoever holds a lease gets it prolonged, with the same token: without `item_id` that item
        comes again before any other, so that a person who starts over leaves none behind.

        Returns:
            The item with its `lease_token`; None if nothing waits.

        Raises:
            ItemNotFound: there is no item of that id.
            LeaseLost: somebody else holds the named item, or it is done.
        """
        if not reviewer or not 0 < lease_s < float("inf"):
            raise ValueError("a lease needs a reviewer and a length above 0 s")
        now = self._now()
        until = now + round(lease_s * 1e6)
        with self._database.writing() as connection:
            row = connection.execute(
                statements.renew(reviewer, now=now, until=until, item_id=item_id)
            ).one_or_none()
            if row is None:
                token = self._new_token()
                row = connection.execute(
                    statements.claim(reviewer, token, now=now, until=until, item_id=item_id)
                ).one_or_none()
                if row is not None:
                    _record(connection, row.id, now, reviewer, "claimed", {"lease_until": until})
            if row is not None:
                return _with_verdicts(connection, [row], with_token=True)[0]
            if item_id is None:
                return None
            raise _refusal(connection, item_id, reviewer)

    def get(self, item_id: str) -> Item:
        """The item of that id, without its lease token.

        Raises:
            ItemNotFound: there is none.
        """
        with self._database.reading() as connection:
            return _read(connection, item_id)

    def waiting(self, limit: int = 100) -> list[Item]:
        """Up to `limit` items that could be claimed now, in the order in which they would be."""
        if limit < 0:
            raise ValueError("limit is below 0")
        with self._database.reading() as connection:
            rows = connection.execute(statements.waiting(self._now(), limit)).all()
            return _with_verdicts(connection, rows)

    def answer(
        self,
        item_id: str,
        *,
        reviewer: str,
        token: str,
        values: Mapping[str, Json],
        note: str = "",
        idem_key: str | None = None,
    ) -> Item:
        """Close an item with a person's verdict; all of it is stored, or nothing.

        A lease that has ended is honoured as long as nobody else took the item: a slow reader does
        not lose the work for nothing.

        Args:
            item_id: of a claimed item.
            reviewer: whoever claimed it.
            token: the `lease_token` that `claim` gave.
            values: the answer to each question, by field; optional ones may be missing.
            note: free text for colleagues.
            idem_key: a verdict sent twice under one key is stored once, and the second call
                returns the item as it stands, whatever it brought.

        Raises:
            ItemNotFound: there is no item of that id.
            LeaseLost: somebody else took the item, it is done, or nobody has claimed it.
            VerdictInvalid: see `verdicts.judge`; or the key was used for another item.
        """
        now = self._now()
        with self._database.writing() as connection:
            if idem_key is not None and _is_replay(connection, item_id, idem_key):
                return _read(connection, item_id)
            row = connection.execute(
                statements.finish(item_id, owner=reviewer, token=token, now=now)
            ).one_or_none()
            if row is None:
                raise _refusal(connection, item_id, reviewer)
            questions = questions_from(row)
            kind = judge(item_id, questions, values)
            connection.execute(
                insert(verdict_table).values(
                    item_id=item_id,
                    reviewer=reviewer,
                    kind=kind,
                    values_json=dict(values),
                    machine_json={question.field: question.machine for question in questions},
                    idem_key=idem_key,
                    lease_token=token,
                    submitted_at=now,
                    note=note,
                )
            )
            _record(connection, item_id, now, reviewer, "answered", {"kind": kind})
            return _with_verdicts(connection, [row])[0]

    def stats(self) -> Stats:
        """The queue in numbers. Reads every item once: for people and dashboards, not for loops."""
        now = self._now()
        with self._database.reading() as connection:
            # Few combinations of reasons occur, however many items there are.
            items = _counts(connection, item_table.c.state, item_table.c.reasons)
            kinds = dict(_counts(connection, verdict_table.c.kind))
            num_waiting, oldest = connection.execute(statements.num_waiting_and_oldest(now)).one()
        states, reasons = Counter(dict.fromkeys(State, 0)), Counter[str]()
        for state, combination, num in items:
            states[State(state)] += num
            reasons.update(dict.fromkeys(combination, num))
        num_verdicts = sum(kinds.values())
        return Stats(
            num_by_state=dict(states),
            num_by_reason=dict(reasons),
            num_waiting=num_waiting,
            num_verdicts=num_verdicts,
            agreement=kinds.get("correct", 0) / num_verdicts if num_verdicts else None,
            oldest_waiting_s=None if oldest is None else max(0.0, (now - oldest) / 1e6),
        )

    def close(self) -> None:
        """Close the database; harmless when repeated."""
        self._database.close()

    def _now(self) -> int:
        return round(self._clock() * 1e6)


def _read(connection: Connection, item_id: str) -> Item:
    row = connection.execute(select(item_table).where(item_table.c.id == item_id)).one_or_none()
    if row is None:
        raise ItemNotFound(item_id)
    return _with_verdicts(connection, [row])[0]


def _with_verdicts(
    connection: Connection, rows: Sequence[Row[Any]], *, with_token: bool = False
) -> list[Item]:
    verdicts = defaultdict(list)
    for start in range(0, len(rows), _MAX_VALUES):
        ids = [row.id for row in rows[start : start + _MAX_VALUES]]
        statement = select(verdict_table).where(verdict_table.c.item_id.in_(ids))
        for verdict in connection.execute(statement.order_by(verdict_table.c.id)):
            verdicts[verdict.item_id].append(verdict)
    return [item_from(row, verdicts[row.id], with_token=with_token) for row in rows]


def _is_replay(connection: Connection, item_id: str, idem_key: str) -> bool:
    used_for = connection.scalar(
        select(verdict_table.c.item_id).where(verdict_table.c.idem_key == idem_key)
    )
    if used_for not in (None, item_id):
        raise VerdictInvalid(item_id, "idem_key", "this key belongs to the verdict on another item")
    return used_for is not None


def _refusal(connection: Connection, item_id: str, reviewer: str) -> QueueError:
    """Why `reviewer` cannot have, or has no longer, the item of that id."""
    row = connection.execute(select(item_table).where(item_table.c.id == item_id)).one_or_none()
    if row is None:
        return ItemNotFound(item_id)
    match State(row.state):
        case State.DONE:
            return LeaseLost(item_id, "it is already done")
        case State.OPEN:
            return LeaseLost(item_id, "nobody has claimed it")
        case State.LEASED if row.lease_owner == reviewer:
            return LeaseLost(item_id, "the token is not that of the lease")
        case State.LEASED:
            return LeaseLost(item_id, f"{row.lease_owner!r} holds it now")


def _record(
    connection: Connection, item_id: str, at: int, actor: str, kind: str, detail: dict[str, Json]
) -> None:
    """Add to the item's history, which is never changed."""
    connection.execute(
        insert(event_table).values(
            item_id=item_id, at=at, actor=actor, kind=kind, detail_json=detail
        )
    )


def _counts(connection: Connection, *columns: Any) -> list[tuple[Any, ...]]:
    statement = select(*columns, func.count()).group_by(*columns)
    return [tuple(row) for row in connection.execute(statement)]
