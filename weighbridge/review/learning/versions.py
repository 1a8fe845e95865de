"""Versions of what was learned: kept for ever, one of them in use for each field of a task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as field_of
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Select, func, select

from weighbridge.decision import Json
from weighbridge.errors import LearnedUnknown, QueueUnavailable
from weighbridge.review.learning.examples import Example, read_examples
from weighbridge.store.database import Database
from weighbridge.store.dialect import lock, now_us
from weighbridge.store.exchanger import Exchanger
from weighbridge.store.learned_tables import learned_table, learned_use_table
from weighbridge.store.times import moment

PAUSE_S: Final = 3.0  # between two looks at the database

_learned, _use = learned_table.c, learned_use_table.c
_NONE: Final[Mapping[str, tuple[int, bytes]]] = MappingProxyType({})
_ABOUT = [column for column in _learned if column.name != "artefact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """What becomes a version; see `Version`."""

    task: str
    field: str
    fingerprint: str
    encoder: str
    generator: str
    num_examples: int
    artefact: bytes = field_of(repr=False)
    renamed: Mapping[str, str]
    report: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What was learned once about one field.

    Args:
        number: larger than that of any earlier version, of whatever field.
        task: its name.
        field: of it.
        fingerprint: of the task as it was then.
        encoder: fingerprint of the sentence encoder.
        generator: fingerprint of the language model.
        num_examples: verdicts that it was learned from.
        renamed: labels that had been renamed by then, old to new.
        report: see `learning.Report.to_json`.
        made_at: UTC.
        is_used: whether it counts now.
    """

    number: int
    task: str
    field: str
    fingerprint: str
    encoder: str
    generator: str
    num_examples: int
    renamed: Mapping[str, str]
    report: Mapping[str, Json]
    made_at: datetime
    is_used: bool


class LearnedVersions:
    """All versions in a database, and the verdicts that they come from.

    Args:
        database: must not be closed before this, which leaves it open.

    Raises:
        QueueUnavailable: from every method, if the database cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def examples(self, task: str) -> dict[str, list[Example]]:
        """See `read_examples`."""
        return read_examples(self._database, task)

    def add(self, new: New, *, by: str) -> int:
        """Keep a version and use it from now on; both or neither. Returns its number."""
        with self._writing() as connection:
            now = now_us(connection)
            values = {
                "task": new.task,
                "field": new.field,
                "fingerprint": new.fingerprint,
                "encoder": new.encoder,
                "generator": new.generator,
                "num_examples": new.num_examples,
                "artefact": new.artefact,
                "renamed_json": dict(new.renamed),
                "report_json": dict(new.report),
                "made_at": now,
            }
            number: int = connection.execute(
                learned_table.insert().values(values).returning(_learned.version)
            ).scalar_one()
            _use_from_now(connection, new.task, new.field, number, by, now)
        return number

    def use(self, number: int, *, by: str) -> Version:
        """Use an older version from now on.

        Raises:
            LearnedUnknown: there is no such version.
        """
        with self._writing() as connection:
            found = connection.execute(select(*_ABOUT).where(_learned.version == number)).first()
            if found is None:
                raise LearnedUnknown(number)
            now = now_us(connection)
            _use_from_now(connection, found.task, found.field, number, by, now)
            return _version(found, number)

    def use_none(self, task: str, field: str, *, by: str) -> None:
        """Leave a field to the label prior from now on."""
        with self._writing() as connection:
            _use_from_now(connection, task, field, None, by, now_us(connection))

    def all(self, task: str) -> list[Version]:
        """Those of a task, the newest first."""
        with self._database.reading() as connection:
            used = set(connection.scalars(_numbers()))
            newest_first = (
                select(*_ABOUT).where(_learned.task == task).order_by(_learned.version.desc())
            )
            return [
                _version(row, row.version if row.version in used else None)
                for row in connection.execute(newest_first)
            ]

    def used(self, task: str) -> Mapping[str, tuple[int, bytes]]:
        """Number and artefact of the versions that count now, by field."""
        with self._database.reading() as connection:
            return _artefacts(connection).get(task, _NONE)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._database.writing() as connection:
            # One after the other: whoever looks for the newest use must not miss an older number
            # that is committed after it.
            lock(connection, learned_use_table)
            yield connection


class UsedVersions:
    """The versions that count now, answered from memory for every ticket.

    A thread of its own looks every few seconds whether anybody has learned or gone back, so a
    ticket waits for nothing. While the database cannot be reached, what is known stays.

    Args:
        database: must not be closed before this, which leaves it open.
        monotonic: seconds.
    """

    def __init__(
        self, database: Database, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database, self._monotonic = database, monotonic
        self._lock = threading.Lock()
        self._asked_at = monotonic()
        self._known = _Known(None, {})
        self._exchanger = Exchanger(self._exchange, self._lock, "learned versions")
        self._exchange()

    def used(self, task: str) -> Mapping[str, tuple[int, bytes]]:
        """Number and artefact, by field; the same object for as long as nothing changes."""
        return self._now().by_task.get(task, _NONE)

    @property
    def mark(self) -> str:
        """Another one whenever another version of anything counts; the same everywhere."""
        newest = self._now().newest_use
        return "" if newest is None else str(newest)

    def close(self) -> None:
        """Stop looking; harmless when repeated."""
        self._exchanger.close()

    def _now(self) -> _Known:
        with self._lock:
            now = self._monotonic()
            if now - self._asked_at >= PAUSE_S:
                self._asked_at = now
                self._exchanger.ask()
            return self._known

    def _exchange(self) -> None:
        with self._lock:
            self._exchanger.begun()
            before = self._known
        try:
            with self._database.reading() as connection:
                newest = connection.scalar(select(func.max(_use.id)))
                if newest == before.newest_use:
                    return
                found = _Known(newest, _artefacts(connection))
        except QueueUnavailable as error:
            self._exchanger.failed(error)
            return
        with self._lock:
            self._known = found


class _Known(NamedTuple):
    """What the database held: its newest use, and what counts by task and field."""

    newest_use: int | None
    by_task: Mapping[str, Mapping[str, tuple[int, bytes]]]


def _artefacts(connection: Connection) -> dict[str, dict[str, tuple[int, bytes]]]:
    found: dict[str, dict[str, tuple[int, bytes]]] = {}
    for row in connection.execute(
        select(_learned.task, _learned.field, _learned.version, _learned.artefact).where(
            _learned.version.in_(_numbers())
        )
    ):
        found.setdefault(row.task, {})[row.field] = (row.version, row.artefact)
    return found


def _numbers() -> Select[tuple[int]]:
    """The numbers that count now."""
    newest = select(func.max(_use.id)).group_by(_use.task, _use.field)
    return select(_use.version).where(_use.id.in_(newest), _use.version.is_not(None))


def _use_from_now(
    connection: Connection, task: str, field: str, number: int | None, by: str, now: int
) -> None:
    connection.execute(
        learned_use_table.insert().values(task=task, field=field, version=number, actor=by, at=now)
    )


def _version(row: Row[Any], used: int | None) -> Version:
    return Version(
        number=row.version,
        task=row.task,
        field=row.field,
        fingerprint=row.fingerprint,
        encoder=row.encoder,
        generator=row.generator,
        num_examples=row.num_examples,
        renamed=row.renamed_json,
        report=row.report_json,
        made_at=moment(row.made_at),
        is_used=row.version == used,
    )
