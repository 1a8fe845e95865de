"""Cancelled, forked, killed, used from many threads: nothing is lost, blamed or left open."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scene import TICKET, Scene, settles
from servers import TOPICS, Vendor, answers, hangs, in_turn, obeys, slowly, status

import weighbridge
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database


def about(number: int) -> str:
    return f"Ticket {number}, topic {number % len(TOPICS)}"


def waiting(scene: Scene) -> list[str]:
    """Ids of the tickets in the queue, one for each item."""
    with closing(ReviewQueue(Database(scene.database))) as queue:
        return [item.ticket_id for item in queue.waiting(1000)]


async def test_cancelled_ticket_ends_its_request_and_blames_nobody(scene: Scene) -> None:
    """The connection is closed at once, the vendor stays well, and no person is bothered."""
    scene.deadline_s = 9.0
    a, b = scene.add("a", in_turn(hangs, answers()), timeout="8s"), scene.add("b", answers())
    with scene.router() as router:
        ticket = asyncio.create_task(router.atriage(TICKET))
        assert await asyncio.to_thread(a.began.wait, 5)
        ticket.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ticket
        assert await asyncio.to_thread(settles, lambda: a.num_under_way == 0)
        decision = await router.atriage("Another ticket")
        await router.aclose()
    assert (decision.provider, a.hits, b.hits) == ("a", 2, 0)
    assert waiting(scene) == []


async def test_ticket_cancelled_in_a_pause_asks_no_more(scene: Scene) -> None:
    a, b = scene.add("a", status(503, retry_after="2")), scene.add("b", answers())
    with scene.router() as router:
        ticket = asyncio.create_task(router.atriage(TICKET))
        assert await asyncio.to_thread(a.began.wait, 5)
        await asyncio.sleep(0.1)
        ticket.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ticket
        await router.aclose()
    assert (a.hits, b.hits) == (1, 0)


async def test_cancelling_some_tickets_leaves_the_others_alone(scene: Scene) -> None:
    scene.deadline_s = 9.0
    a = scene.add("a", slowly(0.5, obeys), timeout="8s")
    with scene.router() as router:
        tickets = [asyncio.create_task(router.atriage(about(n))) for n in range(40)]
        assert await asyncio.to_thread(settles, lambda: a.num_under_way > 20)
        for ticket in tickets[::2]:
            ticket.cancel()
        ended = await asyncio.gather(*tickets, return_exceptions=True)
        await router.aclose()
    assert all(isinstance(one, asyncio.CancelledError) for one in ended[::2])
    given = [one.value.category for one in ended[1::2] if not isinstance(one, BaseException)]
    assert given == [TOPICS[n % len(TOPICS)] for n in range(1, 40, 2)]


def test_closing_the_router_ends_what_is_under_way(scene: Scene) -> None:
    scene.deadline_s = 9.0
    a = scene.add("a", hangs, timeout="8s")
    with scene.router() as router, ThreadPoolExecutor(4) as pool:
        tickets = [pool.submit(router.triage, about(n)) for n in range(4)]
        assert settles(lambda: a.num_under_way == 4)
        router.close()
        assert {type(ticket.exception(5)) for ticket in tickets} == {CancelledError}
    assert waiting(scene) == []


def test_one_router_in_one_loop_after_the_other(scene: Scene) -> None:
    """A loop's connections end with the loop: nothing piles up while the router lives."""
    a = scene.add("a", obeys)
    with scene.router() as router:
        for _ in range(2):
            decision = asyncio.run(router.atriage(TICKET))
            assert decision.status == "accepted"
            scene.check_nothing_is_open()
        gc.collect()  # what was left open would now complain
    assert (a.hits, a.num_connections) == (2, 2)


def test_one_router_in_many_threads(scene: Scene) -> None:
    """They share its connections; each gets the answer to its own ticket."""
    scene.deadline_s = 9.0
    a = scene.add("a", slowly(0.01, obeys), timeout="8s")
    with scene.router() as router, ThreadPoolExecutor(16) as pool:
        decisions = list(pool.map(lambda n: scene.ask(router, about(n)), range(64)))
    assert [d.value.category for d in decisions] == [TOPICS[n % len(TOPICS)] for n in range(64)]
    assert a.hits == 64
    assert a.num_connections <= 16


