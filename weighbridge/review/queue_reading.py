"""QueueReading: all that can be seen of the queue without changing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection

from weighbridge.decision import ReviewId
from weighbridge.review.items import Event, Item
from weighbridge.review.overviews import Mine, Search, Stats, WhyEmpty
from weighbridge.review.queueing import counting, listing
from weighbridge.review.queueing.reading import read
from weighbridge.store import dialect
from weighbridge.store.database import Database
from weighbridge.store.times import moment


class QueueReading:
    """What `ReviewQueue` shows; each method is one consistent look.

    Args:
        database: closed with this.
        clock: seconds since 1970; by default the clock that all users of the database share.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._database, self._clock = database, clock

    def get(self, item_id: str) -> Item:
        """The item of that id, without any lease."""
        with self._reading() as (connection, _):
            return read(connection, item_id)

    def waiting(
        self, limit: int = 100, reviewer: str | None = None, *, may_adjudicate: bool = False
    ) -> list[Item]:
        """Up to `limit` items that could be claimed now.

        Returns:
            For a reviewer: what they could claim, in the order in which they would get it. Else
            all items with a place that nobody has, in the order of work.
        """
        _check_limit(limit)
        with self._reading() as (connection, now):
            if reviewer is None:
                return listing.waiting(connection, limit, now)
            return listing.waiting_for(
                connection, reviewer, limit, now, may_adjudicate=may_adjudicate
            )

    def search(
        self, wanted: Search, *, after: ReviewId | None = None, limit: int = 100
    ) -> list[Item]:
        """Up to `limit` items that meet all conditions, the newest first.

        Args:
            wanted: the conditions.
            after: go on behind this item, the last of the page before.
            limit: of this page.
        """
        _check_limit(limit)
        with self._reading() as (connection, _):
            return listing.search(connection, wanted, after, limit)

    def history(self, item_id: str) -> tuple[Event, ...]:
        """All that was done with an item, the oldest first."""
        with self._reading() as (connection, _):
            return listing.history(connection, item_id)

    def alike(self, item_id: str, limit: int | None = None) -> list[ReviewId]:
        """The other items whose tickets say the same, at most `limit`, in work order.

        What waits for a blind look is left out: it must not get its answer along with others.
        """
        with self._reading() as (connection, _):
            return listing.alike(connection, item_id, limit)

    def mine(self, reviewer: str) -> Mine:
        """What a reviewer holds, with the leases, and what they judged last."""
        with self._reading() as (connection, _):
            return listing.mine(connection, reviewer)

    def settled(self, since: int | datetime = 0, limit: int = 100) -> list[Item]:
        """Up to `limit` settled items in the order of their settling.

        Args:
            since: the `settled_no` of the last item that was seen, whatever clocks do; or a time,
                from which on they were settled.
            limit: of this page.
        """
        _check_limit(limit)
        with self._reading() as (connection, _):
            return listing.settled(connection, since, limit)

    def why_empty(self, reviewer: str, *, may_adjudicate: bool = False) -> WhyEmpty:
        """Why `claim` offers nothing."""
        with self._reading() as (connection, now):
            return counting.why_empty(connection, reviewer, now, may_adjudicate=may_adjudicate)

    def stats(self) -> Stats:
        """The queue in numbers."""
        with self._reading() as (connection, now):
            return counting.stats(connection, now)

    def now(self) -> datetime:
        """The time in UTC, by the clock that leases go by; another machine's may be wrong."""
        with self._reading() as (_, now):
            return moment(now)

    def close(self) -> None:
        """Close the database; harmless when repeated."""
        self._database.close()

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, int]]:
        """A transaction that only reads, and the time."""
        with self._database.reading() as connection:
            yield connection, dialect.now_us(connection, self._clock)


def _check_limit(limit: int) -> None:
    if limit < 0:
        raise ValueError("limit is below 0")
