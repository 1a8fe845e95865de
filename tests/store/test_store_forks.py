"""What is kept in the database, on both sides of a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

PARTS = """
import asyncio, os, sys, time
from contextlib import closing
from datetime import UTC, datetime
from weighbridge.capability import Fact, Origin, Status
from weighbridge.router.budget import Budget, Caps, Reservation
from weighbridge.store.budget import SharedBooks
from weighbridge.store.cache import SharedCache
from weighbridge.store.database import Database
from weighbridge.store.health import SharedHealth
from weighbridge.store.ledger import CapabilityLedger

url = sys.argv[1]
FACT = Fact(status=Status.UNSUPPORTED, origin=Origin.LEARNED, checked=datetime.now(UTC))
database = Database(url, busy_timeout_s=20)
books = SharedBooks(database, patience_s=20)
cache, health, ledger = SharedCache(database), SharedHealth(database), CapabilityLedger(database)

def use(who):
    async def spend():
        return await Budget(Caps(usd_per_day=1.0), books).reserve("p", who, 0.1)
    assert isinstance(asyncio.run(spend()), Reservation), "the books are closed to it"
    cache.put(who, "record")
    health.told(who, 60.0)
    ledger.record(who, "m", "f", FACT)

def close():
    for part in (books, cache, health, ledger, database):
        part.close()

"""

BEFORE_AND_AFTER = (
    PARTS
    + """
use("before")
children = []
for number in range(3):
    if (child := os.fork()) == 0:
        use(f"child {number}")
        close()
        os._exit(0)
    children.append(child)
use("after")
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
close()
with closing(Database(url)) as fresh:
    with fresh.reading() as connection:
        read = lambda sql: [*connection.exec_driver_sql(sql).scalars()]
        everybody = ["after", "before", "child 0", "child 1", "child 2"]
        assert read("SELECT key FROM cached_decision ORDER BY 1") == everybody
        assert read("SELECT identity FROM cooldown ORDER BY 1") == everybody
        assert read("SELECT base_url FROM capabilities ORDER BY 1") == everybody
        assert read("SELECT reserved_micro_usd FROM spending") == [500_000]
        if not fresh.is_postgresql:
            assert read("PRAGMA integrity_check") == ["ok"]
"""
)

IN_THE_MIDDLE = (
    PARTS
    + """
import threading
from weighbridge.errors import QueueUnavailable
impatient = Database(url, busy_timeout_s=0.05)
with impatient.writing():
    if (child := os.fork()) == 0:
        try:
            with impatient.reading():
                os._exit(1)
        except QueueUnavailable as error:
            os._exit(0 if "in the middle" in str(error) else 2)
    assert os.waitpid(child, 0)[1] == 0

began = threading.Event()
def write():
    with database.writing():
        began.set()
        time.sleep(0.1)
        use.done = True
writing = threading.Thread(target=write)
writing.start()
began.wait()
if (child := os.fork()) == 0:
    assert use.done
    use("child")
    close()
    os._exit(0)
writing.join()
assert os.waitpid(child, 0)[1] == 0
close()
"""
)


LEFT_BEHIND = """
import logging, os, sys
from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
logging.disable()  # the pool of the child cannot make sense of what has happened to it
database = Database(sys.argv[1], busy_timeout_s=0.05)
parent = os.getpid()
try:
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x INTEGER)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        if (child := os.fork()) == 0:
            raise ZeroDivisionError  # whereupon the block rolls back
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        connection.exec_driver_sql("INSERT INTO t VALUES (2)")
except QueueUnavailable:
    sys.exit(4 if os.getpid() == parent else 3)
with database.reading() as connection:
    assert [*connection.exec_driver_sql("SELECT x FROM t").scalars()] == [1, 2]
database.close()
"""


def run(code: str, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, url],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_all_parts_work_on_both_sides_of_a_fork(database_url):
    """Each process with a thread and connections of its own; nothing is written twice or lost."""
    run(BEFORE_AND_AFTER, database_url)


def test_fork_waits_for_transactions_and_refuses_what_would_be_torn(database_url):
    """SQLite in the child would count on locks that only the parent has."""
    run(IN_THE_MIDDLE, database_url)


def test_child_that_leaves_a_torn_transaction_ends_none_of_its_parent(postgresql_url):
    """Its ROLLBACK would reach the server over the socket that both have."""
    run(LEFT_BEHIND, postgresql_url)
