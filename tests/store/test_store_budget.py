"""What holds for books in a database alone; the laws of all books are tests/router/test_budget."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from databases import locked, refuse_inserts
from sqlalchemy import func, select
from sqlalchemy.schema import DropTable

from weighbridge.router.budget import Budget, Caps, Refused, Reservation
from weighbridge.store.budget import TICKETS_KEPT_DAYS, SharedBooks
from weighbridge.store.database import Database
from weighbridge.store.tables import spending_table

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CAPS = Caps(usd_per_day=1.0, usd_per_ticket=0.5, provider_usd_per_day={"p": 0.8})

# Another process: takes what it can of a dollar, ten cents at a time, and says how often it could.
SPENDER = """
import asyncio, os, sys
from weighbridge.router.budget import Budget, Caps, Refused, Reservation
from weighbridge.store.budget import SharedBooks
from weighbridge.store.database import Database

async def main():
    budget = Budget(Caps(usd_per_day=1.0), SharedBooks(Database(sys.argv[1]), patience_s=60.0))
    print("ready", flush=True)
    sys.stdin.readline()
    asked = await asyncio.gather(*(budget.reserve("p", f"{i}", 0.1) for i in range(25)))
    sent = sum(isinstance(each, Reservation) for each in asked)
    print(sent, sum(each is Refused.DAY for each in asked), flush=True)
    os._exit(9)  # nothing is settled, nothing is closed

asyncio.run(main())
"""


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextmanager
def opened(database: Database, clock: Clock, caps: Caps = CAPS, patience_s: float = 60.0):
    with closing(Budget(caps, SharedBooks(database, clock, patience_s=patience_s))) as budget:
        yield budget


def settle_all(budget: Budget) -> None:
    """Wait until the thread has nothing more to do."""
    assert isinstance(budget._books, SharedBooks)
    budget._books._worker.submit(lambda: None).result()


def sums(database: Database) -> dict[str, tuple[int, int]]:
    """Reserved and spent micro-dollars by kind of account."""
    row = spending_table.c
    amounts = (func.sum(row.reserved_micro_usd), func.sum(row.spent_micro_usd))
    with database.reading() as connection:
        rows = connection.execute(select(row.kind, *amounts).group_by(row.kind))
        return {kind: (reserved, spent) for kind, reserved, spent in rows}


def test_two_processes_together_send_as_many_calls_as_the_budget_covers(database_url):
    """And what they had reserved when they were killed counts as spent."""
    Database(database_url).close()
    spenders = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, database_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for spender in spenders:
        assert spender.stdout is not None
        assert spender.stdout.readline() == "ready\n"
    for spender in spenders:
        assert spender.stdin is not None
        spender.stdin.write("go\n")
        spender.stdin.flush()
    said = [spender.communicate(timeout=60)[0] for spender in spenders]
    assert [spender.returncode for spender in spenders] == [9, 9]
    sent, refused = zip(*(map(int, each.split()) for each in said), strict=True)
    assert (sum(sent), sum(refused)) == (10, 40)  # nobody was refused for the other's lock
    with closing(Database(database_url)) as database:
        assert sums(database) == {"day": (1_000_000, 0)}


async def test_books_keep_reserved_and_spent_apart(database, clock):
    with opened(database, clock) as budget:
        first, second = [await budget.reserve("p", "t", 0.2) for _ in range(2)]
        assert isinstance(first, Reservation)
        assert isinstance(second, Reservation)
        first.settle(0.03)
        settle_all(budget)
        assert sums(database) == dict.fromkeys(("day", "provider", "ticket"), (200_000, 30_000))
        second.settle(None)
    assert sums(database) == dict.fromkeys(("day", "provider", "ticket"), (0, 230_000))


async def test_spending_outlives_the_process(database_url, clock):
    with closing(Database(database_url)) as database, opened(database, clock) as budget:
        (await budget.reserve("p", "t", 0.5)).settle(0.5)
    with closing(Database(database_url)) as database, opened(database, clock) as budget:
        assert await budget.reserve("p", "t", 0.1) is Refused.TICKET
        assert await budget.reserve("p", "u", 0.4) is Refused.PROVIDER_DAY


async def test_name_of_a_ticket_is_not_in_the_database(database, clock):
    """It may be a person's address."""
    with opened(database, clock) as budget:
        assert isinstance(await budget.reserve("p", "canary@example.org", 0.1), Reservation)
    assert sums(database)["ticket"] == (100_000, 0)
    with database.reading() as connection:
        rows = connection.execute(select(spending_table)).all()
    assert len(rows) == 3
    assert "canary" not in str(rows)


