"""How long a decision may wait to be written into the queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage import Stage, answer

from weighbridge.router.gate import Gate
from weighbridge.router.queueing import LEAST_IN_LINE_S, LEAST_S, patience_s

moments = st.floats(0.0, 1e6)
spans = st.floats(0.0, 1e3)


@given(deadline=moments, decided=moments, waited_s=spans)
def test_patience_ends_with_the_deadline_or_soon_after_the_decision(deadline, decided, waited_s):
    """However long it stood in line, which gives it no more and takes not everything."""
    left_s = patience_s(deadline, decided, decided + waited_s)
    assert left_s >= LEAST_IN_LINE_S
    ends = decided + waited_s + left_s
    latest = max(deadline, decided + LEAST_S, decided + waited_s + LEAST_IN_LINE_S)
    assert ends == pytest.approx(latest)


@given(deadline=moments, decided=moments)
def test_decision_that_was_just_made_gets_the_least_or_what_is_left(deadline, decided):
    left_s = patience_s(deadline, decided, decided)
    assert left_s == pytest.approx(max(LEAST_S, deadline - decided), abs=1e-6)


@pytest.mark.parametrize(("took_s", "left_s"), [(0.0, 30.0), (20.0, 10.0), (29.5, LEAST_S)])
def test_router_gives_the_queue_what_is_left_of_the_deadline(took_s, left_s):
    """But for the least, which a late decision gets too."""
    stage = Stage({"a": lambda _: slow(stage, took_s)})
    with stage.router(gate=Gate(without_evidence="review"), deadline_s=30.0) as router:
        assert router.triage("Hello").review_id is not None
    assert stage.queue.patience_s == pytest.approx(left_s)


def slow(stage: Stage, took_s: float):
    stage.clock.now += took_s
    return answer()
