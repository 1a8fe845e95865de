"""Retention: texts leave the queue, while labels, numbers, hashes and history stay.

What was decided and how well can be told afterwards as before. Of a field with options the answers
stay, for they stand in the configuration. An answer in free words may quote its ticket: a stand-in
takes its place that is equal where answers to the same item were equal, and tells nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, func, or_, select, update

from weighbridge.decision import Json
from weighbridge.review.items import State
from weighbridge.review.queueing import changing
from weighbridge.review.queueing.history import MACHINE, record
from weighbridge.review.queueing.outcomes import canonical
from weighbridge.store import dialect
from weighbridge.store.database import Database
from weighbridge.store.outbox_tables import outbox_table
from weighbridge.store.queue_tables import (
    UNSETTLED,
    event_table,
    item_table,
    skip_table,
    verdict_table,
)
from weighbridge.store.tables import cached_decision_table
from weighbridge.store.times import microseconds

_AT_ONCE: Final = 200  # items in one transaction: others can write in between
_WRITTEN: Final = ("text", "reason")  # what people wrote, in a line of history

_item, _verdict = item_table.c, verdict_table.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was done.

    Args:
        num_items: whose texts were removed now.
        num_cancelled: of these, those that waited for a person still.
        num_kept: items as old as those that were to go, and not settled yet: their texts stay.
    """

    num_items: int
    num_cancelled: int = 0
    num_kept: int = 0


