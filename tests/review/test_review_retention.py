"""Retention: texts go, from every table and from the file; what can be told of them stays."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from queue_entries import CANARY, make_audit, make_entry
from sqlalchemy import insert, select

from weighbridge.decision import CalibrationKey, Question, Weighing
from weighbridge.errors import ChangeRefused, QueueUnavailable
from weighbridge.review.items import State
from weighbridge.review.proving.measuring import measure
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.retention import Removed, Retention
from weighbridge.review.telling.outbox import Outbox
from weighbridge.review.telling.subscriptions import Subscription
from weighbridge.store.database import Database
from weighbridge.store.schema import metadata
from weighbridge.store.tables import cached_decision_table

SUBSCRIBER = Subscription(target="hook", include_answer=True)
FREE = f"{CANARY} in free words"
KEY = CalibrationKey(
    provider="p", model="m", prompt="a", schema="b", field="category", source="exact"
)


@pytest.fixture
def queue(database, clock) -> ReviewQueue:
    return ReviewQueue(database, clock=clock, subscriptions=[SUBSCRIBER])


@pytest.fixture
def retention(database, clock) -> Retention:
    return Retention(database, clock=clock)


def entry_with_texts(key: str = "a", make=make_entry):
    """An entry whose texts stand wherever texts can."""
    plain = make(key)
    return replace(
        plain,
        decision=replace(
            plain.decision, reasoning=FREE, value={"summary": FREE, "category": "bug"}
        ),
        questions=(*plain.questions, Question(field="summary", options=(), machine=FREE)),
        weighings={"category": Weighing(key=KEY, confidence=0.6, passed=False)},
    )


def settle(queue: ReviewQueue, entry, *, summary: str = FREE, category: str = "bug") -> str:
    item = queue.claim("ann", item_id=queue.enqueue(entry))
    queue.skip(item.id, reviewer="ann", token=item.lease_token, reason=FREE)
    item = queue.claim("ann", item_id=item.id)
    values = {"category": category, "summary": summary}
    queue.answer(item.id, reviewer="ann", token=item.lease_token, values=values, note=FREE)
    queue.note(item.id, by="bob", text=FREE)
    return item.id


def everything(database: Database) -> str:
    """All rows of all tables."""
    with database.reading() as connection:
        rows = [
            [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in metadata.sorted_tables
        ]
    return json.dumps(rows, default=str)


def later(clock, days: float = 0.0) -> datetime:
    return datetime.fromtimestamp(clock(), UTC) + timedelta(days=days)


def test_no_table_holds_a_text_afterwards(database, queue, retention, clock):
    """Ticket, reasoning, answers in free words, notes, reasons of skips, what webhooks are told."""
    settle(queue, entry_with_texts())
    assert everything(database).count(CANARY) > 8
    assert retention.purge(later(clock, 1)) == Removed(num_items=1)
    assert CANARY not in everything(database)
    assert retention.purge(later(clock, 1)) == Removed(num_items=0)


def test_labels_numbers_and_history_stay(queue, retention, clock):
    """Whoever agreed with the machine in free words is seen to have agreed still."""
    same = settle(queue, entry_with_texts("a"))
    other = settle(queue, entry_with_texts("b"), summary=f"{CANARY} otherwise")
    before = [queue.get(item_id) for item_id in (same, other)]
    lines = queue.history(same)
    retention.purge(later(clock, 1))
    for old in before:
        new = queue.get(old.id)
        assert new.erased_at is not None
        assert (new.state, new.reasons, new.done_at, new.settled_no) == (
            old.state,
            old.reasons,
            old.done_at,
            old.settled_no,
        )
        assert new.resolution["category"] == old.resolution["category"]
        assert new.decision["fields"]["category"] == old.decision["fields"]["category"]
        (verdict,), (was,) = new.verdicts, old.verdicts
        agrees = verdict.values["summary"] == verdict.machine["summary"]
        assert agrees is (was.values["summary"] == was.machine["summary"])
        assert verdict.kind == was.kind
        assert new.resolution["summary"] == verdict.values["summary"]
    assert [event.kind for event in queue.history(same)] == [*(e.kind for e in lines), "erased"]


def test_stand_ins_of_two_items_tell_nothing_of_each_other(queue, retention, clock):
    """Equal answers to two items have unlike stand-ins: nobody can try out what was said."""
    ids = [settle(queue, entry_with_texts(key)) for key in "ab"]
    retention.purge(later(clock, 1))
    first, second = (queue.get(item_id).resolution["summary"] for item_id in ids)
    assert first != second


def test_metrics_are_the_same_before_and_after(database, retention, clock):
    """All of them: agreement, audited errors, times, triggers."""
    queue = ReviewQueue(database, clock=clock)
    settle(queue, entry_with_texts("a"))
    settle(queue, entry_with_texts("b", make_audit))
    settle(queue, entry_with_texts("c", make_audit), category="billing")

    def metrics() -> object:
        found = measure(database, audit_rate=0.02, window_days=100_000)
        return replace(found, at=datetime(2026, 1, 1, tzinfo=UTC), keys=()), [
            repr(key.key) for key in found.keys
        ]

    before, stats = metrics(), queue.stats()
    retention.purge(later(clock, 1))
    assert metrics() == before
    assert queue.stats() == stats


def test_only_what_was_settled_before_the_time_goes(queue, retention, clock):
    """What waits still is counted and kept, however old; what was cancelled goes by its age."""
    old = settle(queue, entry_with_texts("a"))
    waiting = queue.enqueue(entry_with_texts("b"))
    cancelled = queue.enqueue(entry_with_texts("c"))
    queue.cancel(cancelled, by="ann", reason=FREE)
    clock.advance(86_400)
    new = settle(queue, entry_with_texts("d"))
    assert retention.purge(later(clock, -0.5)) == Removed(num_items=2, num_kept=1)
    erased = [queue.get(one).erased_at is not None for one in (old, waiting, cancelled, new)]
    assert erased == [True, False, True, False]


def test_more_items_than_one_transaction_takes_all_go(queue, retention, clock, monkeypatch):
    monkeypatch.setattr("weighbridge.review.retention._AT_ONCE", 10)
    ids = [queue.enqueue(make_entry(f"{number}")) for number in range(25)]
    for item_id in ids:
        queue.cancel(item_id, by="ann", reason="")
    told: list[int] = []
    assert retention.purge(later(clock, 1), progress=told.append).num_items == 25
    assert told == [10, 20, 25]


def test_erasing_a_ticket_cancels_what_waits_and_leaves_other_tickets_alone(
    database, queue, retention
):
    item = queue.claim("ann", item_id=queue.enqueue(entry_with_texts("a")))
    other = queue.enqueue(entry_with_texts("b"))
    assert retention.erase("ticket-a", by="bob") == Removed(num_items=1, num_cancelled=1)
    assert queue.get(item.id).state is State.CANCELLED
    assert queue.get(other).ticket["body"] == CANARY
    assert retention.erase("nobody", by="bob") == Removed(num_items=0)
    assert queue.history(item.id)[-1].actor == "bob"


def test_note_on_an_erased_item_goes_with_the_next_erasure(database, queue, retention):
    item_id = settle(queue, entry_with_texts())
    retention.erase("ticket-a", by="bob")
    queue.note(item_id, by="ann", text=FREE)
    retention.erase("ticket-a", by="bob")
    assert CANARY not in everything(database)


def test_erased_item_can_be_judged_by_nobody_any_more(queue, retention):
    """There is nothing to look at."""
    item_id = settle(queue, entry_with_texts())
    retention.erase("ticket-a", by="bob")
    with pytest.raises(ChangeRefused, match="erased"):
        queue.reopen(item_id, by="ann", reason="")
    with pytest.raises(ChangeRefused, match="erased"):
        queue.undo(item_id, reviewer="ann")


def test_same_ticket_again_is_known_still(queue, retention):
    """What it hashes to stays: it is not judged twice."""
    item_id = settle(queue, entry_with_texts())
    retention.erase("ticket-a", by="bob")
    assert queue.enqueue(entry_with_texts()) == item_id


def test_kept_decisions_go_too(database, queue, retention, clock):
    """By age with a purge; all of them with an erasure, for they do not tell whose they are."""
    now = round(clock() * 1e6)
    rows = [
        {"key": key, "record": CANARY, "made_at": at, "used_at": now}
        for key, at in (("old", now - 10**12), ("new", now))
    ]
    with database.writing() as connection:
        connection.execute(insert(cached_decision_table), rows)

    def kept() -> list[str]:
        with database.reading() as connection:
            return list(connection.scalars(select(cached_decision_table.c.key)))

    retention.purge(later(clock, -1))
    assert kept() == ["new"]
    retention.erase("nobody", by="bob")
    assert kept() == []


def test_webhook_that_was_not_told_yet_is_told_without_the_text(database, queue, retention):
    item_id = settle(queue, entry_with_texts())
    retention.erase("ticket-a", by="bob")
    answers = [event.payload["data"].get("answer") for event in Outbox(database).events()]
    assert answers[-1]["category"] == "bug"
    assert answers[-1]["summary"] == queue.get(item_id).resolution["summary"]


def bytes_of(folder: Path) -> bytes:
    """The database's file and its side files."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("queue.db*")))


