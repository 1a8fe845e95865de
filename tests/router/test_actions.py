"""One failure, one action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure
from weighbridge.router.actions import (
    DISABLING,
    MAX_TRIES,
    Action,
    Amend,
    Health,
    next_action,
)

KINDS = list(FailureKind)


def act(kind: FailureKind, **changes: object) -> Action:
    given_ = {
        "tries": 1,
        "amended": frozenset(),
        "took_s": 0.1,
        "left_s": 10.0,
        "jitter": 0.0,
        "can_replan": False,
    }
    failure = Failure(
        kind=kind,
        detail="",
        wait_s=changes.pop("wait_s", None),  # type: ignore[arg-type]
        retry=changes.pop("retry", None),  # type: ignore[arg-type]
    )
    return next_action(failure, **(given_ | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "again", "onward", "health"),
    [
        (FailureKind.TRANSIENT, True, True, Health.UNTOUCHED),
        (FailureKind.RATE_LIMIT, False, True, Health.COOL),
        (FailureKind.QUOTA, False, True, Health.DISABLE),
        (FailureKind.CREDENTIAL, False, True, Health.DISABLE),
        (FailureKind.MODEL_GONE, False, True, Health.DISABLE),
        (FailureKind.CAPABILITY, False, True, Health.UNTOUCHED),
        (FailureKind.CALLER_FAULT, False, False, Health.UNTOUCHED),
        (FailureKind.TOO_LONG, False, True, Health.UNTOUCHED),
        (FailureKind.INVALID, True, True, Health.UNTOUCHED),
        (FailureKind.TRUNCATED, True, True, Health.UNTOUCHED),
        (FailureKind.REFUSAL, False, True, Health.UNTOUCHED),
        (FailureKind.FILTERED, False, True, Health.UNTOUCHED),
        (FailureKind.DEADLINE, False, False, Health.UNTOUCHED),
        (FailureKind.COOLING, False, True, Health.UNTOUCHED),
        (FailureKind.LIMIT, False, True, Health.UNTOUCHED),
        (FailureKind.BUDGET, False, True, Health.UNTOUCHED),
        (FailureKind.CANCELLED, False, True, Health.UNTOUCHED),
        (FailureKind.UNAVAILABLE, False, True, Health.UNTOUCHED),
        (FailureKind.UNKNOWN, False, True, Health.UNTOUCHED),
    ],
)
def test_every_failure_has_its_action(
    kind: FailureKind, again: bool, onward: bool, health: Health
) -> None:
    """A first failure with time left and nothing said by the provider."""
    action = act(kind)
    assert (action.again, action.onward, action.health) == (again, onward, health)


def test_the_table_above_names_every_failure() -> None:
    (mark,) = [m for m in test_every_failure_has_its_action.pytestmark if m.name == "parametrize"]
    assert {row[0] for row in mark.args[1]} == set(KINDS)


def test_rate_limit_waits_as_long_as_it_was_told() -> None:
    assert act(FailureKind.RATE_LIMIT, wait_s=3.0) == Action(again=True, wait_s=3.0)


def test_rate_limit_that_outlasts_the_deadline_cools_instead() -> None:
    asked = Action(health=Health.COOL, wait_s=60.0, is_asked=True)
    assert act(FailureKind.RATE_LIMIT, wait_s=60.0) == asked
    assert not act(FailureKind.RATE_LIMIT).is_asked, "a time of our own choosing"


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_no_waiting_cures_is_disabled(kind: FailureKind) -> None:
    """And nobody else is: the list says for others what the table does."""
    assert (act(kind).health is Health.DISABLE) == (kind in DISABLING)


def test_capability_failure_that_taught_something_is_answered_by_one_new_plan() -> None:
    first = act(FailureKind.CAPABILITY, can_replan=True)
    again = act(FailureKind.CAPABILITY, can_replan=True, amended=frozenset({Amend.REPLAN}))
    assert (first.again, first.amend, again.again) == (True, Amend.REPLAN, False)


@given(
    kind=st.sampled_from(KINDS),
    tries=st.integers(1, 10),
    amended=st.frozensets(st.sampled_from(list(Amend))),
    took_s=st.floats(0, 100),
    left_s=st.floats(-10, 100),
    jitter=st.floats(0, 1),
    wait_s=st.none() | st.floats(0, 1000),
    retry=st.none() | st.booleans(),
    can_replan=st.booleans(),
)
def test_asking_again_always_fits_and_always_ends(
    kind: FailureKind, wait_s: float | None, retry: bool | None, **rest: object
) -> None:
    """No wait outlasts the deadline, nothing is retried for ever, no provider's no is ignored."""
    action = act(kind, wait_s=wait_s, retry=retry, **rest)
    assert action.wait_s >= 0.0
    if not action.again:
        return
    assert action.onward
    assert rest["tries"] < MAX_TRIES  # type: ignore[operator]
    assert action.wait_s + rest["took_s"] <= rest["left_s"]  # type: ignore[operator]
    assert action.amend not in rest["amended"] or action.amend is Amend.NOTHING  # type: ignore[operator]
    if kind in (FailureKind.TRANSIENT, FailureKind.RATE_LIMIT):
        assert retry is not False
        assert wait_s is None or action.wait_s == wait_s, "never sooner than the provider asks"
