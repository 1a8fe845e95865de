"""The contract of `Database`, which SQLite and PostgreSQL keep alike."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from databases import locked
from sqlalchemy import Column, Integer, MetaData, Table, func, insert, select

from weighbridge.errors import QueueUnavailable
from weighbridge.store import dialect
from weighbridge.store.database import Database
from weighbridge.store.dialect import (
    insert_or_add,
    insert_or_keep,
    insert_or_replace,
    is_postgresql,
    now_us,
)
from weighbridge.store.migrations import HEAD

OPENER = """
import sys
from weighbridge.store.database import Database
for line in sys.stdin:
    Database(line.strip()).close()
    print("open", flush=True)
"""

SUMS = Table(
    "sums", MetaData(), Column("name", Integer, primary_key=True), Column("amount", Integer)
)


@pytest.fixture(autouse=True, scope="module")
def migrations() -> None:
    """Are made in earnest here."""


@pytest.fixture
def database(any_database):
    with any_database.writing() as connection:
        SUMS.create(connection)
    return any_database


def sums(database) -> dict[int, int]:
    with database.reading() as connection:
        return dict(connection.execute(select(SUMS)).all())


def test_reader_sees_one_moment(database):
    """What is written meanwhile shows in the next transaction."""
    count = select(func.count()).select_from(SUMS)
    with database.reading() as reader:
        assert reader.scalar(count) == 0
        with database.writing() as writer:
            writer.execute(insert(SUMS), {"name": 1, "amount": 1})
        assert reader.scalar(count) == 0
    with database.reading() as reader:
        assert reader.scalar(count) == 1


def test_failed_block_leaves_nothing(database):
    def fail():
        with database.writing() as connection:
            connection.execute(insert(SUMS), {"name": 1, "amount": 1})
            connection.exec_driver_sql("CREATE TABLE t (x INTEGER)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sums(database) == {}
    with (
        pytest.raises(QueueUnavailable, match=r"no such table|does not exist"),
        database.reading() as connection,
    ):
        connection.exec_driver_sql("SELECT * FROM t")


def test_commit_that_fails_says_so_and_leaves_nothing(database):
    """Not only statements may: a reference can be checked in the end."""
    with database.writing() as connection:
        deferred = "REFERENCES sums (name) DEFERRABLE INITIALLY DEFERRED"
        connection.exec_driver_sql(f"CREATE TABLE child (x INTEGER {deferred})")

    def fail():
        with database.writing() as connection:
            connection.execute(insert(SUMS), {"name": 1, "amount": 1})
            connection.exec_driver_sql("INSERT INTO child VALUES (7)")

    with pytest.raises(QueueUnavailable, match=r"FOREIGN KEY|23503"):
        fail()
    assert sums(database) == {}


def test_who_reads_before_writing_waits_for_the_other_and_then_says_so(database):
    with (
        locked(database, SUMS),
        pytest.raises(QueueUnavailable, match="lock"),
        locked(database, SUMS),
    ):
        pass


def test_lock_lets_threads_add_up_what_they_read(database_url):
    """Each reads, adds one and writes: nothing is lost, nobody is refused."""
    database = Database(database_url, busy_timeout_s=60.0)
    with database.writing() as connection:
        SUMS.create(connection)
        connection.execute(insert(SUMS), {"name": 1, "amount": 0})

    def add() -> None:
        for _ in range(25):
            with locked(database, SUMS) as connection:
                amount = connection.scalar(select(SUMS.c.amount))
                connection.execute(SUMS.update().values(amount=amount + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums(database) == {1: 100}
    database.close()


def test_insert_keeps_replaces_or_adds_as_it_says(database):
    with database.writing() as connection:
        connection.execute(insert(SUMS), [{"name": n, "amount": 10} for n in (1, 2, 3)])
        kept = insert_or_keep(connection, SUMS).returning(SUMS.c.name)
        rows = [{"name": 1, "amount": 5}, {"name": 4, "amount": 5}]
        assert [*connection.execute(kept.values(rows)).scalars()] == [4]
        connection.execute(insert_or_replace(connection, SUMS), [{"name": 2, "amount": 5}] * 2)
        connection.execute(insert_or_add(connection, SUMS), [{"name": 3, "amount": 5}] * 2)
    assert sums(database) == {1: 10, 2: 5, 3: 20, 4: 5}


def test_insert_keeps_a_row_of_the_key_that_is_named_and_of_no_other(database):
    """A conflict that nobody has thought of stays an error."""
    with database.writing() as connection:
        connection.execute(insert_or_keep(connection, SUMS, [SUMS.c.name]), {"name": 1})
        connection.execute(insert_or_keep(connection, SUMS, [SUMS.c.name]), {"name": 1})
        connection.exec_driver_sql("CREATE UNIQUE INDEX u ON sums (amount)")
        connection.execute(insert(SUMS), {"name": 2, "amount": 7})
    with pytest.raises(QueueUnavailable), database.writing() as connection:
        connection.execute(
            insert_or_keep(connection, SUMS, [SUMS.c.name]), {"name": 3, "amount": 7}
        )
    assert sums(database).keys() == {1, 2}


def test_clock_of_the_database_goes_on_within_a_transaction(database):
    with database.writing() as connection:
        times = [now_us(connection) for _ in range(20)]
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert all(isinstance(time, int) for time in times)


def test_kind_is_known_to_the_database_and_to_a_connection(database, database_kind):
    assert database.is_postgresql is (database_kind == "postgresql")
    with database.reading() as connection:
        assert is_postgresql(connection) is database.is_postgresql


def test_two_processes_may_open_a_fresh_database_at_once(fresh_urls):
    """Neither sees the other's half-made schema, nor its lock."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    for url in fresh_urls:
        for opener in openers:
            opener.stdin.write(f"{url}\n")
            opener.stdin.flush()
        assert [opener.stdout.readline() for opener in openers] == ["open\n"] * 2
        database = Database(url)
        with database.reading() as connection:
            versions = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            assert [*versions.scalars()] == [HEAD]
        database.close()
    for opener in openers:
        opener.communicate()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql+psycopg2://ann:s3cret@localhost/queue", r"postgresql\+psycopg:"),
        ("postgresql+asyncpg://ann:s3cret@localhost/queue", r"postgresql\+psycopg:"),
        ("postgresql://localhost/queue?password=s3cret", "the option 'password'"),
        ("postgresql://localhost/queue?sslmod=s3cret", "did you mean 'sslmode'"),
        ("postgresql://localhost/queue?port=1&port=2&options=s3cret", "'port' after `.` is given"),
        ("postgresql://ann:s3cret@localhost:1/queue", "refused|connect"),
        ("mysql://ann:s3cret@localhost/queue", "only SQLite and PostgreSQL"),
        ("sqlite+aiosqlite:///s3cret/file.db", "no other drivers"),
        ("sqlite:///file.db?key=s3cret", "options"),
        ("sqlite:///file\0.db", "NUL"),
        ("s3cret", "not a database URL"),
        ("postgresql://ann:s3cret@localhost:port/queue", "not a database URL"),
    ],
)
def test_other_urls_are_refused_without_their_password(url, problem):
    with pytest.raises(QueueUnavailable, match=problem) as refused:
        Database(url)
    shown = f"{refused.value} {refused.value!r} {refused.value.__notes__}"
    assert "s3cret" not in shown.replace("sqlite+aiosqlite:///s3cret/file.db", "")


def test_only_one_module_knows_the_dialects():
    """Whoever imports an INSERT of one dialect writes what the other cannot run."""
    package = Path(dialect.__file__).parents[1]
    knowing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "sqlalchemy.dialects" in path.read_text("utf-8")
    }
    assert knowing == {"store/dialect.py"}


def durability(database: Database, *, is_fleeting: bool) -> str:
    with database.writing(is_fleeting=is_fleeting) as connection:
        setting = "SHOW synchronous_commit" if database.is_postgresql else "PRAGMA synchronous"
        return str(connection.exec_driver_sql(setting).scalar())


def test_only_fleeting_transactions_do_not_wait_for_the_disk(any_database):
    """Also on a connection that was fleeting before; the words are each database's own."""
    lasting, fleeting = ("on", "off") if any_database.is_postgresql else ("2", "1")
    if any_database.is_postgresql:  # the tests' server waits for no disk by itself
        with any_database.writing() as connection:
            name = connection.exec_driver_sql("SELECT current_database()").scalar()
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET synchronous_commit = on')
        any_database.close()
    for is_fleeting, wanted in ((False, lasting), (True, fleeting), (False, lasting)):
        assert durability(any_database, is_fleeting=is_fleeting) == wanted
