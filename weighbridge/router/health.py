"""Which providers are cooling down, on a monotonic clock, for this process."""

from __future__ import annotations

from collections.abc import Callable


class ProviderHealth:
    """Told by the attempt loop alone, never by logging.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def cool(self, name: str, wait_s: float) -> None:
        """Leave a provider alone for some time; a longer cooldown is never cut short."""
        self._until[name] = max(self._until.get(name, 0.0), self._clock() + wait_s)

    def recovered(self, name: str) -> None:
        """It has answered: forget what was."""
        self._until.pop(name, None)

    def left_s(self, name: str) -> float:
        """Seconds until the provider may be asked again; 0 if it may now."""
        return max(0.0, self._until.get(name, 0.0) - self._clock())
