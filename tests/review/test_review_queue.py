"""Entries come in once, are leased to one person at a time, and take verdicts whole."""

from __future__ import annotations

import json
import sqlite3
import traceback
from dataclasses import replace
from datetime import datetime

import pytest
from queue_entries import CANARY, CATEGORIES, make_entry
from sqlalchemy import Text, cast, select

from weighbridge.errors import ItemNotFound, LeaseLost, QueueUnavailable, VerdictInvalid
from weighbridge.review.items import Item, State
from weighbridge.review.overviews import Search
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database
from weighbridge.store.queue_tables import event_table, item_table

BUG = {"category": "bug"}


def claimed(queue: ReviewQueue, reviewer: str = "ann", **how: object) -> Item:
    item = queue.claim(reviewer, **how)
    assert item is not None
    assert item.lease_token
    return item


def events(database: Database) -> list[tuple[str, str]]:
    with database.reading() as connection:
        rows = connection.execute(select(event_table).order_by(event_table.c.id))
        return [(row.actor, row.kind) for row in rows]


def test_item_keeps_what_the_router_handed_over(queue):
    """Questions, ticket and decision come back equal; the decision knows its own id."""
    entry = make_entry()
    item = queue.get(queue.enqueue(entry))
    assert (item.state, item.ticket, item.questions) == (State.OPEN, entry.ticket, entry.questions)
    assert item.decision == replace(entry.decision, review_id=item.id).to_json()
    assert item.reasons == ("low_probability", "language")
    assert item.lease is item.lease_token is item.done_at is item.resolution is None


def test_same_key_is_queued_once(queue, database):
    """The second entry gets the first one's id, and leaves no trace."""
    first = queue.enqueue(make_entry("a"))
    assert queue.enqueue(make_entry("a", probability=0.9)) == first
    assert queue.enqueue(make_entry("b")) != first
    assert events(database) == [("weighbridge", "enqueued")] * 2


def test_same_key_is_not_queued_again_after_a_verdict(queue):
    item_id = queue.enqueue(make_entry())
    item = claimed(queue)
    queue.answer(item.id, reviewer="ann", token=item.lease_token, values=BUG)
    assert queue.enqueue(make_entry()) == item_id
    assert queue.get(item_id).state is State.DONE


def test_clash_of_ids_is_an_error_and_no_repetition(database, clock):
    """Taken for a repetition, the second ticket would be lost in silence."""
    queue = ReviewQueue(database, clock=clock, new_id=lambda: "same")
    queue.enqueue(make_entry("a"))
    with pytest.raises(QueueUnavailable):
        queue.enqueue(make_entry("b"))


def test_least_certain_comes_first_then_the_oldest(queue, clock):
    wanted = []
    for key, probability in [("c", 0.9), ("b", 0.2), ("a", None), ("d", 0.9), ("e", 0.2)]:
        queue.enqueue(make_entry(key, probability=probability))
        clock.advance(1)
    wanted = ["ticket-a", "ticket-b", "ticket-e", "ticket-c", "ticket-d"]
    assert [item.ticket_id for item in queue.waiting(10)] == wanted
    assert [item.ticket_id for item in queue.waiting(2)] == wanted[:2]
    assert [claimed(queue, f"reviewer-{n}").ticket_id for n in range(5)] == wanted
    assert queue.claim("late") is None
    assert queue.waiting(10) == []


def test_reviewer_who_starts_over_gets_the_same_item(queue, clock):
    """With the same token and a lease that now ends later."""
    queue.enqueue(make_entry("a"))
    queue.enqueue(make_entry("b"))
    first = claimed(queue, lease_s=60)
    clock.advance(30)
    again = claimed(queue, lease_s=60)
    assert (again.id, again.lease_token) == (first.id, first.lease_token)
    assert again.lease.until > first.lease.until
    assert claimed(queue, item_id=first.id).lease_token == first.lease_token


