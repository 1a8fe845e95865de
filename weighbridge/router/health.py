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
        self._cooling: dict[str, tuple[float, float]] = {}  # since when, until when

    def cool(self, name: str, wait_s: float) -> None:
        """Leave a provider alone for some time; a longer cooldown is never cut short."""
        now = self._clock()
        self._cooling[name] = now, max(self._until(name), now + wait_s)

    def recovered(self, name: str, asked_at: float) -> None:
        """It has answered: forget what was known when it was asked, not what came since.

        Of several tickets under way, one may be told to wait and another be answered.
        """
        since, _ = self._cooling.get(name, (asked_at, asked_at))
        if since < asked_at:
            self._cooling.pop(name, None)

    def left_s(self, name: str) -> float:
        """Seconds until the provider may be asked again; 0 if it may now."""
        return max(0.0, self._until(name) - self._clock())

    def _until(self, name: str) -> float:
        return self._cooling.get(name, (0.0, 0.0))[1]
