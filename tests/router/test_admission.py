"""Limits, budget, cache and shared cooldowns, each through a whole router."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from loopback import Server, serving
from stage import TASK, Clock, Stage, answer, error, failures

from weighbridge import Router, Ticket
from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Inquiry
from weighbridge.router.admission import Admission
from weighbridge.router.budget import Budget, Caps, MemoryBooks
from weighbridge.router.connections import Connections
from weighbridge.router.limits import Limiter, Limits


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


def limiter(clock: Clock, **limits: int) -> Limiter:
    return Limiter(Limits(**limits), clock=clock, sleep=clock.sleep)


def costs(router: Router) -> tuple[float, float]:
    """US dollars of one of the stage's answers, and of the worst that it could have been."""
    provider, task = router._providers[0], router.task
    ticket = Ticket.of("case 10")
    tokens = provider.worst_case(
        Inquiry(task=task, approach=provider.approach(task), ticket=ticket)
    )
    real_usd, worst_usd = provider.cost_usd(100, 10), provider.cost_usd(*tokens)
    assert real_usd is not None
    assert worst_usd is not None
    return real_usd, worst_usd


def test_ticket_for_which_a_provider_has_no_room_goes_to_the_next() -> None:
    """It is not asked, nothing is held against it, and it is asked again when there is room."""
    stage = Stage({"a": [answer()], "b": [answer()]})
    admission = Admission({"a": limiter(stage.clock, requests_per_minute=1)})
    router = stage.router(admission=admission, deadline_s=5.0)
    first, second = router.triage("first"), router.triage("second")
    assert (first.provider, second.provider) == ("a", "b")
    assert failures(second) == [("a", FailureKind.LIMIT), ("b", None)]
    stage.clock.now += 120.0
    assert router.triage("third").provider == "a"


def test_request_larger_than_its_limit_says_so() -> None:
    """Nobody waits for what never comes, and the trail has both numbers."""
    stage = Stage({"a": [answer()]})
    (provider,) = stage.router()._providers
    inquiry = Inquiry(task=TASK, approach=provider.approach(TASK), ticket=Ticket.of("x"))
    tokens = sum(provider.worst_case(inquiry))
    too_large = f"it may take {tokens} tokens, more than its limit for a whole minute (100)"
    for limit, told in ((100, too_large), (tokens, "")):
        admission = Admission({"a": limiter(stage.clock, tokens_per_minute=limit)})
        (attempt,) = stage.router(admission=admission).triage("x").trail
        assert attempt.detail == told
        assert attempt.failure == (FailureKind.LIMIT if told else None)
    assert (stage.hits("a"), stage.clock.slept) == (1, [])


def test_request_that_the_budget_refuses_leaves_its_place_to_others() -> None:
    """One minute has room for one request; two that nobody may pay for take none of it."""
    stage = Stage({"a": [answer()]})
    _, worst_usd = costs(stage.router())
    budget = Budget(Caps(usd_per_ticket=1.01 * worst_usd), MemoryBooks())
    limits = {"a": limiter(stage.clock, requests_per_minute=1)}
    router = stage.router(admission=Admission(limits, budget), deadline_s=5.0)
    for number in range(2):
        long = router.triage(f"case {number} " + "long " * 500)
        assert failures(long) == [("a", FailureKind.BUDGET)]
    assert router.triage("case 10").provider == "a"
    assert failures(router.triage("case 11")) == [("a", FailureKind.LIMIT)]


class _Stuck(MemoryBooks):
    """Books that nobody can write."""

    async def reserve(self, micro_usd: int, caps: Any) -> Any:
        await asyncio.Event().wait()


async def test_request_that_is_cancelled_before_it_is_paid_leaves_its_place() -> None:
    stage = Stage({"a": [answer()]})
    limits = {"a": limiter(stage.clock, requests_per_minute=1)}
    stuck = Admission(limits, Budget(Caps(usd_per_day=1.0), _Stuck()))
    ticket = asyncio.create_task(stage.router(admission=stuck).atriage("x"))
    await asyncio.sleep(0.01)
    ticket.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ticket
    free = stage.router(admission=Admission(limits), deadline_s=5.0)
    assert (await free.atriage("y")).provider == "a"


def test_wait_for_room_that_fits_is_begun_and_is_in_the_trail() -> None:
    stage = Stage({"a": [answer()]})
    admission = Admission({"a": limiter(stage.clock, requests_per_minute=1)})
    router = stage.router(admission=admission, deadline_s=300.0)
    router.triage("first")
    second = router.triage("second")
    assert second.provider == "a"
    assert second.trail[0].waited_s == pytest.approx(61.0, abs=0.1)
    assert second.trail[0].seconds == 0.0, "the wait is no part of the attempt"


