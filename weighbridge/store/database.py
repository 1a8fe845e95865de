"""Database: opens it, keeps its schema current, and lends out transactions."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from sqlalchemy import URL, Connection, Engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from weighbridge.errors import QueueUnavailable
from weighbridge.store import dialect, forks, postgresql, sqlite
from weighbridge.store.migrations import HEAD, REVISIONS, upgrade

MOST_OPEN: Final = 15  # connections of one process; few of them are kept while nobody needs them

_EXAMPLES: Final = "sqlite:///path/to/file.db or postgresql+psycopg://user@host/database"


class Database:
    """One SQLite or PostgreSQL database, open for any number of threads and processes.

    Opening brings the schema up to date; of several processes that open it at once, one does. A
    SQLite file and its folder are created where they are missing, the file readable by its owner
    alone. In memory (`sqlite://`) there is one connection, and transactions wait for each other.

    Args:
        url: such as `sqlite:////var/lib/weighbridge.db`, where a relative path counts from the
            working directory of this moment, or `postgresql+psycopg://ann@db.example.org/review`,
            with options of libpq such as `?sslmode=verify-full`.
        busy_timeout_s: how long to wait for a lock that another transaction holds, for one of the
            `MOST_OPEN` connections while all are in use, and for a server that does not answer.

    Raises:
        QueueUnavailable: here and from every transaction, whatever the database's complaint; the
            message holds neither a password nor anything stored.
        ExtraMissing: PostgreSQL needs the extra [postgres].
    """

    def __init__(self, url: str, *, busy_timeout_s: float = 30.0) -> None:
        self.url = "(not a database URL)"
        self._kind: _Kind = sqlite
        with self._translated():
            parsed = _parsed(url)
            # The options of a URL can hold a password too.
            self.url = parsed.set(query={}).render_as_string(hide_password=True)
            self._kind = _kind(parsed, self.url)
            parsed = self._kind.checked(parsed, self.url)
            self._engine = self._kind.engine(parsed, self.url, busy_timeout_s)
            self._is_memory = not self.is_postgresql and sqlite.is_memory(parsed)
            self._most_open = 1 if self._is_memory else MOST_OPEN
            self._busy_timeout_s = busy_timeout_s
            # Other sets of options over the same pool.
            self._reader = self._engine.execution_options(**self._kind.READING)
            self._writer = self._engine.execution_options(**self._kind.WRITING)
            self._fleeting = self._engine.execution_options(**self._kind.FLEETING)
            self._at_rest, self._num_open = threading.Condition(), 0
            self._is_torn = False
        try:
            with self._translated():
                self._kind.prepare(self._engine, self.url, busy_timeout_s)
            self._migrate()
        except BaseException:
            self.close()
            raise
        forks.watch(self)

    @property
    def is_postgresql(self) -> bool:
        """Whether it is on a server, where many write at once and the server's clock counts."""
        return self._kind is postgresql

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads: one consistent snapshot, which waits for no writer."""
        with self._in_use(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(
        self, *, is_fleeting: bool = False, patience_s: float | None = None
    ) -> Iterator[Connection]:
        """A transaction that may write, committed when the block ends without an exception.

        On SQLite it takes the one write lock at once. On PostgreSQL others write meanwhile: whoever
        reads before writing asks for `dialect.lock`, or does both in one statement.

        Args:
            is_fleeting: do not wait for the disk. A power cut may take the last moments of such
                transactions back, whole ones in order, and never what was committed otherwise.
            patience_s: wait no longer than this for a free connection and then for a lock, if it
                is less than `busy_timeout_s`; 0 or less: not at all, or a millisecond. SQLite has
                one lock; on PostgreSQL each lock may take what is left. A server that has gone
                silent is still waited for as long as ever.
        """
        engine = self._fleeting if is_fleeting else self._writer
        with self._in_use(patience_s) as left_s, engine.connect() as connection:
            if left_s < self._busy_timeout_s:
                connection.execution_options(patience_s=left_s)
            with connection.begin():
                yield connection

    def scrub(self, *, rewrite: bool = False) -> None:
        """Have the database's own files hold nothing any more of what was deleted.

        On SQLite the log is emptied into the file, which waits until nobody reads an older state;
        in it, deleted bytes are zeros if `PRAGMA secure_delete` was on when they were deleted. On
        PostgreSQL the rows are vacuumed. Backups and archived logs are out of reach.

        Args:
            rewrite: write the whole file, or on PostgreSQL all tables, anew. That leaves nothing
                of earlier deletions either; it takes up to a minute for each gigabyte and as much
                space again, and nobody else can write meanwhile.

        Raises:
            QueueUnavailable: somebody else did not let it happen in time; the data is deleted all
                the same, and this can be called again.
        """
        with self._in_use():
            self._kind.scrub(self._engine, self._busy_timeout_s, rewrite=rewrite)

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
        if is_child and self._num_open > 0:
            self._is_torn = True
            self._kind.sever(self._engine)
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
            dialect.lock(connection, "schema")
            upgrade(connection)

    @contextmanager
    def _in_use(self, patience_s: float | None = None) -> Iterator[float]:
        """The time of one transaction, in which no process is forked off; says what is left."""
        left_s = self._busy_timeout_s
        if patience_s is not None:
            left_s = max(0.0, min(left_s, patience_s))
        with self._at_rest:
            if self._is_torn:
                raise QueueUnavailable(
                    self.url, "this process was forked off in the middle of a transaction"
                )
            if self._num_open >= self._most_open:
                # Here and not in the pool, which has one patience for everybody.
                give_up_at = time.monotonic() + left_s
                if not self._at_rest.wait_for(self._has_room, left_s):
                    raise QueueUnavailable(
                        self.url, f"all connections are in use, {self._most_open} of them"
                    )
                if patience_s is not None:
                    left_s = max(0.0, give_up_at - time.monotonic())
            self._num_open += 1
        try:
            with self._translated():
                yield left_s
        finally:
            with self._at_rest:
                self._num_open -= 1
                self._at_rest.notify_all()

    def _has_room(self) -> bool:
        return self._num_open < self._most_open

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, json.JSONDecodeError) as error:
            # Without the cause: it holds the statement, and can hold what was stored.
            raise QueueUnavailable(self.url, _problem(error, self._kind)) from None


class _Kind(Protocol):
    """The modules `sqlite` and `postgresql`."""

    READING: Mapping[str, Any]  # execution options
    WRITING: Mapping[str, Any]
    FLEETING: Mapping[str, Any]

    def checked(self, url: URL, shown: str) -> URL: ...
    def engine(self, url: URL, shown: str, busy_timeout_s: float) -> Engine: ...
    def prepare(self, engine: Engine, shown: str, patience_s: float) -> None: ...
    def sever(self, engine: Engine) -> None: ...
    def scrub(self, engine: Engine, patience_s: float, *, rewrite: bool) -> None: ...
    def problem(self, cause: BaseException) -> str | None: ...


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ValueError:  # a port that is no number, in a message that quotes it
        raise ArgumentError from None


def _kind(url: URL, shown: str) -> _Kind:
    match url.get_backend_name():
        case "sqlite":
            return sqlite
        case "postgresql":
            return postgresql
        case _:
            raise QueueUnavailable(shown, f"only SQLite and PostgreSQL are supported: {_EXAMPLES}")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def _problem(error: Exception, kind: _Kind) -> str:
    """What happened, in words that hold nothing stored."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    match cause:
        case ArgumentError():
            return f"this is not a database URL such as {_EXAMPLES}"
        case json.JSONDecodeError():
            return "a stored value is not JSON"
        case _:
            return kind.problem(cause) or f"it failed with {type(cause).__name__}"
