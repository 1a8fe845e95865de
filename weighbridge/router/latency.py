"""How long each provider took lately: the quantiles that ordering and hedging go by."""

from __future__ import annotations

import math
from collections import deque

_REMEMBERED = 64  # requests to each provider
_ENOUGH = 8  # before them a quantile says little


class Latencies:
    """Seconds of the newest answers, by provider identity.

    Failures are left out of the quantiles: a quick refusal is no quick answer. In the median a
    useless answer counts as one that never came; outages are what cooldowns are for.

    >>> latencies = Latencies()
    >>> for seconds in range(1, 11):
    ...     latencies.note("a", seconds / 10)
    >>> latencies.quantile("a", 0.9), latencies.quantile("b", 0.9)
    (0.9, None)
    >>> for _ in range(11):
    ...     latencies.note_useless("a")
    >>> latencies.quantile("a", 0.9), latencies.median("a")
    (0.9, inf)
    """

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}

    def note(self, identity: str, seconds: float) -> None:
        """One answer."""
        self._seconds.setdefault(identity, deque(maxlen=_REMEMBERED)).append(seconds)

    def note_useless(self, identity: str) -> None:
        """One answer that nobody could use."""
        self.note(identity, math.inf)

    def quantile(self, identity: str, share: float) -> float | None:
        """The time within which `share` of the newest answers came; None while few are known."""
        return _quantile([s for s in self._newest(identity) if s < math.inf], share)

    def median(self, identity: str) -> float | None:
        """The time within which half of the newest requests were answered; None while few are."""
        return _quantile(self._newest(identity), 0.5)

    def _newest(self, identity: str) -> list[float]:
        return list(self._seconds.get(identity, ()))


def _quantile(seconds: list[float], share: float) -> float | None:
    if len(seconds) < _ENOUGH:
        return None
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]
