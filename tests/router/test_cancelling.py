"""A ticket is cancelled at every moment of its way: nothing is lost, held or left marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from stage import Stage, answer, error, identity_of

from weighbridge.providers.asking import Wishes
from weighbridge.router.admission import Admission
from weighbridge.router.budget import Account, Booking, Budget, Caps, MemoryBooks
from weighbridge.router.chain import Policy
from weighbridge.router.connections import Connections
from weighbridge.router.limits import Limiter, Limits
from weighbridge.router.router import Router

_MOST_TURNS = 200  # of the event loop, far more than a ticket takes


class SlowBooks(MemoryBooks):
    """Books that let others have their turn, as those in a database do."""

    async def reserve(
        self, micro_usd: int, caps: Mapping[Account, int]
    ) -> Booking | Account | None:
        await asyncio.sleep(0)
        return await super().reserve(micro_usd, caps)


class Transport(httpx.AsyncBaseTransport):
    """Takes its turns over every response, and knows what is still open."""

    def __init__(self, respond: Callable[[httpx.Request], httpx.Response]) -> None:
        self._respond, self.num_open, self.num_sent = respond, 0, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.num_open += 1
        try:
            await asyncio.sleep(0)
            self.num_sent += 1
            response = self._respond(request)
            await asyncio.sleep(0)
        except BaseException:
            self.num_open -= 1
            raise
        return httpx.Response(
            response.status_code,
            headers={k: v for k, v in response.headers.items() if k != "content-length"},
            stream=_Body(self, response.content),
        )


class _Body(httpx.AsyncByteStream):
    def __init__(self, transport: Transport, content: bytes) -> None:
        self._transport, self._content, self._is_open = transport, content, True

    async def __aiter__(self) -> Any:
        middle = len(self._content) // 2
        for part in (self._content[:middle], self._content[middle:]):
            await asyncio.sleep(0)
            yield part

    async def aclose(self) -> None:
        self._transport.num_open -= self._is_open
        self._is_open = False


@dataclass
class Watched:
    """A router of which everything that a ticket takes can be seen."""

    stage: Stage
    router: Router
    limiters: dict[str, Limiter]
    books: MemoryBooks
    transport: Transport

    def check_at_rest(self) -> None:
        for limiter in self.limiters.values():
            assert limiter._seats is not None
            assert (limiter._seats._free, len(limiter._seats._line)) == (1, 0)
        health = self.router._chain._around.health
        assert not any(health.is_on_trial(p.identity) for p in self.router._providers)
        assert self.transport.num_open == 0
        assert self.router._under_way._ends == {}

    @property
    def booked_micro_usd(self) -> int:
        days = self.books._by_day.values()
        return sum(usd for day in days for account, usd in day.items() if account[0] == "day")


def watched(scripts: dict[str, Any], **options: Any) -> Watched:
    stage = Stage(dict(scripts), wishes=options.pop("wishes", Wishes()))
    books = SlowBooks()

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)
        await stage.clock.sleep(seconds)

    limiters = {
        name: Limiter(Limits(max_concurrency=1), clock=stage.clock, sleep=sleep) for name in scripts
    }
    admission = Admission(limiters, Budget(Caps(usd_per_day=1e6), books))
    router = stage.router(admission=admission, **options)
    object.__setattr__(router._chain._around, "sleep", sleep)
    transport = Transport(stage._respond)
    client = httpx.AsyncClient(transport=transport)
    router._connections = Connections(lambda: client)
    return Watched(stage, router, limiters, books, transport)


def after_a_cooldown() -> Watched:
    """Fails, waits, is asked again, and then the next one: with a trial at both."""
    found = watched({"a": [error(503, retry_after="0.1"), error(401)], "b": [answer()]})
    for name in "ab":
        found.router._chain._around.health.cool(identity_of(found.router, name), 1.0)
    found.stage.clock.now += 2.0
    return found


def weighing() -> Watched:
    """Further answers are asked for once one is there."""
    return watched({"a": [answer()]}, wishes=Wishes(samples=3))


def hedging() -> Watched:
    """Two requests at once."""
    found = watched({"a": [answer()], "b": [answer()]}, policy=Policy(hedge_after=0.9))
    for _ in range(10):
        for provider in found.router._providers:
            found.router._chain._around.latencies.note(provider.identity, 0.0)
    return found


@pytest.mark.parametrize("scene", [after_a_cooldown, weighing, hedging])
async def test_ticket_that_is_cancelled_at_any_moment_leaves_nothing_behind(
    scene: Callable[[], Watched],
) -> None:
    """No seat, trial or connection is kept; what may have been sent counts as spent."""
    for turns in range(_MOST_TURNS):
        found = scene()
        ticket = asyncio.create_task(found.router.atriage("x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_over = ticket.done()
        ticket.cancel()
        ended = await asyncio.gather(ticket, return_exceptions=True)
        found.check_at_rest()
        if found.transport.num_sent:
            assert found.booked_micro_usd > 0
        if is_over:
            break
        assert isinstance(ended[0], asyncio.CancelledError)
        assert found.stage.queue.entries == {}
        # It can be used as if nothing had been.
        again = await found.router.atriage("y")
        assert again.value is not None
        found.check_at_rest()
    else:
        pytest.fail("the ticket never ended")
    assert turns > 5
