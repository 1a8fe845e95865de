"""The outbox: told with what it tells of, once at a time, in order, and at least once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from queue_entries import make_entry
from webhook_receiver import SECRET, Receiver, receiving

from weighbridge.errors import QueueUnavailable
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.telling.delivery import Delivered, Deliverer, wait_before
from weighbridge.review.telling.outbox import Outbox
from weighbridge.review.telling.subscriptions import EventKind, Subscription
from weighbridge.review.telling.webhooks import Webhook
from weighbridge.store.database import Database

SUBSCRIBER = Subscription(target="hook")
WORKER = Path(__file__).with_name("webhook_worker.py")


@pytest.fixture
def queue(database, clock) -> ReviewQueue:
    return ReviewQueue(database, clock=clock, subscriptions=[SUBSCRIBER])


@pytest.fixture
def outbox(database, clock) -> Outbox:
    return Outbox(database, clock=clock)


def settle(queue: ReviewQueue, key: str = "a") -> str:
    item_id = queue.enqueue(make_entry(key))
    judge(queue, item_id)
    return item_id


def judge(queue: ReviewQueue, item_id: str) -> None:
    item = queue.claim("ann", item_id=item_id)
    assert item
    assert item.lease_token
    queue.answer(item_id, reviewer="ann", token=item.lease_token, values={"category": "bug"})


def kinds(outbox: Outbox) -> list[EventKind]:
    return [event.kind for event in outbox.events()]


def deliverer(outbox: Outbox, receiver: Receiver, **changes: Any) -> Deliverer:
    hook = Webhook(name="hook", url=receiver.url, secret=SECRET, allow_private=True, timeout_s=30.0)
    return Deliverer(outbox, [hook], jitter=lambda: 0.0, **changes)


def test_each_change_is_told_once_and_in_order(queue, outbox):
    """Undoing a verdict that settled an item tells that it is open again."""
    item_id = settle(queue)
    queue.enqueue(make_entry())
    queue.undo(item_id, reviewer="ann")
    queue.note(item_id, by="ann", text="hm")
    judge(queue, item_id)
    queue.reopen(item_id, by="ann", reason="")
    assert kinds(outbox) == [
        EventKind.ENQUEUED,
        EventKind.SETTLED,
        EventKind.REOPENED,
        EventKind.SETTLED,
        EventKind.REOPENED,
    ]
    assert len({event.event_id for event in outbox.events()}) == 5


def test_verdict_that_settles_nothing_is_not_told(database, clock, outbox):
    """Neither when it is given nor when it is taken back."""
    queue = ReviewQueue(database, clock=clock, subscriptions=[SUBSCRIBER], needed=2)
    item_id = queue.enqueue(make_entry())
    judge(queue, item_id)
    queue.undo(item_id, reviewer="ann")
    assert kinds(outbox) == [EventKind.ENQUEUED]


def test_verdict_sent_twice_is_told_once(queue, outbox):
    item = queue.claim("ann", item_id=queue.enqueue(make_entry()))
    for _ in range(2):
        queue.answer(
            item.id,
            reviewer="ann",
            token=item.lease_token,
            values={"category": "bug"},
            idem_key="form-1",
        )
    assert kinds(outbox) == [EventKind.ENQUEUED, EventKind.SETTLED]


def test_answers_in_bulk_are_told_too(queue, outbox):
    ids = [queue.enqueue(make_entry(key)) for key in "ab"]
    queue.answer_many(ids, reviewer="ann", values={"category": "bug"}, idem_key="bulk-1")
    assert kinds(outbox).count(EventKind.SETTLED) == 2


def test_subscriber_hears_what_it_wants_and_ids_alone_unless_it_asks(database, clock, outbox):
    """The answer is told only to those who are to know it; the ticket to nobody."""
    told = [
        Subscription(target="ids", events=frozenset({EventKind.SETTLED})),
        Subscription(target="whole", include_answer=True),
    ]
    settle(ReviewQueue(database, clock=clock, subscriptions=told))
    ids, whole = (outbox.events(target=name) for name in ("ids", "whole"))
    assert [event.kind for event in ids] == [EventKind.SETTLED]
    assert set(ids[0].payload["data"]) == {"item_id", "ticket_id", "task"}
    assert [event.kind for event in whole] == [EventKind.ENQUEUED, EventKind.SETTLED]
    assert whole[1].payload["data"]["answer"] == {"category": "bug"}
    assert "canary" not in json.dumps([event.payload for event in (*ids, *whole)])


def test_event_is_never_without_what_it_tells_of(database, outbox, clock):
    """A transaction that fails takes the event back with everything else."""
    queue = ReviewQueue(database, clock=clock, subscriptions=[SUBSCRIBER])
    item = queue.claim("ann", item_id=queue.enqueue(make_entry()))
    before = outbox.events()

    class Broken(frozenset):
        def __contains__(self, _kind: object) -> bool:
            raise RuntimeError

    broken = Subscription(target="b", events=Broken())
    failing = ReviewQueue(database, clock=clock, subscriptions=[SUBSCRIBER, broken])
    with pytest.raises(RuntimeError):
        failing.answer(item.id, reviewer="ann", token=item.lease_token, values={"category": "bug"})
    assert outbox.events() == before
    assert queue.get(item.id).verdicts == ()


def test_taken_event_is_taken_from_nobody_until_its_lease_ends(queue, outbox, clock):
    queue.enqueue(make_entry())
    first = outbox.take(["hook"], lease_s=60)
    assert first is not None
    assert outbox.take(["hook"], lease_s=60) is None
    clock.advance(61)
    second = outbox.take(["hook"], lease_s=60)
    assert second is not None
    outbox.failed(first, "too late", wait_s=None)  # the lease has passed on: nothing happens
    assert outbox.events(is_parked=True) == []
    outbox.delivered(second)
    assert outbox.events() == []


def test_second_event_of_an_item_waits_for_the_first(queue, outbox, clock):
    """Those of other items do not; what was given up holds nobody up."""
    item_id = settle(queue)
    other = queue.enqueue(make_entry("b"))
    first, elsewhere = (outbox.take(["hook"], lease_s=60) for _ in range(2))
    assert (first.event.item_id, elsewhere.event.item_id) == (item_id, other)
    outbox.delivered(elsewhere)
    assert outbox.take(["hook"], lease_s=60) is None
    outbox.failed(first, "status 500", wait_s=60.0)
    assert outbox.take(["hook"], lease_s=60) is None
    clock.advance(60)
    again = outbox.take(["hook"], lease_s=60)
    assert again.event.event_id == first.event.event_id
    outbox.failed(again, "status 500", wait_s=None)
    second = outbox.take(["hook"], lease_s=60)
    assert (second.event.item_id, second.event.kind) == (item_id, EventKind.SETTLED)


def test_webhook_of_another_name_is_left_alone(queue, outbox):
    queue.enqueue(make_entry())
    assert outbox.take(["other"], lease_s=60) is None
    assert outbox.take([], lease_s=60) is None


def test_backlog_counts_what_is_left_given_up_and_told(queue, outbox):
    for key in "abc":
        queue.enqueue(make_entry(key))
    outbox.delivered(outbox.take(["hook"], lease_s=60))
    outbox.failed(outbox.take(["hook"], lease_s=60), "status 500", wait_s=None)
    found = outbox.backlog()["hook"]
    assert (found.num_pending, found.num_parked, found.num_done) == (1, 1, 1)
    assert found.oldest is not None
    assert outbox.retry() == 1
    assert outbox.backlog()["hook"].num_pending == 2


async def test_events_arrive_in_order_and_are_told_once(queue, outbox, clock):
    item_id = settle(queue)
    with receiving() as receiver:
        done = await deliverer(outbox, receiver).deliver_due()
        again = await deliverer(outbox, receiver).deliver_due()
    assert (done, again) == (Delivered(num_delivered=2), Delivered())
    assert [event["type"] for event in receiver.events] == [
        "review.item.enqueued",
        "review.item.settled",
    ]
    assert {event["data"]["item_id"] for event in receiver.events} == {item_id}


async def test_failure_is_tried_again_later_with_the_same_id(queue, outbox, clock):
    """First 500, then a connection without a word, then heard; not earlier than it is due."""
    queue.enqueue(make_entry())
    with receiving(500, "hang", 200) as receiver:
        sender = deliverer(outbox, receiver)
        assert await sender.deliver_due() == Delivered(num_failed=1)
        assert await sender.deliver_due() == Delivered()
        clock.advance(wait_before(2, 0.0))
        assert await sender.deliver_due() == Delivered(num_failed=1)
        clock.advance(wait_before(3, 0.0))
        assert await sender.deliver_due() == Delivered(num_delivered=1)
    assert len(receiver.events) == 3
    assert len({event["id"] for event in receiver.events}) == 1


async def test_event_that_nobody_takes_is_given_up_and_can_be_asked_for(queue, outbox, clock):
    queue.enqueue(make_entry())
    with receiving(500, 500, 200) as receiver:
        sender = deliverer(outbox, receiver, max_attempts=2)
        await sender.deliver_due()
        clock.advance(10)
        assert await sender.deliver_due() == Delivered(num_parked=1)
        clock.advance(1e6)
        assert await sender.deliver_due() == Delivered()
        (parked,) = outbox.events(is_parked=True)
        assert (parked.last_error, parked.attempts) == ("status 500", 2)
        assert outbox.retry(event_ids=[parked.event_id]) == 1
        assert await sender.deliver_due() == Delivered(num_delivered=1)


async def test_deliverers_at_once_send_no_event_twice(queue, outbox, clock):
    """Several of them, each with several requests at once."""
    for number in range(30):
        queue.enqueue(make_entry(f"{number}"))
    with receiving() as receiver:
        senders = [deliverer(outbox, receiver) for _ in range(3)]
        done = await asyncio.gather(*(sender.deliver_due(concurrency=3) for sender in senders))
    assert sum(one.num_delivered for one in done) == 30
    assert len({event["id"] for event in receiver.events}) == len(receiver.events) == 30


async def test_loop_goes_on_until_it_is_cancelled(queue, outbox, clock):
    """What comes later is delivered too; nothing is lost by stopping."""
    seen: list[Delivered] = []
    with receiving() as receiver:
        sender = deliverer(outbox, receiver)
        running = asyncio.create_task(sender.run(poll_s=0.01, watch=seen.append))
        for key in "ab":
            await asyncio.to_thread(queue.enqueue, make_entry(key))
            await asyncio.to_thread(receiver.wait_for, "ab".index(key) + 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [event["data"]["ticket_id"] for event in receiver.events] == ["ticket-a", "ticket-b"]


async def test_database_that_fails_is_said_as_one_error(database, clock):
    """Not as a group of as many as there were requests at once."""

    class Gone(Outbox):
        def take(self, *_: object, **__: object) -> None:
            raise QueueUnavailable("sqlite://", "it is gone")

    with receiving() as receiver, pytest.raises(QueueUnavailable, match="it is gone"):
        await deliverer(Gone(database), receiver).deliver_due()


def test_killed_between_commit_and_delivery_is_delivered_afterwards(database_url):
    """And killed between delivery and noting so, it is delivered again, with the same id."""
    with closing(Database(database_url)) as database, receiving() as receiver:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), database_url, receiver.url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == "sent\n"
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        assert len(receiver.events) == 1
        later = Outbox(database, clock=lambda: 4_000_000_000.0)
        done = asyncio.run(deliverer(later, receiver).deliver_due())
    assert done == Delivered(num_delivered=2)
    assert [event["type"] for event in receiver.events] == [
        "review.item.enqueued",
        "review.item.enqueued",
        "review.item.settled",
    ]
    assert receiver.events[0]["id"] == receiver.events[1]["id"]


def test_waits_grow_and_differ(clock):
    """Twice as long each time, within a factor of two, and never more than six hours."""
    for attempt in range(2, 40):
        low, high = wait_before(attempt, 0.0), wait_before(attempt, 1.0)
        assert 0 < low < high == 2 * low <= 6 * 3600
        assert wait_before(attempt + 1, 0.0) >= low


def test_processes_at_once_take_no_event_twice(database_url):
    """Threads with a connection each, which the database sees as it sees processes."""
    with closing(Database(database_url)) as database:
        queue = ReviewQueue(database, subscriptions=[SUBSCRIBER])
        for number in range(40):
            queue.enqueue(make_entry(f"{number}"))
        outbox = Outbox(database)

        def take_all(_: int) -> list[str]:
            taken = []
            while one := outbox.take(["hook"], lease_s=60):
                taken.append(one.event.event_id)
            return taken

        with ThreadPoolExecutor(6) as pool:
            ids = [event_id for part in pool.map(take_all, range(6)) for event_id in part]
    assert len(ids) == len(set(ids)) == 40
