"""One process at the queue: `queue_worker.py WHAT DATABASE NAME`; each act is a line on stdout."""

from __future__ import annotations

import sys
import time

from queue_entries import make_entry
from sqlalchemy import Engine, event

from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database

BUG = {"category": "bug"}


def work_off(queue: ReviewQueue, name: str) -> None:
    """Claim and answer until nothing is offered."""
    while item := queue.claim(name):
        queue.answer(item.id, reviewer=name, token=item.lease.token, values=BUG)
        say(item.id)


def enqueue_all(queue: ReviewQueue, _name: str) -> None:
    for number in range(25):
        say(queue.enqueue(make_entry(f"{number}")))


def claim_once(queue: ReviewQueue, name: str) -> None:
    item = queue.claim(name)
    say(item.id, item.lease.token)


def claim(queue: ReviewQueue, name: str) -> None:
    claim_once(queue, name)
    hang()


def answer(queue: ReviewQueue, name: str) -> None:
    """Committed, but nobody hears of it."""
    item = queue.claim(name)
    queue.answer(item.id, reviewer=name, token=item.lease.token, values=BUG, idem_key="form-1")
    say(item.id, item.lease.token)
    hang()


def undo(queue: ReviewQueue, name: str) -> None:
    item = queue.claim(name)
    queue.answer(item.id, reviewer=name, token=item.lease.token, values=BUG)
    queue.undo(item.id, reviewer=name, idem_key="undo-1")
    say(item.id, item.lease.token)
    hang()


def answer_halfway(queue: ReviewQueue, name: str) -> None:
    """All is written and nothing committed."""
    item = queue.claim(name)
    hang_at_commit(1, item.id, item.lease.token)
    queue.answer(item.id, reviewer=name, token=item.lease.token, values=BUG, idem_key="form-1")


def answer_many_halfway(queue: ReviewQueue, name: str) -> None:
    ids = [item.id for item in queue.waiting(10)]
    hang_at_commit(2, *ids)
    queue.answer_many(ids, reviewer=name, values=BUG, idem_key="bulk-1")


def enqueue_halfway(queue: ReviewQueue, _name: str) -> None:
    hang_at_commit(1, "began")
    queue.enqueue(make_entry())


def hang_at_commit(number: int, *words: str) -> None:
    """Say the words in front of the commit of that number, and wait there to be killed."""
    commits = []

    def count(_connection: object) -> None:
        commits.append(True)
        if len(commits) == number:
            say(*words)
            hang()

    event.listen(Engine, "commit", count)


def say(*words: str) -> None:
    sys.stdout.write(f"{' '.join(words)}\n")
    sys.stdout.flush()


def hang() -> None:
    """Wait to be killed."""
    time.sleep(600)


if __name__ == "__main__":
    what, url, name = sys.argv[1:]
    opened = ReviewQueue(Database(url))
    say("ready")
    sys.stdin.readline()  # all workers of a race start on one word
    globals()[what](opened, name)
