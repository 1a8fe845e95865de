"""Which providers are cooling down, on a monotonic clock, and who may try them first afterwards."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(slots=True)
class _Cooling:
    since: float
    until: float
    is_on_trial: bool = False


class SharedCooldowns(Protocol):
    """Cooldowns that several processes know of; answers at once, from memory."""

    def told(self, identity: str, wait_s: float, kind: Literal["cooling", "disabled"]) -> None:
        """A provider is left alone for some time."""
        ...

    def recovered(self, identity: str, asked_at: float) -> None:
        """It has answered what was asked at that time, on the monotonic clock."""
        ...

    def others(self) -> Mapping[str, float]:
        """Seconds that are left, by identity; 0 where nobody has been answered since."""
        ...

    def close(self) -> None:
        """Let go of what it holds; harmless when repeated."""
        ...


class ProviderHealth:
    """Told by visits alone, never by logging.

    A provider is known by its identity: endpoint, model and credential. When its cooldown is over
    one ticket tries it; the others go on to the next until that one has been answered. Loops on
    several threads may share it.

    Args:
        clock: monotonic seconds.
        shared: what other processes know; None: this one keeps to itself.
    """

    def __init__(self, clock: Callable[[], float], shared: SharedCooldowns | None = None) -> None:
        self._clock, self._shared, self._lock = clock, shared, threading.Lock()
        self._cooling: dict[str, _Cooling] = {}

    def cool(self, identity: str, wait_s: float, *, is_disabled: bool = False) -> None:
        """Leave a provider alone for some time; a longer cooldown is never cut short.

        Args:
            identity: of the provider.
            wait_s: from now.
            is_disabled: no waiting cures it; for those who look at the table.
        """
        if self._shared is not None:
            self._shared.told(identity, wait_s, "disabled" if is_disabled else "cooling")
        now = self._clock()
        with self._lock:
            known = self._cooling.get(identity)
            until = now + wait_s if known is None else max(known.until, now + wait_s)
            self._cooling[identity] = _Cooling(now, until, known is not None and known.is_on_trial)

    def recovered(self, identity: str, asked_at: float) -> None:
        """It has answered: forget what was known when it was asked, not what came since.

        Of several tickets under way, one may be told to wait and another be answered.
        """
        if self._shared is not None:
            self._shared.recovered(identity, asked_at)
        with self._lock:
            known = self._cooling.get(identity)
            if known is not None and known.since < asked_at:
                del self._cooling[identity]

    def left_s(self, identity: str) -> float:
        """Seconds until the provider may be asked again; 0 if it may now."""
        if self._shared is not None:  # it knows what was told here as well, and who recovered
            return self._shared.others().get(identity, 0.0)
        known = self._cooling.get(identity)
        return 0.0 if known is None else max(0.0, known.until - self._clock())

    def is_on_trial(self, identity: str) -> bool:
        """Whether a ticket is trying the provider after a cooldown, with the end unknown."""
        known = self._cooling.get(identity)
        return known is not None and known.is_on_trial

    @contextmanager
    def trial(self, identity: str) -> Iterator[None]:
        """The time in which a provider is asked: a trial if it was cooling and nobody tries it."""
        if not self._begins_trial(identity):
            yield
            return
        try:
            yield
        finally:
            with self._lock:
                # A new cooldown in between has copied the mark.
                if identity in self._cooling:
                    self._cooling[identity].is_on_trial = False

    def _begins_trial(self, identity: str) -> bool:
        is_known_elsewhere = self._shared is not None and identity in self._shared.others()
        with self._lock:
            if is_known_elsewhere:
                self._cooling.setdefault(identity, _Cooling(-math.inf, self._clock()))
            known = self._cooling.get(identity)
            if known is None or known.is_on_trial:
                return False
            known.is_on_trial = True
            return True