@pytest.mark.parametrize("how", ["erase", "purge"])
def test_file_holds_no_trace_of_the_text(tmp_path, clock, how):
    """Among hundreds of other items, of which many pages were filled and emptied."""
    with closing(Database(f"sqlite:///{tmp_path}/queue.db")) as database:
        queue = ReviewQueue(database, clock=clock)
        retention = Retention(database, clock=clock)
        marked = f"{CANARY}-marked"
        for number in range(80):
            entry = make_entry(f"{number}")
            body = marked * (number % 50 + 1) if number % 20 == 0 else "x" * (number * 7)
            ticket = {**entry.ticket, "body": body}
            item_id = queue.enqueue(replace(entry, ticket=ticket))
            queue.note(item_id, by="ann", text=body)
            queue.cancel(item_id, by="ann", reason="")
        assert marked.encode() in bytes_of(tmp_path)
        if how == "erase":
            for number in range(0, 80, 20):
                retention.erase(f"ticket-{number}", by="bob")
        else:
            retention.purge(later(clock, 1), rewrite=True)
        assert CANARY.encode() not in bytes_of(tmp_path)
        assert queue.stats().num_by_state[State.CANCELLED] == 80


def test_purge_overwrites_in_place_what_nobody_moved(tmp_path, clock):
    """Without writing the whole file anew: the bytes are zeros, and the log is empty."""
    with closing(Database(f"sqlite:///{tmp_path}/queue.db")) as database:
        queue = ReviewQueue(database, clock=clock)
        settle(queue, entry_with_texts())
        assert CANARY.encode() in bytes_of(tmp_path)
        Retention(database, clock=clock).purge(later(clock, 1))
        assert CANARY.encode() not in bytes_of(tmp_path)


def test_somebody_who_reads_an_older_state_is_waited_for_and_then_named(tmp_path, clock):
    """The text is gone for everybody who asks from now on; that its bytes are not is said."""
    path = tmp_path / "queue.db"
    with closing(Database(f"sqlite:///{path}", busy_timeout_s=0.05)) as database:
        queue = ReviewQueue(database, clock=clock)
        item_id = settle(queue, entry_with_texts())
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM item").fetchone()
            with pytest.raises(QueueUnavailable, match="older state"):
                Retention(database, clock=clock).purge(later(clock, 1))
            reader.execute("COMMIT")
        assert queue.get(item_id).erased_at is not None
        database.scrub()
        assert CANARY.encode() not in bytes_of(tmp_path)
