"""Parts: the page and what stands behind it, put together over one database."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.measuring import measure
from weighbridge.review.retention import Retention
from weighbridge.service.app import create_app
from weighbridge.store.credentials import Credentials
from weighbridge.store.login_throttle import LoginThrottle
from weighbridge.store.people import People
from weighbridge.store.roles import Role

if TYPE_CHECKING:
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The page, and those who may come in.

    Args:
        app: the ASGI application.
        people: of the database.
        credentials: of the database.
    """

    app: ASGIApp
    people: People
    credentials: Credentials

    def has_logins(self) -> bool:
        """Whether anybody could come in by a password."""
        return any(
            person.has_password and not person.is_disabled for person in self.people.everybody()
        )

    def link_for(self, name: str, *, role: Role, lifetime_s: float) -> str:
        """The key of a one-time link.

        Args:
            name: whom it lets in. Somebody new is added; whoever is known keeps their own role.
            role: of somebody new.
            lifetime_s: how long it is good, in seconds.

        Raises:
            PersonRefused: they are kept out.
        """
        if self.people.get(name) is None:
            self.people.add(name, role)
        return self.credentials.issue("link", name, scope=Role.ADMIN, lifetime_s=lifetime_s)


def assemble(
    database: Database,
    queue: ReviewQueue,
    *,
    audit_rate: float,
    hosts: Collection[str],
    is_secure: bool,
    report_uri: str = "",
) -> Parts:
    """Put everything together.

    Args:
        database: of people and statistics; stays open.
        queue: what people judge.
        audit_rate: share of the tickets that the coin draws.
        hosts: names under which browsers reach the page.
        is_secure: whether it is reached over HTTPS.
        report_uri: see `create_app`.
    """
    people, credentials = People(database), Credentials(database)
    guarantees, retention = Guarantees(database, audit_rate=audit_rate), Retention(database)
    app = create_app(
        queue=queue,
        people=people,
        credentials=credentials,
        throttle=LoginThrottle(database),
        hosts=hosts,
        is_secure=is_secure,
        report_uri=report_uri,
        measure=partial(measure, database, audit_rate=audit_rate),
        labels_of=lambda key: guarantees.sample(key).labels,
        audit_rate=audit_rate,
        purge=lambda days: retention.purge(datetime.now(UTC) - timedelta(days=days)).num_items,
        erase=lambda ticket_id, by: retention.erase(ticket_id, by=by).num_items,
    )
    return Parts(app=app, people=people, credentials=credentials)
