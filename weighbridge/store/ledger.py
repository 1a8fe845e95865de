"""CapabilityLedger: probed and learned capabilities in the database, shared by all processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, Row, delete, select

from weighbridge.capability import Fact, Origin, Status, believed, with_fact
from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
from weighbridge.store.dialect import insert_or_replace, lock
from weighbridge.store.exchanger import Exchanger
from weighbridge.store.tables import capability_table
from weighbridge.store.times import microseconds, moment

REFRESHED_AFTER: Final = timedelta(seconds=30)


class CapabilityLedger:
    """See `Ledger`. Answers from memory; a thread of its own talks to the database.

    So neither a lock on the database nor a slow disk holds a ticket up. What others found out is
    seen within `REFRESHED_AFTER`. What cannot be written is kept in memory and tried again with
    the next refresh; the log says so once.

    Args:
        database: must not be closed before the ledger, which leaves it open.
        clock: the time, with a time zone.
    """

    def __init__(
        self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._database, self._clock = database, clock
        self._facts: _Facts = {}
        self._unsaved: dict[_Key, Fact] = {}
        self._asked_at = clock()
        self._lock = threading.Lock()
        self._exchanger = Exchanger(self._exchange, self._lock, "capabilities")
        self._exchange()

    def facts(self, base_url: str, model: str) -> Mapping[str, Fact]:
        """See `Ledger.facts`."""
        place = base_url, model
        with self._lock:
            now = self._clock()
            if abs(now - self._asked_at) >= REFRESHED_AFTER:  # a clock may be put back
                self._ask_for_exchange(now)
            known = self._facts.get(place, _NOTHING)
            still = believed(known, now)
            if still is not known:
                self._facts[place] = still
            return still

    def record(self, base_url: str, model: str, feature: str, fact: Fact) -> None:
        """See `Ledger.record`."""
        key = _Key(base_url, model, feature)
        with self._lock:
            now = self._clock()
            before = self._facts.get(key.place, _NOTHING)
            after = with_fact(before, feature, fact, now)
            self._facts[key.place] = after
            if feature in after and after[feature] is not before.get(feature):
                self._unsaved[key] = after[feature]
                self._ask_for_exchange(now)

    def close(self) -> None:
        """Wait until everything is written, or cannot be; harmless when repeated."""
        self._exchanger.close()

    def _ask_for_exchange(self, now: datetime) -> None:
        self._asked_at = now
        self._exchanger.ask()

    def _exchange(self) -> None:
        """Write what is unsaved, and read what everybody knows."""
        with self._lock:
            self._exchanger.begun()
            unsaved, now = dict(self._unsaved), self._clock()
        stored = self._written(unsaved, now) if unsaved else None
        is_saved = stored is not None
        try:
            if stored is None:
                with self._database.reading() as connection:
                    stored = _read(connection)
        except QueueUnavailable as error:
            self._exchanger.failed(error)
            return
        with self._lock:
            if is_saved:
                for key, fact in unsaved.items():
                    if self._unsaved[key] is fact:
                        del self._unsaved[key]
            for key, fact in self._unsaved.items():
                known = stored.get(key.place, _NOTHING)
                stored[key.place] = with_fact(known, key.feature, fact, now)
            # The same object stands for "nothing has changed".
            self._facts = {
                place: before if (before := self._facts.get(place)) == known else known
                for place, known in (
                    (place, believed(known, now)) for place, known in stored.items()
                )
            }

    def _written(self, unsaved: Mapping[_Key, Fact], now: datetime) -> _Facts | None:
        """What the database holds with the new facts; None if it cannot be written."""
        try:
            with self._database.writing() as connection:
                lock(connection, capability_table)
                is_over = capability_table.c.expires_at <= microseconds(now)
                connection.execute(delete(capability_table).where(is_over))
                stored = _read(connection)
                for key, fact in unsaved.items():
                    before = stored.get(key.place, _NOTHING)
                    after = stored[key.place] = with_fact(before, key.feature, fact, now)
                    if after.get(key.feature) is fact:
                        _put(connection, key, fact)
                return stored
        except QueueUnavailable as error:
            self._exchanger.failed(error)
            return None


class _Key(NamedTuple):
    base_url: str
    model: str
    feature: str

    @property
    def place(self) -> tuple[str, str]:
        return self.base_url, self.model


_Facts: TypeAlias = dict[tuple[str, str], Mapping[str, Fact]]
_NOTHING: Mapping[str, Fact] = MappingProxyType({})


def _read(connection: Connection) -> _Facts:
    found: dict[tuple[str, str], dict[str, Fact]] = {}
    for row in connection.execute(select(capability_table)):
        fact = _fact(row)
        if fact is not None:
            found.setdefault((row.base_url, row.model), {})[row.feature] = fact
    return {place: MappingProxyType(facts) for place, facts in found.items()}


def _fact(row: Row[Any]) -> Fact | None:
    """The fact in a row; None if it speaks in words that a newer version brought."""
    try:
        status, origin = Status(row.status), Origin(row.origin)
    except ValueError:
        return None
    return Fact(
        status=status,
        origin=origin,
        limit=row.at_most,
        value=row.value,
        note=row.note,
        source=row.source,
        checked=moment(row.checked_at),
        expires=None if row.expires_at is None else moment(row.expires_at),
        server=row.server,
    )


def _put(connection: Connection, key: _Key, fact: Fact) -> None:
    assert fact.checked is not None  # `with_fact` has dated it
    row = {
        **key._asdict(),
        "status": fact.status.value,
        "origin": fact.origin.value,
        "at_most": fact.limit,
        "value": fact.value,
        "note": fact.note,
        "source": fact.source,
        "checked_at": microseconds(fact.checked),
        "expires_at": None if fact.expires is None else microseconds(fact.expires),
        "server": fact.server,
    }
    connection.execute(insert_or_replace(connection, capability_table), row)
