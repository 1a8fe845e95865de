"""Which providers are cooling down, on a monotonic clock, and who may try them first afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Cooling:
    since: float
    until: float
    is_on_trial: bool = False


class ProviderHealth:
    """Told by visits alone, never by logging.

    A provider is known by its identity: endpoint, model and credential. When its cooldown is over
    one ticket tries it; the others go on to the next until that one has been answered.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cooling: dict[str, _Cooling] = {}

    def cool(self, identity: str, wait_s: float) -> None:
        """Leave a provider alone for some time; a longer cooldown is never cut short."""
        now = self._clock()
        known = self._cooling.get(identity)
        until = now + wait_s if known is None else max(known.until, now + wait_s)
        self._cooling[identity] = _Cooling(now, until, known is not None and known.is_on_trial)

    def recovered(self, identity: str, asked_at: float) -> None:
        """It has answered: forget what was known when it was asked, not what came since.

        Of several tickets under way, one may be told to wait and another be answered.
        """
        known = self._cooling.get(identity)
        if known is not None and known.since < asked_at:
            del self._cooling[identity]

    def left_s(self, identity: str) -> float:
        """Seconds until the provider may be asked again; 0 if it may now."""
        known = self._cooling.get(identity)
        return 0.0 if known is None else max(0.0, known.until - self._clock())

    def is_on_trial(self, identity: str) -> bool:
        """Whether a ticket is trying the provider after a cooldown, with the end unknown."""
        known = self._cooling.get(identity)
        return known is not None and known.is_on_trial

    @contextmanager
    def trial(self, identity: str) -> Iterator[None]:
        """The time in which a provider is asked: a trial if it was cooling and nobody tries it."""
        known = self._cooling.get(identity)
        if known is None or known.is_on_trial:
            yield
            return
        known.is_on_trial = True
        try:
            yield
        finally:
            # A new cooldown in between has copied the mark.
            if identity in self._cooling:
                self._cooling[identity].is_on_trial = False