async def test_lock_that_lasts_refuses_and_takes_nothing(database_url, clock, caplog):
    """The event loop goes on meanwhile, and what comes too late is given back."""
    with (
        closing(Database(database_url)) as other,
        closing(Database(database_url, busy_timeout_s=600)) as database,
        opened(database, clock, patience_s=0.05) as budget,
    ):
        with locked(other, spending_table):
            asked = asyncio.gather(*(budget.reserve("p", "t", 0.1) for _ in range(3)))
            turns = 0
            while not asked.done():
                turns += 1
                await asyncio.sleep(0)
            assert asked.result() == [Refused.UNREACHABLE] * 3
            assert turns > 3
        settle_all(budget)
        settle_all(budget)  # what the first ones have given back
        assert set(sums(other).values()) <= {(0, 0)}
        (warning,) = caplog.records
        assert warning.levelno == logging.WARNING
        assert isinstance(await budget.reserve("p", "t", 0.5), Reservation)


async def test_cancelled_wait_for_a_reservation_takes_nothing(database_url, clock):
    """Nobody was there to send the request that it was for."""
    with (
        closing(Database(database_url)) as other,
        closing(Database(database_url, busy_timeout_s=600)) as database,
        opened(database, clock) as budget,
    ):
        with locked(other, spending_table):
            waiting = [asyncio.ensure_future(budget.reserve("p", "t", 0.1)) for _ in range(3)]
            await asyncio.sleep(0.01)
            for task in waiting:
                task.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        settle_all(budget)
        settle_all(budget)
        assert set(sums(other).values()) <= {(0, 0)}


def break_it(database: Database, trouble: str) -> None:
    with database.writing() as connection:
        match trouble:
            case "has lost the table":
                connection.execute(DropTable(spending_table))
            case "refuses the row":
                refuse_inserts(connection, spending_table)
            case _ if database.is_postgresql:
                # For connections to come; `writing` itself leaves the choice to the server.
                name = connection.exec_driver_sql("SELECT current_database()").scalar()
                read_only = "SET default_transaction_read_only = on"
                connection.exec_driver_sql(f"ALTER DATABASE {name} {read_only}")
            case _:
                connection.exec_driver_sql("PRAGMA query_only = 1")  # for this connection alone
    if database.is_postgresql:
        database.close()


@pytest.mark.parametrize("trouble", ["has lost the table", "refuses the row", "takes no writes"])
async def test_database_in_trouble_refuses_with_a_reason_of_its_own(
    database, clock, caplog, trouble
):
    """Never an exception into a ticket, never a request that nobody counts; one warning."""
    with opened(database, clock) as budget:
        break_it(database, trouble)
        for _ in range(2):
            assert await budget.reserve("p", "t", 0.1) is Refused.UNREACHABLE
        assert isinstance(await budget.reserve("local", "t", 0.0), Reservation)
    # The driver of PostgreSQL has something to say of its own.
    (warning,) = [each for each in caplog.records if each.name.startswith("weighbridge")]
    assert "requests that cost money are not sent" in warning.getMessage()