class Retention:
    """Removes texts from a database; safe beside everything else that uses it.

    Deleted data lies on in a file until something else is written there. So each method also sees
    to it that the database's own files hold nothing of it any more. Backups, and the logs that a
    PostgreSQL server archives, are out of its reach.

    Args:
        database: left open.
        clock: seconds since 1970; by default the clock that all users of the database share.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._database, self._clock = database, clock

    def purge(
        self,
        before: datetime,
        *,
        rewrite: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Removed:
        """Remove the texts of all items that were settled or cancelled before a time.

        Args:
            before: with a time zone. For a cancelled item the time when it came counts.
            rewrite: see `Database.scrub`.
            progress: told how many are done.

        Raises:
            QueueUnavailable: the database failed; what was removed before stays removed.
        """
        limit = microseconds(before)
        is_over = or_(
            (_item.state == State.DONE) & (_item.done_at < limit),
            (_item.state == State.CANCELLED) & (_item.created_at < limit),
        )
        num = 0
        last: str | None = ""
        while last is not None:
            with self._database.writing() as connection:
                removed, last = self._remove_page(connection, is_over, last)
            num += removed
            progress(num)
        with self._database.writing() as connection:
            _overwriting(connection)
            made = cached_decision_table.c.made_at
            connection.execute(delete(cached_decision_table).where(made < limit))
            unsettled = select(func.count()).select_from(item_table).where(UNSETTLED)
            num_kept = connection.execute(unsettled.where(_item.created_at < limit)).scalar_one()
        self._database.scrub(rewrite=rewrite)
        return Removed(num_items=num, num_kept=num_kept)

    def erase(self, ticket_id: str, *, by: str, rewrite: bool = True) -> Removed:
        """Remove all texts of one ticket; what waits for a person is cancelled.

        Kept decisions do not tell whose ticket they answer, so all of them go: a cache may.

        Args:
            ticket_id: of the ticket.
            by: who asks for it, for the history.
            rewrite: see `Database.scrub`.

        Raises:
            QueueUnavailable: the database failed.
        """
        with self._database.writing() as connection:
            _overwriting(connection)
            now = dialect.now_us(connection, self._clock)
            connection.execute(delete(cached_decision_table))
            of_ticket = _item.ticket_id == ticket_id
            open_ids = connection.scalars(select(_item.id).where(UNSETTLED, of_ticket)).all()
            for item_id in open_ids:
                changing.cancel(connection, item_id, by, "erased", now)
            rows = _locked(connection, of_ticket)
            for row in rows:
                _remove(connection, row, by, now)
        self._database.scrub(rewrite=rewrite)
        return Removed(num_items=len(rows), num_cancelled=len(open_ids))

    def _remove_page(
        self, connection: Connection, is_over: ColumnElement[bool], last: str
    ) -> tuple[int, str | None]:
        """Remove the texts of some items behind `last`; returns how many, and the new last."""
        _overwriting(connection)
        now = dialect.now_us(connection, self._clock)
        has_texts = _item.erased_at.is_(None)
        rows = _locked(connection, is_over, has_texts, _item.id > last, limit=_AT_ONCE)
        for row in rows:
            _remove(connection, row, MACHINE, now)
        return len(rows), rows[-1].id if len(rows) == _AT_ONCE else None


def _overwriting(connection: Connection) -> None:
    """Have SQLite write zeros over what this connection deletes; it may not do so by itself."""
    if not dialect.is_postgresql(connection):
        connection.exec_driver_sql("PRAGMA secure_delete = ON")


def _locked(
    connection: Connection, *conditions: ColumnElement[bool], limit: int | None = None
) -> Sequence[Row[Any]]:
    """Items that still have their texts, which this transaction is going to change."""
    return connection.execute(
        select(item_table)
        .where(*conditions)
        .order_by(_item.id)
        .limit(limit)
        .with_for_update(key_share=True)
    ).all()


def _remove(connection: Connection, item: Row[Any], by: str, now: int) -> None:
    """Remove the texts of one item from wherever they were written."""
    is_free = frozenset(each["field"] for each in item.questions_json if not each["options"])
    hide = _StandIns(is_free)
    connection.execute(
        update(item_table)
        .where(_item.id == item.id)
        .values(
            ticket_json={"id": item.ticket_id, "subject": "", "body": "", "metadata": {}},
            decision_json=_without_texts(item.decision_json, is_free),
            questions_json=[
                {**each, "machine": hide.value(each["field"], each["machine"])}
                for each in item.questions_json
            ],
            resolution_json=hide.values(item.resolution_json),
            group_key="",  # a hash, but of so little that a guess could be tried
            erased_at=now,
            version=_item.version + 1,
        )
    )
    for verdict in connection.execute(select(verdict_table).where(_verdict.item_id == item.id)):
        connection.execute(
            update(verdict_table)
            .where(_verdict.id == verdict.id)
            .values(
                values_json=hide.values(verdict.values_json),
                machine_json=hide.values(verdict.machine_json),
                note="",
            )
        )
    _remove_from_history(connection, item.id)
    skip = update(skip_table).where(skip_table.c.item_id == item.id)
    connection.execute(skip.values(reason=""))
    _remove_from_outbox(connection, item.id, hide)
    record(connection, item.id, now, by, "erased")


def _remove_from_history(connection: Connection, item_id: str) -> None:
    line = event_table.c
    for row in connection.execute(select(event_table).where(line.item_id == item_id)):
        kept = {name: "" if name in _WRITTEN else said for name, said in row.detail_json.items()}
        if kept != row.detail_json:
            changed = update(event_table).where(line.id == row.id)
            connection.execute(changed.values(detail_json=kept))


def _remove_from_outbox(connection: Connection, item_id: str, hide: _StandIns) -> None:
    event = outbox_table.c
    for row in connection.execute(select(outbox_table).where(event.item_id == item_id)):
        data = row.payload_json["data"]
        if "answer" in data:
            payload = {**row.payload_json, "data": {**data, "answer": hide.values(data["answer"])}}
            changed = update(outbox_table).where(event.id == row.id)
            connection.execute(changed.values(payload_json=payload))


def _without_texts(decision: Mapping[str, Any], is_free: Collection[str]) -> dict[str, Json]:
    """The decision without what a model wrote; the evidence for fields with options stays."""
    fields = decision.get("fields") or {}
    return {
        **decision,
        "value": None,
        "reasoning": "",
        "fields": {name: said for name, said in fields.items() if name not in is_free},
    }


class _StandIns:
    """What takes the place of answers in free words, to one item."""

    def __init__(self, is_free: Collection[str]) -> None:
        self._is_free = is_free
        # Thrown away with this object: nobody can try out what was said.
        self._key = secrets.token_bytes(32)

    def value(self, field: str, value: Json) -> Json:
        if field not in self._is_free or value is None:
            return value
        digest = hmac.new(self._key, canonical(value).encode(), hashlib.sha256).hexdigest()
        return f"(erased {digest[:12]})"

    def values(self, values: Mapping[str, Json] | None) -> dict[str, Json] | None:
        if values is None:
            return None
        return {field: self.value(field, value) for field, value in values.items()}
