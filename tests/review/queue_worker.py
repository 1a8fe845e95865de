"""One process at the queue: `queue_worker.py WHAT DATABASE NAME`; each act is a line on stdout."""

from __future__ import annotations

import sys
import time

from sqlalchemy import insert

from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database
from weighbridge.store.queue_tables import event_table


def work_off(database: Database, name: str) -> None:
    """Claim and answer until nothing waits."""
    queue = ReviewQueue(database)
    while item := queue.claim(name):
        assert item.lease_token
        queue.answer(item.id, reviewer=name, token=item.lease_token, values={"category": "bug"})
        say(item.id)


def claim(database: Database, name: str) -> None:
    item = ReviewQueue(database).claim(name)
    assert item
    say(item.id, item.lease_token)
    hang()


def answer(database: Database, name: str) -> None:
    queue = ReviewQueue(database)
    item = queue.claim(name)
    assert item
    assert item.lease_token
    queue.answer(
        item.id,
        reviewer=name,
        token=item.lease_token,
        values={"category": "bug"},
        idem_key="form-1",
    )
    say(item.id, item.lease_token)
    hang()


def write_halfway(database: Database, name: str) -> None:
    """Hold the write lock over a row that is not committed."""
    with database.writing() as connection:
        item = ReviewQueue(database).waiting(1)[0]
        row = {"item_id": item.id, "at": 0, "actor": name, "kind": "half", "detail_json": {}}
        connection.execute(insert(event_table).values(row))
        say(item.id)
        hang()


def say(*words: str | None) -> None:
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def hang() -> None:
    """Wait to be killed."""
    time.sleep(600)


if __name__ == "__main__":
    sys.stdin.readline()  # all workers of a race start on one word
    globals()[sys.argv[1]](Database(sys.argv[2]), sys.argv[3])
