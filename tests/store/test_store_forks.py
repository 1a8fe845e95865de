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


def run(code: str, database: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, f"sqlite:///{database}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_all_parts_work_on_both_sides_of_a_fork(tmp_path):
    """Each process with a thread and connections of its own; nothing is written twice or lost."""
    run(BEFORE_AND_AFTER, tmp_path / "a.db")


def test_fork_waits_for_transactions_and_refuses_what_would_be_torn(tmp_path):
    """SQLite in the child would count on locks that only the parent has."""
    run(IN_THE_MIDDLE, tmp_path / "a.db")
