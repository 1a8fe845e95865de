"""The review queue: what a machine may not decide alone waits here for a person."""

from weighbridge.review.items import Item, State, Stats, Verdict
from weighbridge.review.queue import ReviewQueue

__all__ = ["Item", "ReviewQueue", "State", "Stats", "Verdict"]
