from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from labelled import open_shares, tallies
from scipy import stats

from weighbridge.review.statistics.intervals import (
    binomial_tail,
    clopper_pearson,
    clopper_pearson_upper,
    wilson,
)

RATES = np.linspace(0.005, 0.995, 67)


def coverage(interval, num_labels: int) -> np.ndarray:
    """Exact probability, at each of RATES, that the interval holds the rate."""
    holds = np.array(
        [
            [low <= rate <= high for rate in RATES]
            for low, high in (interval(errors, num_labels) for errors in range(num_labels + 1))
        ]
    )
    chances = stats.binom.pmf(np.arange(num_labels + 1)[:, None], num_labels, RATES[None, :])
    return (chances * holds).sum(0)


@pytest.mark.parametrize("num_labels", [1, 7, 40, 150])
def test_exact_intervals_hold_the_truth_at_their_rate_whatever_it_is(num_labels):
    """Counted over every outcome, not sampled."""
    assert coverage(clopper_pearson, num_labels).min() >= 0.95
    upper = coverage(lambda k, n: (0, clopper_pearson_upper(k, n, 0.1)), num_labels)
    assert upper.min() >= 0.90


@pytest.mark.parametrize("num_labels", [7, 40, 150])
def test_wilson_holds_the_truth_at_its_rate_on_average_only(num_labels):
    """Which is why it is for display."""
    held = coverage(wilson, num_labels)
    assert held.mean() == pytest.approx(0.95, abs=0.02)
    assert held.min() < 0.95


@given(tallies(), open_shares, open_shares)
def test_upper_bound_is_below_alpha_exactly_when_the_test_passes(tally, alpha, delta):
    """Interval and p-value are two readings of one test."""
    p_value, upper = binomial_tail(*tally, alpha), clopper_pearson_upper(*tally, delta)
    assume(abs(p_value - delta) > 1e-9)
    assert (p_value <= delta) == (upper <= alpha)


@given(tallies())
def test_more_errors_move_every_bound_up(tally):
    errors, num_labels = tally
    assume(errors < num_labels)
    for interval in (clopper_pearson, wilson):
        less, more = interval(errors, num_labels), interval(errors + 1, num_labels)
        assert less.low <= more.low
        assert less.high <= more.high


@given(tallies())
def test_intervals_are_those_of_scipy(tally):
    """And lie around the observed rate, between 0 and 1."""
    errors, num_labels = tally
    found = stats.binomtest(errors, num_labels)
    for interval, method in ((clopper_pearson, "exact"), (wilson, "wilson")):
        ours, theirs = interval(errors, num_labels), found.proportion_ci(method=method)
        assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-7)
        assert 0 <= ours.low <= errors / num_labels <= ours.high <= 1


@pytest.mark.parametrize(
    ("errors", "num_labels", "score", "exact", "upper_95", "upper_90"),
    [
        (11, 48, (0.1331, 0.3654), (0.1203, 0.3731), 0.35069, 0.32532),
        (0, 59, (0, 0.0611), (0, 0.0606), 0.04951, 0.03828),
        (2, 150, (0.0037, 0.0473), (0.0016, 0.0473), 0.04137, 0.03509),
        (5, 5, (0.5655, 1), (0.4782, 1), 1, 1),
        (4, 5, (0.3755, 0.9638), (0.2836, 0.9949), 0.98979, 0.97915),
        (3, 200, (0.0051, 0.0432), (0.0031, 0.0432), 0.03831, 0.03310),
    ],
)
def test_check_values_of_intervals(errors, num_labels, score, exact, upper_95, upper_90):
    assert wilson(errors, num_labels) == pytest.approx(score, abs=5e-5)
    assert clopper_pearson(errors, num_labels) == pytest.approx(exact, abs=5e-5)
    assert clopper_pearson_upper(errors, num_labels, 0.05) == pytest.approx(upper_95, abs=5e-6)
    assert clopper_pearson_upper(errors, num_labels, 0.10) == pytest.approx(upper_90, abs=5e-6)


def test_without_labels_anything_may_be_true():
    assert clopper_pearson(0, 0) == wilson(0, 0) == (0, 1)
    assert clopper_pearson_upper(0, 0, 0.1) == 1
    assert binomial_tail(0, 0, 0.5) == 1


@pytest.mark.parametrize(
    ("errors", "num_labels"), [(-1, 5), (6, 5), (float("nan"), 5), (0, float("inf"))]
)
def test_what_is_no_tally_is_refused(errors, num_labels):
    for compute in (
        lambda: wilson(errors, num_labels),
        lambda: clopper_pearson(errors, num_labels),
        lambda: clopper_pearson_upper(errors, num_labels, 0.1),
        lambda: binomial_tail(errors, num_labels, 0.1),
    ):
        with pytest.raises(ValueError, match="errors"):
            compute()


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, float("nan")])
def test_level_that_is_no_share_is_refused(level):
    """95 for 0.95 is the slip to catch."""
    for compute in (
        lambda: wilson(1, 5, level),
        lambda: clopper_pearson(1, 5, level),
        lambda: clopper_pearson_upper(1, 5, level),
    ):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            compute()
