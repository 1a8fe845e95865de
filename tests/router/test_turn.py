"""Whose turn it is: a pure rule, and visits that look again before they wait or ask once more."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Clock, Stage, answer, error, failures, identity_of

from weighbridge.decision import FailureKind
from weighbridge.providers.local import LocalProvider
from weighbridge.router.admission import Admission
from weighbridge.router.health import Cooldown
from weighbridge.router.limits import Limiter, Limits
from weighbridge.router.router import Router
from weighbridge.router.turn import Turn, turn


def cooldown(left_s: float, *, is_asked: bool = False) -> Cooldown:
    return Cooldown(
        kind=FailureKind.RATE_LIMIT,
        is_asked=is_asked,
        is_elsewhere=False,
        began=0.0,
        left_s=left_s,
    )


COOLDOWNS = st.builds(cooldown, st.integers(1, 60), is_asked=st.booleans())


@given(known=st.lists(st.none() | COOLDOWNS, min_size=1), left_s=st.integers(0, 60))
def test_somebody_is_asked_unless_all_have_asked_for_more_time_than_there_is(
    known: list[Cooldown | None], left_s: int
) -> None:
    """Holds for every chain: of those who may be asked, nobody waits longer than need be."""
    turns = [turn(each, known[at + 1 :], left_s=left_s) for at, each in enumerate(known)]
    asked = [(each, its) for each, its in zip(known, turns, strict=True) if not its.passes_over]
    closed = [c is not None and c.is_asked and c.left_s >= left_s for c in known]
    assert bool(asked) is not all(closed)
    for each, its in asked:
        assert its.wait_s < max(left_s, 1)
        if each is not None and each.is_asked:
            assert its.wait_s == each.left_s, "never sooner than it asked for"
    if asked and asked[0][0] is not None:
        pairs = zip(known, closed, strict=True)
        free_in_s = [0 if each is None else each.left_s for each, shut in pairs if not shut]
        assert asked[0][0].left_s == min(free_in_s)


@pytest.mark.parametrize(
    ("own", "later", "expected"),
    [
        (None, [], Turn()),
        (cooldown(5), [], Turn(wait_s=5)),
        (cooldown(30), [], Turn()),
        (cooldown(30, is_asked=True), [], Turn(passes_over=True)),
        (cooldown(5), [None], Turn(passes_over=True)),
        (cooldown(5), [cooldown(4)], Turn(passes_over=True)),
        (cooldown(5), [cooldown(5)], Turn(wait_s=5)),
        (cooldown(30), [cooldown(20)], Turn(passes_over=True)),
        (cooldown(30), [cooldown(20, is_asked=True)], Turn()),
    ],
)
def test_turn_with_ten_seconds_left(
    own: Cooldown | None, later: list[Cooldown | None], expected: Turn
) -> None:
    assert turn(own, later, left_s=10) == expected


LIMITED = error(429, retry_after="30", x_should_retry="false")


def test_wait_that_all_have_asked_for_is_kept_by_every_ticket() -> None:
    """With 3 s left nobody is asked again before the 30 s are over, and the trail says why."""
    stage = Stage({"a": [LIMITED, answer()], "b": [LIMITED, answer()]})
    router = stage.router(deadline_s=3.0)
    router.triage("first")
    storm = [router.triage(f"ticket {number}") for number in range(20)]
    assert {decision.reasons for decision in storm} == {("no_answer",)}
    assert [attempt.detail for attempt in storm[0].trail] == [
        "cooling down for 30.0 s: rate limit, as it asked for"
    ] * 2
    assert (stage.hits("a"), stage.hits("b"), stage.clock.slept) == (1, 1, [])
    stage.clock.now += 30.0
    assert router.triage("later").provider == "a"


def test_refused_key_is_named_to_every_later_ticket() -> None:
    """An hour of "cooling down" would leave people guessing."""
    stage = Stage({"a": [error(401)], "b": [answer()]})
    router = stage.router()
    router.triage("first")
    assert router.triage("second").trail[0].detail == "cooling down for 3600.0 s: credential"


async def test_engine_on_this_machine_is_asked_at_once_where_the_others_want_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    local = LocalProvider(reserve_s=1.0)

    def weigh(*_: object) -> None:
        asked.append("local")
        raise ZeroDivisionError  # far enough

    monkeypatch.setattr(local, "_weigh", weigh)
    stage = Stage({"a": [LIMITED]})
    router = stage.router(deadline_s=3.0)
    router._chain._around.health.cool(
        identity_of(router, "a"), 30.0, FailureKind.RATE_LIMIT, is_asked=True
    )
    router._chain._providers = (*router._providers, local)
    with pytest.raises(ZeroDivisionError):
        await router.atriage("x")
    local.close()
    assert (asked, stage.requests, stage.clock.slept) == (["local"], [], [])


class Elsewhere:
    """Another ticket's failure, which comes to be known while a request is under way."""

    def __init__(self, stage: Stage, wait_s: float, *, is_asked: bool = False) -> None:
        self.stage, self.wait_s, self.is_asked = stage, wait_s, is_asked
        self.router: Router | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.stage.hits("a") > 1:
            return answer()
        assert self.router is not None
        self.stage.clock.now += 1.0
        self.router._chain._around.health.cool(
            identity_of(self.router, "a"),
            self.wait_s,
            FailureKind.RATE_LIMIT,
            is_asked=self.is_asked,
        )
        return error(500)


