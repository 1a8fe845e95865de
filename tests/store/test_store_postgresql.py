"""What a PostgreSQL server needs beyond the contract of `Database`."""

from __future__ import annotations

import pickle
import sys
import threading
from contextlib import closing

import pytest
from databases import server
from sqlalchemy import JSON, Column, Integer, MetaData, Table, insert, make_url, select

from weighbridge.errors import ExtraMissing, QueueUnavailable
from weighbridge.store import dialect, postgresql
from weighbridge.store.columns import CleanText
from weighbridge.store.database import Database
from weighbridge.store.migrations import HEAD

CANARY = "canary-7f3a"

NOTES = Table(
    "notes",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("text", CleanText, unique=True),
    Column("json", JSON),
)


@pytest.fixture
def database(postgresql_url):
    with closing(Database(postgresql_url, busy_timeout_s=0.05)) as database:
        with database.writing() as connection:
            NOTES.create(connection)
        yield database


def name_of(database: Database) -> str:
    return make_url(database.url).database


def disconnect(database: Database) -> int:
    """End every connection to a database, as a restart does; how many there were."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
    return len(server().execute(f"{ended} '{name_of(database)}'"))


@pytest.mark.parametrize(
    "query",
    [
        "sslmode=prefer",
        "connect_timeout=5",
        "application_name=desk",
        "options=-csearch_path%3Dpublic",
        "target_session_attrs=read-write",
    ],
)
def test_options_of_libpq_reach_it(postgresql_url, query):
    with (
        closing(Database(f"{postgresql_url}&{query}")) as database,
        database.reading() as connection,
    ):
        name = connection.exec_driver_sql("SHOW application_name").scalar()
        assert name == ("desk" if "application_name" in query else "weighbridge")


def test_plain_name_of_the_kind_means_the_same_driver(postgresql_url):
    with closing(Database(postgresql_url.replace("+psycopg", ""))) as database:
        assert database.is_postgresql


def test_driver_that_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ExtraMissing, match="psycopg") as missing:
        Database("postgresql://localhost/queue")
    assert "weighbridge[postgres]" in missing.value.hint


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_database_that_cannot_hold_every_character_is_refused_untouched(encoding):
    server().execute(f"CREATE DATABASE narrow ENCODING '{encoding}' TEMPLATE template0")
    try:
        with pytest.raises(QueueUnavailable, match=f"{encoding}.*UTF8"):
            Database(server().url("narrow"))
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert server().execute(tables, "narrow") == [(0,)]
    finally:
        server().drop("narrow")


def test_missing_database_and_silent_server_are_named_without_a_secret(tmp_path):
    url = server().url("nowhere").replace("postgres@", "postgres:s3cret@")
    with pytest.raises(QueueUnavailable, match='"nowhere" does not exist') as refused:
        Database(url)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(QueueUnavailable, match="failed: No such file") as refused:
        Database(f"postgresql://postgres:s3cret@/queue?host={tmp_path}")
    assert "s3cret" not in str(refused.value)


def test_connections_that_a_restart_has_ended_are_replaced(database):
    """Nobody notices who was not in the middle of something."""
    with database.reading(), database.reading():
        pass  # so that there are two
    assert disconnect(database) >= 2
    for _ in range(3):
        with database.writing() as connection:
            connection.execute(insert(NOTES), {"text": None})


def test_connection_that_ends_in_the_middle_is_a_complaint_and_the_next_one_works(database):
    def fail():
        with database.writing() as connection:
            connection.execute(insert(NOTES), {"text": "lost"})
            disconnect(database)
            connection.execute(insert(NOTES), {"text": "never sent"})

    with pytest.raises(QueueUnavailable, match="terminat|closed"):  # noqa: RUF043
        fail()
    with database.reading() as connection:
        assert connection.execute(select(NOTES)).all() == []


COMPLAINTS = {
    "a value that is there already": "INSERT INTO notes (text) VALUES ('{}'), ('{}')",
    "a value of another type": "INSERT INTO notes (id) VALUES ('{}'::text::integer)",
    "no JSON": "INSERT INTO notes (json) VALUES ('{}')",
    "a function's own words": "DO $$ BEGIN RAISE EXCEPTION '{}'; END $$",
}


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_no_complaint_quotes_what_is_stored(database, complaint):
    """The server quotes values in many of its messages; ours names the error and its number."""
    statement = COMPLAINTS[complaint].replace("{}", CANARY)
    with pytest.raises(QueueUnavailable) as refused, database.writing() as connection:
        connection.exec_driver_sql(statement)
    error = refused.value
    shown = f"{error} {error!r} {error.__notes__} {error.__cause__}"
    assert CANARY not in shown
    assert error.__suppress_context__
    assert "failed with" in error.problem
    assert pickle.loads(pickle.dumps(error)).problem == error.problem


def test_broken_rule_is_named(database):
    """Table and constraint are ours to tell."""
    with pytest.raises(QueueUnavailable, match=r"23505, notes, notes_text_key") as refused:  # noqa: SIM117
        with database.writing() as connection:
            connection.execute(insert(NOTES), [{"text": CANARY}, {"text": CANARY}])
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("text", ["\0", "a\ud800b", "\udfff", "😀", "\u2028", "é" * 4000])
def test_text_and_json_hold_every_character(database, text):
    """Text in a form that can be stored; JSON exactly, for it is stored in ASCII."""
    with database.writing() as connection:
        connection.execute(insert(NOTES), {"text": text, "json": {text: [text, 2**70, 0.1]}})
    clean = CleanText().process_bind_param(text, connection.dialect)
    with database.reading() as connection:
        row = connection.execute(select(NOTES).where(NOTES.c.text == text)).one()
    assert row.text == clean
    assert row.json == {text: [text, 2**70, 0.1]}


def test_reading_can_write_nothing(database):
    with pytest.raises(QueueUnavailable, match="read-only"), database.reading() as connection:
        connection.execute(insert(NOTES), {"text": "x"})


def test_next_transaction_of_a_connection_is_not_bound_by_the_last_one(database):
    """Reading and writing share connections, which are set anew each time."""
    for _ in range(3):
        with database.reading() as connection:
            level = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
            assert level == "repeatable read"
        with database.writing() as connection:
            level = connection.exec_driver_sql("SHOW transaction_isolation").scalar()
            assert level == "read committed"
            connection.execute(insert(NOTES), {"text": None})


def test_wait_for_a_row_ends_like_any_wait_for_a_lock(database):
    with database.writing() as connection:
        connection.execute(insert(NOTES), {"id": 1})
    with database.writing() as first:
        first.execute(NOTES.update().values(text="first"))
        with pytest.raises(QueueUnavailable, match="lock timeout"), database.writing() as second:
            second.execute(NOTES.update().values(text="second"))


def test_writers_of_other_rows_do_not_wait_for_each_other(database):
    with database.writing() as first, database.writing() as second:
        first.execute(insert(NOTES), {"text": "first"})
        second.execute(insert(NOTES), {"text": "second"})


def test_row_that_somebody_holds_is_skipped(database):
    """SQLAlchemy writes the words where they are needed, and leaves them out on SQLite."""
    with database.writing() as connection:
        connection.execute(insert(NOTES), [{"id": 1}, {"id": 2}])
    free = select(NOTES.c.id).order_by(NOTES.c.id).limit(1).with_for_update(skip_locked=True)
    with database.writing() as first, database.writing() as second:
        assert [first.scalar(free), second.scalar(free)] == [1, 2]


def test_migrating_waits_for_whoever_migrates_already(bare_postgresql_url):
    """And finds nothing left to do."""
    holder = Database(bare_postgresql_url)
    with holder.writing() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    opened: list[str] = []

    def open_another() -> None:
        with closing(Database(bare_postgresql_url)) as another:
            opened.append(another.url)

    with holder.writing() as connection:
        dialect.lock(connection, "schema")
        connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{HEAD}')")
        opening = threading.Thread(target=open_another)
        opening.start()
        opening.join(0.2)
        assert opened == []
    opening.join()
    assert opened == [holder.url]
    holder.close()


def test_severed_connection_reaches_the_server_no_more(database):
    """What a child of a fork does to its copy, done here to one of our own."""

    def fail():
        with database.writing() as connection:
            connection.execute(insert(NOTES), {"text": "x"})
            postgresql.sever(database._engine)

    with pytest.raises(QueueUnavailable):
        fail()
    with database.reading() as connection:
        assert connection.execute(select(NOTES)).all() == []
