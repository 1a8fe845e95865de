"""Item, Verdict, Stats: what the queue hands out; no `repr` shows a ticket, answer or token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from weighbridge.decision import Json, Question, ReviewId

Kind = Literal["correct", "corrected"]


class State(StrEnum):
    """Where an item stands. A lease that ran out stays `leased` until somebody takes the item."""

    OPEN = "open"
    LEASED = "leased"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a person said about one item.

    Args:
        reviewer: who said it.
        kind: "correct" if every value is the machine's own, else "corrected".
        values: the person's answer, by field.
        machine: what the machine had answered to each question, frozen with the verdict.
        submitted_at: UTC.
        note: free text for colleagues.
    """

    reviewer: str
    kind: Kind
    values: Mapping[str, Json] = field(repr=False)
    machine: Mapping[str, Json] = field(repr=False)
    submitted_at: datetime
    note: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of the queue as it stood when it was read.

    Args:
        id: also the decision's `review_id`.
        ticket_id: of the ticket.
        task: name of the task.
        state: as stored.
        ticket: as plain JSON values: id, subject, body, metadata.
        decision: `Decision.to_json()` of what the machine made of it.
        questions: what a person is asked, one for each judged field.
        reasons: why a person must look, the weightiest first.
        priority: 0 to 1, higher comes first: how unsure the machine was.
        created_at: UTC.
        done_at: UTC; None until there is a verdict.
        lease_owner: who holds the item, or held it last while nobody else has taken it; None when
            open or done.
        lease_until: UTC, the end of that lease. A verdict is taken later too, as long as nobody
            else took the item.
        lease_token: proves the lease; set only in what `claim` returns.
        verdicts: the oldest first.
    """

    id: ReviewId
    ticket_id: str
    task: str
    state: State
    ticket: Mapping[str, Json] = field(repr=False)
    decision: Mapping[str, Json] = field(repr=False)
    questions: tuple[Question, ...] = field(repr=False)
    reasons: tuple[str, ...]
    priority: float
    created_at: datetime
    done_at: datetime | None = None
    lease_owner: str | None = None
    lease_until: datetime | None = None
    lease_token: str | None = field(default=None, repr=False)
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The queue in numbers, all from one moment.

    Args:
        num_by_state: items by stored state; every state is there.
        num_by_reason: items by reason, done ones too; an item counts once for each of its reasons.
        num_waiting: items that could be claimed now: open, or leased by somebody whose lease ended.
        num_verdicts: verdicts of any kind.
        agreement: share of verdicts that changed nothing, 0 to 1; None before the first. A machine
            that gave no answer has not agreed.
        oldest_waiting_s: age of the oldest item that could be claimed now; None if none could.
    """

    num_by_state: Mapping[State, int]
    num_by_reason: Mapping[str, int]
    num_waiting: int
    num_verdicts: int
    agreement: float | None
    oldest_waiting_s: float | None
