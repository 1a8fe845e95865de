"""SharedCache: records of accepted decisions in the database, shared by all processes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, or_, select, update

from weighbridge.errors import QueueUnavailable
from weighbridge.store import forks
from weighbridge.store.database import Database
from weighbridge.store.dialect import insert_or_replace, lock
from weighbridge.store.tables import cached_decision_table
from weighbridge.store.times import microseconds

_MOST_UNSAVED: Final = 1000  # records; while the database cannot be written, more are lost
_MANY_USES: Final = 100  # are written even where nothing else is

_logger = logging.getLogger(__name__)


class SharedCache:
    """Records by key; the router's `Cache`. Threads of its own talk to the database.

    So neither a lock on the database nor a slow disk holds a ticket up: what cannot be read within
    `patience_s` is a miss, and while such a read still hangs everything is. What cannot be written
    is lost; the log says so once.

    Args:
        database: must not be closed before the cache, which leaves it open.
        clock: the time, with a time zone. Where it jumps, records end that much too early or late.
        max_entries: where there are more, those that were used least lately go.
        max_age_s: after a record was put, whether used or not.
        patience_s: for one read.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        max_entries: int = 10_000,
        max_age_s: float = 86_400.0,
        patience_s: float = 0.25,
    ) -> None:
        self._database, self._clock = database, clock
        self._max_entries, self._patience_s = max_entries, patience_s
        self._max_age_us = round(max_age_s * 1e6)
        self._unsaved: dict[str, tuple[str, int]] = {}  # record and time, by key
        self._uses: dict[str, int] = {}  # times, by key
        self._has_warned = False
        self._lock = threading.Lock()
        self._start()
        forks.watch(self)

    async def get(self, key: str) -> str | None:
        """The record; None where none is kept, or none can be read quickly."""
        with self._lock:
            if key in self._unsaved:
                return self._unsaved[key][0]
        if self._late:
            return None
        try:
            reading = self._readers.submit(self._read, key)
        except RuntimeError:
            return None  # closed, or the interpreter is ending
        result = asyncio.wrap_future(reading)
        try:
            await asyncio.wait([result], timeout=self._patience_s)
            if result.done():
                return result.result()
            self._late.add(reading)
            reading.add_done_callback(self._late.discard)
            return None
        finally:
            result.cancel()  # nobody listens any more: what has not begun never will

    def put(self, key: str, record: str) -> None:
        """Keep a record in place of any older one of its key, without waiting for anything."""
        with self._lock:
            if key in self._unsaved or len(self._unsaved) < _MOST_UNSAVED:
                self._unsaved[key] = record, self._now()
            self._ask_for_write()

    def close(self) -> None:
        """Wait until everything is written, or cannot be; harmless when repeated."""
        with self._lock:
            if self._uses:
                self._ask_for_write()
        self._readers.shutdown(cancel_futures=True)
        self._writer.shutdown()

    def before_fork(self) -> None:
        """See `forks`."""
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """See `forks`."""
        if is_child:
            self._start()
        self._lock.release()

    def _start(self) -> None:
        self._late: set[Future[str | None]] = set()
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="weighbridge-cache-reader")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="weighbridge-cache-writer")
        self._is_waiting = False  # whether a write is queued that has not begun

    def _read(self, key: str) -> str | None:
        now, table = self._now(), cached_decision_table
        try:
            with self._database.reading() as connection:
                row = connection.execute(
                    select(table.c.record, table.c.made_at).where(table.c.key == key)
                ).one_or_none()
        except QueueUnavailable as error:
            self._warn("read", error)
            return None
        # What is as far ahead as a record can be old was dated by a clock that was wrong.
        if row is None or abs(now - row.made_at) >= self._max_age_us:
            return None
        with self._lock:
            self._uses[key] = now
            if len(self._uses) >= _MANY_USES:
                self._ask_for_write()
        record: str = row.record
        return record

    def _ask_for_write(self) -> None:
        if self._is_waiting:
            return  # it will take along what has come since
        try:
            # Its exception, if it is one of ours, is raised in the callback and so gets logged.
            self._writer.submit(self._write).add_done_callback(Future.result)
            self._is_waiting = True
        except RuntimeError:
            return  # closed, or the interpreter is ending: what comes now is lost

    def _write(self) -> None:
        with self._lock:
            self._is_waiting = False
            unsaved, uses, now = dict(self._unsaved), self._uses, self._now()
            self._uses = {}
        try:
            self._exchange(unsaved, uses, now)
        except QueueUnavailable as error:
            self._warn("written", error)
        with self._lock:
            for key, entry in unsaved.items():
                if self._unsaved[key] is entry:
                    del self._unsaved[key]

    def _exchange(
        self, unsaved: dict[str, tuple[str, int]], uses: dict[str, int], now: int
    ) -> None:
        table = cached_decision_table
        rows = [
            {"key": key, "record": record, "made_at": at, "used_at": at}
            for key, (record, at) in unsaved.items()
        ]
        by_use = select(table.c.key).order_by(table.c.used_at.desc())
        with self._database.writing() as connection:
            # Two who took the same rows in different orders would wait for each other.
            lock(connection, table)
            if uses:
                used = update(table).where(table.c.key == bindparam("used_key"))
                times: list[dict[str, Any]] = [
                    {"used_key": key, "used": at} for key, at in uses.items()
                ]
                connection.execute(used.values(used_at=bindparam("used")), times)
            if rows:
                connection.execute(insert_or_replace(connection, table), rows)
            is_over = or_(
                table.c.made_at <= now - self._max_age_us, table.c.made_at >= now + self._max_age_us
            )
            too_many = table.c.key.in_(by_use.offset(self._max_entries))
            connection.execute(delete(table).where(is_over))
            connection.execute(delete(table).where(too_many))

    def _now(self) -> int:
        return microseconds(self._clock())

    def _warn(self, what: str, error: QueueUnavailable) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("the cache of decisions cannot be %s for now: %s", what, error)
