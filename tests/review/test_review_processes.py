"""Several processes at one file, and processes that die."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from queue_entries import make_entry, start_worker

from weighbridge.errors import LeaseLost
from weighbridge.review.items import State
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database

NUM_PROCESSES = 4
NUM_ITEMS = 200
BUG = {"category": "bug"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/weighbridge.db"


@pytest.fixture
def queue(url: str) -> Iterator[ReviewQueue]:
    queue = ReviewQueue(Database(url))
    yield queue
    queue.close()


def go(worker: subprocess.Popen[str]) -> None:
    worker.stdin.write("go\n")
    worker.stdin.flush()


def killed_after(what: str, url: str) -> list[str]:
    """Let a worker act, kill it the hard way, and return the words it said."""
    worker = start_worker(what, url, "dead")
    try:
        go(worker)
        return worker.stdout.readline().split()
    finally:
        worker.kill()
        worker.communicate()


def test_every_item_is_claimed_once_by_one_process(queue, url):
    """Nobody sees an error, and no item goes to two of them."""
    ids = {queue.enqueue(make_entry(f"{number}")) for number in range(NUM_ITEMS)}
    workers = [start_worker("work_off", url, f"w{number}") for number in range(NUM_PROCESSES)]
    for worker in workers:
        go(worker)
    claims = [worker.communicate()[0].split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * NUM_PROCESSES
    assert sorted(item_id for claim in claims for item_id in claim) == sorted(ids)
    assert queue.stats().num_by_state[State.DONE] == queue.stats().num_verdicts == NUM_ITEMS


def test_item_of_a_killed_process_comes_back_when_its_lease_ends(queue, url):
    """Without any clean-up; the dead one's token is worth nothing afterwards."""
    queue.enqueue(make_entry())
    item_id, token = killed_after("claim", url)
    assert queue.claim("ann") is None
    later = ReviewQueue(Database(url), clock=lambda: time.time() + 100_000)
    item = later.claim("ann")
    assert item.id == item_id
    with pytest.raises(LeaseLost):
        later.answer(item_id, reviewer="dead", token=token, values=BUG)
    done = later.answer(item_id, reviewer="ann", token=item.lease_token, values=BUG)
    assert [verdict.reviewer for verdict in done.verdicts] == ["ann"]
    later.close()


def test_verdict_of_a_killed_process_can_be_sent_again(queue, url):
    """It had been stored, but nobody heard so: the repetition finds it."""
    queue.enqueue(make_entry())
    item_id, token = killed_after("answer", url)
    done = queue.answer(item_id, reviewer="dead", token=token, values=BUG, idem_key="form-1")
    assert (done.state, len(done.verdicts)) == (State.DONE, 1)


def test_lock_and_half_written_rows_die_with_their_process(queue, url):
    queue.enqueue(make_entry())
    killed_after("write_halfway", url)
    assert queue.claim("ann") is not None
    with closing(Database(url)) as database, database.reading() as connection:
        kinds = connection.exec_driver_sql("SELECT kind FROM event ORDER BY id").scalars().all()
    assert kinds == ["enqueued", "claimed"]
