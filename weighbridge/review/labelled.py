"""Samples: what people made of the audits of each calibration key, read from the queue.

Only audits count, which a coin drew from all tickets. Whatever keeps an audit from being a blind
and clear confirmation makes it a wrong answer: *unsure*, *not classifiable*, a question left open,
an item that was cancelled, an answer that was in sight of whoever judged it. Leaving any of them
out would make the sample one of the easy tickets, and void what is proved from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, case, func, select

from weighbridge.decision import CalibrationKey, label
from weighbridge.review.labels import Labels
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)
from weighbridge.store.guarantee_tables import AUDITED
from weighbridge.store.queue_tables import event_table, item_table, verdict_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One judged audit.

    Args:
        position: grows with the time of judging, whatever clocks do.
        confidence: before any calibration, 0 to 1.
        passed: whether the answer would have been accepted.
        machine: label of its answer.
        person: label of the person's answer; None where they gave none.
        is_correct: whether the person, unaware of the answer, found the same.
        is_sighted: whether they saw it.
    """

    position: int
    confidence: float
    passed: bool
    machine: str
    person: str | None
    is_correct: bool
    is_sighted: bool


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
    connection: Connection,
    keys: Mapping[int, CalibrationKey],
    *,
    after: int = 0,
) -> dict[int, Sample]:
    """The audits of some keys, by the keys' ids.

    Args:
        connection: inside a transaction.
        keys: whose audits; one without any has an empty sample.
        after: only those that were judged later than this position.
    """
    judged: defaultdict[int, list[Audit]] = defaultdict(list)
    num_open: defaultdict[int, int] = defaultdict(int)
    for row in connection.execute(_audits(keys, after)):
        if row.state not in ("done", "cancelled"):
            num_open[row.key_id] += 1
        elif row.position is not None and row.position > after:
            judged[row.key_id].append(_audit(row))
    return {
        key_id: Sample(
            key=key,
            key_id=key_id,
            audits=tuple(sorted(judged[key_id], key=lambda audit: audit.position)),
            num_open=num_open[key_id],
        )
        for key_id, key in keys.items()
    }


def read_traffic(connection: Connection, key_id: int, *, at_most: int = 20_000) -> list[float]:
    """Confidences of the latest answers of a key, audited or not, the newest first."""
    weighing = weighing_table.c
    statement = (
        select(weighing.confidence)
        .where(weighing.key_id == key_id)
        .order_by(weighing.decision_id.desc())
        .limit(at_most)
    )
    return [*connection.scalars(statement)]


def newest_position(connection: Connection) -> int:
    """Of what was judged last; 0 before the first."""
    return connection.scalar(select(func.max(item_table.c.settled_no))) or 0


def _audits(key_ids: Collection[int], after: int) -> Select[*tuple[Any, ...]]:
    """One row for each audited answer of the keys that is open, or was judged later."""
    item, weighing = item_table.c, weighing_table.c
    # What a ticket that came again was weighed at belongs to the decision that made the item.
    first = (
        select(func.min(decision_table.c.id))
        .where(decision_table.c.item_id == item.id)
        .correlate(item_table)
        .scalar_subquery()
    )
    was_shown = (
        select(func.max(case((verdict_table.c.was_shown, 1), else_=0)))
        .where(verdict_table.c.item_id == item.id)
        .correlate(item_table)
        .scalar_subquery()
    )
    # Not of what the machine itself put aside because the ticket had changed: another item speaks
    # for the ticket then, drawn as well, since the coin goes by the ticket's id.
    cancelled_no = (
        select(func.max(event_table.c.id))
        .where(event_table.c.item_id == item.id, event_table.c.kind == "cancelled")
        .correlate(item_table)
        .scalar_subquery()
    )
    return (
        select(
            weighing.key_id,
            weighing.field,
            weighing.confidence,
            weighing.passed,
            weighing.value_label,
            item.state,
            case((item.state == "cancelled", cancelled_no), else_=item.settled_no).label(
                "position"
            ),
            item.resolution_json,
            item.resolved_kind,
            was_shown.label("was_shown"),
        )
        .join(weighing_table, weighing.decision_id == first)
        .where(
            AUDITED,
            (item.settled_no > after) | item.settled_no.is_(None),
            weighing.key_id.in_(key_ids),
        )
    )


def _audit(row: Row[Any]) -> Audit:
    answers = row.resolution_json if row.resolved_kind == "answer" else {}
    person = label(answers[row.field]) if row.field in answers else None
    is_sighted = bool(row.was_shown)
    return Audit(
        position=row.position,
        confidence=row.confidence,
        passed=bool(row.passed),
        machine=row.value_label,
        person=person,
        is_correct=person == row.value_label and not is_sighted,
        is_sighted=is_sighted,
    )
