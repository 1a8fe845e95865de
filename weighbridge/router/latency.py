"""How long each provider took lately: the quantiles that ordering and hedging go by."""

from __future__ import annotations

import math
from collections import deque

_REMEMBERED = 64  # answers of each provider
_ENOUGH = 8  # before them a quantile says little


class Latencies:
    """Seconds of the newest answers, by provider identity.

    Failures are left out: a quick refusal is no quick answer.

    >>> latencies = Latencies()
    >>> for seconds in range(1, 11):
    ...     latencies.note("a", seconds / 10)
    >>> latencies.quantile("a", 0.9), latencies.quantile("b", 0.9)
    (0.9, None)
    """

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}

    def note(self, identity: str, seconds: float) -> None:
        """One answer."""
        self._seconds.setdefault(identity, deque(maxlen=_REMEMBERED)).append(seconds)

    def quantile(self, identity: str, share: float) -> float | None:
        """The time within which `share` of the newest answers came; None while few are known."""
        known = sorted(self._seconds.get(identity, ()))
        if len(known) < _ENOUGH:
            return None
        return known[max(0, math.ceil(share * len(known)) - 1)]
