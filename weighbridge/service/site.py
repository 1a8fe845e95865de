"""Site: what every page needs of the application, found through `request.app.state.site`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from starlette.requests import Request

from weighbridge.service.identity import Visitor

if TYPE_CHECKING:
    from weighbridge.decision import CalibrationKey
    from weighbridge.review.labels import Labels
    from weighbridge.review.metrics import Metrics
    from weighbridge.review.overviews import Stats
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.store.credentials import Credentials
    from weighbridge.store.login_throttle import LoginThrottle
    from weighbridge.store.people import People

_STATS_ARE_GOOD_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The parts that stand behind the pages.

    Args:
        queue: what people judge.
        people: who they are.
        credentials: what lets them in.
        throttle: makes guessers wait.
        clock: seconds since 1970.
        lease_s: how long an item is held for somebody, in seconds.
        is_secure: whether cookies are sent over HTTPS only.
        measure: all statistics; None where there are none.
        labels_of: the audited answers of one kind; None where there are none.
        audit_rate: share of the tickets that the coin draws.
        erase: removes the text of settled tickets that are older than so many days, and tells how
            many there were; None where that is done elsewhere.
    """

    queue: ReviewQueue
    people: People
    credentials: Credentials
    throttle: LoginThrottle
    clock: Callable[[], float]
    lease_s: float
    is_secure: bool
    measure: Callable[[], Metrics] | None = None
    labels_of: Callable[[CalibrationKey], Labels] | None = None
    audit_rate: float = 0.0
    erase: Callable[[float], int] | None = None
    _kept: dict[str, tuple[float, Stats]] = field(default_factory=dict, init=False, repr=False)

    def stats(self) -> Stats:
        """The queue in numbers, not older than a few seconds: counting reads every item."""
        now = time.monotonic()
        made_at, stats = self._kept.get("stats", (-math.inf, None))
        if stats is None or now - made_at > _STATS_ARE_GOOD_S:
            stats = self.queue.stats()
            self._kept["stats"] = now, stats
        return stats


def site_of(request: Request) -> Site:
    """The site that a request came to."""
    return cast("Site", request.app.state.site)


def visitor_of(request: Request) -> Visitor:
    """Who sent a request, on routes that nobody else reaches."""
    visitor = request.state.visitor
    assert isinstance(visitor, Visitor)  # `routes` let somebody in, or the endpoint was not called
    return visitor
