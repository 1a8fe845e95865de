"""A ledger in memory: for routers without a database, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from weighbridge.capability import Fact, believed, with_fact


class MemoryLedger:
    """Probed and learned facts of this process; see `Ledger`. Safe to share among threads.

    Args:
        clock: the time, with a time zone.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._facts: dict[tuple[str, str], Mapping[str, Fact]] = {}

    def facts(self, base_url: str, model: str) -> Mapping[str, Fact]:
        """See `Ledger.facts`; the same object until something changes."""
        with self._lock:
            known = self._facts.get((base_url, model), _NOTHING)
            still = believed(known, self._clock())
            if still is not known:
                self._facts[base_url, model] = still
            return still

    def record(self, base_url: str, model: str, feature: str, fact: Fact) -> None:
        """See `Ledger.record`."""
        with self._lock:
            known = self._facts.get((base_url, model), _NOTHING)
            self._facts[base_url, model] = with_fact(known, feature, fact, self._clock())


_NOTHING: Mapping[str, Fact] = MappingProxyType({})
