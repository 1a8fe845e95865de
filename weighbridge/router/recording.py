"""Recorder: writes down decisions that need nobody, in the background and many at once."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from weighbridge.decision import ReviewEntry
from weighbridge.errors import QueueUnavailable

_logger = logging.getLogger(__name__)

PAUSE_S: Final = 1.0  # for which decisions gather
_MOST_AT_ONCE: Final = 500
_MOST_KEPT: Final = 50_000  # while the database is away


class Recorder:
    """Takes decisions without making a ticket wait; they are statistics, and none is a promise.

    What cannot be written is kept and tried again, up to a limit; the log says so once. What a
    process that is killed had taken within the last second is lost, accepted tickets all of them,
    drawn or not: the audits, which are written at once, stay a uniform sample.

    Args:
        record: writes some of them.
        pause_s: for which decisions gather.
    """

    def __init__(
        self, record: Callable[[Sequence[ReviewEntry]], None], *, pause_s: float = PAUSE_S
    ) -> None:
        self._record, self._pause_s = record, pause_s
        self._thread: threading.Thread | None = None
        self._start_over()

    def put(self, entry: ReviewEntry) -> None:
        """Have a decision written down soon."""
        if self._process != os.getpid():
            self._start_over()  # forked off: what the parent has taken, the parent writes
        with self._lock:
            self._taken.append(entry)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._run, name="weighbridge-recorder", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Write what was taken, or as much as can be; harmless when repeated."""
        if self._process != os.getpid():
            self._start_over()
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join()

    def _start_over(self) -> None:
        self._process = os.getpid()
        self._taken: deque[ReviewEntry] = deque(maxlen=_MOST_KEPT)
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread = None
        self._is_closed = self._has_warned = False

    def _run(self) -> None:
        while not self._wake.wait(self._pause_s):
            self._write()
        self._write()

    def _write(self) -> None:
        while batch := self._batch():
            try:
                self._record(batch)
            except QueueUnavailable as error:
                with self._lock:
                    room = _MOST_KEPT - len(self._taken)
                    self._taken.extendleft(reversed(batch[:room]))
                if not self._has_warned:
                    self._has_warned = True
                    _logger.warning("statistics are kept in memory for now: %s", error)
                return

    def _batch(self) -> list[ReviewEntry]:
        with self._lock:
            return [self._taken.popleft() for _ in range(min(_MOST_AT_ONCE, len(self._taken)))]
