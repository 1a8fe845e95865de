"""Databases for tests: SQLite files, and PostgreSQL on one server for the whole session.

A test asks for the fixture `database_url` or `any_database` (see `conftest`) and runs once on each.
A law that wants one database for all its examples opens `fresh_url` in a fixture of its own.
"""

from __future__ import annotations

import atexit
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import Connection, StaticPool, Table, create_engine

from bench.postgresql_server import NotInstalled, Server
from weighbridge.store.database import Database
from weighbridge.store.dialect import is_postgresql, lock
from weighbridge.store.migrations import upgrade

KINDS = ("sqlite", "postgresql")
NOT_TESTED = "NOT TESTED: PostgreSQL, which needs "


@contextmanager
def fresh_url(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a new database with the current schema; a SQLite file is only made on opening.

    Skips the test where no PostgreSQL server can be had.
    """
    if kind == "sqlite":
        yield f"sqlite:///{folder}/weighbridge.db"
    else:
        with server().database(template()) as url:
            yield url


@contextmanager
def locked(database: Database, table: Table) -> Iterator[Connection]:
    """Holds up whoever reads and then writes this table, until the block ends."""
    with database.writing() as connection:
        lock(connection, table)
        yield connection


def refuse_inserts(connection: Connection, table: Table, when: str = "true") -> None:
    """From now on the database refuses new rows for which `when`, in its words, holds."""
    trigger = f"CREATE TRIGGER refuse BEFORE INSERT ON {table.name}"
    if is_postgresql(connection):
        connection.exec_driver_sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
        )
        call = "EXECUTE FUNCTION refuse()"
        connection.exec_driver_sql(f"{trigger} FOR EACH ROW WHEN ({when}) {call}")
    else:
        connection.exec_driver_sql(
            f"{trigger} WHEN {when} BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )


@cache
def server() -> Server:
    """The one server; started when first needed, stopped when Python ends."""
    try:
        started = Server()
    except NotInstalled as missing:
        pytest.skip(f"{NOT_TESTED}{missing}")
    atexit.register(started.stop)
    return started


@contextmanager
def migrated_once() -> Iterator[None]:
    """Meanwhile a new SQLite database gets what migrating one has made, which is much quicker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weighbridge.store.database.upgrade", _upgrade)
        yield


def _upgrade(connection: Connection) -> None:
    tables = "SELECT count(*) FROM sqlite_master"
    if is_postgresql(connection) or connection.exec_driver_sql(tables).scalar_one():
        upgrade(connection)
    else:
        for statement in _statements():
            connection.exec_driver_sql(statement)


@cache
def _statements() -> tuple[str, ...]:
    """All that makes a SQLite database of the current schema."""
    with sqlite3.connect(":memory:") as raw:
        engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
        with engine.begin() as connection:
            upgrade(connection)
        _, *statements, _ = raw.iterdump()  # without BEGIN and COMMIT
    raw.close()
    return tuple(statements)


@cache
def template() -> str:
    """A database with the current schema. Copying it is much quicker than migrating."""
    name = server().create()
    Database(server().url(name)).close()
    return name
