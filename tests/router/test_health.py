"""Cooling: told by failures, ended by answers, on the injected clock alone."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Clock, Stage

from weighbridge.decision import FailureKind
from weighbridge.router.health import ProviderHealth

WAITS_S = st.integers(0, 4000)


@given(events=st.lists(st.tuples(WAITS_S, WAITS_S)))
def test_cooldown_lasts_until_the_latest_of_the_times_it_was_told(
    events: list[tuple[int, int]],
) -> None:
    """Holds for every order of short and long ones, with any time between them."""
    health = ProviderHealth(clock := Clock())
    latest = clock.now
    for wait_s, passed_s in events:
        health.cool("a", wait_s)
        latest = max(latest, clock.now + wait_s)
        clock.now += passed_s
        assert health.left_s("a") == max(0.0, latest - clock.now)
    assert health.left_s("b") == 0.0, "and for nobody else"


@given(wait_s=st.integers(1, 4000), asked_after_s=st.integers(-100, 100))
def test_answer_counts_only_against_what_was_known_when_it_was_asked_for(
    wait_s: int, asked_after_s: int
) -> None:
    health = ProviderHealth(clock := Clock())
    health.cool("a", wait_s)
    health.recovered("a", clock.now + asked_after_s)
    assert health.left_s("a") == (0.0 if asked_after_s > 0 else wait_s)


def test_after_a_cooldown_one_ticket_tries_the_provider_and_the_others_can_tell() -> None:
    """Until it has ended, however it ends; who never cooled is on no trial."""
    health = ProviderHealth(clock := Clock())
    with health.trial("b"):
        assert not health.is_on_trial("b")
    health.cool("a", 10.0)
    clock.now += 10.0
    assert not health.is_on_trial("a")
    with health.trial("a"):
        assert health.is_on_trial("a")
        with health.trial("a"):
            pass
        assert health.is_on_trial("a"), "the second one's end is not the first one's"
        health.cool("a", 5.0)
    assert (health.is_on_trial("a"), health.left_s("a")) == (False, 5.0)
    with pytest.raises(KeyError), health.trial("a"):
        raise KeyError
    assert not health.is_on_trial("a")
    with health.trial("a"):
        health.recovered("a", clock.now + 1.0)
    assert (health.is_on_trial("a"), health.left_s("a")) == (False, 0.0)


def test_answer_of_one_who_never_cooled_changes_nothing() -> None:
    health = ProviderHealth(clock := Clock())
    health.cool("a", 10.0)
    health.recovered("b", clock.now + 1.0)
    assert (health.left_s("a"), health.left_s("b")) == (10.0, 0.0)


@pytest.mark.parametrize(
    ("deadline_s", "cools"), [(60.0, True), (10.0, False)], ids=["its own time", "the ticket's"]
)
def test_provider_is_blamed_for_a_timeout_only_if_it_had_all_its_time(
    deadline_s: float, cools: bool
) -> None:
    """What the ticket's deadline cuts short says nothing about who was asked."""

    def take_all_the_time(request: httpx.Request) -> httpx.Response:
        stage.clock.now += min(deadline_s, 15.0)
        raise httpx.ReadTimeout("slow")

    stage = Stage({"a": take_all_the_time})
    router = stage.router(deadline_s=deadline_s)
    assert router.triage("x").reasons == ("no_answer",)
    assert (router._chain._around.health.left_s(router._providers[0].identity) > 0.0) is cools


@given(
    told=st.lists(
        st.tuples(WAITS_S, st.sampled_from(list(FailureKind)), st.booleans(), st.integers(0, 50)),
        min_size=1,
    )
)
def test_cause_of_a_cooldown_is_that_of_its_longest_part(
    told: list[tuple[int, FailureKind, bool, int]],
) -> None:
    """Whatever else is told meanwhile; and once it is over there is none."""
    health = ProviderHealth(clock := Clock())
    longest, cause = -math.inf, None
    for wait_s, kind, is_asked, passed_s in told:
        health.cool("a", wait_s, kind, is_asked=is_asked)
        if clock.now + wait_s >= longest:
            longest, cause = clock.now + wait_s, (kind, is_asked)
        began = clock.now
        clock.now += passed_s
        found = health.cooldown("a")
        if longest <= clock.now:
            assert found is None
        else:
            assert found is not None
            assert (found.kind, found.is_asked) == cause
            assert (found.left_s, found.began) == (longest - clock.now, began)
            assert not found.is_elsewhere


def test_loops_on_several_threads_may_share_it() -> None:
    """One forgets a cooldown while another ends its trial."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    try:
        health = ProviderHealth(lambda: 1.0)

        def use(_: int) -> None:
            for _ in range(5000):
                health.cool("a", 0.0)
                with health.trial("a"):
                    health.recovered("a", math.inf)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(use, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert not health.is_on_trial("a")
