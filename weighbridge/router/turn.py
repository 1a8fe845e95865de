"""Turn: whether a provider may be asked now, is waited for, or is passed over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weighbridge.router.health import Cooldown


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a ticket does about a provider.

    Args:
        wait_s: before it is asked; 0: at once.
        passes_over: it is not asked.
    """

    wait_s: float = 0.0
    passes_over: bool = False


def turn(cooling: Cooldown | None, later: Sequence[Cooldown | None], *, left_s: float) -> Turn:
    """Whose turn it is where some are cooling: whoever is free first.

    A time that the provider itself named is kept in any case. One of our own making is a guess:
    where it is all that stands between a ticket and an answer, the last provider is asked.

    Args:
        cooling: what is known of the provider; None: nothing, and it may be asked.
        later: the same of those who would be asked instead.
        left_s: time that the ticket has for this.
    """
    if cooling is None:
        return Turn()
    for other in later:
        if other is None or (other.left_s < cooling.left_s and not _is_closed(other, left_s)):
            return Turn(passes_over=True)
    if cooling.left_s < left_s:
        return Turn(wait_s=cooling.left_s)
    return Turn(passes_over=cooling.is_asked)


def _is_closed(cooling: Cooldown, left_s: float) -> bool:
    """Whether the ticket ends before the provider may be asked."""
    return cooling.is_asked and cooling.left_s >= left_s
