"""Forks: what must be at rest while a process forks, and begins anew in the one forked off.

A fork copies the memory and one thread. A lock that another thread holds is held for ever there, a
worker has no thread any more, and SQLite believes in file locks that only the parent has:
https://sqlite.org/howtocorrupt.html, section 2.6.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """What holds a lock, a worker or a connection."""

    def before_fork(self) -> None:
        """Come to rest, and stay so until the fork is over."""
        ...

    def after_fork(self, *, is_child: bool) -> None:
        """Go on; in a child, with workers of its own."""
        ...


_alive: WeakSet[Forked] = WeakSet()
_resting: list[Forked] = []
_lock = threading.Lock()


def watch(part: Forked) -> None:
    """Tell a part of every fork while it is alive."""
    with _lock:
        _alive.add(part)


def _before() -> None:
    _lock.acquire()
    _resting.extend(_alive)
    for part in _resting:
        part.before_fork()


def _after(*, is_child: bool) -> None:
    for part in _resting:
        part.after_fork(is_child=is_child)
    _resting.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(is_child=False),
        after_in_child=lambda: _after(is_child=True),
    )
