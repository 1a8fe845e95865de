"""Samples: what people made of the audits of each calibration key, read from the queue.

Only audits count, which a coin drew from all tickets. Whatever keeps an audit from being a blind
and clear confirmation makes it a wrong answer: *unsure*, *not classifiable*, a question left open,
an item that was cancelled, an answer that was in sight of whoever judged it. Leaving any of them
out would make the sample one of the easy tickets, and void what is proved from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, case, func, select

from weighbridge.decision import CalibrationKey, label
from weighbridge.review.statistics.labels import Labels
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)
from weighbridge.store.guarantee_tables import AUDITED
from weighbridge.store.queue_tables import event_table, item_table, verdict_table

_MAX_VALUES: Final = 10_000  # in one statement; SQLite allows 32,766


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One judged audit.

    Args:
        task: name of the task.
        position: grows with the time of judging, whatever clocks do.
        confidence: before any calibration, 0 to 1.
        passed: whether the answer would have been accepted.
        machine: label of its answer.
        person: label of the person's answer; None where they gave none.
        is_correct: whether the person, unaware of the answer, found the same.
        is_sighted: whether they saw it.
        is_reweighed: whether the ticket was weighed once more after the person had judged it.
    """

    task: str
    position: int
    confidence: float
    passed: bool
    machine: str
    person: str | None
    is_correct: bool
    is_sighted: bool
    is_reweighed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The audits of one key.

    Args:
        key: whose answers they are.
        key_id: its id in the database.
        audits: judged, in the order of judging.
        num_open: drawn, and not yet judged.
    """

    key: CalibrationKey
    key_id: int
    audits: tuple[Audit, ...] = ()
    num_open: int = 0

    @property
    def labels(self) -> Labels:
        """All of them as labels, in the same order."""
        return Labels(
            confidences=[audit.confidence for audit in self.audits],
            correct=[audit.is_correct for audit in self.audits],
        )

    @property
    def accepted(self) -> tuple[Audit, ...]:
        """Those that would have been accepted."""
        return tuple(audit for audit in self.audits if audit.passed)

    @property
    def num_sighted(self) -> int:
        """How many were judged with the answer in sight."""
        return sum(audit.is_sighted for audit in self.audits)

    @property
    def is_reweighed(self) -> bool:
        """Whether any audit of it has served another key before."""
        return any(audit.is_reweighed for audit in self.audits)

    def after(self, position: int) -> Sample:
        """Only what was judged later than `position`; open ones stay."""
        later = tuple(audit for audit in self.audits if audit.position > position)
        return Sample(key=self.key, key_id=self.key_id, audits=later, num_open=self.num_open)


def known_keys(connection: Connection) -> dict[int, CalibrationKey]:
    """Every key under which an answer was ever weighed, by its id."""
    rows = connection.execute(select(calibration_key_table)).mappings()
    return {
        row["id"]: CalibrationKey(**{name: row[name] for name in CalibrationKey.__slots__})
        for row in rows
    }


def read_samples(
    connection: Connection, keys: Mapping[int, CalibrationKey], *, after: int = 0
) -> dict[int, Sample]:
    """The audits of some keys, by the keys' ids.

    Args:
        connection: inside a transaction.
        keys: whose audits; one without any has an empty sample.
        after: only those that were judged later than this position.
    """
    judged: defaultdict[int, list[Audit]] = defaultdict(list)
    num_open: defaultdict[int, int] = defaultdict(int)
    for item, weighing in _audited(connection, after):
        if weighing.key_id not in keys:
            continue
        if item.state not in ("done", "cancelled"):
            num_open[weighing.key_id] += 1
        elif item.position is not None and item.position > after:
            judged[weighing.key_id].append(_audit(item, weighing))
    return {
        key_id: Sample(
            key=key,
            key_id=key_id,
            audits=tuple(sorted(judged[key_id], key=lambda audit: audit.position)),
            num_open=num_open[key_id],
        )
        for key_id, key in keys.items()
    }


def read_traffic(
    connection: Connection,
    key_id: int,
    *,
    at_most: int,
    since: int | None = None,
    until: int | None = None,
) -> list[float]:
    """Confidences of the latest answers of a key, audited or not, the newest first.

    Args:
        connection: inside a transaction.
        key_id: of the key.
        at_most: so many.
        since: only of decisions made then or later; microseconds since 1970.
        until: only of earlier decisions.
    """
    weighing, decision = weighing_table.c, decision_table.c
    statement = select(weighing.confidence).where(weighing.key_id == key_id)
    if since is not None or until is not None:
        statement = statement.join(decision_table, decision.id == weighing.decision_id)
    if since is not None:
        statement = statement.where(decision.at >= since)
    if until is not None:
        statement = statement.where(decision.at < until)
    return [*connection.scalars(statement.order_by(weighing.decision_id.desc()).limit(at_most))]


def newest_position(connection: Connection) -> int:
    """Of what was judged last; 0 before the first."""
    return connection.scalar(select(func.max(item_table.c.settled_no))) or 0


def _audited(connection: Connection, after: int) -> Iterator[tuple[Row[Any], Row[Any]]]:
    """Each audited answer as its item and its weighing; those that were judged earlier left out.

    In two steps, for left to itself SQLite would go through all that was ever weighed.
    """
    item = item_table.c
    statement = _audit_items()
    found = {
        row.id: row
        for condition in (item.settled_no > after, item.settled_no.is_(None))
        for row in connection.execute(statement.where(condition))
    }
    weighing = (
        # An item has one decision, and one more for each time that it was weighed again.
        select(decision_table.c.item_id, decision_table.c.is_reweighed, weighing_table).join(
            weighing_table, weighing_table.c.decision_id == decision_table.c.id
        )
    )
    ids = [*found]
    for start in range(0, len(ids), _MAX_VALUES):
        some = decision_table.c.item_id.in_(ids[start : start + _MAX_VALUES])
        for row in connection.execute(weighing.where(some)):
            yield found[row.item_id], row


def _audit_items() -> Select[*tuple[Any, ...]]:
    item, verdict, event = item_table.c, verdict_table.c, event_table.c
    was_shown = (
        select(func.max(case((verdict.was_shown, 1), else_=0)))
        .where(verdict.item_id == item.id)
        .scalar_subquery()
    )
    # Not of what the machine itself put aside because the ticket had changed: another item speaks
    # for the ticket then, drawn as well, since the coin goes by the ticket's id.
    cancelled_no = (
        select(func.max(event.id))
        .where(event.item_id == item.id, event.kind == "cancelled")
        .scalar_subquery()
    )
    return select(
        item.id,
        item.task,
        item.state,
        func.coalesce(item.settled_no, cancelled_no).label("position"),
        item.resolution_json,
        item.resolved_kind,
        was_shown.label("was_shown"),
    ).where(AUDITED)


def _audit(item: Row[Any], weighing: Row[Any]) -> Audit:
    answers = item.resolution_json if item.resolved_kind == "answer" else {}
    person = label(answers[weighing.field]) if weighing.field in answers else None
    is_sighted = bool(item.was_shown)
    return Audit(
        task=item.task,
        position=item.position,
        confidence=weighing.confidence,
        passed=bool(weighing.passed),
        machine=weighing.value_label,
        person=person,
        is_correct=person == weighing.value_label and not is_sighted,
        is_sighted=is_sighted,
        is_reweighed=weighing.is_reweighed,
    )
