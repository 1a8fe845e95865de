"""What SQLite and PostgreSQL do differently, said once for all statements.

Where the two agree, statements are written in SQLAlchemy as they are. `FOR UPDATE SKIP LOCKED`
needs no care: SQLite has no row locks, and SQLAlchemy leaves the words out there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection
from typing import TypeAlias

from sqlalchemy import Column, Connection, Table, TextClause, text
from sqlalchemy.dialects import postgresql, sqlite

Insert: TypeAlias = sqlite.Insert | postgresql.Insert


def is_postgresql(connection: Connection) -> bool:
    """Whether many write at once: PostgreSQL locks rows, SQLite the whole file."""
    return connection.dialect.name == "postgresql"


def now_us(connection: Connection, clock: Callable[[], float] | None = None) -> int:
    """Microseconds since 1970, by default of the one clock that all users of this database share.

    That of the server on PostgreSQL, which goes on within a transaction; that of this machine on
    SQLite, which no other machine can use.

    Args:
        connection: to the database.
        clock: seconds since 1970, to be believed instead.
    """
    if clock is not None:
        return round(clock() * 1e6)
    if not is_postgresql(connection):
        return time.time_ns() // 1000
    # In whole numbers from the start: as a double the last microseconds would be rounded.
    statement = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    now: int = connection.execute(statement).scalar_one()
    return now


def by_index(connection: Connection, table: Table, index: str) -> Table | TextClause:
    """A table in a FROM, read by an index that SQLite, which has no statistics, would not choose.

    Its columns are then named by texts: `Column` would bring the table in once more.
    """
    if is_postgresql(connection):
        return table
    return text(f"{table.name} INDEXED BY {index}")


def lock(connection: Connection, what: Table | str) -> None:
    """Let one transaction at a time past here, until it ends; whoever only reads is not held up.

    For those who read before they write. On SQLite they have the lock already: `Database.writing`
    took it. On PostgreSQL it is an advisory lock, which unlike a lock on the table does not get in
    the way of vacuuming, and which the readers and row locks of others do not notice.
    """
    if is_postgresql(connection):
        name = what if isinstance(what, str) else what.name
        key = int.from_bytes(hashlib.sha256(f"weighbridge {name}".encode()).digest()[:8])
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key - 2**63})


def insert(connection: Connection, table: Table) -> Insert:
    """An INSERT that knows `on_conflict_do_nothing`, `on_conflict_do_update` and `excluded`."""
    return postgresql.insert(table) if is_postgresql(connection) else sqlite.insert(table)


def insert_or_keep(
    connection: Connection, table: Table, key: Collection[Column[object]] | None = None
) -> Insert:
    """An INSERT that leaves a row alone which is there already.

    Add `.returning(...)` to learn which rows are new: only these come back.

    Args:
        connection: that will run it.
        table: to insert into.
        key: the unique columns that tell whether a row is there; any unique ones by default.
    """
    return insert(connection, table).on_conflict_do_nothing(
        index_elements=None if key is None else list(key)
    )


def insert_or_replace(connection: Connection, table: Table) -> Insert:
    """An INSERT that overwrites what a row of the same primary key holds."""
    new = insert(connection, table)
    return new.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={column.name: new.excluded[column.name] for column in _values(table)},
    )


def insert_or_add(connection: Connection, table: Table) -> Insert:
    """An INSERT that adds its numbers to those in a row of the same primary key."""
    new = insert(connection, table)
    return new.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={column.name: column + new.excluded[column.name] for column in _values(table)},
    )


def _values(table: Table) -> list[Column[object]]:
    return [column for column in table.columns if not column.primary_key]
