"""Waits and cooldowns over several tickets: who is left alone, for how long, and who is asked."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest
from scene import ANSWER, Scene, failures
from servers import TOPICS, Behaviour, Call, answers, hangs, in_turn, obeys, says, slowly, status

_ONCE = {"x_should_retry": "false"}


def test_25_tickets_cost_a_broken_vendor_one_ticket(scene: Scene) -> None:
    """Three requests for the first ticket, none for the others while it cools."""
    a, b = scene.add("a", status(500, retry_after="30")), scene.add("b", answers())
    c = scene.add("c", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, f"Ticket {number}") for number in range(25)]
    assert {d.provider for d in decisions} == {"b"}
    assert failures(decisions[0]) == ["transient"]
    assert {tuple(failures(d)) for d in decisions[1:]} == {("cooling",)}
    assert (a.hits, b.hits, c.hits) == (1, 25, 0)


_AT = 1_800_000_000
_DATES = {"date": formatdate(_AT, usegmt=True), "retry_after": formatdate(_AT + 1, usegmt=True)}


@pytest.mark.parametrize(
    ("behaviour", "waited_s"),
    [
        pytest.param(status(429, retry_after_ms="20", retry_after="9"), 0.02, id="milliseconds"),
        pytest.param(status(429, retry_after="0.02"), 0.02, id="float"),
        pytest.param(status(429, retry_after="0"), 0.0, id="zero"),
        pytest.param(status(429, **_DATES), 1.0, id="date"),
        pytest.param(status(429, "Please try again in 20ms."), 0.02, id="message"),
        pytest.param(
            status(429, x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="20ms"),
            0.02,
            id="spent_allowance",
        ),
        pytest.param(
            says(429, b'{"error": {"details": [{"retryDelay": "0.02s"}]}}'), 0.02, id="retry_info"
        ),
    ],
)
def test_wait_is_understood_however_it_is_told(
    scene: Scene, behaviour: Behaviour, waited_s: float
) -> None:
    a, b = scene.add("a", in_turn(behaviour, answers())), scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("a", ANSWER)
    assert decision.trail[-1].waited_s == pytest.approx(waited_s)
    assert a.calls[1].at - a.calls[0].at > 0.9 * waited_s
    assert (a.hits, b.hits) == (2, 0)


@pytest.mark.parametrize("told", ["-5", "nan", "inf", "1e3", "soon", "", "1_0", "٣"])
def test_wait_that_is_no_wait_is_none(scene: Scene, told: str) -> None:
    """The reject cases: then a rate limit is left alone, and B answers."""
    limited = says(429, b"", **{"retry-after": told}) if told.isascii() else status(429)
    a, b = scene.add("a", limited), scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, a.hits, b.hits) == ("b", 1, 1)


def test_where_all_are_cooling_the_first_to_be_back_is_waited_for(scene: Scene) -> None:
    a = scene.add("a", status(429, retry_after="60", **_ONCE))
    b = scene.add("b", in_turn(status(429, retry_after="0.6", **_ONCE), answers()))
    with scene.router() as router:
        first, second = scene.ask(router, "First"), scene.ask(router, "Second")
    assert (first.status, first.reasons) == ("review", ("no_answer",))
    assert (second.provider, second.value) == ("b", ANSWER)
    assert failures(second) == ["cooling"]
    assert 0.0 < second.trail[-1].waited_s <= 0.6
    assert b.calls[1].at - b.calls[0].at > 0.5
    assert (a.hits, b.hits) == (1, 2)


def test_where_all_are_cooling_beyond_the_deadline_nobody_waits(scene: Scene) -> None:
    """Who named no time is asked all the same: it may be back, and there is nobody else."""
    a = scene.add("a", status(429, retry_after="60", **_ONCE))
    b = scene.add("b", in_turn(status(503, **_ONCE), answers()))
    scene.deadline_s = 2.0
    with scene.router() as router:
        first, second = scene.ask(router, "First"), scene.ask(router, "Second")
    assert first.status == "review"
    assert (second.provider, second.value) == ("b", ANSWER)
    assert [attempt.waited_s for attempt in second.trail] == [0.0, 0.0]
    assert (a.hits, b.hits) == (1, 2)


def test_where_all_have_asked_for_more_time_than_there_is_nobody_is_asked(scene: Scene) -> None:
    """A storm of tickets would only keep them busy; a person hears of each at once."""
    a = scene.add("a", status(429, retry_after="30"))
    b = scene.add("b", status(503, retry_after="40"))
    started = time.monotonic()
    with scene.router() as router:
        decisions = [scene.ask(router, f"Ticket {number}") for number in range(10)]
    assert time.monotonic() - started < scene.deadline_s
    assert {decision.reasons for decision in decisions} == {("no_answer",)}
    for decision in decisions[1:]:
        assert failures(decision) + failures(decision, "b") == ["cooling", "cooling"]
    assert (a.hits, b.hits) == (1, 1)


def test_vendor_that_is_back_is_asked_again(scene: Scene) -> None:
    a = scene.add("a", in_turn(status(503, retry_after="0.1", **_ONCE), answers()))
    b = scene.add("b", answers())
    with scene.router() as router:
        first = scene.ask(router, "First")
        time.sleep(0.15)
        second = scene.ask(router, "Second")
    assert (first.provider, second.provider) == ("b", "a")
    assert (a.hits, b.hits) == (2, 1)


@pytest.mark.parametrize(
    ("code", "told"), [(429, "insufficient_quota: x"), (401, None), (404, None)]
)
def test_what_no_waiting_cures_is_paid_for_once(scene: Scene, code: int, told: str | None) -> None:
    """A spent quota, a wrong key and a model that is gone are no reason to ask again soon."""
    a, b = scene.add("a", status(code, told, retry_after="0.01")), scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, f"Ticket {number}") for number in range(5)]
        time.sleep(0.02)
        decisions.append(scene.ask(router, "Later"))
    assert {d.provider for d in decisions} == {"b"}
    assert (a.hits, b.hits) == (1, 6)


async def _flaps(call: Call) -> None:
    await asyncio.sleep(0.02)
    await (obeys if call.number % 2 else status(503, retry_after="0.01"))(call)


async def test_200_tickets_at_once_at_a_flapping_vendor(scene: Scene) -> None:
    """Every ticket gets its own answer; none is lost, mixed up, or asked for without end."""
    scene.deadline_s = 10.0
    # They share two cores with the vendors: it is not the vendors' fault if they are slow.
    a = scene.add("a", _flaps, timeout="9s")
    b = scene.add("b", slowly(0.02, obeys), timeout="9s")
    topics = [number % len(TOPICS) for number in range(200)]
    with scene.router() as router:
        started = time.monotonic()
        decisions = await asyncio.gather(
            *(router.atriage(f"Ticket {n}, topic {topic}") for n, topic in enumerate(topics))
        )
        assert time.monotonic() - started < scene.deadline_s + 1.0
        await router.aclose()
    assert [d.value.category for d in decisions] == [TOPICS[n] for n in topics]
    assert {d.status for d in decisions} == {"accepted"}
    assert {d.provider for d in decisions} <= {"a", "b"}
    assert max(len(failures(d)) for d in decisions) <= 3
    sent = [t for d in decisions for t in d.trail if t.failure != "cooling"]
    assert a.hits + b.hits == len(sent) <= 4 * 200
    assert a.most_under_way > 20


def test_after_a_cooldown_one_ticket_asks_first(scene: Scene) -> None:
    """Half open: while nobody knows whether a vendor is back, one finds out and the rest go on."""
    a = scene.add("a", in_turn(status(503, retry_after="0.1", **_ONCE), hangs), timeout="500ms")
    b = scene.add("b", answers())
    with scene.router() as router, ThreadPoolExecutor(20) as pool:
        scene.ask(router, "First")
        time.sleep(0.15)
        list(pool.map(lambda n: scene.ask(router, f"Ticket {n}"), range(20)))
    assert b.hits == 21
    assert a.hits == 2
