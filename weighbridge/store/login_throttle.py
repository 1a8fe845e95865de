"""LoginThrottle: whoever fails to log in again and again has to wait, longer each time."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Connection, delete, select, update

from weighbridge.store.database import Database
from weighbridge.store.dialect import insert_or_replace, lock
from weighbridge.store.people_tables import login_failure_table

# Free failures. A name alone has many: else anybody could lock out anybody else from anywhere.
_FREE: Final = {"name and address": 5, "address": 20, "name": 100}
_FIRST_WAIT_S: Final = 2.0
_LONGEST_WAIT_S: Final = 900.0
_FORGOTTEN_AFTER_S: Final = 3600.0  # without another failure

_failure = login_failure_table.c


class LoginThrottle:
    """Counts failures in the database, so that all processes know them.

    Args:
        database: stays open; its owner closes it.
        clock: seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def admit(self, name: str, address: str) -> float:
        """Begin an attempt to log in; it counts as a failure until `succeeded` takes it back.

        Counted before the password is looked at: of many guesses sent at once, none goes free.

        Args:
            name: as given.
            address: of whoever asks.

        Returns:
            0.0 when the password may be checked now; else how long to wait, in seconds, and the
            attempt does not count.
        """
        now = round(self._clock() * 1e6)
        subjects = _subjects(name, address)
        with self._counts(now, subjects.values()) as (connection, counts):
            waits_s = [
                wait_s(num - _FREE[what]) - (now - last_at) / 1e6
                for what, subject in subjects.items()
                for num, last_at in [counts.get(subject, (0, now))]
            ]
            if max(waits_s) > 0:
                return max(waits_s)
            for subject in subjects.values():
                num, _ = counts.get(subject, (0, now))
                row = {"subject": subject, "num": num + 1, "last_at": now}
                connection.execute(insert_or_replace(connection, login_failure_table).values(row))
        return 0.0

    def succeeded(self, name: str, address: str) -> None:
        """Take back what the attempt counted; the name's own failures from there are forgotten."""
        subjects = _subjects(name, address)
        with self._database.writing() as connection:
            both = _failure.subject == subjects.pop("name and address")
            connection.execute(delete(login_failure_table).where(both))
            connection.execute(
                update(login_failure_table)
                .where(_failure.subject.in_(subjects.values()), _failure.num > 0)
                .values(num=_failure.num - 1)
            )

    @contextmanager
    def _counts(
        self, now: int, subjects: Collection[str]
    ) -> Iterator[tuple[Connection, dict[str, tuple[int, int]]]]:
        old = now - round(_FORGOTTEN_AFTER_S * 1e6)
        with self._database.writing() as connection:
            lock(connection, login_failure_table)
            connection.execute(delete(login_failure_table).where(_failure.last_at < old))
            rows = connection.execute(
                select(login_failure_table).where(_failure.subject.in_(subjects))
            )
            yield connection, {row.subject: (row.num, min(row.last_at, now)) for row in rows}


def wait_s(num_above: int) -> float:
    """Seconds to wait after as many failures above those that are free.

    >>> [wait_s(num) for num in (-3, -1, 0, 1, 4, 60)]
    [0.0, 0.0, 2.0, 4.0, 32.0, 900.0]
    """
    if num_above < 0:
        return 0.0
    return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** min(num_above, 30))


def _subjects(name: str, address: str) -> dict[str, str]:
    network = _network(address)
    # Hashed: what people type where their name belongs is now and then their password.
    return {
        "name and address": _hashed("name and address", name, network),
        "address": _hashed("address", network),
        "name": _hashed("name", name),
    }


def _network(address: str) -> str:
    """Whoever has one address of IPv6 has 2^64 of them."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
