"""People: who may review, with which role, and how each likes the page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, insert, select, update

from weighbridge.decision import Json
from weighbridge.errors import PersonRefused
from weighbridge.store.database import Database
from weighbridge.store.dialect import lock
from weighbridge.store.people_tables import person_table
from weighbridge.store.roles import Role
from weighbridge.store.times import EPOCH, moment

_NAME: Final = re.compile(r"[\w.@+-]{1,64}")  # e-mail addresses are names too


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who may use the page.

    Args:
        name: unique; compared exactly.
        role: highest thing they may do.
        settings: how they like the page.
        has_password: whether they can log in by themselves.
        is_disabled: nothing lets them in.
        created_at: UTC.
    """

    name: str
    role: Role
    settings: Mapping[str, Json] = field(default_factory=dict)
    has_password: bool = False
    is_disabled: bool = False
    created_at: datetime = EPOCH


class People:
    """The people of one database; every method is one transaction.

    Args:
        database: stays open; its owner closes it.
        clock: seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def add(self, name: str, role: Role, *, password_hash: str | None = None) -> Person:
        """Add somebody.

        Args:
            name: 1 to 64 letters, digits and `.@+-_`.
            role: theirs.
            password_hash: None: only a token or a link lets them in.

        Raises:
            PersonRefused: the name is taken, or cannot be one.
        """
        if not _NAME.fullmatch(name):
            raise PersonRefused(
                name, "this is no name", "A name is 1 to 64 letters, digits and the signs .@+-_"
            )
        with self._database.writing() as connection:
            lock(connection, person_table)
            if connection.scalar(select(person_table.c.name).where(person_table.c.name == name)):
                raise PersonRefused(name, "somebody has this name already")
            row = connection.execute(
                insert(person_table)
                .values(
                    name=name,
                    password_hash=password_hash,
                    role=role,
                    settings_json={},
                    created_at=round(self._clock() * 1e6),
                )
                .returning(person_table)
            ).one()
            return _person(row)

    def get(self, name: str) -> Person | None:
        """Somebody, disabled or not; None if there is nobody of that name."""
        with self._database.reading() as connection:
            row = connection.execute(
                select(person_table).where(person_table.c.name == name)
            ).one_or_none()
            return None if row is None else _person(row)

    def everybody(self) -> list[Person]:
        """Everybody, by name."""
        with self._database.reading() as connection:
            rows = connection.execute(select(person_table).order_by(person_table.c.name))
            return [_person(row) for row in rows]

    def password_hash(self, name: str) -> str | None:
        """What a password is checked against; None for those who have none or are disabled."""
        with self._database.reading() as connection:
            return connection.scalar(
                select(person_table.c.password_hash).where(
                    person_table.c.name == name, person_table.c.disabled_at.is_(None)
                )
            )

    def set_password(self, name: str, password_hash: str | None) -> Person:
        """Replace the password; sessions stay, see `Credentials.revoke_all`.

        Raises:
            PersonRefused: there is nobody of that name; so for the other setters.
        """
        return self._change(name, password_hash=password_hash)

    def set_role(self, name: str, role: Role) -> Person:
        """Let somebody do more or less, from their next request on."""
        return self._change(name, role=role)

    def set_disabled(self, name: str, *, is_disabled: bool) -> Person:
        """Keep somebody out, whatever they hold, or let them in again; their verdicts stay."""
        return self._change(name, disabled_at=round(self._clock() * 1e6) if is_disabled else None)

    def set_settings(self, name: str, settings: Mapping[str, Json]) -> Person:
        """Replace how somebody likes the page."""
        return self._change(name, settings_json=dict(settings))

    def _change(self, name: str, **values: Any) -> Person:
        statement = update(person_table).where(person_table.c.name == name).values(values)
        with self._database.writing() as connection:
            row = connection.execute(statement.returning(person_table)).one_or_none()
        if row is None:
            raise PersonRefused(
                name, "there is nobody of this name", "See `weighbridge review people list`."
            )
        return _person(row)


def _person(row: Row[Any]) -> Person:
    return Person(
        name=row.name,
        role=Role(row.role),
        settings=row.settings_json,
        has_password=row.password_hash is not None,
        is_disabled=row.disabled_at is not None,
        created_at=moment(row.created_at),
    )
