"""Samples: what people made of the audits of each calibration key, read from the queue.

Only audits count, which a coin drew from all tickets. Whatever keeps an audit from being a blind
and clear confirmation makes it a wrong answer: *unsure*, *not classifiable*, a question left open,
an item that was cancelled, an answer that was in sight of whoever judged it. Leaving any of them
out would make the sample one of the easy tickets, and void what is proved from it. For the same
reason an audit that somebody opened and left unjudged is told apart from one that nobody saw yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Row, ScalarSelect, Select, case, exists, func, select

from weighbridge.decision import CalibrationKey, Json, label
from weighbridge.review.items import SlotState, State
from weighbridge.review.statistics.labels import Labels
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)
from weighbridge.store.dialect import now_us
from weighbridge.store.guarantee_tables import AUDITED
from weighbridge.store.queue_tables import event_table, item_table, slot_table, verdict_table

_MAX_VALUES: Final = 10_000  # in one statement; SQLite allows 32,766
# After these an audit is not merely waiting for the next person who is needed.
_LEFT: Final = ("skipped", "released", "undone", "reopened", "disputed")
_ENDED: Final = (State.DONE, State.CANCELLED)


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
        is_sighted: whether they saw it, or changed what was settled, after which it is shown.
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
        abandoned: opened by somebody and left unjudged: skipped, given back, waiting for an
            adjudicator. None is correct.
        num_open: drawn, and not yet judged; the abandoned ones too.
    """

    key: CalibrationKey
    key_id: int
    audits: tuple[Audit, ...] = ()
    abandoned: tuple[Audit, ...] = ()
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
        return replace(self, audits=later)

    def with_abandoned(self) -> Sample:
        """The same with the abandoned ones among the judged: hard tickets are left more often."""
        together = sorted((*self.audits, *self.abandoned), key=lambda audit: audit.position)
        return replace(self, audits=tuple(together))


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
    abandoned: defaultdict[int, list[Audit]] = defaultdict(list)
    num_open: defaultdict[int, int] = defaultdict(int)
    found = [row for row in _audited(connection, after) if row[1].key_id in keys]
    changed = _changed_verdicts(connection, {item.id for item, _ in found if item.num_settled > 1})
    for item, weighing in found:
        is_open = item.state not in _ENDED
        num_open[weighing.key_id] += is_open
        if item.position is not None and item.position > after:
            audit = _audit(item, weighing, changed.get(item.id, ()))
            (abandoned if is_open else judged)[weighing.key_id].append(audit)
    return {
        key_id: Sample(
            key=key,
            key_id=key_id,
            audits=tuple(sorted(judged[key_id], key=lambda audit: audit.position)),
            abandoned=tuple(abandoned[key_id]),
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
    statement = _audit_items(now_us(connection))
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


def _audit_items(now: int) -> Select[*tuple[Any, ...]]:
    item, verdict, slot = item_table.c, verdict_table.c, slot_table.c
    was_shown = (
        select(func.max(case((verdict.was_shown, 1), else_=0)))
        .where(verdict.item_id == item.id)
        .scalar_subquery()
    )
    leased = exists().where(slot.item_id == item.id, slot.state == SlotState.LEASED)
    position = case(
        (item.settled_no.is_not(None), item.settled_no),
        # Not of what the machine itself put aside because the ticket had changed: another item
        # speaks for the ticket then, drawn as well, since the coin goes by the ticket's id.
        (item.state == State.CANCELLED, _newest_event("cancelled")),
        (leased.where(slot.lease_until > now), None),
        (leased, _newest_event("claimed")),
        else_=_newest_event(*_LEFT),
    )
    return select(
        item.id,
        item.task,
        item.state,
        position.label("position"),
        item.resolution_json,
        item.resolved_kind,
        was_shown.label("was_shown"),
        _num_events("settled").label("num_settled"),
        _num_events("cancelled", "superseded").label("num_withdrawn"),
    ).where(AUDITED)


def _num_events(*kinds: str) -> ScalarSelect[int]:
    event = event_table.c
    some = select(func.count()).where(event.item_id == item_table.c.id, event.kind.in_(kinds))
    return some.scalar_subquery()


def _newest_event(*kinds: str) -> ScalarSelect[int]:
    event = event_table.c
    of_item = event.item_id == item_table.c.id
    return select(func.max(event.id)).where(of_item, event.kind.in_(kinds)).scalar_subquery()


def _changed_verdicts(
    connection: Connection, item_ids: Collection[str]
) -> dict[str, list[Mapping[str, Json]]]:
    """All that was ever said of items that were settled more than once, by the item's id."""
    said: defaultdict[str, list[Mapping[str, Json]]] = defaultdict(list)
    verdict, ids = verdict_table.c, sorted(item_ids)
    for start in range(0, len(ids), _MAX_VALUES):
        some = verdict.item_id.in_(ids[start : start + _MAX_VALUES])
        statement = select(verdict.item_id, verdict.values_json).where(some, verdict.kind != "undo")
        for row in connection.execute(statement):
            said[row.item_id].append(row.values_json)
    return said


def _audit(item: Row[Any], weighing: Row[Any], said: Iterable[Mapping[str, Json]]) -> Audit:
    answers = item.resolution_json if item.resolved_kind == "answer" else {}
    person = _said_of(weighing.field, answers)
    # What is settled or cancelled is blind no longer. Whoever then says otherwise, or says the
    # first word only then, may have looked.
    is_changed = any(_said_of(weighing.field, values) != person for values in said)
    is_late = item.state == State.DONE and item.num_withdrawn > 0
    is_sighted = bool(item.was_shown) or is_changed or is_late
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


def _said_of(field: str, values: Mapping[str, Json]) -> str | None:
    return label(values[field]) if field in values else None
