"""Queue: what the router asks of the review queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weighbridge.decision import ReviewEntry, ReviewId
from weighbridge.router.resolving import SettledItem


class Queue(Protocol):
    """Where decisions wait for a person, and where the others are written down."""

    def enqueue(self, entry: ReviewEntry) -> ReviewId:
        """Store an entry once; the id is the same for the same entry.

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
