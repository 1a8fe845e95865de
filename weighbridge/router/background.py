"""One event loop on its own thread, lent to synchronous callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from weighbridge.errors import RouterClosed

T = TypeVar("T")


class Background:
    """Starts with the first call; works inside a running event loop too, such as a notebook's.

    Once it has been stopped it takes no more calls.

    A process that was forked off has the loop but not its thread: it starts anew with its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._is_stopped = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result.

        Raises:
            RouterClosed: the loop has been stopped.
        """
        self._leave_to_parent()
        with self._lock:  # until the loop knows of it: once it is told to stop it takes nothing
            if self._is_stopped:
                work.close()  # or Python complains that nobody has awaited it
                raise RouterClosed("the router is closed")
            loop = self._started()
            future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():  # Ctrl-C must end the request, not only the waiting
                future.cancel()
                asyncio.run_coroutine_threadsafe(_ended(work), loop).result()
            raise

    def stop(self) -> None:
        """End the loop and its thread, and what belongs to it; harmless when repeated."""
        self._leave_to_parent()
        with self._lock:
            self._is_stopped = True
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_wind_up(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="weighbridge-loop", daemon=True
            )
            self._thread.start()
        return self._loop

    def _leave_to_parent(self) -> None:
        """In a process that was forked off: forget the loop that runs in another one."""
        if self._process != os.getpid():
            self._process, self._lock, self._loop = os.getpid(), threading.Lock(), None


async def _ended(work: Coroutine[Any, Any, Any]) -> None:
    """Wait for the task of a coroutine; what it used can be used again, or closed."""
    if tasks := [task for task in asyncio.all_tasks() if task.get_coro() is work]:
        await asyncio.wait(tasks)


async def _wind_up() -> None:
    """Cancel what is under way, so that nobody waits for a loop that has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
