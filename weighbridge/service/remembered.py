"""Remembered: a value that takes long to make, shown a little late rather than waited for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from weighbridge.errors import WeighbridgeError

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class Remembered(Generic[T]):
    """Makes the value when first asked, and anew in the background once it has aged.

    Args:
        make: the value; called by one thread at a time.
        fresh_s: younger than this it is given as it is.
        stale_s: older than this it is waited for; in between it is given while it is made anew.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        make: Callable[[], T],
        *,
        fresh_s: float,
        stale_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._clock = make, clock
        self._fresh_s, self._stale_s = fresh_s, stale_s
        self._kept: tuple[float, T] | None = None
        self._making = threading.Lock()

    def get(self) -> T:
        """The value.

        Raises:
            Exception: whatever `make` raises, where it is waited for.
        """
        if (kept := self._kept) and self._age(kept) <= self._stale_s:
            if self._age(kept) > self._fresh_s and self._making.acquire(blocking=False):
                threading.Thread(target=self._refresh, daemon=True).start()
            return kept[1]
        with self._making:
            kept = self._kept  # another thread may have made it meanwhile
            if kept is None or self._age(kept) > self._fresh_s:
                kept = self._kept = self._clock(), self._make()
            return kept[1]

    def _refresh(self) -> None:
        """In a thread of its own, which holds the lock."""
        try:
            self._kept = self._clock(), self._make()
        except WeighbridgeError as error:
            # Whoever asks after `stale_s` gets the error itself.
            _logger.warning("numbers were not counted anew: %s", error)
        finally:
            self._making.release()

    def _age(self, kept: tuple[float, T]) -> float:
        return self._clock() - kept[0]
