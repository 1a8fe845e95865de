"""Site: what every page needs of the application, found through `request.app.state.site`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from starlette.requests import Request

from weighbridge.service.identity import Visitor

if TYPE_CHECKING:
    from weighbridge.decision import CalibrationKey
    from weighbridge.review.overviews import Stats
    from weighbridge.review.proving.metrics import Metrics
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.review.statistics.labels import Labels
    from weighbridge.store.credentials import Credentials
    from weighbridge.store.login_throttle import LoginThrottle
    from weighbridge.store.people import People


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The parts that stand behind the pages.

    Args:
        queue: what people judge.
        stats: the queue in numbers, perhaps a few seconds old.
        people: who they are.
        credentials: what lets them in.
        throttle: makes guessers wait.
        lease_s: how long an item is held for somebody, in seconds.
        is_secure: whether cookies are sent over HTTPS only.
        measure: all statistics; None where there are none.
        labels_of: the audited answers of one kind; None where there are none.
        audit_rate: share of the tickets that the coin draws.
        purge: removes the texts of what was settled more than so many days ago.
        erase: removes the texts of a ticket, by its id and for somebody.
    """

    queue: ReviewQueue
    stats: Callable[[], Stats]
    people: People
    credentials: Credentials
    throttle: LoginThrottle
    lease_s: float
    is_secure: bool
    measure: Callable[[], Metrics] | None = None
    labels_of: Callable[[CalibrationKey], Labels] | None = None
    audit_rate: float = 0.0
    purge: Callable[[float], int] | None = None
    erase: Callable[[str, str], int] | None = None


def site_of(request: Request) -> Site:
    """The site that a request came to."""
    return cast("Site", request.app.state.site)


def visitor_of(request: Request) -> Visitor:
    """Who sent a request, on routes that nobody else reaches."""
    visitor = request.state.visitor
    assert isinstance(visitor, Visitor)  # `routes` let somebody in, or the endpoint was not called
    return visitor
