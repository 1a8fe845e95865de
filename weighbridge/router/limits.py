"""Limits of one provider: requests and tokens within a minute, and requests at once."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields

from pyrate_limiter import InMemoryBucket, Rate, RateItem

# A second more than a minute: of two requests the later may be the quicker on its way.
WINDOW_S = 61

_FINENESS = 10_000  # a log has an entry for each unit: where tokens are many, one is several


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider takes; None: no limit of ours.

    Args:
        requests_per_minute: that begin within any minute.
        tokens_per_minute: of those requests, as estimated before each.
        max_concurrency: requests under way at once.

    Raises:
        ValueError: a limit below 1.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            limit = getattr(self, each.name)
            if limit is not None and limit < 1:
                raise ValueError(f"{each.name} must be at least 1, or be left out")


class Limiter:
    """Lets requests to one provider begin, for all threads and event loops of a router.

    They begin in the order in which they came, so that none starves; a large one holds up the
    small ones behind it. No minute sees more than the limits allow, wherever the vendor's own
    minutes begin. Other processes are not counted: between them the vendor's refusals decide.

    Args:
        limits: of the provider.
        clock: monotonic seconds.
        sleep: seconds.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._minutes = _Minutes(limits)
        seats = limits.max_concurrency
        self._seats = None if seats is None else _Seats(seats, sleep)

    @property
    def most_tokens(self) -> int | None:
        """The most that any request may have: a larger one would wait for ever; None: no limit."""
        return self._minutes.most_tokens

    @asynccontextmanager
    async def acquire(self, *, tokens: int, until: float) -> AsyncIterator[Place | None]:
        """The time in which one request is under way, from the moment when it may begin.

        When the minute has room for it is known at once, and a wait that would be too long is
        never begun. When another request ends nobody knows: that wait is given up at `until`.

        Args:
            tokens: of prompt and answer, at most.
            until: before when the request must begin, on the clock.

        Yields:
            Its place in the minute, or None: it must not be sent, there is no room in time.
        """
        asked_at = self._clock()
        if self._seats is None:
            yield await self._place(tokens, asked_at, until)
            return
        hope = self._minutes.book(tokens, asked_at, until)
        if hope is not None:
            # Its place is the one that it finds when there is a seat: others need not wait for it.
            self._minutes.cancel(hope)
        if hope is None or not await self._seats.take(until - asked_at):
            yield None
            return
        try:
            yield await self._place(tokens, asked_at, until)
        finally:
            self._seats.give_back()

    async def _place(self, tokens: int, asked_at: float, until: float) -> Place | None:
        turn = self._minutes.book(tokens, self._clock(), until)
        if turn is None:
            return None
        if turn.wait_s > 0.0:
            try:
                await self._sleep(turn.wait_s)
            except BaseException:
                self._minutes.cancel(turn)
                raise
        return Place(self._clock() - asked_at, self._minutes, turn)


class Place:
    """A request's place in the minute.

    Args:
        waited_s: how long it had to wait for it.
    """

    def __init__(self, waited_s: float, minutes: _Minutes, turn: _Turn) -> None:
        self.waited_s = waited_s
        self._minutes, self._turn = minutes, turn

    def give_back(self) -> None:
        """Leave it to others: the request is not sent after all."""
        self._minutes.cancel(self._turn)


@dataclass(slots=True)
class _Turn:
    """When a request may begin, and its places in the logs."""

    wait_s: float
    places: list[tuple[InMemoryBucket, RateItem]] = field(default_factory=list)

    def place(self, log: InMemoryBucket, weight: int, at_ms: int) -> int:
        """Take a place; else the milliseconds by which it is too early for one, or -1: for ever."""
        item = RateItem("", at_ms, weight)
        if log.put(item):
            self.places.append((log, item))
            return 0
        too_early_ms = log.waiting(item)
        assert isinstance(too_early_ms, int)  # other logs of the library answer later
        return too_early_ms

    def withdraw(self) -> None:
        for log, item in self.places:
            if item in log.items:  # which it is not for ever; its entries stand side by side
                start = log.items.index(item)
                del log.items[start : start + item.weight]
        self.places.clear()


