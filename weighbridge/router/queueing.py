"""Queue: what the router asks of the review queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from weighbridge.decision import ReviewEntry, ReviewId
from weighbridge.router.resolving import SettledItem

LEAST_S: Final = 1.0  # for the queue, whatever is left of a deadline
LEAST_IN_LINE_S: Final = 0.1  # for a ticket whose time has passed while others were being written


class Queue(Protocol):
    """Where decisions wait for a person, and where the others are written down."""

    def enqueue(self, entry: ReviewEntry, *, patience_s: float) -> ReviewId:
        """Store an entry once; the id is the same for the same entry.

        Args:
            entry: to be stored.
            patience_s: how long to wait for others to let go of the queue.

        Raises:
            QueueUnavailable: it could not be stored.
        """
        ...

    def record(self, entries: Sequence[ReviewEntry]) -> None:
        """Write down decisions that need nobody: how they were weighed, and no text.

        Raises:
            QueueUnavailable: they could not be written.
        """
        ...

    def get(self, item_id: str) -> SettledItem:
        """The item of that id.

        Raises:
            ItemNotFound: there is none.
            QueueUnavailable: it could not be read.
        """
        ...

    def settled(self, since: int, limit: int) -> Sequence[SettledItem]:
        """Items that were settled later than number `since`, in the order of settling.

        Raises:
            QueueUnavailable: they could not be read.
        """
        ...

    def close(self) -> None:
        """Let go of what the queue holds."""
        ...


def patience_s(deadline: float, decided: float, now: float) -> float:
    """How long a decision may wait to be written into the queue.

    Until the deadline, and for `LEAST_S` at least: a decision is made and paid for, and must not be
    lost because its deadline has just passed. Other processes let go of the lock within
    milliseconds; who has held it for a second is not about to. Where many tickets are decided at
    once they stand in line for a thread, which is part of the waiting.

    Args:
        deadline: of the ticket, by the router's clock.
        decided: when the decision was made.
        now: when a thread has come to it.

    Example:
        >>> patience_s(30.0, 10.0, 10.0), patience_s(30.0, 30.2, 30.2), patience_s(30.0, 10.0, 40.0)
        (20.0, 1.0, 0.1)
    """
    return max(max(deadline, decided + LEAST_S) - now, LEAST_IN_LINE_S)
