"""Search, Stats, WhyEmpty, Mine, BulkResult: what is asked of the whole queue, and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from weighbridge.errors import QueueError
from weighbridge.review.items import Item, State, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to look for; every given condition must hold.

    Args:
        text: occurs in the ticket's subject, body or metadata. Case plays no part in ASCII letters.
            Reads every item that the other conditions leave over.
        states: any of these; empty: all.
        reason: among the item's reasons.
        task: name of the task.
        ticket_id: of the ticket.
        assignee: who it is kept for.
        reviewer: gave a verdict on it.
        is_audit: whether it belongs to the uniform sample.
        since: created then or later; with a time zone.
        until: created earlier than that; with a time zone.
    """

    text: str = ""
    states: frozenset[State] = frozenset()
    reason: str | None = None
    task: str | None = None
    ticket_id: str | None = None
    assignee: str | None = None
    reviewer: str | None = None
    is_audit: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyEmpty:
    """Why nothing is offered to a reviewer: unsettled places by what stands in the way.

    A place that several of these keep away counts once, for the first.

    Args:
        num_judged: at items that they judged themselves in this round, or hold.
        num_leased: that others hold.
        leased_until: UTC, when the first of those leases ends; None without any.
        num_skipped: that they skipped; `unskip` brings these back.
        num_assigned: that are kept for somebody else.
        num_adjudications: that wait for an adjudicator, and they are none.
        num_not_yet: that are hidden until later.
        num_done: items that are settled.
    """

    num_judged: int
    num_leased: int
    leased_until: datetime | None
    num_skipped: int
    num_assigned: int
    num_adjudications: int
    num_not_yet: int
    num_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """What one reviewer is at, and was at.

    Args:
        leased: items that they hold, each with its lease.
        recent: their last verdicts that nobody took back, the newest first.
    """

    leased: tuple[Item, ...]
    recent: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What became of one item of many.

    Args:
        item_id: as it was given.
        item: as it stands after the verdict; None if there was none.
        error: why there was none.
    """

    item_id: str
    item: Item | None = None
    error: QueueError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The queue in numbers, all from one moment.

    Args:
        num_by_state: items by stored state; every state is there.
        num_by_reason: items by reason, done ones too; an item counts once for each of its reasons.
        num_waiting: places that could be claimed now: open, or leased by somebody whose lease
            ended. An item for two people has two.
        num_leased: places that somebody holds.
        num_verdicts: verdicts that nobody took back.
        agreement: share that changed nothing, 0 to 1, among verdicts that gave an answer; None
            before the first. A machine that gave no answer has not agreed.
        oldest_waiting_s: age of the oldest item that is not settled; None without any.
    """

    num_by_state: Mapping[State, int]
    num_by_reason: Mapping[str, int]
    num_waiting: int
    num_leased: int
    num_verdicts: int
    agreement: float | None
    oldest_waiting_s: float | None
