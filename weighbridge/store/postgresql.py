"""How a PostgreSQL database is opened: the driver, isolation, timeouts, and what errors may say."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event

from weighbridge.errors import ExtraMissing, QueueUnavailable
from weighbridge.store.columns import metadata

# One moment for the whole transaction, as SQLite has it. A snapshot that only reads never has to
# be tried again.
READING: Mapping[str, Any] = {
    "isolation_level": "REPEATABLE READ",
    "postgresql_readonly": True,
}
WRITING: Mapping[str, Any] = {}  # `_SETTINGS` suffice
FLEETING: Mapping[str, Any] = {"begin": "SET LOCAL synchronous_commit = off"}  # see `_begin`
# Of each connection. The server's own default of isolation might be another; under this one each
# statement sees what is committed by then, on which SKIP LOCKED and `dialect.lock` count.
_SETTINGS: Final = "SET default_transaction_isolation = 'read committed'; SET lock_timeout = {}"
_DRIVERS: Final = ("postgresql", "postgresql+psycopg")
# Of libpq's: https://www.postgresql.org/docs/current/libpq-connect.html. A `host` is needed for a
# socket's folder. What holds a secret is not among them.
_OPTIONS: Final = (
    "application_name",
    "connect_timeout",
    "host",
    "options",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
)
# Classes of SQLSTATE whose primary message speaks of the server, of locks and of names in the
# schema. Those of 22 and 23 can quote stored values, and any other may.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_SAFE_CLASSES: Final = ("08", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58")

_connections: WeakKeyDictionary[Engine, WeakSet[Any]] = WeakKeyDictionary()


def checked(url: URL, shown: str) -> URL:
    """The URL with its driver, psycopg 3.

    Args:
        url: as it was given.
        shown: the same without secrets.

    Raises:
        QueueUnavailable: for another driver, or an option that is not known here.
        ExtraMissing: psycopg is not installed.
    """
    if url.drivername not in _DRIVERS:
        raise QueueUnavailable(
            shown, "the driver for PostgreSQL is psycopg: postgresql+psycopg://user@host/database"
        )
    for name, value in url.query.items():
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            raise QueueUnavailable(
                shown,
                f"the option {name!r} after `?` is not supported; "
                + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_OPTIONS)}"),
            )
        if not isinstance(value, str):
            raise QueueUnavailable(shown, f"the option {name!r} after `?` is given twice")
    try:
        import psycopg  # noqa: F401 - it needs libpq too, which only importing it can tell
    except ImportError:
        raise ExtraMissing("postgres", "psycopg") from None
    return url.set(drivername="postgresql+psycopg")


def engine(url: URL, shown: str, busy_timeout_s: float) -> Engine:
    """A pool of connections; what a restarted server has left in it is noticed and replaced.

    Args:
        url: as `checked` gives it.
        shown: plays no part: nothing is opened yet.
        busy_timeout_s: for one lock of any kind, for connecting, and for a server that has gone
            silent. A statement that works may take as long as it needs.
    """
    wait_ms = max(1, round(busy_timeout_s * 1000))
    defaults: dict[str, object] = {
        "application_name": "weighbridge",
        "client_encoding": "utf8",
        "connect_timeout": max(2, round(busy_timeout_s)),  # libpq takes 1 for 2
        "tcp_user_timeout": max(2000, wait_ms),
    }
    made = create_engine(
        url,
        connect_args={name: value for name, value in defaults.items() if name not in url.query},
        pool_pre_ping=True,
        max_overflow=-1,  # `Database` counts them
        hide_parameters=True,
    )

    mine = _connections[made] = WeakSet()

    def set_up(connection: Any, _record: object) -> None:
        mine.add(connection)
        # Not as an option of the connection: poolers between here and the server refuse those.
        connection.execute(_SETTINGS.format(wait_ms))
        connection.commit()

    event.listen(made, "connect", set_up)
    event.listen(made, "begin", _begin)
    return made


def prepare(engine: Engine, shown: str, patience_s: float) -> None:
    """Refuse a database that cannot hold every character."""
    with engine.connect() as lent:
        connection: Any = lent.connection.driver_connection
        encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise QueueUnavailable(
            shown, f"its encoding is {encoding}; create it anew with ENCODING 'UTF8'"
        )


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    settings = [options["begin"]] if "begin" in options else []
    if (patience_s := options.get("patience_s")) is not None:
        # 0 would mean to wait for ever.
        settings.append(f"SET LOCAL lock_timeout = {max(1, math.ceil(patience_s * 1000))}")
    if settings:
        connection.exec_driver_sql("; ".join(settings))


def sever(engine: Engine) -> None:
    """In a process that was forked off, take every connection away that its parent goes on using.

    Else the child's COMMIT, or its leaving, would reach the server as the parent's.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for connection in _connections.get(engine, ()):
        if not connection.closed:
            os.dup2(nowhere, connection.fileno())
    os.close(nowhere)


def scrub(engine: Engine, _patience_s: float, *, rewrite: bool) -> None:
    """Vacuum all tables of ours; see `Database.scrub`."""
    names = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"VACUUM {'(FULL) ' if rewrite else ''}{names}")


def problem(cause: BaseException) -> str | None:
    """What happened, in words that hold nothing stored; None where that is not known."""
    state = getattr(cause, "sqlstate", None)
    diagnosis = getattr(cause, "diag", None)
    if state is None or diagnosis is None or not diagnosis.message_primary:
        # Only what libpq says of the connection itself comes without a state.
        is_of_connection = type(cause).__name__ == "OperationalError" and str(cause)
        return str(cause).splitlines()[0] if is_of_connection else None
    if state.startswith(_SAFE_CLASSES):
        return f"{diagnosis.message_primary} ({state})"
    names = [name for name in (diagnosis.table_name, diagnosis.constraint_name) if name]
    return f"it failed with {type(cause).__name__} ({', '.join([state, *names])})"
