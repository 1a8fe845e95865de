"""Streams: many tickets at once, and their decisions in the tickets' order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from weighbridge.router.background import Background

S = TypeVar("S")
T = TypeVar("T")


async def in_order(
    work: Callable[[S], Coroutine[Any, Any, T]], sources: Iterable[S], *, concurrency: int
) -> AsyncGenerator[T, None]:
    """What `work` makes of each source, `concurrency` of them at a time.

    The first error is raised at its turn; what is under way then is cancelled.

    Args:
        work: on one source.
        sources: read only as far as there is room.
        concurrency: at least 1.

    Raises:
        ValueError: concurrency below 1.
    """
    _check(concurrency)
    under_way: deque[asyncio.Task[T]] = deque()
    try:
        for source in sources:
            under_way.append(asyncio.create_task(work(source)))
            if len(under_way) == concurrency:
                yield await under_way.popleft()
        while under_way:
            yield await under_way.popleft()
    finally:
        await _cancelled(under_way)


def in_order_sync(
    background: Background,
    work: Callable[[S], Coroutine[Any, Any, T]],
    sources: Iterable[S],
    *,
    concurrency: int,
) -> Iterator[T]:
    """The same for a caller without a loop; the sources are read in the caller's thread.

    They may come from a database cursor, and one that is slow to come holds up none of those
    under way.
    """
    _check(concurrency)
    run = background.run
    under_way: deque[asyncio.Task[T]] = deque()

    async def begin(source: S) -> None:
        task = asyncio.create_task(work(source))
        task.add_done_callback(_seen)
        under_way.append(task)

    async def finish() -> T:
        result = await under_way[0]
        under_way.popleft()
        return result

    try:
        for source in sources:
            run(begin(source))
            if len(under_way) == concurrency:
                yield run(finish())
        while under_way:
            yield run(finish())
    finally:
        if not all(task.done() for task in under_way):
            run(_cancelled(under_way))


def _check(concurrency: int) -> None:
    if concurrency < 1:
        raise ValueError("concurrency must be at least 1")


def _seen(task: asyncio.Task[Any]) -> None:
    """Its error is raised at its turn; where an earlier one ends the stream, nobody hears of it."""
    if not task.cancelled():
        task.exception()


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