async def test_locked_database_refuses_with_a_reason_of_its_own(database, clock, caplog):
    with opened(database, clock) as budget, locked(database, spending_table):
        for _ in range(2):
            assert await budget.reserve("p", "t", 0.1) is Refused.UNREACHABLE
        assert isinstance(await budget.reserve("local", "t", 0.0), Reservation)
    (warning,) = caplog.records
    assert "lock" in warning.getMessage()


async def test_full_database_refuses(tmp_path, clock):
    """A real one: the file may not grow any more."""
    database = Database(f"sqlite:///{tmp_path}/weighbridge.db")
    with closing(database), opened(database, clock) as budget:
        with database.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")  # as many as it has by now
        asked = [await budget.reserve("p", f"{number}", 0.0001) for number in range(400)]
        assert asked[-1] is Refused.UNREACHABLE
        num_sent = sum(isinstance(each, Reservation) for each in asked)
        assert sums(database)["day"] == (num_sent * 100, 0)


async def test_settlement_that_cannot_be_written_leaves_the_reservation(database, clock, caplog):
    with opened(database, clock) as budget:
        reservation = await budget.reserve("p", "t", 0.4)
        assert isinstance(reservation, Reservation)
        with locked(database, spending_table):
            reservation.settle(0.1)
            settle_all(budget)
        assert sums(database)["day"] == (400_000, 0)
        assert len(caplog.records) == 1
        assert isinstance(await budget.reserve("p", "t", 0.1), Reservation)


async def test_trouble_that_comes_again_is_warned_of_again(database, clock, caplog):
    with opened(database, clock) as budget:
        for _ in range(2):
            with locked(database, spending_table):
                assert await budget.reserve("p", "t", 0.1) is Refused.UNREACHABLE
            assert isinstance(await budget.reserve("p", "t", 0.1), Reservation)
    assert len(caplog.records) == 2


async def test_closed_books_refuse(database, clock, caplog):
    with opened(database, clock) as budget:
        reservation = await budget.reserve("p", "t", 0.1)
        assert isinstance(reservation, Reservation)
        budget.close()
        reservation.settle(0.0)
        assert await budget.reserve("p", "t", 0.1) is Refused.UNREACHABLE
    assert sums(database)["day"] == (100_000, 0)
    assert caplog.records == []


async def test_old_tickets_are_forgotten_and_other_sums_are_kept(database, clock):
    """A few with each reservation: none of them pays for all the tickets of a week."""
    caps = Caps(usd_per_day=1.0, usd_per_ticket=1.0)
    with opened(database, clock, caps) as budget:
        for number in range(12):
            await budget.reserve("p", f"{number}", 0.01)
        clock.now += timedelta(days=TICKETS_KEPT_DAYS)
        await budget.reserve("p", "new", 0.01)
        assert sums(database)["ticket"] == (130_000, 0)
        clock.now += timedelta(days=1)
        await budget.reserve("p", "new", 0.01)
        assert sums(database)["ticket"] == (60_000, 0)
        await budget.reserve("p", "new", 0.01)
        assert sums(database)["ticket"] == (30_000, 0)
        assert sums(database)["day"] == (150_000, 0)


async def test_no_statement_reads_the_whole_table(tmp_path, clock):
    """However many tickets there were; SQLite says so."""
    statements = []
    database = Database(f"sqlite:///{tmp_path}/weighbridge.db")
    with closing(database), opened(database, clock) as budget:
        with database.reading() as connection:
            raw = connection.connection.driver_connection
            raw.set_trace_callback(statements.append)
        reservation = await budget.reserve("p", "t", 0.1)
        assert isinstance(reservation, Reservation)
        reservation.settle(0.1)
        settle_all(budget)
        raw.set_trace_callback(None)
        plans = []
        with database.reading() as connection:
            for statement in statements:
                if statement.startswith(("SELECT", "UPDATE", "DELETE")):
                    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
                    plans += [step for *_, step in plan]
    assert any("SEARCH spending" in step for step in plans)
    assert not [step for step in plans if step.startswith("SCAN")]
    assert any("ix_spending_ticket" in step for step in plans)
