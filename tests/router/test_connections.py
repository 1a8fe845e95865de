"""Connections: every ticket under way has a client of its own, and none is left open."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import httpx
import pytest

from weighbridge.router import connections
from weighbridge.router.connections import Connections


class Opened:
    """All clients that were made."""

    def __init__(self) -> None:
        self.clients: list[httpx.AsyncClient] = []

    def __call__(self) -> httpx.AsyncClient:
        client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200)))
        self.clients.append(client)
        return client

    @property
    def num_open(self) -> int:
        return sum(not client.is_closed for client in self.clients)


async def test_one_ticket_after_the_other_uses_the_same_client() -> None:
    """Its connections are warm."""
    opened = Opened()
    lent = Connections(opened)
    for _ in range(5):
        async with lent.client():
            pass
    assert len(opened.clients) == 1


async def test_tickets_under_way_at_once_share_no_client() -> None:
    """And as many clients are kept as were needed at once."""
    opened = Opened()
    lent = Connections(opened)
    for _ in range(3):
        async with contextlib.AsyncExitStack() as stack:
            mine = [await stack.enter_async_context(lent.client()) for _ in range(8)]
            assert len({id(client) for client in mine}) == 8
    assert len(opened.clients) == opened.num_open == 8


async def test_clients_that_nobody_has_used_for_a_while_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those in use stay, the one that was used last is lent first."""
    opened = Opened()
    lent = Connections(opened)
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    async with lent.client(), lent.client(), lent.client():
        pass
    for _ in range(3):
        now += connections._IDLE_S * 0.9
        async with lent.client() as busy:
            pass
    assert [client for client in opened.clients if not client.is_closed] == [busy]


async def test_client_of_a_ticket_that_outlasts_the_closing_is_closed_with_it() -> None:
    opened = Opened()
    lent = Connections(opened)
    async with lent.client():
        async with lent.client():
            pass
        await lent.aclose()
        assert opened.num_open == 1
    assert opened.num_open == 0
    async with lent.client() as client:  # which can begin anew
        assert not client.is_closed
    await lent.aclose()
    await lent.aclose()
    assert opened.num_open == 0


def test_clients_are_closed_with_their_loop_whatever_ended_the_ticket() -> None:
    """Cancelled or failed: the client goes back, and ends with the loop that it belongs to."""
    opened = Opened()
    lent = Connections(opened)

    async def fail() -> None:
        async with lent.client():
            raise LookupError

    async def hang() -> None:
        async with lent.client():
            await asyncio.Event().wait()

    async def both() -> None:
        hanging = asyncio.create_task(hang())
        await asyncio.gather(fail(), return_exceptions=True)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        assert opened.num_open == 2

    for _ in range(2):
        asyncio.run(both())
        assert opened.num_open == 0
    assert len(opened.clients) == 4
    assert lent._by_loop == {}
    gc.collect()


async def test_certificates_are_read_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    num_read = 0
    read = httpx.create_ssl_context

    def counted() -> object:
        nonlocal num_read
        num_read += 1
        return read()

    monkeypatch.setattr(httpx, "create_ssl_context", counted)
    lent = Connections()
    async with lent.client(), lent.client():
        pass
    await lent.aclose()
    assert num_read == 1


class Slow(httpx.AsyncClient):
    """Closing it takes a while, in which others go on."""

    async def aclose(self) -> None:
        await asyncio.sleep(0.01)
        await super().aclose()


async def test_client_is_borrowed_while_an_idle_one_is_being_closed(monkeypatch) -> None:
    """Whoever closes must not count on what was there before."""
    monkeypatch.setattr(connections, "_IDLE_S", 0.0)  # whatever waits has waited too long
    lent = connections.Connections(Slow)

    first, second = lent.client(), lent.client()
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)

    async def third() -> None:
        await asyncio.sleep(0.003)  # the second is closing the first by now
        async with lent.client():
            await asyncio.sleep(0.02)

    await asyncio.sleep(0.001)
    await asyncio.gather(second.__aexit__(None, None, None), third())
    await lent.aclose()
