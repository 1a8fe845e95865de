"""Loops, threads and the end: nobody is left waiting, nothing is left open."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from loopback import Server, serving
from stage import MemoryQueue, Stage, answer

from weighbridge.errors import RouterClosed
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import named
from weighbridge.router.connections import Connections
from weighbridge.router.gate import Gate
from weighbridge.router.router import Router
from weighbridge.schemas.task import Task

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


def real_router(server: Server) -> Router:
    """With nothing fake but the vendor."""
    base_url = f"http://127.0.0.1:{server.port}/ok"
    provider = HttpProvider(
        name="ok",
        model="m",
        base_url=base_url,
        profile=named("openai"),
        adapter=OpenAIAdapter(named("openai")),
        ledger=MemoryLedger(),
    )
    gate = Gate(without_evidence="accept")
    return Router([provider], MemoryQueue(), task=Task.triage(), gate=gate)


class Hanging:
    """A router whose provider never answers, and what became of the request."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()
        self.stage = Stage({"a": [answer()]})
        self.router = self.stage.router()
        transport = httpx.MockTransport(self._hang)
        self.router._connections = Connections(lambda: httpx.AsyncClient(transport=transport))

    async def _hang(self, request: httpx.Request) -> httpx.Response:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # closing takes a moment, as with a real connection
            self.ended.set()
        raise AssertionError


@pytest.mark.parametrize("_", range(20))
def test_closing_ends_what_other_threads_wait_for(_: int) -> None:
    """They are told at once, instead of waiting for a loop that is no more: a race, so often."""
    hanging = Hanging()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(hanging.router.triage, "x")
        assert hanging.began.wait(10)
        hanging.router.close()
        assert isinstance(waiting.exception(timeout=10), concurrent.futures.CancelledError)
    assert hanging.ended.is_set()
    assert hanging.stage.queue.entries == {}


def test_call_in_the_moment_of_closing_is_answered_or_told() -> None:
    """No call is left with a loop that has taken its last turn."""
    told = (concurrent.futures.CancelledError, RouterClosed)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(150):
            router = Stage({"a": [answer()]}).router()
            calls = [pool.submit(router.triage, "x") for _ in range(4)]
            router.close()
            for call in calls:
                failed = call.exception(timeout=10)
                assert failed is None or isinstance(failed, told)


async def test_closing_from_a_coroutine_ends_what_is_under_way_on_its_loop() -> None:
    """They are cancelled, and not failed for want of a connection."""
    hanging = Hanging()
    tickets = [asyncio.create_task(hanging.router.atriage(str(number))) for number in range(3)]
    await asyncio.to_thread(hanging.began.wait, 10)
    await hanging.router.aclose()
    ended = await asyncio.gather(*tickets, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
    assert hanging.ended.is_set()
    assert hanging.stage.queue.entries == {}


def test_closing_ends_a_stream_that_was_left_half_read() -> None:
    """Nothing is under way afterwards, and letting go of the stream starts no new loop."""
    stage = Stage({"a": [answer()]})
    router = stage.router()
    stream = router.triage_many([f"ticket {number}" for number in range(9)], concurrency=3)
    next(stream)
    router.close()
    asked = len(stage.requests)
    stream.close()  # type: ignore[attr-defined]
    router.close()
    assert len(stage.requests) == asked < 9


@pytest.mark.parametrize(
    "ask", [lambda router: router.triage("x"), lambda router: list(router.triage_many("xyz"))]
)
def test_interrupt_ends_the_requests_and_is_what_the_caller_sees(
    ask: Callable[[Router], object],
) -> None:
    """Ctrl-C must end the request, not only the waiting; the router can still be used."""
    hanging, seen = Hanging(), threading.Event()
    main = threading.main_thread().ident or 0

    def interrupt() -> None:
        hanging.began.wait(10)
        # Not sooner: Python hears a signal that comes just before it begins to wait with the next.
        while not seen.wait(0.5):
            signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(hanging.router)
    finally:
        seen.set()
    assert hanging.ended.wait(10)
    hanging.router.close()
    assert hanging.stage.queue.entries == {}


def test_thread_of_the_background_loop_ends_with_the_router() -> None:
    before = threading.active_count()
    with Stage({"a": [answer()]}).router() as router:
        router.triage("x")
    assert threading.active_count() == before


def test_closing_is_harmless_however_often(server: Server) -> None:
    router = real_router(server)
    assert router.triage("x").status == "accepted"
    router.close()
    router.close()
    asyncio.run(router.aclose())
    unused = real_router(server)
    asyncio.run(unused.aclose())
    unused.close()


async def enter_async(router: Router) -> None:
    async with router:
        """Nothing to do in here."""


def enter(router: Router) -> None:
    with router:
        """Nothing to do in here."""


@pytest.mark.parametrize(
    "use",
    [
        lambda router: router.triage("x"),
        lambda router: asyncio.run(router.atriage("x")),
        lambda router: list(router.triage_many(["x"])),
        lambda router: router.result("item-0"),
        lambda router: asyncio.run(router.aresolved()),
        lambda router: asyncio.run(enter_async(router)),
        enter,
    ],
    ids=["triage", "atriage", "triage_many", "result", "aresolved", "async with", "with"],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_router_that_is_closed_says_so_and_starts_nothing(
    use: Callable[[Router], object], is_async: bool
) -> None:
    """Its parts are closed: what it would still answer could neither be counted nor queued."""
    stage = Stage({"a": [answer()]})
    before = threading.active_count()
    with stage.router() as router:
        router.triage("x")
    closed = stage.router()
    if is_async:
        asyncio.run(closed.aclose())
    else:
        closed.close()
    for each in (router, closed):
        with pytest.raises(RouterClosed, match="the router is closed"):
            use(each)
    assert (len(stage.requests), threading.active_count()) == (1, before)


async def test_closing_from_a_coroutine_closes_both_loops_connections(server: Server) -> None:
    async with real_router(server) as router:
        await router.atriage("x")
        await asyncio.to_thread(router.triage, "y")
        by_loop = router._connections._by_loop.values()
        clients = [client for clients in by_loop for _, client in clients._idle]
        assert len(clients) == 2
    assert [client.is_closed for client in clients] == [True, True]


def test_one_router_serves_one_loop_after_the_other(server: Server) -> None:
    """Each has connections of its own; none of a loop that has ended is used again."""
    router = real_router(server)

    async def twice() -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(router.atriage(text)) for text in ("x", "y")]
        return [task.result().status for task in tasks]

    assert asyncio.run(twice()) + asyncio.run(twice()) == ["accepted"] * 4
    router.close()
    gc.collect()


def test_functions_of_the_package_end_with_the_process(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to be closed by hand, and nothing complains at exit."""
    (tmp_path / "weighbridge.toml").write_text(
        f"""
        [[provider]]
        name = "ok"
        kind = "openai"
        base_url = "http://127.0.0.1:{server.port}/ok"
        model = "m"
        [gate]
        without_evidence = "accept"
        [review]
        database = "sqlite:///queue.db"
        audit_rate = 0
        """
    )
    code = """
import asyncio, weighbridge
print(weighbridge.triage("x").status)
print(*(d.status for d in weighbridge.triage_many(["y", "z"])))
print(asyncio.run(weighbridge.atriage("w")).status)
next(weighbridge.triage_many(["y", "z"]))
"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["accepted"] * 4
