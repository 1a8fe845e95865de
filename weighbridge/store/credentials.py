"""Credentials: sessions, API tokens and one-time links, each known by the hash of its secret."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select

from weighbridge.errors import PersonRefused
from weighbridge.store.database import Database
from weighbridge.store.people_tables import credential_table, person_table
from weighbridge.store.roles import Role
from weighbridge.store.times import moment

Kind = Literal["session", "token", "link"]

_credential, _person = credential_table.c, person_table.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What lets somebody in, as it may be shown.

    Args:
        id: by which it is revoked; does not let anybody in.
        kind: of it.
        person: whom it lets in.
        scope: what may be done with it at most.
        label: what its owner calls it.
        created_at: UTC.
        expires_at: UTC.
    """

    id: str
    kind: Kind
    person: str
    scope: Role
    label: str
    created_at: datetime
    expires_at: datetime


class Credentials:
    """The credentials of one database; every method is one transaction.

    Args:
        database: stays open; its owner closes it.
        clock: seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def issue(
        self, kind: Kind, person: str, *, scope: Role, lifetime_s: float, label: str = ""
    ) -> str:
        """Make a credential.

        Returns:
            The secret, which nobody can read again.

        Raises:
            PersonRefused: there is nobody of that name, or they are disabled.
        """
        secret = secrets.token_urlsafe(32)
        now = self._now()
        with self._database.writing() as connection:
            known = select(_person.name).where(
                _person.name == person, _person.disabled_at.is_(None)
            )
            if connection.scalar(known) is None:
                raise PersonRefused(
                    person,
                    "there is nobody of this name who may be let in",
                    "See `weighbridge review people list`.",
                )
            _forget_expired(connection, now)
            connection.execute(
                insert(credential_table).values(
                    hash=_hashed(secret),
                    kind=kind,
                    person=person,
                    scope=scope,
                    label=label,
                    created_at=now,
                    expires_at=now + round(lifetime_s * 1e6),
                )
            )
        return secret

    def find(self, kind: Kind, secret: str) -> Credential | None:
        """The credential of that secret, while it is good and its person is let in."""
        with self._database.reading() as connection:
            row = connection.execute(
                select(credential_table)
                .join(person_table)
                .where(
                    _credential.hash == _hashed(secret),
                    _credential.kind == kind,
                    _credential.expires_at > self._now(),
                    _person.disabled_at.is_(None),
                )
            ).one_or_none()
            return None if row is None else _from(row)

    def use_up(self, kind: Kind, secret: str) -> Credential | None:
        """Like `find`, but the credential is good for this one call only."""
        with self._database.writing() as connection:
            row = connection.execute(
                delete(credential_table)
                .where(
                    _credential.hash == _hashed(secret),
                    _credential.kind == kind,
                    _credential.expires_at > self._now(),
                    _credential.person.in_(
                        select(_person.name).where(_person.disabled_at.is_(None))
                    ),
                )
                .returning(credential_table)
            ).one_or_none()
            return None if row is None else _from(row)

    def all_of(self, kind: Kind) -> list[Credential]:
        """Those of one kind that have not expired, by person, the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                select(credential_table)
                .where(_credential.kind == kind, _credential.expires_at > self._now())
                .order_by(_credential.person, _credential.created_at)
            )
            return [_from(row) for row in rows]

    def revoke(self, credential_id: str) -> bool:
        """End one credential; False if there is none of that id."""
        with self._database.writing() as connection:
            gone = delete(credential_table).where(_credential.hash == credential_id)
            return connection.execute(gone).rowcount > 0

    def revoke_all(self, person: str, *, kind: Kind | None = None) -> int:
        """End all of one kind, or all there is; the password stays. Returns how many there were."""
        gone = delete(credential_table).where(_credential.person == person)
        if kind is not None:
            gone = gone.where(_credential.kind == kind)
        with self._database.writing() as connection:
            return connection.execute(gone).rowcount

    def _now(self) -> int:
        return round(self._clock() * 1e6)


def credential_id(secret: str) -> str:
    """The id of the credential with that secret."""
    return _hashed(secret)


def _hashed(secret: str) -> str:
    # A fast hash will do: there are 256 random bits to guess, not a word that people remember.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _forget_expired(connection: Connection, now: int) -> None:
    connection.execute(delete(credential_table).where(_credential.expires_at <= now))


def _from(row: Row[Any]) -> Credential:
    return Credential(
        id=row.hash,
        kind=row.kind,
        person=row.person,
        scope=Role(row.scope),
        label=row.label,
        created_at=moment(row.created_at),
        expires_at=moment(row.expires_at),
    )
