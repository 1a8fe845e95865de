"""One failure, one action: a pure function that the attempt loop obeys.

The table is complete: every kind of failure has a row, and the type checker finds a missing one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure

MAX_TRIES = 3  # at one provider for one ticket
COOL_S = 5.0  # after an outage whose end nobody named
DISABLE_S = 3600.0  # after a refusal that no waiting cures
# What follows from these alone is a disabled provider, until somebody sees to it.
DISABLING = frozenset({FailureKind.QUOTA, FailureKind.CREDENTIAL, FailureKind.MODEL_GONE})
_BACKOFF_S, _MAX_BACKOFF_S = 0.5, 8.0


class Health(Enum):
    """What a failure says about the provider itself."""

    UNTOUCHED = auto()
    COOL = auto()
    DISABLE = auto()


class Amend(Enum):
    """What to change before the same provider is asked again."""

    NOTHING = auto()
    REPLAN = auto()
    GIVE_FEEDBACK = auto()
    RAISE_LIMIT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What follows a failed attempt.

    Args:
        again: ask the same provider once more, after `wait_s`.
        onward: otherwise ask the next one; False ends the chain.
        health: what to remember about the provider when it is not asked again.
        wait_s: before asking again; or how long the provider cools.
        is_asked: the provider itself named `wait_s`.
        amend: what to change when asking again.
    """

    again: bool = False
    onward: bool = True
    health: Health = Health.UNTOUCHED
    wait_s: float = 0.0
    is_asked: bool = False
    amend: Amend = Amend.NOTHING


def next_action(
    failure: Failure,
    *,
    tries: int,
    amended: frozenset[Amend],
    took_s: float,
    left_s: float,
    jitter: float,
    can_replan: bool,
) -> Action:
    """What to do about a failure.

    Args:
        failure: of the latest attempt.
        tries: attempts at this provider for this ticket, this one included.
        amended: what was changed for this ticket and provider already.
        took_s: how long the attempt took; another one is taken to need as much.
        left_s: time until the deadline, less what later providers keep back.
        jitter: 0 to 1, shortens a wait of our own choosing by up to a quarter.
        can_replan: the failure taught something: the provider would now be asked otherwise.
    """

    def again_after(wait_s: float) -> bool:
        # A wait that cannot fit the deadline is never begun.
        return failure.retry is not False and tries < MAX_TRIES and wait_s + took_s <= left_s

    def once(amend: Amend) -> Action:
        allowed = amend not in amended and tries < MAX_TRIES and took_s <= left_s
        return Action(again=True, amend=amend) if allowed else Action()

    match failure.kind:
        case FailureKind.TRANSIENT | FailureKind.RATE_LIMIT:
            # After an outage we choose a wait ourselves; a rate limit without one is left alone.
            wait_s = failure.wait_s
            if wait_s is None and failure.kind is FailureKind.TRANSIENT:
                wait_s = min(_MAX_BACKOFF_S, _BACKOFF_S * 2.0 ** (tries - 1)) * (1 - 0.25 * jitter)
            if wait_s is not None and again_after(wait_s):
                return Action(again=True, wait_s=wait_s)
            return Action(
                health=Health.COOL,
                wait_s=failure.wait_s or COOL_S,
                is_asked=bool(failure.wait_s),
            )
        case FailureKind.QUOTA | FailureKind.CREDENTIAL | FailureKind.MODEL_GONE:
            return Action(health=Health.DISABLE, wait_s=DISABLE_S)
        case FailureKind.CAPABILITY:
            return once(Amend.REPLAN) if can_replan else Action()
        case FailureKind.INVALID:
            return once(Amend.GIVE_FEEDBACK)
        case FailureKind.TRUNCATED:
            return once(Amend.RAISE_LIMIT)
        case FailureKind.CALLER_FAULT | FailureKind.DEADLINE:
            return Action(onward=False)
        case (
            FailureKind.TOO_LONG
            | FailureKind.REFUSAL
            | FailureKind.FILTERED
            | FailureKind.COOLING
            | FailureKind.LIMIT
            | FailureKind.BUDGET
            | FailureKind.CANCELLED
            | FailureKind.UNAVAILABLE
            | FailureKind.UNKNOWN
        ):
            return Action()
        case _:
            assert_never(failure.kind)
