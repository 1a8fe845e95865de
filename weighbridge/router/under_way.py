"""Tickets under way: closing ends them before it takes their connections, and lets no more in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from weighbridge.errors import RouterClosed


class UnderWay:
    """The tickets of a router, on all its event loops."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Task[object], asyncio.Future[None]] = {}
        self._is_shut = False

    @contextmanager
    def ticket(self) -> Iterator[None]:
        """The time in which the running task works on a ticket.

        Raises:
            RouterClosed: see `check`.
        """
        self.check()
        task = asyncio.current_task()
        assert task is not None
        end = self._ends[task] = task.get_loop().create_future()
        try:
            yield
        finally:
            del self._ends[task]
            if not end.done():
                end.set_result(None)

    def check(self) -> None:
        """See whether anything may begin.

        Raises:
            RouterClosed: it may not, after `shut`.
        """
        if self._is_shut:
            raise RouterClosed("the router is closed")

    def shut(self) -> None:
        """Let nothing more begin; harmless when repeated."""
        self._is_shut = True

    async def cancel(self) -> None:
        """End the tickets of the running loop: whoever waits for one is cancelled."""
        loop = asyncio.get_running_loop()
        ends = [(task, end) for task, end in list(self._ends.items()) if end.get_loop() is loop]
        for task, _ in ends:
            task.cancel()
        if ends:
            await asyncio.wait([end for _, end in ends])