def meanwhile(others: tuple[str, ...], wait_s: float, *, is_asked: bool = False) -> Stage:
    stage = Stage({"a": [], **{name: [answer()] for name in others}})
    stage.scripts["a"] = Elsewhere(stage, wait_s, is_asked=is_asked)
    return stage


@pytest.mark.parametrize(
    ("others", "wait_s", "is_asked", "expected", "slept"),
    [
        (("b",), 60.0, True, ["transient", "cooling", None], []),
        (("b",), 60.0, False, ["transient", "cooling", None], []),
        ((), 60.0, True, ["transient", "cooling"], []),
        ((), 60.0, False, ["transient", None], [0.5]),
        ((), 8.0, True, ["transient", None], [8.0]),
        ((), 0.2, True, ["transient", None], [0.5]),
    ],
    ids=["next", "next", "person", "last", "waits", "short"],
)
def test_what_another_ticket_has_found_out_counts_before_asking_again(
    others: tuple[str, ...],
    wait_s: float,
    is_asked: bool,
    expected: list[str | None],
    slept: list[float],
) -> None:
    """A provider that wants to be left alone is left alone by those who are at it already."""
    stage = meanwhile(others, wait_s, is_asked=is_asked)
    router = stage.router(deadline_s=30.0)
    script = stage.scripts["a"]
    assert isinstance(script, Elsewhere)
    script.router = router
    decision = router.triage("x")
    assert [kind for _, kind in failures(decision)] == expected
    assert stage.clock.slept == slept
    assert sum(attempt.waited_s for attempt in decision.trail) == sum(slept)
    health = router._chain._around.health
    assert (health.left_s(identity_of(router, "a")) == 0.0) is (decision.provider == "a")


async def test_what_is_found_out_during_a_wait_counts_after_it() -> None:
    """Two tickets back off; one is told to stay away, and the other does not ask either."""
    stage = Stage({"a": [error(500)], "b": [answer()]})
    router = stage.router()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        stage.clock.now += seconds
        health = router._chain._around.health
        health.cool(identity_of(router, "a"), 60.0, FailureKind.RATE_LIMIT, is_asked=True)

    object.__setattr__(router._chain._around, "sleep", sleep)
    decision = await router.atriage("x")
    assert [kind for _, kind in failures(decision)] == ["transient", "cooling", None]
    assert (stage.hits("a"), pauses) == (1, [0.5])


async def test_request_that_waited_for_room_is_not_sent_to_who_is_left_alone_by_then() -> None:
    """Its place in the minute goes to others, and it costs no attempt."""
    clock = Clock()
    stage = Stage({"a": [answer()], "b": [answer()]}, clock=clock)
    router: Router

    async def sleep(seconds: float) -> None:
        clock.now += seconds
        router._chain._around.health.cool(
            identity_of(router, "a"), 5.0, FailureKind.RATE_LIMIT, is_asked=True
        )
        await asyncio.sleep(0)

    limits = Limiter(Limits(requests_per_minute=1), clock=clock, sleep=sleep)
    router = stage.router(admission=Admission({"a": limits}), deadline_s=100.0)
    assert (await router.atriage("first")).provider == "a"
    second = await router.atriage("second")
    assert failures(second) == [("a", FailureKind.COOLING), ("b", None)]
    clock.now += 5.0
    async with limits.acquire(tokens=1, until=clock.now + 1.0) as place:
        assert place is not None
    assert stage.hits("a") == 1