def test_lease_holds_to_its_last_moment_and_no_longer(queue, clock):
    queue.enqueue(make_entry())
    first = claimed(queue, lease_s=60)
    clock.advance(60)
    assert queue.claim("bob") is None
    clock.advance(1)
    second = claimed(queue, "bob")
    assert second.id == first.id
    assert second.lease_token != first.lease_token


def test_named_item_is_leased_ahead_of_its_turn(queue):
    queue.enqueue(make_entry("a", probability=0.1))
    later = queue.enqueue(make_entry("b", probability=0.9))
    assert claimed(queue, item_id=later).id == later


@pytest.mark.parametrize("state", ["held", "done"])
def test_named_item_that_is_taken_is_refused(queue, state):
    item_id = queue.enqueue(make_entry())
    item = claimed(queue)
    if state == "done":
        queue.answer(item_id, reviewer="ann", token=item.lease_token, values=BUG)
    with pytest.raises(LeaseLost):
        queue.claim("bob", item_id=item_id)


def test_unknown_item_is_not_found(queue):
    for call in (
        lambda: queue.get("nothing"),
        lambda: queue.claim("ann", item_id="nothing"),
        lambda: queue.answer("nothing", reviewer="ann", token="t", values=BUG),
        lambda: queue.renew("nothing", reviewer="ann", token="t"),
        lambda: queue.release("nothing", reviewer="ann", token="t"),
        lambda: queue.skip("nothing", reviewer="ann", token="t"),
        lambda: queue.undo("nothing", reviewer="ann"),
        lambda: queue.note("nothing", by="ann", text=""),
        lambda: queue.assign("nothing", to="ann", by="ann"),
        lambda: queue.cancel("nothing", by="ann", reason=""),
        lambda: queue.reopen("nothing", by="ann", reason=""),
        lambda: queue.set_due("nothing", due_at=None, by="ann"),
        lambda: queue.history("nothing"),
        lambda: queue.alike("nothing"),
        lambda: queue.search(Search(), after="nothing"),
    ):
        with pytest.raises(ItemNotFound):
            call()


def test_only_claim_shows_the_token(queue):
    """Whoever may look at an item may not yet judge it."""
    item_id = queue.enqueue(make_entry())
    token = claimed(queue).lease_token
    assert queue.get(item_id).lease_token is None
    assert [slot.owner for slot in queue.get(item_id).slots] == ["ann"]
    assert token not in repr(claimed(queue))


@pytest.mark.parametrize(("chosen", "kind"), [("bug", "correct"), ("billing", "corrected")])
def test_verdict_closes_the_item(queue, database, chosen, kind):
    queue.enqueue(make_entry())
    item = claimed(queue)
    done = queue.answer(
        item.id, reviewer="ann", token=item.lease_token, values={"category": chosen}, note="hm"
    )
    assert done == queue.get(item.id)
    assert (done.state, done.lease) == (State.DONE, None)
    assert (done.resolved_kind, done.resolution) == ("answer", {"category": chosen})
    (verdict,) = done.verdicts
    assert (verdict.reviewer, verdict.kind, verdict.note) == ("ann", kind, "hm")
    assert verdict.values == {"category": chosen}
    assert verdict.machine == {"category": "bug", "priority": 2}
    assert [kind for _, kind in events(database)] == [
        "enqueued",
        "claimed",
        "answered",
        "settled",
    ]


def test_ended_lease_is_honoured_until_somebody_else_takes_the_item(queue, clock):
    for key in "ab":
        queue.enqueue(make_entry(key))
    first, second = claimed(queue, "ann"), claimed(queue, "bob")
    clock.advance(100_000)
    done = queue.answer(first.id, reviewer="ann", token=first.lease_token, values=BUG)
    assert done.state is State.DONE
    assert claimed(queue, "eve").id == second.id
    with pytest.raises(LeaseLost):
        queue.answer(second.id, reviewer="bob", token=second.lease_token, values=BUG)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"token": "guessed"}, LeaseLost),
        ({"reviewer": "bob"}, LeaseLost),
        ({"values": {}}, VerdictInvalid),
        ({"values": {"category": CANARY}}, VerdictInvalid),
        ({"values": {"category": "bug", CANARY: 1}}, VerdictInvalid),
    ],
)
def test_refused_verdict_writes_nothing(queue, database, how, error):
    """The lease stays, so that the reviewer can try again."""
    queue.enqueue(make_entry())
    item = claimed(queue)
    whole = {"reviewer": "ann", "token": item.lease_token, "values": BUG, "note": CANARY}
    before = events(database)
    with pytest.raises(error) as refused:
        queue.answer(item.id, **{**whole, **how})
    assert CANARY not in "".join(traceback.format_exception(refused.value))
    assert events(database) == before
    assert queue.get(item.id).state is State.OPEN
    assert queue.answer(item.id, **whole).state is State.DONE


