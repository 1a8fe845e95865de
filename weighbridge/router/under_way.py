"""Tickets that are under way, so that closing can end them before it takes their connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class UnderWay:
    """The tickets of a router, on all its event loops."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Task[object], asyncio.Future[None]] = {}

    @contextmanager
    def ticket(self) -> Iterator[None]:
        """The time in which the running task works on a ticket."""
        task = asyncio.current_task()
        assert task is not None
        end = self._ends[task] = task.get_loop().create_future()
        try:
            yield
        finally:
            del self._ends[task]
            if not end.done():
                end.set_result(None)

    async def cancel(self) -> None:
        """End the tickets of the running loop: whoever waits for one is cancelled."""
        loop = asyncio.get_running_loop()
        ends = [(task, end) for task, end in list(self._ends.items()) if end.get_loop() is loop]
        for task, _ in ends:
            task.cancel()
        if ends:
            await asyncio.wait([end for _, end in ends])
