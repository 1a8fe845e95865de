"""An exchange with the database on a thread of its own: asked for often, made once for all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from weighbridge.errors import QueueUnavailable
from weighbridge.store import forks

_logger = logging.getLogger(__name__)


class Exchanger:
    """Keeps what is known in memory and in the database in step, and tickets waiting for neither.

    Args:
        work: writes what is news and reads what others wrote; calls `begun` first.
        lock: of what is known in memory; held where `ask` and `begun` are called, and during forks.
        what: is kept, in the name of the thread and in a warning.
    """

    def __init__(self, work: Callable[[], None], lock: threading.Lock, what: str) -> None:
        self._work, self._lock, self._what = work, lock, what
        self._has_warned = False
        self._is_waiting = False  # whether an exchange is queued that has not begun
        self._start()
        forks.watch(self)

    def ask(self) -> None:
        """Have an exchange made soon; one that has not begun takes along what has come since."""
        if self._is_waiting:
            return
        try:
            # Its exception, if it is one of ours, is raised in the callback and so gets logged.
            self._worker.submit(self._work).add_done_callback(Future.result)
            self._is_waiting = True
        except RuntimeError:
            return  # closed, or the interpreter is ending: then memory is all there is

    def begun(self) -> None:
        """What comes from now on needs another exchange."""
        self._is_waiting = False

    def failed(self, error: QueueUnavailable) -> None:
        """Say once that the database could not be reached."""
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("%s are kept in memory for now: %s", self._what, error)

    def close(self) -> None:
        """Wait until everything is written, or cannot be; harmless when repeated."""
        self._worker.shutdown()

    def before_fork(self) -> None:
        """See `forks`."""
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """See `forks`."""
        if is_child:
            self._start()
        self._lock.release()

    def _start(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"weighbridge-{self._what}")
        self._is_waiting = False
