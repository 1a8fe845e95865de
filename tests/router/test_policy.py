"""How the chain is gone through: second opinions, stronger providers, trials and hedges."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import httpx
import pytest
from stage import Stage, answer, cooling, error, failures

from weighbridge import Ticket
from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Inquiry
from weighbridge.router.admission import Admission
from weighbridge.router.budget import Budget, Caps, MemoryBooks
from weighbridge.router.chain import Policy
from weighbridge.router.connections import Connections
from weighbridge.router.gate import Gate
from weighbridge.router.router import Router


def test_second_opinion_is_asked_where_numbers_are_missing_and_decides() -> None:
    """Agreement lets an answer without evidence pass; without a second voice it never does."""
    gate = Gate(without_evidence="second_opinion")
    other = answer('{"category": "bug", "priority": "high"}')
    agreeing = Stage({"a": [answer()], "b": [answer()]}).router(gate=gate).triage("x")
    differing = Stage({"a": [answer()], "b": [other]}).router(gate=gate).triage("x")
    alone = Stage({"a": [answer()], "b": [error(500)]}).router(gate=gate).triage("x")
    assert (agreeing.status, agreeing.provider) == ("accepted", "a")
    assert (differing.status, differing.reasons) == ("review", ("disagreement",))
    assert (alone.status, alone.reasons) == ("review", ("no_evidence",))
    assert [a.provider for a in agreeing.trail] == ["a", "b"]


def unsure(option: str, probability: float) -> httpx.Response:
    """An answer whose log-probabilities were taken before any mask."""
    text = json.dumps({"category": option, "priority": "high"})
    begin, end = text.split(option)
    top = [{"token": option, "logprob": math.log(probability)}]
    tokens = [
        {"token": begin, "logprob": 0.0, "top_logprobs": []},
        {"token": option, "logprob": math.log(probability), "top_logprobs": top},
        {"token": end, "logprob": 0.0, "top_logprobs": []},
    ]
    body = json.loads(answer(text).content)
    body["choices"][0]["logprobs"] = {"content": tokens}
    return httpx.Response(200, json=body)


@pytest.mark.parametrize(
    ("first", "provider", "hits"), [(0.9, "a", [1, 0, 0]), (0.2, "c", [1, 0, 1])]
)
def test_unsure_answer_is_put_to_a_stronger_provider_before_a_person(
    first: float, provider: str, hits: list[int]
) -> None:
    """Only to one that is configured for it; a sure answer is not."""
    stage = Stage(
        {"a": [unsure("bug", first)], "b": [answer()], "c": [unsure("billing", 0.99)]},
        profile="llama_cpp_server",
    )
    router = stage.router(gate=Gate(), policy=Policy(stronger={"c"}))
    decision = router.triage("x")
    assert (decision.status, decision.provider) == ("accepted", provider)
    assert [stage.hits(name) for name in "abc"] == hits
    escalated = any("escalated" in note for note in decision.fields["category"].notes)
    assert escalated is (provider == "c")


def test_unsure_answer_stays_where_the_stronger_one_fails() -> None:
    stage = Stage({"a": [unsure("bug", 0.2)], "b": [error(413)]}, profile="llama_cpp_server")
    decision = stage.router(gate=Gate(), policy=Policy(stronger={"b"})).triage("x")
    assert (decision.provider, decision.reasons) == ("a", ("low_mass",))


async def test_while_one_ticket_tries_a_provider_after_a_cooldown_others_pass_it_by() -> None:
    """A herd of tickets would knock over again what has just got up."""
    stage = Stage({"a": [answer()], "b": [answer()]})
    router = cooling(stage, a=1.0)
    stage.clock.now += 2.0
    release = asyncio.Event()
    first = router._providers[0]
    ask = first.ask

    async def slowly(*args: object, **options: object) -> object:
        await release.wait()
        return await ask(*args, **options)  # type: ignore[arg-type]

    first.ask = slowly  # type: ignore[method-assign]
    trial = asyncio.create_task(router.atriage("trial"))
    await asyncio.sleep(0.01)
    others = [await router.atriage(f"other {i}") for i in range(3)]
    release.set()
    assert [decision.provider for decision in others] == ["b"] * 3
    assert (await trial).provider == "a"
    assert (await router.atriage("after")).provider == "a"


@pytest.mark.parametrize(
    ("a_s", "provider", "failures_"),
    [(0.0, "a", [("a", None)]), (5.0, "b", [("b", None), ("a", FailureKind.CANCELLED)])],
    ids=["as usual", "unusually slow"],
)
async def test_provider_that_takes_unusually_long_is_joined_by_the_next(
    a_s: float, provider: str, failures_: list[tuple[str, FailureKind | None]]
) -> None:
    """The first answer counts, the loser is ended, both are in the trail."""
    stage = Stage({"a": [answer()], "b": [answer()]})
    router = stage.router(policy=Policy(hedge_after=0.9))
    first = router._providers[0]
    for _ in range(10):
        router._chain._around.latencies.note(first.identity, 0.02)
    object.__setattr__(router._chain._around, "sleep", asyncio.sleep)
    ask, ended = first.ask, []

    async def slowly(*args: object, **options: object) -> object:
        try:
            await asyncio.sleep(a_s)
        except asyncio.CancelledError:
            ended.append("a")
            raise
        return await ask(*args, **options)  # type: ignore[arg-type]

    first.ask = slowly  # type: ignore[method-assign]
    decision = await router.atriage("x")
    assert (decision.provider, failures(decision)) == (provider, failures_)
    assert ended == (["a"] if provider == "b" else [])


async def test_provider_that_fails_quickly_is_joined_by_nobody() -> None:
    """A failure is followed by the next provider as ever: two requests, one after the other."""
    stage = Stage({"a": [error(401)], "b": [answer()]})
    router = stage.router(policy=Policy(hedge_after=0.9))
    for _ in range(10):
        router._chain._around.latencies.note(router._providers[0].identity, 60.0)
    object.__setattr__(router._chain._around, "sleep", asyncio.sleep)
    decision = await router.atriage("x")
    assert failures(decision) == [("a", FailureKind.CREDENTIAL), ("b", None)]


def hedging(scripts: dict[str, list[httpx.Response]], **policy: Any) -> tuple[Stage, Router]:
    """A router that knows its providers as quick, and whose first one takes a while."""
    stage = Stage(dict(scripts), profile="llama_cpp_server")
    router = stage.router(gate=policy.pop("gate", None), policy=Policy(hedge_after=0.9, **policy))
    object.__setattr__(router._chain._around, "sleep", asyncio.sleep)
    for provider in router._providers:
        for _ in range(10):
            router._chain._around.latencies.note(provider.identity, 0.02)
    return stage, router


def delay(router: Router, name: str, seconds: float) -> None:
    provider = next(p for p in router._providers if p.name == name)
    ask = provider.ask

    async def slowly(*args: object, **options: object) -> object:
        await asyncio.sleep(seconds)
        return await ask(*args, **options)  # type: ignore[arg-type]

    provider.ask = slowly  # type: ignore[method-assign]


async def test_stronger_provider_that_is_slow_is_joined_by_stronger_ones_only() -> None:
    """What was unsure is not replaced by the word of somebody weaker."""
    sure = [unsure("billing", 0.99)]
    scripts = {"a": [unsure("bug", 0.2)], "c": sure, "b": sure}
    stage, router = hedging(scripts, gate=Gate(), stronger={"c"})
    delay(router, "c", 0.1)
    decision = await router.atriage("x")
    assert (decision.provider, stage.hits("b")) == ("c", 0)


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
async def test_two_at_once_share_the_requests_that_a_ticket_may_send(max_attempts: int) -> None:
    stage, router = hedging(
        {name: [error(503, retry_after="0.01")] for name in "abc"}, max_attempts=max_attempts
    )
    delay(router, "a", 0.1)
    decision = await router.atriage("x")
    assert len(stage.requests) == max_attempts
    assert decision.reasons == ("no_answer",)


@pytest.mark.parametrize(
    ("second", "reasons", "hits"),
    [(answer(None, refusal="no"), ("refusal",), 0), (error(413), (), 1)],
    ids=["both", "one"],
)
async def test_refusals_of_two_at_once_are_both_counted(
    second: httpx.Response, reasons: tuple[str, ...], hits: int
) -> None:
    """Two who refuse are enough, in whatever order they end; one may be followed by another."""
    no = answer(None, refusal="no")
    stage, router = hedging({"a": [no], "b": [second], "c": [answer()]})
    delay(router, "a", 0.1)
    delay(router, "b", 0.05)
    decision = await router.atriage("x")
    assert stage.hits("c") == hits
    assert decision.reasons == reasons


async def test_ticket_that_is_cancelled_while_the_loser_ends_is_cancelled() -> None:
    """The end of the loser's request is not mistaken for it."""
    _, router = hedging({"a": [answer()], "b": [answer()]})
    closing = asyncio.Event()

    async def reluctant(*_: object, **__: object) -> object:
        try:
            await asyncio.sleep(10)
        finally:
            closing.set()
            await asyncio.sleep(0.05)
        raise AssertionError

    router._providers[0].ask = reluctant  # type: ignore[method-assign]
    ticket = asyncio.create_task(router.atriage("x"))
    await closing.wait()
    ticket.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ticket


