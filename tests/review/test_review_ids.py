from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weighbridge.review.queueing.ids import time_ordered_id

times_us = st.integers(1_500_000_000_000_000, 4_000_000_000_000_000)


@given(times_us, st.integers(1, 10**12))
def test_later_ids_sort_after_earlier_ones(now_us, later_ms):
    """Whatever their random ends are."""
    assert time_ordered_id(now_us) < time_ordered_id(now_us + later_ms * 1000)


@given(times_us)
def test_ids_are_short_and_easy_to_type(now_us):
    """Fifteen lower-case letters and digits, none of them easily mistaken for another."""
    new = time_ordered_id(now_us)
    assert len(new) == 15
    assert set(new) <= set("0123456789abcdefghjkmnpqrstvwxyz")


def test_ids_of_one_moment_differ():
    assert len({time_ordered_id(1_790_000_000_000_000) for _ in range(1000)}) == 1000
