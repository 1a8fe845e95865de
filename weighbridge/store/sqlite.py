"""How a SQLite database is opened: the file, the write-ahead log, and when transactions begin."""

from __future__ import annotations

import functools
import logging
import math
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event

from weighbridge.errors import QueueUnavailable
from weighbridge.store.mounts import mount_table, shared_file_system
from weighbridge.store.whereabouts import Whereabouts

# What `_begin` makes of a transaction. The log is synced to disk with each commit, or with the next
# one that is; a connection remembers the last setting.
READING: Mapping[str, Any] = {}
WRITING: Mapping[str, Any] = {"synchronous": "FULL"}
FLEETING: Mapping[str, Any] = {"synchronous": "NORMAL"}

_MEMORY: Final = ":memory:"
_OLDEST: Final = (3, 35)  # the first with RETURNING
_logger = logging.getLogger(__name__)


def checked(url: URL, shown: str) -> URL:
    """Refuse what cannot work, before anything is created.

    Args:
        url: as it was given.
        shown: the same without secrets.

    Raises:
        QueueUnavailable: for another driver, options, an old SQLite, a NUL, a folder.
    """
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise QueueUnavailable(shown, "SQLite has no other drivers: sqlite:///path/to/file.db")
    if url.query:
        raise QueueUnavailable(shown, "options after `?` are not supported")
    if sqlite3.sqlite_version_info < _OLDEST:
        raise QueueUnavailable(
            shown, f"this Python has SQLite {sqlite3.sqlite_version}, 3.35 or newer is needed"
        )
    if "\0" in str(url.database):
        raise QueueUnavailable(shown, "no file can have a NUL in its name")
    if not is_memory(url) and Path(str(url.database)).is_dir():
        raise QueueUnavailable(shown, "this is a folder, not a file")
    return url


def engine(url: URL, shown: str, busy_timeout_s: float) -> Engine:
    """Connections to the file, which is created where it is missing; see `Database`."""
    limits: dict[str, Any] = {"max_overflow": -1}  # `Database` counts them
    if is_memory(url):
        # The data lives in its connection: one, kept for ever, lent to one thread at a time.
        place, where, limits = _MEMORY, None, {"pool_size": 1, "max_overflow": 0}
    else:
        path = Path(str(url.database)).absolute()
        try:
            _create(path)
        except OSError as error:
            raise QueueUnavailable(shown, error.strerror or type(error).__name__) from None
        table = mount_table()
        if kind := shared_file_system(path.resolve(), table):
            _warn_of_network(shown, kind)
        # A file that is gone must not come back empty, so it is opened and not created.
        place, where = f"file:{quote(os.fsencode(path))}?mode=rw", Whereabouts(path, shown, table)
    made = create_engine(
        url,
        poolclass=QueuePool,
        creator=functools.partial(_connect, where, place, busy_timeout_s),
        hide_parameters=True,
        **limits,
    )
    event.listen(made, "begin", functools.partial(_begin, where, round(busy_timeout_s * 1000)))
    return made


def prepare(engine: Engine, shown: str, patience_s: float) -> None:
    """Turn the write-ahead log on, which the file then remembers."""
    give_up_at = time.monotonic() + patience_s
    with closing(engine.raw_connection()) as lent:
        connection: Any = lent.driver_connection
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                # The change upgrades a read lock, for which SQLite never waits by itself.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                    raise
                time.sleep(0.01)
    if mode not in ("wal", "memory"):
        raise QueueUnavailable(shown, "no write-ahead log here; is the folder on a network?")


def sever(_engine: Engine) -> None:
    """Nothing to do: a file has no other end that would hear the child."""


def scrub(engine: Engine, patience_s: float, *, rewrite: bool) -> None:
    """Empty the log into the file, and before that write the file anew; see `Database.scrub`."""
    give_up_at = time.monotonic() + patience_s
    with closing(engine.raw_connection()) as lent:
        connection: Any = lent.driver_connection
        if rewrite:
            connection.execute("VACUUM")
        while True:
            # Unlike any other statement it does not fail if it has to wait: it says so.
            (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not is_busy:
                return
            if time.monotonic() > give_up_at:
                error = sqlite3.OperationalError("somebody still reads an older state")
                error.sqlite_errorname = "SQLITE_BUSY"  # as if SQLite itself had said so
                raise error
            time.sleep(0.01)


def problem(cause: BaseException) -> str | None:
    """What happened, in words that hold nothing stored; None where that is not known."""
    if isinstance(cause, sqlite3.Error) and hasattr(cause, "sqlite_errorname"):
        # SQLite itself speaks of tables and columns only; Python's wrapper quotes values.
        return f"{cause} ({cause.sqlite_errorname})"
    return None


def is_memory(url: URL) -> bool:
    """Whether the data lives in its connection."""
    return url.database in (None, "", _MEMORY)


def _create(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives its side files the same permissions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Only a new file is ever opened here. Closing a second handle on a database in use would
        # drop the locks of this process: https://sqlite.org/howtocorrupt.html, section 2.2.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return


@functools.cache  # one warning for each database
def _warn_of_network(shown: str, kind: str) -> None:
    # https://sqlite.org/wal.html: all processes must be on one machine, for they share memory.
    _logger.warning(
        "%s lies on a network file system (%s): SQLite may lose or damage what several machines"
        " write there; put the file on a local disk, or use PostgreSQL for a team",
        shown,
        kind,
    )


def _connect(where: Whereabouts | None, place: str, busy_timeout_s: float) -> sqlite3.Connection:
    if where is not None:
        where.check()
    connection = sqlite3.connect(
        place,
        uri=True,
        timeout=busy_timeout_s,
        # Python's own transaction control begins too late and too weakly; `_begin` does it.
        isolation_level=None,
        check_same_thread=False,
    )
    if where is not None:
        where.remember()
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _begin(where: Whereabouts | None, usual_wait_ms: int, connection: Connection) -> None:
    """Begin a transaction, on the driver's own connection: SQLAlchemy's ways take longer."""
    raw: Any = connection.connection.driver_connection
    options = connection.get_execution_options()
    if (synchronous := options.get("synchronous")) is None:
        raw.execute("BEGIN")
        return
    raw.execute(f"PRAGMA synchronous = {synchronous}")
    # A transaction that reads first and then asks for the write lock fails without any waiting if
    # somebody else wrote in between, so a writer asks at once. Nothing is waited for later.
    if (patience_s := options.get("patience_s")) is None:
        raw.execute("BEGIN IMMEDIATE")
    else:
        raw.execute(f"PRAGMA busy_timeout = {math.ceil(patience_s * 1000)}")
        try:
            raw.execute("BEGIN IMMEDIATE")
        finally:
            raw.execute(f"PRAGMA busy_timeout = {usual_wait_ms}")
    if where is not None:
        where.check()
        where.check_side_files(connection.info)
