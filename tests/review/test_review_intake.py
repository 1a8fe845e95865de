"""What the router hands over is stored whole, and statistics are kept without its text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from queue_entries import CANARY, make_audit, make_entry
from sqlalchemy import select

from weighbridge.decision import Attempt, CalibrationKey, Toss, Weighing
from weighbridge.review.items import State
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)

BUG = {"category": "bug"}
KEY = CalibrationKey(
    provider="p", model="m", prompt="h", schema="s", field="category", source="exact"
)
WEIGHED = {"category": Weighing(key=KEY, confidence=0.4, passed=False)}


def rows(database, table):
    with database.reading() as connection:
        return connection.execute(select(table).order_by(*table.primary_key)).all()


def test_item_and_its_decision_are_stored_together(queue, database):
    entry = make_entry(weighings=WEIGHED, toss=Toss(u=0.5, rate=0.02))
    trail = (
        Attempt(provider="q", model="m", seconds=1.5, waited_s=0.5, cost_usd=0.25),
        Attempt(provider="p", model="m", seconds=1.0),
    )
    decision = replace(entry.decision, trail=trail, provider="p", model="m")
    item_id = queue.enqueue(replace(entry, decision=decision))
    (row,) = rows(database, decision_table)
    assert (row.item_id, row.ticket_id, row.status) == (item_id, "ticket-a", "review")
    assert (row.provider, row.model, row.reasons) == ("p", "m", "low_probability,language")
    assert (row.seconds, row.cost_usd, row.audit_u, row.audit_rate) == (3.0, 0.25, 0.5, 0.02)
    (weighing,) = rows(database, weighing_table)
    assert (weighing.decision_id, weighing.field, weighing.value_label) == (
        row.id,
        "category",
        "bug",
    )
    assert (weighing.confidence, weighing.passed) == (0.4, False)
    (key,) = rows(database, calibration_key_table)
    assert key.id == weighing.key_id
    assert (key.provider, key.field, key.source) == ("p", "category", "exact")


def test_accepted_decisions_are_recorded_without_any_item(queue, database):
    """Many at once; each key is stored once; nothing of the ticket is kept."""
    entry = make_entry(weighings=WEIGHED)
    accepted = replace(entry, decision=replace(entry.decision, status="accepted", reasons=()))
    queue.record([accepted, accepted])
    queue.record([])
    assert [(row.status, row.reasons, row.item_id) for row in rows(database, decision_table)] == [
        ("accepted", "", None)
    ] * 2
    assert len(rows(database, weighing_table)) == 2
    assert len(rows(database, calibration_key_table)) == 1
    assert queue.stats().num_by_state[State.OPEN] == 0
    stored = f"{rows(database, decision_table)} {rows(database, weighing_table)}"
    assert CANARY not in stored


def test_repeated_entry_leaves_no_second_decision(queue, database):
    for _ in range(2):
        queue.enqueue(make_entry(weighings=WEIGHED))
    assert len(rows(database, decision_table)) == len(rows(database, weighing_table)) == 1


def test_audit_is_judged_by_as_many_as_audits_need(database, clock):
    queue = ReviewQueue(database, clock=clock, needed=1, audits_needed=3)
    item = queue.get(queue.enqueue(make_audit("a")))
    assert (item.is_audit, item.needed, len(item.slots)) == (True, 3, 3)
    item = queue.get(queue.enqueue(make_entry("b", toss=Toss(u=0.5, rate=0.02))))
    assert (item.is_audit, item.needed, len(item.slots)) == (False, 1, 1)


def test_changed_ticket_supersedes_what_nobody_has_judged(queue):
    """Even one that somebody has before them; they are told so when they answer."""
    old = queue.enqueue(make_entry("a"))
    queue.claim("ann")
    other = queue.enqueue(make_entry("b"))
    new = queue.enqueue(make_entry("a", dedupe_key="a changed"))
    assert [queue.get(each).state for each in (old, other, new)] == [
        State.CANCELLED,
        State.OPEN,
        State.OPEN,
    ]
    last = queue.history(old)[-1]
    assert (last.kind, last.detail) == ("superseded", {"by": new})


@pytest.mark.parametrize("what", ["done", "judged once", "undone"])
def test_changed_ticket_supersedes_nothing_that_was_judged(database, clock, what):
    """A person's work is not thrown away."""
    queue = ReviewQueue(database, clock=clock, needed=2 if what == "judged once" else 1)
    old = queue.enqueue(make_entry("a"))
    item = queue.claim("ann")
    before = queue.answer(old, reviewer="ann", token=item.lease_token, values=BUG)
    if what == "undone":
        before = replace(queue.undo(old, reviewer="ann"), lease=None)
    queue.enqueue(make_entry("a", dedupe_key="a changed"))
    assert queue.get(old) == before


def test_same_ticket_under_another_task_is_another_item(queue):
    old = queue.enqueue(make_entry("a"))
    entry = make_entry("a", dedupe_key="other")
    queue.enqueue(replace(entry, decision=replace(entry.decision, task="sentiment")))
    assert queue.get(old).state is State.OPEN
