"""Counting: how the queue stands, and why nothing in it is for somebody."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import Connection, case, exists, func, select, text

from weighbridge.review.items import SlotKind, State
from weighbridge.review.overviews import Stats, WhyEmpty
from weighbridge.review.queueing import statements
from weighbridge.review.queueing.rows import split
from weighbridge.store import dialect
from weighbridge.store.queue_tables import (
    LATER,
    LEASED,
    OPEN,
    UNSETTLED,
    item_table,
    skip_table,
    slot_table,
    verdict_table,
)
from weighbridge.store.times import moment

_item, _slot, _verdict = item_table.c, slot_table.c, verdict_table.c


def stats(connection: Connection, now: int) -> Stats:
    """The queue in numbers; counts from indexes, so that no text is read."""
    states, reasons = Counter(dict.fromkeys(State, 0)), Counter[str]()
    # Few combinations of reasons occur, however many items there are.
    for state, combination, number in _counts(connection, _item.state, _item.reasons):
        states[State(state)] += number
        reasons.update(dict.fromkeys(split(combination), number))
    kinds = Counter(dict(_counts(connection, _verdict.kind)))
    undo = verdict_table.alias("undo")
    taken_back = (
        select(_verdict.kind, func.count())
        .join(undo, undo.c.supersedes == _verdict.id)
        .group_by(_verdict.kind)
    )
    kinds.subtract(dict(map(tuple, connection.execute(taken_back))))
    del kinds["undo"]
    num_answers = kinds["correct"] + kinds["corrected"]
    free = statements.is_free(slot_table, now)
    # Each is one index; together they would be a look at every place.
    num_open = _count(connection, OPEN) - _count(connection, LATER, _slot.not_before > now)
    num_ended = _count(connection, LEASED, free)
    num_leased = _count(connection, LEASED) - num_ended
    unsettled = dialect.by_index(connection, item_table, "ix_item_oldest")
    oldest = connection.scalar(
        select(text("min(created_at)")).select_from(unsettled).where(UNSETTLED)
    )
    return Stats(
        num_by_state=dict(states),
        num_by_reason=dict(reasons),
        num_waiting=num_open + num_ended,
        num_leased=num_leased,
        num_verdicts=kinds.total(),
        agreement=kinds["correct"] / num_answers if num_answers else None,
        oldest_waiting_s=None if oldest is None else max(0.0, (now - oldest) / 1e6),
    )


def why_empty(connection: Connection, reviewer: str, now: int, *, may_adjudicate: bool) -> WhyEmpty:
    """What stands between a reviewer and each unsettled place."""
    other, skip = slot_table.alias("other"), skip_table.c
    judged = exists().where(
        other.c.item_id == _slot.item_id,
        other.c.round == _slot.round,
        other.c.owner == reviewer,
    )
    skipped = exists().where(skip.item_id == _slot.item_id, skip.reviewer == reviewer)
    reasons = [
        (judged, "judged"),
        (~statements.is_free(slot_table, now), "leased"),
        (skipped, "skipped"),
        (_slot.assignee.not_in(["", reviewer]), "assigned"),
        (_slot.not_before > now, "not_yet"),
    ]
    if not may_adjudicate:
        reasons.append((_slot.kind == SlotKind.ADJUDICATE, "adjudications"))
    why = case(*reasons, else_="nothing").label("why")
    numbers, leased_until = Counter[str](), None
    for state in (OPEN, LEASED):  # each is one index
        grouped = select(why, func.count(), func.min(_slot.lease_until)).where(state).group_by(why)
        for reason, number, until in connection.execute(grouped):
            numbers[reason] += number
            leased_until = until if reason == "leased" else leased_until
    num_done = select(func.count()).select_from(item_table).where(_item.state == State.DONE)
    return WhyEmpty(
        num_judged=numbers["judged"],
        num_leased=numbers["leased"],
        leased_until=None if leased_until is None else moment(leased_until),
        num_skipped=numbers["skipped"],
        num_assigned=numbers["assigned"],
        num_adjudications=numbers["adjudications"],
        num_not_yet=numbers["not_yet"],
        num_done=connection.execute(num_done).scalar_one(),
    )


def _count(connection: Connection, *conditions: Any) -> int:
    statement = select(func.count()).select_from(slot_table).where(*conditions)
    number: int = connection.execute(statement).scalar_one()
    return number


def _counts(connection: Connection, *columns: Any) -> list[tuple[Any, ...]]:
    statement = select(*columns, func.count()).group_by(*columns)
    return [tuple(row) for row in connection.execute(statement)]