def test_threads_loops_and_streams_at_once(scene: Scene) -> None:
    scene.deadline_s = 9.0
    a = scene.add("a", slowly(0.01, obeys), timeout="8s")
    with scene.router() as router, ThreadPoolExecutor(3) as pool:

        async def several() -> list[Any]:
            # On this loop its own client: it is closed with the loop, by whoever opened it.
            async with router_of(scene) as own:
                return await asyncio.gather(*(own.atriage(about(n)) for n in range(9)))

        loops = pool.submit(asyncio.run, several())
        stream = pool.submit(lambda: list(router.triage_many(map(about, range(9)), concurrency=3)))
        calls = pool.submit(lambda: [router.triage(about(n)) for n in range(9)])
        for found in (loops, stream, calls):
            categories = [decision.value.category for decision in found.result(20)]
            assert categories == [TOPICS[n % len(TOPICS)] for n in range(9)]
    assert a.hits == 27


def router_of(scene: Scene) -> weighbridge.Router:
    return weighbridge.Router.from_config(scene.config)


def start(scene: Scene, *arguments: str) -> subprocess.Popen[bytes]:
    """Python as a process of its own, with this package."""
    root = str(Path(weighbridge.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=scene.folder,
        env={**os.environ, "PYTHONPATH": root},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


_FORKS = """
import os, weighbridge
router = weighbridge.Router.from_config("weighbridge.toml")

def work(who):
    assert router.triage(f"{who}, topic 1").value.category == "bug"
    for number in range(5):
        assert router.triage(f"{who} {number}, topic 99").review_id is not None

work("before")
children = []
for name in ("first", "second", "third"):
    child = os.fork()
    if child == 0:
        work(name)
        router.close()
        os._exit(0)
    children.append(child)
work("after")
print(*(os.waitpid(child, 0)[1] for child in children))
router.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_router_works_on_both_sides_of_a_fork(scene: Scene) -> None:
    """As in a server that loads its application and then forks its workers."""
    a = scene.add("a", obeys)
    scene.file()
    with start(scene, "-c", _FORKS) as process:
        try:
            out, err = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert out.decode().split() == ["0"] * 3, err.decode()
    assert a.hits == 5 * (1 + 2 * 5)
    assert len(waiting(scene)) == 5 * 5


def _interrupt(scene: Scene, a: Vendor, signal_number: int) -> list[dict[str, Any]]:
    """A bulk run, ended by a signal in the middle; the whole lines of its output."""
    arguments = ("triage", "in.jsonl", "--output", "out.jsonl", "--concurrency", "4")
    with start(scene, "-m", "weighbridge", *arguments) as process:
        assert settles(lambda: a.hits >= 20 or process.poll() is not None, within_s=30)
        process.send_signal(signal_number)
        process.communicate(timeout=20)
    assert process.returncode != 0
    return lines(scene)


def lines(scene: Scene) -> list[dict[str, Any]]:
    content = (scene.folder / "out.jsonl").read_bytes()
    return [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGKILL", marks=pytest.mark.slow)])
def test_bulk_run_that_is_killed_loses_nothing(scene: Scene, name: str) -> None:
    """What is written counts; what is not is done by the next run; no item is there twice."""
    scene.deadline_s = 9.0
    a = scene.add("a", slowly(0.03, obeys), timeout="8s")
    scene.file()
    # Every fifth has a topic that nobody knows: a person must answer it.
    topics = {f"t-{n}": 99 if n % 5 == 0 else n % len(TOPICS) for n in range(60)}
    tickets = [json.dumps({"id": i, "body": f"topic {topic}"}) for i, topic in topics.items()]
    (scene.folder / "in.jsonl").write_text("\n".join(tickets))

    before = _interrupt(scene, a, getattr(signal, name))
    assert 0 < len(before) < 60
    known = set(waiting(scene))
    assert {d["ticket_id"] for d in before if d["status"] == "review"} <= known

    with start(scene, "-m", "weighbridge", "triage", "in.jsonl", "--output", "out.jsonl") as again:
        _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err.decode()
    after = lines(scene)
    assert after[: len(before)] == before
    assert Counter(d["ticket_id"] for d in after) == Counter(topics.keys())
    for decision in after:
        topic = topics[decision["ticket_id"]]
        if topic == 99:
            assert decision["review_id"] is not None
        else:
            assert decision["value"]["category"] == TOPICS[topic]
    assert Counter(waiting(scene)) == Counter(i for i, topic in topics.items() if topic == 99)


def test_time_is_not_spent_on_a_client_that_has_gone(scene: Scene) -> None:
    """A deadline in the middle of an answer closes the connection: the vendor may stop working."""
    scene.deadline_s = 0.5
    a = scene.add("a", hangs, timeout="400ms")
    with scene.router() as router:
        started = time.monotonic()
        decision = scene.ask(router)
        assert settles(lambda: a.num_under_way == 0)
        assert time.monotonic() - started < scene.deadline_s + 2.0
    assert decision.reasons == ("no_answer",)