def test_verdict_on_an_unclaimed_or_finished_item_is_refused(queue):
    item_id = queue.enqueue(make_entry())
    with pytest.raises(LeaseLost):
        queue.answer(item_id, reviewer="ann", token="t", values=BUG)
    token = claimed(queue).lease_token
    queue.answer(item_id, reviewer="ann", token=token, values=BUG)
    with pytest.raises(LeaseLost):
        queue.answer(item_id, reviewer="ann", token=token, values=BUG)


def test_repeated_verdict_is_stored_once(queue, database):
    """The second call returns what the first one stored, even with another choice."""
    queue.enqueue(make_entry())
    item = claimed(queue)
    call = {"reviewer": "ann", "token": item.lease_token, "idem_key": "form-1"}
    first = queue.answer(item.id, values=BUG, **call)
    before = events(database)
    assert queue.answer(item.id, values={"category": "billing"}, **call) == first
    assert events(database) == before


def test_key_of_another_items_verdict_is_refused(queue):
    for key in "ab":
        queue.enqueue(make_entry(key))
    for reviewer, expected in [("ann", None), ("bob", VerdictInvalid)]:
        item = claimed(queue, reviewer)
        call = {"reviewer": reviewer, "token": item.lease_token, "values": BUG, "idem_key": "same"}
        if expected is None:
            queue.answer(item.id, **call)
        else:
            with pytest.raises(expected):
                queue.answer(item.id, **call)


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",  # a surrogate alone
        "a\0b",
        "\u202egnp.exe\u202c \u2066",  # right to left
        "<script>alert(1)</script>' OR 1=1; --",
        "=cmd|'/c calc'!A0",
        "\U0001f600" * 90_000,  # a megabyte as it is stored
    ],
    ids=["surrogate", "nul", "bidi", "script", "formula", "megabyte"],
)
def test_any_text_survives_the_queue(queue, text):
    """JSON comes back as it was; plain columns lose only what no database can hold."""
    ticket = {"id": text, "subject": text, "body": text, "metadata": {text: [text]}}
    key = text[:100]
    entry = make_entry(key, ticket=ticket)
    item_id = queue.enqueue(entry)
    assert queue.enqueue(entry) == item_id
    assert queue.get(item_id).ticket == ticket
    reviewer = "ann" + key
    item = claimed(queue, reviewer)
    queue.skip(item_id, reviewer=reviewer, token=item.lease_token, reason=text)
    assert queue.claim(reviewer) is None
    assert queue.unskip(reviewer) == 1
    item = claimed(queue, reviewer)
    queue.assign(item_id, to=reviewer, by=reviewer)
    assert queue.note(item_id, by=reviewer, text=text).version == 3
    assert queue.renew(item_id, reviewer=reviewer, token=item.lease_token).lease
    done = queue.answer(
        item_id, reviewer=reviewer, token=item.lease_token, values=BUG, note=text, idem_key=key
    )
    assert done.state is State.DONE
    assert queue.history(item_id)[-3].detail == {"text": text}
    assert done.verdicts[0].note == text.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    assert [found.id for found in queue.search(Search(text=text[:50]))] == [item_id]
    assert queue.undo(item_id, reviewer=reviewer).state is State.OPEN