def test_request_that_the_budget_cannot_bear_is_never_sent() -> None:
    """What the answer really cost takes the place of the worst case."""
    stage = Stage({"a": [answer()], "b": [answer()]})
    real_usd, worst_usd = costs(stage.router())
    caps = Caps(provider_usd_per_day={"a": worst_usd + 9.5 * real_usd})
    router = stage.router(admission=Admission(budget=Budget(caps, MemoryBooks())))
    decisions = [router.triage(f"case {10 + i}") for i in range(20)]
    assert [decision.provider for decision in decisions] == ["a"] * 10 + ["b"] * 10
    assert failures(decisions[-1])[0] == ("a", FailureKind.BUDGET)
    assert stage.hits("a") == 10


async def test_fifty_calls_at_once_against_a_budget_for_ten_send_ten() -> None:
    """Reserved before it is sent: while none is answered, no more than ten leave."""
    stage = Stage({"a": [answer()]})
    _, worst_usd = costs(stage.router())
    caps = Caps(usd_per_day=10.5 * worst_usd)
    router = stage.router(admission=Admission(budget=Budget(caps, MemoryBooks())))
    release, sent = asyncio.Event(), 0

    async def held_back(request: httpx.Request) -> httpx.Response:
        nonlocal sent
        sent += 1
        await release.wait()
        return answer()

    client = httpx.AsyncClient(transport=httpx.MockTransport(held_back))
    router._connections = Connections(lambda: client)
    tickets = [asyncio.create_task(router.atriage(f"case {10 + i}")) for i in range(50)]
    await asyncio.sleep(0.2)
    assert sent == 10
    release.set()
    decisions = await asyncio.gather(*tickets)
    await client.aclose()
    assert sum(decision.value is not None for decision in decisions) == 10


def settings(server: Server, database: Path, **more: Any) -> dict[str, Any]:
    return {
        "provider": [server.provider("ok")],
        "gate": {"without_evidence": "accept"},
        "review": {"database": f"sqlite:///{database}", "audit_rate": 0.0},
        **more,
    }


@pytest.mark.parametrize("kind", ["memory", "database"])
def test_accepted_decision_is_kept_for_the_same_ticket_and_no_other(
    server: Server, tmp_path: Path, kind: str
) -> None:
    """Another gate, another text, or local_only: asked anew."""
    kept = settings(server, tmp_path / "a.db", decision_cache={"enabled": True, "kind": kind})
    with Router.from_config(kept) as router:
        first, second = router.triage("charged twice"), router.triage("charged twice")
        assert server.hits["ok"] == 1
        assert (second.value, second.provider) == (first.value, first.provider)
        assert [attempt.detail for attempt in second.trail] == ["from the cache"]
        router.triage("charged three times")
        assert server.hits["ok"] == 2
    other = {**kept, "gate": {"without_evidence": "accept", "probability": 0.9}}
    with Router.from_config(other) as router:
        router.triage("charged twice")
        assert server.hits["ok"] == 3
    with Router.from_config(kept) as router:
        router.triage("charged twice")
        assert server.hits["ok"] == (3 if kind == "database" else 4)


def test_cooldown_that_one_process_learned_is_kept_by_the_other(
    server: Server, tmp_path: Path
) -> None:
    """Through the database, as two processes would."""
    chosen = settings(
        server,
        tmp_path / "a.db",
        provider=[server.provider("down"), server.provider("ok")],
        router={"share_health": True},
    )
    with Router.from_config(chosen) as one:
        one.triage("x")
    assert server.hits["down"] == 1
    with Router.from_config(chosen) as other:
        decision = other.triage("y")
    assert failures(decision) == [("down", FailureKind.COOLING), ("ok", None)]
    detail = decision.trail[0].detail
    assert detail.endswith(": transient; another process found out")
    assert server.hits["down"] == 1


def test_failed_requests_count_against_the_budget_too() -> None:
    """What nobody can tell counts as spent; a refusal at the door costs nothing."""
    for script, is_spent in ((error(401), False), (error(500), True)):
        stage = Stage({"a": [script]})
        books = MemoryBooks()
        router = stage.router(admission=Admission(budget=Budget(Caps(usd_per_day=1.0), books)))
        router.triage("x")
        assert any(sum(day.values()) for day in books._by_day.values()) is is_spent