class _Minutes:
    """What began lately, and what will begin soon: places are given ahead of their time.

    The library's own limiter asks again after each wait, so that of many who wait most wait in
    vain; its log takes any time that it is told.
    """

    def __init__(self, limits: Limits) -> None:
        self._requests = _log(limits.requests_per_minute, unit=1)
        tokens = limits.tokens_per_minute
        self._unit = 1 if tokens is None else max(1, tokens // _FINENESS)
        self._tokens = _log(tokens, self._unit)
        self._lock = threading.Lock()

    @property
    def most_tokens(self) -> int | None:
        return None if self._tokens is None else self._tokens.rates[0].limit * self._unit

    def book(self, tokens: int, now: float, until: float) -> _Turn | None:
        """The first moment with room for a request, behind those who came before.

        Returns:
            None where that is not before `until`, or never comes.
        """
        weights = ((self._requests, 1), (self._tokens, math.ceil(tokens / self._unit)))
        wanted = [(log, weight) for log, weight in weights if log is not None]
        now_ms = at_ms = math.ceil(now * 1000)
        with self._lock:
            for log, _ in wanted:
                log.leak(now_ms)
                if log.items:
                    at_ms = max(at_ms, log.items[-1].timestamp)
            while now + (wait_s := (at_ms - now_ms) / 1000) < until:
                turn = _Turn(wait_s)
                too_early_ms = [turn.place(log, weight, at_ms) for log, weight in wanted]
                if not any(too_early_ms):
                    return turn
                turn.withdraw()
                if min(too_early_ms) < 0:  # larger than the limit itself
                    return None
                at_ms += max(too_early_ms)
        return None

    def cancel(self, turn: _Turn) -> None:
        """Give a turn back that was not taken; those behind keep theirs."""
        with self._lock:
            turn.withdraw()


def _log(limit: int | None, unit: int) -> InMemoryBucket | None:
    if limit is None:
        return None
    return InMemoryBucket([Rate(limit // unit, WINDOW_S * 1000)])


@dataclass(eq=False, slots=True)
class _Waiter:
    called: asyncio.Future[None]
    has_seat: bool = False


class _Seats:
    """So many at once, on whatever threads and event loops; first come, first served."""

    def __init__(self, count: int, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._free, self._sleep = count, sleep
        self._line: deque[_Waiter] = deque()
        # Dropping a waiter whose event loop was abandoned ends its coroutine, here and now.
        self._lock = threading.RLock()

    async def take(self, patience_s: float) -> bool:
        """Wait for a seat; False if there was none in time."""
        waiter = _Waiter(asyncio.get_running_loop().create_future())
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            self._line.append(waiter)
        pause = asyncio.ensure_future(self._sleep(patience_s))
        try:
            await asyncio.wait({waiter.called, pause}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            if self._leave(waiter):
                self.give_back()
            raise
        finally:
            pause.cancel()
        return self._leave(waiter)

    def give_back(self) -> None:
        """Hand a seat to the first in the line, or leave it free."""
        with self._lock:
            while self._line:
                waiter = self._line.popleft()
                try:
                    waiter.called.get_loop().call_soon_threadsafe(_call, waiter)
                except RuntimeError:
                    continue  # that event loop is closed, with everybody in it
                waiter.has_seat = True
                return
            self._free += 1

    def _leave(self, waiter: _Waiter) -> bool:
        """Leave the line; whether with a seat."""
        with self._lock:
            # Whoever has a seat is not looked for among all those who still wait.
            if not waiter.has_seat and waiter in self._line:
                self._line.remove(waiter)
            return waiter.has_seat


def _call(waiter: _Waiter) -> None:
    if not waiter.called.done():
        waiter.called.set_result(None)