def test_fastest_strategy_stops_asking_one_whose_answers_are_useless_first() -> None:
    """It would else be unknown for ever, and every ticket would pay for it."""
    stage = Stage({"a": [answer("prose")], "b": [answer()]})
    router = stage.router(policy=Policy(strategy="fastest"))
    for number in range(12):
        assert router.triage(f"ticket {number}").provider == "b"
    hits = stage.hits("a")
    for number in range(12):
        router.triage(f"another {number}")
    assert stage.hits("a") == hits


def test_fastest_strategy_holds_no_outage_against_a_provider_that_is_back() -> None:
    """It was cooling meanwhile, which is enough."""
    down = [error(503, x_should_retry="false")] * 9
    stage = Stage({"a": [*down, answer()], "b": [answer()]})
    router = stage.router(policy=Policy(strategy="fastest"))
    for number in range(10):
        last = router.triage(f"ticket {number}")
        stage.clock.now += 10.0
    assert last.provider == "a"


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_stronger_provider_that_cools_is_waited_for_whoever_else_is_well(names: str) -> None:
    """Nobody weaker can take its place, so nobody weaker decides about it."""
    scripts: dict[str, list[httpx.Response]] = {name: [unsure("billing", 0.99)] for name in names}
    stage = Stage({**scripts, "a": [unsure("bug", 0.2)]}, profile="llama_cpp_server")
    router = stage.router(gate=Gate(), policy=Policy(stronger={"b"}))
    router._chain._around.health.cool(router._providers[1].identity, 2.0)
    decision = router.triage("x")
    assert (decision.status, decision.provider) == ("accepted", "b")
    assert [attempt.waited_s for attempt in decision.trail] == [0.0, 2.0]


@pytest.mark.parametrize("num_answers", [0, 1])
def test_hedge_that_the_budget_cannot_bear_leaves_the_first_request_alone(num_answers: int) -> None:
    """Money for one request: the slow one is waited for, and nobody else is asked."""
    stage, router = hedging({"a": [answer()] if num_answers else [error(413)], "b": [answer()]})
    first, task = router._providers[0], router.task
    ticket = Ticket.of("case")
    tokens = first.worst_case(Inquiry(task=task, approach=first.approach(task), ticket=ticket))
    caps = Caps(usd_per_day=1.5 * (first.cost_usd(*tokens) or 0.0))
    object.__setattr__(
        router._chain._around, "admission", Admission(budget=Budget(caps, MemoryBooks()))
    )
    delay_after_admission = httpx.MockTransport(stage._respond)

    async def slowly(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.1)
        return await delay_after_admission.handle_async_request(request)

    router._connections = Connections(
        lambda: httpx.AsyncClient(transport=httpx.MockTransport(slowly))
    )
    decision = router.triage("case")
    assert (decision.value is not None) is bool(num_answers)
    assert stage.hits("b") == 0
    assert ("b", FailureKind.BUDGET) in failures(decision)
