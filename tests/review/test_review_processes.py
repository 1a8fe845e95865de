"""Several processes at one database, and processes that die, on SQLite and on PostgreSQL."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from queue_entries import make_entry, start_worker

from weighbridge.errors import LeaseLost
from weighbridge.review.items import State
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database

NUM_PROCESSES = 3
NUM_ITEMS = 40
BUG = {"category": "bug"}


@pytest.fixture
def queue(database_url: str) -> Iterator[ReviewQueue]:
    queue = ReviewQueue(Database(database_url))
    yield queue
    queue.close()


def go(worker: subprocess.Popen[str]) -> None:
    worker.stdin.write("go\n")
    worker.stdin.flush()


def raced(what: str, url: str, names: list[str]) -> list[list[str]]:
    """What each of some workers says that start together and meet no error."""
    workers = [start_worker(what, url, name) for name in names]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        go(worker)
    said = [worker.communicate()[0].split("\n")[:-1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(names)
    return said


def killed_after(what: str, url: str) -> list[str]:
    """Let a worker act, kill it the hard way, and return the words it said."""
    worker = start_worker(what, url, "dead")
    try:
        assert worker.stdout.readline() == "ready\n"
        go(worker)
        return worker.stdout.readline().split()
    finally:
        worker.kill()
        worker.communicate()


def test_every_place_is_claimed_once_by_one_process(database_url):
    """Nobody sees an error, and nobody judges one item twice."""
    queue = ReviewQueue(Database(database_url), needed=2)
    ids = {queue.enqueue(make_entry(f"{number}")) for number in range(NUM_ITEMS)}
    said = raced("work_off", database_url, [f"w{number}" for number in range(NUM_PROCESSES)])
    assert all(len(set(mine)) == len(mine) for mine in said)
    assert Counter(item for mine in said for item in mine) == dict.fromkeys(ids, 2)
    stats = queue.stats()
    assert (stats.num_by_state[State.DONE], stats.num_verdicts) == (NUM_ITEMS, NUM_ITEMS * 2)
    numbers = [item.settled_no for item in queue.settled(limit=NUM_ITEMS)]
    assert len(set(numbers)) == NUM_ITEMS
    assert numbers == sorted(numbers)
    queue.close()


def test_one_person_in_several_windows_gets_one_item(queue, database_url):
    """However nearly at once they ask: nobody hoards what others could do."""
    for key in "ab":
        queue.enqueue(make_entry(key))
    said = raced("claim_once", database_url, ["ann", "ann"])
    assert len({line for lines in said for line in lines}) == 1
    assert queue.stats().num_leased == 1


def test_entries_sent_by_several_processes_are_queued_once(queue, database_url):
    said = raced("enqueue_all", database_url, ["a", "b"])
    assert said[0] == said[1]
    assert queue.stats().num_by_state[State.OPEN] == len(said[0]) == len(set(said[0]))


def test_item_of_a_killed_process_comes_back_when_its_lease_ends(queue, database_url):
    """Without any clean-up; the dead one's token is worth nothing afterwards."""
    queue.enqueue(make_entry())
    item_id, token = killed_after("claim", database_url)
    assert queue.claim("ann") is None
    later = ReviewQueue(Database(database_url), clock=lambda: time.time() + 10_000)
    item = later.claim("ann")
    assert item.id == item_id
    with pytest.raises(LeaseLost):
        later.answer(item_id, reviewer="dead", token=token, values=BUG)
    done = later.answer(item_id, reviewer="ann", token=item.lease.token, values=BUG)
    assert [verdict.reviewer for verdict in done.verdicts] == ["ann"]
    later.close()


def test_verdict_of_a_killed_process_can_be_sent_again(queue, database_url):
    """It had been stored, but nobody heard so: the repetition finds it."""
    queue.enqueue(make_entry())
    item_id, token = killed_after("answer", database_url)
    done = queue.answer(item_id, reviewer="dead", token=token, values=BUG, idem_key="form-1")
    assert (done.state, len(done.verdicts)) == (State.DONE, 1)


def test_undo_of_a_killed_process_can_be_sent_again(queue, database_url):
    """The repetition hands out the lease that nobody heard of."""
    queue.enqueue(make_entry())
    item_id, _ = killed_after("undo", database_url)
    item = queue.undo(item_id, reviewer="dead", idem_key="undo-1")
    assert [verdict.kind for verdict in item.verdicts] == ["correct", "undo"]
    done = queue.answer(item_id, reviewer="dead", token=item.lease.token, values=BUG)
    assert done.state is State.DONE


def test_verdict_killed_before_its_commit_was_never_given(queue, database_url):
    """The lease outlives the process, so the same form can be sent by another one."""
    queue.enqueue(make_entry())
    item_id, token = killed_after("answer_halfway", database_url)
    item = queue.get(item_id)
    assert (item.state, item.verdicts) == (State.OPEN, ())
    assert [event.kind for event in queue.history(item_id)] == ["enqueued", "claimed"]
    done = queue.answer(item_id, reviewer="dead", token=token, values=BUG, idem_key="form-1")
    assert (done.state, len(done.verdicts)) == (State.DONE, 1)


def test_bulk_verdict_killed_in_the_middle_is_completed_by_its_repetition(queue, database_url):
    for key in "abc":
        queue.enqueue(make_entry(key))
    ids = killed_after("answer_many_halfway", database_url)
    assert queue.stats().num_verdicts == 1
    results = queue.answer_many(ids, reviewer="dead", values=BUG, idem_key="bulk-1")
    assert [result.item.state for result in results] == [State.DONE] * 3
    assert queue.stats().num_verdicts == 3


def test_entry_killed_before_its_commit_is_queued_by_its_repetition(queue, database_url):
    """Neither item nor slot nor history is left behind, and no lock."""
    assert killed_after("enqueue_halfway", database_url) == ["began"]
    assert queue.stats().num_by_state[State.OPEN] == 0
    item_id = queue.enqueue(make_entry())
    assert [item.id for item in queue.waiting()] == [item_id]
    assert [event.kind for event in queue.history(item_id)] == ["enqueued"]
