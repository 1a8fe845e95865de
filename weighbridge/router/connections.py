"""Connections: the HTTP clients of a router; every ticket under way has one of its own.

A client could serve them all. But its pool looks at each of its connections, several times, for
every request: with sixty tickets under way that would take longer than all the rest of our work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from ssl import SSLContext

import httpx

_IDLE_S = 5.0  # for so long httpx keeps a connection that nobody uses
# How many requests run at once is decided by whoever asks, and by the limits of each provider.
_LIMITS = httpx.Limits(
    max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_S
)


class Connections:
    """Clients for every event loop: connections belong to the loop that opened them.

    The client that was given back last is lent first, so that a few connections stay in use and
    the others end.

    Args:
        opened: makes a client; None: one that speaks over the network.
    """

    def __init__(self, opened: Callable[[], httpx.AsyncClient] | None = None) -> None:
        self._opened = opened or self._over_network
        self._by_loop: dict[asyncio.AbstractEventLoop, _Clients] = {}

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        """The time in which a ticket has a client of the running loop."""
        loop = asyncio.get_running_loop()
        if (clients := self._by_loop.get(loop)) is None:
            clients = self._by_loop[loop] = _Clients(loop.time)
            clients.closing = self._until_the_end(loop)
            with contextlib.suppress(StopIteration):  # it has nothing to wait for before its end
                anext(clients.closing).send(None)
        client = clients.taken() or self._opened()
        try:
            yield client
        finally:
            await clients.give_back(client)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        if (clients := self._by_loop.get(asyncio.get_running_loop())) is not None:
            assert clients.closing is not None
            await clients.closing.aclose()

    async def _until_the_end(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Closes a loop's connections with the loop, which ends the generators begun on it.

        Nobody else can: `asyncio.run` is over before its caller could close the router, and what
        belongs to a loop that is closed stays open for good.
        """
        try:
            yield
        finally:
            await self._by_loop.pop(loop).aclose()

    def _over_network(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(limits=_LIMITS, verify=self._trusted)

    @cached_property
    def _trusted(self) -> SSLContext:
        """Whose certificates are believed: read once, which takes longer than a ticket."""
        return httpx.create_ssl_context()


class _Clients:
    """The clients of one loop that are not lent, the one that waits longest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.closing: AsyncGenerator[None, None] | None = None
        self._clock, self._is_closed = clock, False
        self._idle: deque[tuple[float, httpx.AsyncClient]] = deque()

    def taken(self) -> httpx.AsyncClient | None:
        return self._idle.pop()[1] if self._idle else None

    async def give_back(self, client: httpx.AsyncClient) -> None:
        if self._is_closed:
            await client.aclose()
            return
        now = self._clock()
        self._idle.append((now, client))
        # Others take and give back while one is being closed, so all that go are taken out first.
        gone = []
        while self._idle[0][0] < now - _IDLE_S:
            gone.append(self._idle.popleft()[1])
        for idle in gone:
            await idle.aclose()

    async def aclose(self) -> None:
        self._is_closed = True
        while self._idle:
            await self._idle.popleft()[1].aclose()
