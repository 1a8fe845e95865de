"""Item, Slot, Lease, Verdict, Event: what the queue hands out; no `repr` shows text or tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Literal

from weighbridge.decision import Json, Question, ReviewId

Said = Literal["answer", "unsure", "unclassifiable"]
Kind = Literal["correct", "corrected", "unsure", "unclassifiable", "undo"]

_TIMES: Final = frozenset({"lease_until", "due_at", "not_before"})  # of an event's detail


class State(StrEnum):
    """Where an item stands. Whether somebody has it open right now is a matter of its slots."""

    OPEN = "open"
    NEEDS_ADJUDICATION = "needs_adjudication"
    DONE = "done"
    CANCELLED = "cancelled"


class SlotState(StrEnum):
    """Where a slot stands. A lease that ran out stays `leased` until somebody takes the slot."""

    OPEN = "open"
    LEASED = "leased"
    DONE = "done"
    CANCELLED = "cancelled"


class SlotKind(StrEnum):
    """What a slot is for: one of the judgements that are needed, or the one that settles them."""

    REVIEW = "review"
    ADJUDICATE = "adjudicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One person's place at an item.

    Args:
        kind: what for.
        state: as stored.
        owner: who holds it, or judged in it; None while open.
        lease_until: UTC; None unless leased. It may lie in the past.
        assignee: who it is kept for; None: anybody.
        skips: how often it was handed back unjudged.
    """

    kind: SlotKind
    state: SlotState
    owner: str | None
    lease_until: datetime | None
    assignee: str | None
    skips: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A timed right to one slot.

    Args:
        token: proves it.
        until: UTC. A verdict is taken later too, as long as nobody else took the slot.
        opened_at: UTC, when the slot was claimed.
        kind: of the slot.
    """

    token: str = field(repr=False)
    until: datetime
    opened_at: datetime
    kind: SlotKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a person said about one item. An undo is a verdict too, and takes another one back.

    Args:
        id: larger than that of any earlier verdict.
        item_id: of the item.
        round: of the item, from 1.
        reviewer: who said it.
        kind: "correct" if every value is the machine's own, "corrected" if not; "undo" takes the
            verdict `supersedes` back.
        values: the person's answer, by field; empty unless correct or corrected.
        machine: what the machine had answered to each question, frozen with the verdict.
        was_shown: whether the reviewer saw the machine's answer before judging.
        is_adjudication: whether it settles a disagreement of others.
        opened_at: UTC, when the item was claimed.
        submitted_at: UTC.
        note: free text for colleagues.
        supersedes: id of the verdict that this one takes back; None unless an undo.
    """

    id: int
    item_id: ReviewId
    round: int
    reviewer: str
    kind: Kind
    values: Mapping[str, Json] = field(repr=False)
    machine: Mapping[str, Json] = field(repr=False)
    was_shown: bool
    is_adjudication: bool
    opened_at: datetime
    submitted_at: datetime
    note: str = field(default="", repr=False)
    supersedes: int | None = None


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
        questions: what a person is asked, one for each judged field, as of the time of enqueuing.
        reasons: why a person must look, the weightiest first.
        is_audit: whether it belongs to the uniform sample of all tickets.
        needed: how many people are asked in the present round.
        round: 1, and one more with each reopening.
        uncertainty: how unsure the machine was, 0 to 1; 1 if that is unknown.
        version: grows with every change.
        created_at: UTC.
        due_at: UTC, by when it should be judged; None if there is no such time.
        assignee: who it is kept for; None: anybody.
        done_at: UTC; None until the round is settled.
        settled_no: larger than that of any item settled before; None until the round is settled.
        resolved_kind: what came out: "answer", or that the ticket fits no option, or that even the
            adjudicator was unsure; None until the round is settled.
        resolution: the answer, by field; None unless `resolved_kind` is "answer".
        erased_at: UTC, when the ticket's text was removed; None while it is there.
        lease: yours; set only in what `claim`, `renew` and `undo` return.
        slots: of the present round.
        verdicts: of all rounds, the oldest first.
    """

    id: ReviewId
    ticket_id: str
    task: str
    state: State
    ticket: Mapping[str, Json] = field(repr=False)
    decision: Mapping[str, Json] = field(repr=False)
    questions: tuple[Question, ...] = field(repr=False)
    reasons: tuple[str, ...]
    is_audit: bool
    needed: int
    round: int
    uncertainty: float
    version: int
    created_at: datetime
    due_at: datetime | None = None
    assignee: str | None = None
    done_at: datetime | None = None
    settled_no: int | None = None
    resolved_kind: Said | None = None
    resolution: Mapping[str, Json] | None = field(default=None, repr=False)
    erased_at: datetime | None = None
    lease: Lease | None = None
    slots: tuple[Slot, ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    @property
    def lease_token(self) -> str | None:
        """What proves your lease, if this item was given with one."""
        return None if self.lease is None else self.lease.token

    @property
    def is_blind(self) -> bool:
        """Whether to hide what the machine and other people say, so that they sway nobody."""
        is_settled = self.state in (State.DONE, State.CANCELLED)
        return not is_settled and (
            self.is_audit or self.needed > 1 or self.state is State.NEEDS_ADJUDICATION
        )

    @property
    def standing(self) -> tuple[Verdict, ...]:
        """The verdicts of the present round that nobody took back, the oldest first."""
        taken_back = {verdict.supersedes for verdict in self.verdicts}
        return tuple(
            verdict
            for verdict in self.verdicts
            if verdict.round == self.round
            and verdict.kind != "undo"
            and verdict.id not in taken_back
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of an item's history, which only grows.

    Args:
        at: UTC.
        actor: who did it; "weighbridge" if no person.
        kind: what was done, such as "claimed".
        detail: more about it. Notes and reasons that people wrote are in it.
    """

    at: datetime
    actor: str
    kind: str
    detail: Mapping[str, Json] = field(repr=False)

    @property
    def told(self) -> dict[str, Json]:
        """The detail for people: times, stored as microseconds, in words, and nothing empty."""
        found: dict[str, Json] = {}
        for name, value in self.detail.items():
            if name in _TIMES and isinstance(value, int):
                time = datetime.fromtimestamp(value // 1_000_000, UTC)
                found |= {name: f"{time:%Y-%m-%d %H:%M} UTC"} if value else {}  # 0: at any time
            elif value not in (None, ""):
                found[name] = value
        return found
