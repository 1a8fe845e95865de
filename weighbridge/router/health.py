"""Which providers are cooling down, on a monotonic clock, and who may try them first afterwards."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from weighbridge.decision import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """Why a provider is left alone, and how long.

    Args:
        kind: of the failure that it follows.
        is_asked: the provider itself named the time; otherwise it is our guess.
        is_elsewhere: another process found it out.
        began: on the monotonic clock.
        left_s: until it may be asked again, above 0.
    """

    kind: FailureKind
    is_asked: bool
    is_elsewhere: bool
    began: float
    left_s: float

    def __str__(self) -> str:
        """For the trail.

        >>> str(Cooldown(kind=FailureKind.RATE_LIMIT, is_asked=True, is_elsewhere=True, began=0.0,
        ...              left_s=9.0))
        'cooling down for 9.0 s: rate limit, as it asked for; another process found out'
        """
        why = self.kind.value.replace("_", " ")
        asked = ", as it asked for" if self.is_asked else ""
        where = "; another process found out" if self.is_elsewhere else ""
        return f"cooling down for {self.left_s:.1f} s: {why}{asked}{where}"


class SharedCooldown(Protocol):
    """The longest cooldown of a provider that any process knows of; times are monotonic."""

    @property
    def kind(self) -> FailureKind:
        """Of the failure that it follows."""
        ...

    @property
    def is_asked(self) -> bool:
        """Whether the provider itself named the time."""
        ...

    @property
    def began(self) -> float:
        """When it was told."""
        ...

    @property
    def until(self) -> float:
        """When it is over; it is known until somebody has been answered since."""
        ...


_SAME_S = 1.0  # by which two notes of one cooldown may differ


class SharedCooldowns(Protocol):
    """Cooldowns that several processes know of; answers at once, from memory."""

    def told(
        self, identity: str, wait_s: float, kind: FailureKind, *, is_asked: bool = False
    ) -> None:
        """A provider is left alone for some time."""
        ...

    def recovered(self, identity: str, asked_at: float) -> None:
        """It has answered what was asked at that time, on the monotonic clock."""
        ...

    def known(self) -> Mapping[str, SharedCooldown]:
        """What any process knows, this one included, by identity."""
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

    def cool(
        self,
        identity: str,
        wait_s: float,
        kind: FailureKind = FailureKind.TRANSIENT,
        *,
        is_asked: bool = False,
    ) -> None:
        """Leave a provider alone for some time; a longer cooldown is never cut short.

        Args:
            identity: of the provider.
            wait_s: from now.
            kind: of the failure that it follows.
            is_asked: the provider itself named the time.
        """
        if self._shared is not None:
            self._shared.told(identity, wait_s, kind, is_asked=is_asked)
        now = self._clock()
        new = _Cooling(now, now + wait_s, kind, is_asked)
        with self._lock:
            if (known := self._cooling.get(identity)) is not None:
                new.is_on_trial = known.is_on_trial
                if known.until > new.until:
                    new.until, new.kind, new.is_asked = known.until, known.kind, known.is_asked
            self._cooling[identity] = new

    def recovered(self, identity: str, asked_at: float) -> None:
        """It has answered: forget what was known when it was asked, not what came since.

        Of several tickets under way, one may be told to wait and another be answered.
        """
        if self._shared is not None:
            self._shared.recovered(identity, asked_at)
        with self._lock:
            known = self._cooling.get(identity)
            if known is not None and known.began < asked_at:
                del self._cooling[identity]

    def cooldown(self, identity: str) -> Cooldown | None:
        """Why the provider may not be asked now; None if it may."""
        known: SharedCooldown | None
        known = here = self._cooling.get(identity)
        if self._shared is not None:  # it knows what was told here as well, and who recovered
            known = self._shared.known().get(identity)
        now = self._clock()
        if known is None or known.until <= now:
            return None
        return Cooldown(
            kind=known.kind,
            is_asked=known.is_asked,
            is_elsewhere=here is None or here.until < known.until - _SAME_S,
            began=known.began,
            left_s=known.until - now,
        )

    def left_s(self, identity: str) -> float:
        """Seconds until the provider may be asked again; 0 if it may now."""
        cooldown = self.cooldown(identity)
        return 0.0 if cooldown is None else cooldown.left_s

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
        shared = None if self._shared is None else self._shared.known().get(identity)
        with self._lock:
            if shared is not None and identity not in self._cooling:
                # Over since ever: what is left of it the others know.
                self._cooling[identity] = _Cooling(
                    -math.inf, -math.inf, shared.kind, shared.is_asked
                )
            known = self._cooling.get(identity)
            if known is None or known.is_on_trial:
                return False
            known.is_on_trial = True
            return True


@dataclass(slots=True)
class _Cooling:
    began: float
    until: float
    kind: FailureKind
    is_asked: bool
    is_on_trial: bool = False
