"""Database: opens the file, keeps its schema current, and lends out transactions."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    QueuePool,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from weighbridge.errors import QueueUnavailable
from weighbridge.store import forks
from weighbridge.store.migrations import HEAD, REVISIONS, upgrade

_MEMORY: Final = ":memory:"
_OLDEST_SQLITE: Final = (3, 35)  # the first with RETURNING


class Database:
    """One SQLite database, open for any number of threads and processes.

    Opening creates the folder and the file where they are missing, the file readable by its owner
    alone, and brings the schema up to date. In memory (`sqlite://`) there is one connection, and
    transactions wait for each other.

    Args:
        url: such as `sqlite:////var/lib/weighbridge.db`; a relative path counts from the working
            directory of this moment.
        busy_timeout_s: how long to wait for another writer.

    Raises:
        QueueUnavailable: here and from every transaction, whatever the database's complaint; the
            message holds neither a password nor anything stored.
    """

    def __init__(self, url: str, *, busy_timeout_s: float = 30.0) -> None:
        self.url = "(not a database URL)"
        with self._translated():
            parsed = make_url(url)
            # The options of a URL can hold a password too.
            self.url = parsed.set(query={}).render_as_string(hide_password=True)
            _check(parsed, self.url)
            self._engine = _engine(parsed, self.url, busy_timeout_s)
            self._is_memory, self._busy_timeout_s = _is_memory(parsed), busy_timeout_s
            # Another set of options over the same pool; `_begin` reads them.
            self._writer = self._engine.execution_options(begin="BEGIN IMMEDIATE")
            self._at_rest, self._num_open = threading.Condition(), 0
            self._is_torn = False
        try:
            with self._translated(), closing(self._engine.raw_connection()) as connection:
                _write_ahead(connection.driver_connection, self.url, patience_s=busy_timeout_s)
            self._migrate()
        except BaseException:
            self.close()
            raise
        forks.watch(self)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads: one consistent snapshot, which waits for no writer."""
        with self._in_use(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that may write, committed when the block ends without an exception.

        It takes the write lock at once. A transaction that reads first and then asks for the lock
        fails without any waiting if somebody else wrote in between.
        """
        with self._in_use(), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close every idle connection; harmless when repeated."""
        self._engine.dispose()

    def before_fork(self) -> None:
        """See `forks`. No connection is open then; memory is copied as it is."""
        self._at_rest.acquire()
        self._at_rest.wait_for(lambda: self._num_open == 0, self._busy_timeout_s)
        if self._num_open == 0 and not self._is_memory:
            self._engine.dispose()

    def after_fork(self, *, is_child: bool) -> None:
        """See `forks`."""
        self._is_torn = self._is_torn or (is_child and self._num_open > 0)
        self._at_rest.release()

    def _migrate(self) -> None:
        with self.reading() as connection:
            version = _version(connection)
        if version == HEAD:
            return
        if version is not None and version not in REVISIONS:
            raise QueueUnavailable(
                self.url,
                f"its schema has version {version!r}, this weighbridge knows up to {HEAD!r}:"
                " a newer weighbridge made it",
            )
        with self.writing() as connection:
            upgrade(connection)

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """The time of one transaction, in which no process is forked off."""
        with self._at_rest:
            if self._is_torn:
                raise QueueUnavailable(
                    self.url, "this process was forked off in the middle of a transaction"
                )
            self._num_open += 1
        try:
            with self._translated():
                yield
        finally:
            with self._at_rest:
                self._num_open -= 1
                self._at_rest.notify_all()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, json.JSONDecodeError) as error:
            # Without the cause: it holds the statement, and can hold what was stored.
            raise QueueUnavailable(self.url, _problem(error)) from None


def _check(url: URL, shown: str) -> None:
    """Refuse what cannot work, before anything is created."""
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise QueueUnavailable(shown, "only SQLite is supported so far: sqlite:///path/to/file.db")
    if url.query:
        raise QueueUnavailable(shown, "options after `?` are not supported")
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise QueueUnavailable(
            shown, f"this Python has SQLite {sqlite3.sqlite_version}, 3.35 or newer is needed"
        )
    if not _is_memory(url) and Path(str(url.database)).is_dir():
        raise QueueUnavailable(shown, "this is a folder, not a file")


def _engine(url: URL, shown: str, busy_timeout_s: float) -> Engine:
    if _is_memory(url):
        # The data lives in its connection: one, kept for ever, lent to one thread at a time.
        url, limits = url.set(database=_MEMORY), {"pool_size": 1, "max_overflow": 0}
    else:
        path = Path(str(url.database)).absolute()
        try:
            _create(path)
        except OSError as error:
            raise QueueUnavailable(shown, error.strerror or type(error).__name__) from None
        url, limits = url.set(database=str(path)), {}
    engine = create_engine(
        url,
        poolclass=QueuePool,
        # Python's own transaction control begins too late and too weakly; `_begin` does it.
        connect_args={
            "isolation_level": None,
            "check_same_thread": False,
            "timeout": busy_timeout_s,
        },
        hide_parameters=True,
        **limits,
    )
    event.listen(engine, "connect", _connect)
    event.listen(engine, "begin", _begin)
    return engine


def _is_memory(url: URL) -> bool:
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


def _connect(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


def _write_ahead(connection: Any, shown: str, *, patience_s: float) -> None:
    """Turn the write-ahead log on, which the file then remembers."""
    give_up_at = time.monotonic() + patience_s
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


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def _problem(error: Exception) -> str:
    """What happened, in words that hold nothing stored."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    match cause:
        case sqlite3.Error() if hasattr(cause, "sqlite_errorname"):
            # SQLite itself speaks of tables and columns only; Python's wrapper quotes values.
            return f"{cause} ({cause.sqlite_errorname})"
        case ArgumentError():
            return "this is not a database URL such as sqlite:///path/to/file.db"
        case json.JSONDecodeError():
            return "a stored value is not JSON"
        case _:
            return f"it failed with {type(cause).__name__}"
