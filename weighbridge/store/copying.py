"""Copying a whole database into an empty one, of the same kind or the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, func, insert, make_url, select, text
from sqlalchemy.exc import ArgumentError

from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
from weighbridge.store.dialect import is_postgresql
from weighbridge.store.schema import metadata
from weighbridge.store.sqlite import is_memory

_ROWS_AT_ONCE: Final = 1000
_MODULUS: Final = 2**256


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """What was copied of one table, and is the same on both sides.

    Args:
        name: of the table.
        num_rows: how many rows it has.
        digest: of all rows together, in whatever order; 64 hexadecimal digits.
    """

    name: str
    num_rows: int
    digest: str


def open_source(url: str) -> Database:
    """Open a database that is to be copied; a file that is not there is not made.

    Raises:
        QueueUnavailable: it is not there, or cannot be opened.
        ExtraMissing: as `Database`.
    """
    with suppress(ArgumentError, ValueError):  # `Database` says what is wrong
        parsed = make_url(url)
        is_file = parsed.get_backend_name() == "sqlite" and not is_memory(parsed)
        if is_file and not Path(str(parsed.database)).exists():
            error = QueueUnavailable(
                parsed.render_as_string(hide_password=True), "there is no such file"
            )
            error.hint = "sqlite:////var/lib/w.db, with four slashes, is /var/lib/w.db."
            raise error
    return Database(url)


def copy_database(
    source: Database,
    target: Database,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[CopiedTable]:
    """Copy every table, all of them or none, and read back what has arrived.

    The source is read as it is at one moment. What others write into it meanwhile is not copied, so
    they should be stopped first.

    Args:
        source: stays as it is.
        target: another database, opened and without a row. New ids go on after the copied ones.
        progress: told the name of a table, how many of its rows are written, and how many it has:
            after every thousand rows and at the end of each table.

    Raises:
        QueueUnavailable: a database fails, the target is not empty, or something arrived changed.
            The target then is as empty as it was.
    """
    with source.reading() as reader, target.writing() as writer:
        _check_empty(writer, target)
        copied = [
            _copy_table(reader, writer, table, progress or _silent)
            for table in metadata.sorted_tables  # whatever is referred to comes first
        ]
        for table, sent in zip(metadata.sorted_tables, copied, strict=True):
            if (arrived := _sum_up(table, _rows(writer, table))) != sent:
                raise QueueUnavailable(
                    target.url,
                    f"the table {table.name!r} arrived changed: {arrived.num_rows} rows with digest"
                    f" {arrived.digest[:12]}, {sent.num_rows} with {sent.digest[:12]} were sent",
                )
    return copied


def _check_empty(connection: Connection, target: Database) -> None:
    for table in metadata.sorted_tables:
        if connection.execute(select(table).limit(1)).first():
            error = QueueUnavailable(target.url, f"it is not empty: {table.name!r} has rows")
            error.hint = "Copy into a new database; nothing was written."
            raise error


def _copy_table(
    reader: Connection, writer: Connection, table: Table, progress: Callable[[str, int, int], None]
) -> CopiedTable:
    total = reader.execute(select(func.count()).select_from(table)).scalar_one()
    digest = num_rows = 0
    for batch in _rows(reader, table).partitions():
        writer.execute(insert(table), [row._asdict() for row in batch])
        digest += sum(map(_digest, batch))
        num_rows += len(batch)
        progress(table.name, num_rows, total)
    if not num_rows:
        progress(table.name, 0, 0)
    _count_on(writer, table)
    return _copied(table, num_rows, digest)


def _rows(connection: Connection, table: Table) -> Any:
    """All rows, a batch at a time; a row that refers to another of its table comes after it."""
    in_order = select(table).order_by(*table.primary_key.columns)
    return connection.execute(in_order.execution_options(yield_per=_ROWS_AT_ONCE))


def _sum_up(table: Table, rows: Iterable[Row[Any]]) -> CopiedTable:
    digest = num_rows = 0
    for row in rows:
        digest += _digest(row)
        num_rows += 1
    return _copied(table, num_rows, digest)


def _copied(table: Table, num_rows: int, digest: int) -> CopiedTable:
    return CopiedTable(name=table.name, num_rows=num_rows, digest=f"{digest % _MODULUS:064x}")


def _digest(row: Row[Any]) -> int:
    # Added up, since the two databases need not agree on the order of texts.
    said = json.dumps(tuple(row), sort_keys=True, default=bytes.hex)
    return int.from_bytes(hashlib.sha256(said.encode()).digest())


def _count_on(connection: Connection, table: Table) -> None:
    """Let the next id of a table be above all that it has; SQLite sees to that by itself."""
    column = table.autoincrement_column
    if column is None or not is_postgresql(connection):
        return
    highest = connection.scalar(select(func.max(column)))
    if highest is not None:
        connection.execute(
            text("SELECT setval(pg_get_serial_sequence(:table, :column), :highest)"),
            {"table": table.name, "column": column.name, "highest": highest},
        )


def _silent(_table: str, _done: int, _total: int) -> None:
    return