@pytest.mark.parametrize(
    "misuse",
    [
        lambda queue: queue.claim("ann", lease_s=0),
        lambda queue: queue.claim("ann", lease_s=float("nan")),
        lambda queue: queue.claim("ann", lease_s=86_401),
        lambda queue: queue.waiting(-1),
        lambda queue: queue.settled(limit=-1),
        lambda queue: queue.search(Search(), limit=-1),
        lambda queue: queue.reopen("nothing", by="boss", reason="", needed=0),
        lambda queue: ReviewQueue(queue._database, needed=0),
        lambda queue: queue.set_due("nothing", due_at=datetime(2030, 1, 1), by="boss"),  # noqa: DTZ001
    ],
)
def test_misuse_is_a_value_error(queue, misuse):
    with pytest.raises(ValueError, match=r"lease|limit|person|time zone"):
        misuse(queue)


def test_failed_enqueue_hands_the_decision_back(any_database, clock):
    """Item, slots and history are written together; if one fails there is nothing."""
    queue = ReviewQueue(any_database, clock=clock)
    with any_database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE event")
    entry = make_entry()
    with pytest.raises(QueueUnavailable) as failed:
        queue.enqueue(entry)
    assert failed.value.decision is entry.decision
    assert CANARY not in "".join(traceback.format_exception(failed.value))
    assert queue.waiting(1) == []


@pytest.mark.parametrize("trouble", ["full", "locked", "read_only"])
def test_troubled_database_hands_the_decision_back(tmp_path, trouble):
    """And takes the entry once the trouble is over."""
    database = Database(f"sqlite:///{tmp_path}/queue.db", busy_timeout_s=0.05)
    queue = ReviewQueue(database)
    entry = make_entry(ticket={"id": "t", "body": CANARY * 10_000})
    begin, end = {
        "full": ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"),
        "read_only": ("PRAGMA query_only = ON", "PRAGMA query_only = OFF"),
        "locked": ("BEGIN IMMEDIATE", "ROLLBACK"),
    }[trouble]
    other = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)

    def meddle(statement):
        if trouble == "locked":
            other.execute(statement)
        else:  # a setting of the one connection in the pool
            with database.reading() as connection:
                connection.exec_driver_sql(statement)

    meddle(begin)
    with pytest.raises(QueueUnavailable) as failed:
        queue.enqueue(entry)
    assert failed.value.decision is entry.decision
    assert CANARY not in "".join(traceback.format_exception(failed.value))
    meddle(end)
    assert queue.get(queue.enqueue(entry)).ticket == entry.ticket
    other.close()
    queue.close()


@pytest.mark.parametrize(
    "damage",
    [
        f"UPDATE item SET task = CAST(x'ff' || '{CANARY}' AS TEXT)",
        f"UPDATE item SET ticket_json = '{CANARY}'",
    ],
)
def test_damaged_row_is_reported_without_its_content(clock, damage):
    """PostgreSQL would not have taken it."""
    queue = ReviewQueue(database := Database("sqlite://"), clock=clock)
    item_id = queue.enqueue(make_entry())
    with database.writing() as connection:
        connection.exec_driver_sql(damage)
    with pytest.raises(QueueUnavailable) as failed:
        queue.get(item_id)
    assert CANARY not in "".join(traceback.format_exception(failed.value))
    assert CANARY not in repr(failed.value)
    queue.close()


def test_no_repr_shows_ticket_or_answer(queue):
    queue.enqueue(make_entry())
    item = claimed(queue)
    done = queue.answer(item.id, reviewer="ann", token=item.lease_token, values=BUG, note=CANARY)
    shown = f"{item!r} {done!r} {done.verdicts!r}"
    assert not any(text in shown for text in (CANARY, item.lease_token, *CATEGORIES))


def test_stored_json_is_ascii(queue, database):
    """What no encoding holds is stored as an escape, so that every tool can read the file."""
    queue.enqueue(make_entry(ticket={"body": "\ud800 é \0"}))
    with database.reading() as connection:
        stored = connection.scalar(select(cast(item_table.c.ticket_json, Text)))
    assert stored.isascii()
    assert json.loads(stored) == {"body": "\ud800 é \0"}
