"""How long a transaction waits for others, on both kinds of database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, MetaData, Table, insert, select

from weighbridge.errors import QueueUnavailable
from weighbridge.store import dialect
from weighbridge.store.database import MOST_OPEN, Database

OWN_S = 20.0  # so long that no test which waited for it could be taken for one that did not

ROWS = Table("rows", MetaData(), Column("number", Integer, primary_key=True))


@pytest.fixture
def database(database_url):
    with closing(Database(database_url, busy_timeout_s=OWN_S)) as database:
        with database.writing() as connection:
            ROWS.create(connection)
        yield database


@pytest.fixture
def other(database, database_url) -> Iterator[Database]:
    """Somebody else with the same database."""
    with closing(Database(database_url)) as other:
        yield other


@contextmanager
def row_locked(database: Database, patience_s: float | None = None) -> Iterator[None]:
    """A transaction that only one can have at a time; on PostgreSQL by a row that both insert."""
    with database.writing(patience_s=patience_s) as connection:
        connection.execute(insert(ROWS), {"number": 0})
        yield


@contextmanager
def all_connections_in_use(database: Database) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        for _ in range(MOST_OPEN):
            stack.enter_context(database.reading())
        yield stack


def wait_ms(database: Database, patience_s: float | None) -> str:
    """The wait for a lock that is set within a transaction, as the database says it."""
    with database.writing(patience_s=patience_s) as connection:
        setting = "SHOW lock_timeout" if database.is_postgresql else "PRAGMA busy_timeout"
        return str(connection.exec_driver_sql(setting).scalar())


def seconds_until_refused(database: Database, patience_s: float) -> float:
    started = time.monotonic()
    with pytest.raises(QueueUnavailable, match="lock"), row_locked(database, patience_s):
        pass
    return time.monotonic() - started


def numbers(database: Database) -> list[int]:
    with database.reading() as connection:
        return [*connection.execute(select(ROWS.c.number).order_by(ROWS.c.number)).scalars()]


def test_lock_is_waited_for_as_long_as_was_said(database, other):
    """Neither less, nor as long as the database's own patience; less than none is none."""

    @settings(max_examples=8, deadline=None)
    @example(0.0004)
    @given(st.floats(-1.0, 0.2))
    def law(patience_s):
        assert patience_s * 0.9 <= seconds_until_refused(database, patience_s) < OWN_S / 2

    with row_locked(other):
        law()


def test_lock_that_is_let_go_in_time_is_got(database, other):
    with ExitStack() as stack:
        stack.enter_context(row_locked(other))
        threading.Timer(0.1, stack.pop_all().close).start()
        with database.writing(patience_s=OWN_S / 2) as connection:
            connection.execute(dialect.insert_or_keep(connection, ROWS), {"number": 0})
            connection.execute(insert(ROWS), {"number": 1})
    assert numbers(database) == [0, 1]


def test_no_patience_outlasts_its_transaction(database, other):
    """Those that follow on the same connection wait as before, also after one that failed."""
    usual = wait_ms(database, None)
    with row_locked(other):
        seconds_until_refused(database, 0.01)
    assert wait_ms(database, None) == usual
    wait_ms(database, 0.01)
    assert wait_ms(database, None) == usual


def test_longer_patience_than_the_databases_own_is_cut(database_url):
    with closing(Database(database_url, busy_timeout_s=0.05)) as database:
        assert wait_ms(database, 1e12) == wait_ms(database, None)


def test_failed_wait_leaves_nothing_and_the_next_transaction_works(database, other):
    with row_locked(other):
        seconds_until_refused(database, 0.01)
        assert numbers(database) == []
    with database.writing(patience_s=0.0) as connection:
        connection.execute(insert(ROWS), {"number": 1})
    assert numbers(database) == [0, 1]


def test_wait_for_a_free_connection_is_bounded_alike(database):
    """Who is patient gets the first that is free."""
    with all_connections_in_use(database) as stack:
        started = time.monotonic()
        with pytest.raises(QueueUnavailable, match="in use"), database.writing(patience_s=0.05):
            pass
        assert time.monotonic() - started < OWN_S / 2
        threading.Timer(0.05, stack.pop_all().close).start()
        with database.writing(patience_s=OWN_S / 2) as connection:
            connection.execute(insert(ROWS), {"number": 1})
    assert numbers(database) == [1]


def test_wait_for_a_connection_is_not_made_again_for_the_lock(database, other):
    with row_locked(other), all_connections_in_use(database) as stack:
        threading.Timer(1.0, stack.pop_all().close).start()
        assert 1.0 <= seconds_until_refused(database, 1.2) < 1.0 + 1.2


def test_memory_has_one_connection_and_the_same_patience():
    with (
        closing(Database("sqlite://", busy_timeout_s=OWN_S)) as database,
        database.writing(),
        pytest.raises(QueueUnavailable, match="in use"),
        database.writing(patience_s=0.01),
    ):
        pass
