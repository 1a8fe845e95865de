"""Intervals: what k errors among n labels say about the error rate behind them.

Clopper-Pearson is exact and meant for promises: it holds its level whatever the truth. Wilson is
shorter and meant for display: it holds its level on average.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from weighbridge.review.statistics.checks import check_open_share, check_share, check_tally
from weighbridge.review.statistics.learn_extra import learn_module


class Interval(NamedTuple):
    """Both ends, each from 0 to 1."""

    low: float
    high: float


def binomial_tail(num_errors: int, num_labels: int, risk: float) -> float:
    """P(Bin(num_labels, risk) ≤ num_errors): the exact p-value of "the error rate is above risk".

    1.0 where nothing was labelled.

    Raises:
        ValueError: no such tally, or a risk outside 0 to 1.
    """
    check_tally(num_errors, num_labels)
    check_share("risk", risk)
    return float(learn_module("scipy.special").bdtr(num_errors, num_labels, risk))


def clopper_pearson(num_errors: float, num_labels: float, level: float = 0.95) -> Interval:
    """The exact two-sided interval; (0, 1) where nothing was labelled.

    Args:
        num_errors: may be fractional, as for an effective sample size.
        num_labels: the same.
        level: how often the interval holds the truth, at the least.

    Raises:
        ValueError: no such tally, or a level outside 0 to 1.

    Source: Clopper and Pearson 1934, as quantiles of the beta distribution.
    """
    check_open_share("level", level)
    outside = (1 - level) / 2
    return Interval(
        1 - clopper_pearson_upper(num_labels - num_errors, num_labels, outside),
        clopper_pearson_upper(num_errors, num_labels, outside),
    )


def clopper_pearson_upper(num_errors: float, num_labels: float, delta: float) -> float:
    """The one-sided bound that the error rate exceeds with probability at most `delta`.

    It is ≤ alpha exactly where `binomial_tail(num_errors, num_labels, alpha)` is ≤ delta.

    Raises:
        ValueError: no such tally, or a delta outside 0 to 1.
    """
    check_tally(num_errors, num_labels)
    check_open_share("delta", delta)
    if num_errors == num_labels:  # no label was right
        return 1.0
    quantile = learn_module("scipy.special").betaincinv
    return float(quantile(num_errors + 1, num_labels - num_errors, 1 - delta))


def wilson(num_errors: int, num_labels: int, level: float = 0.95) -> Interval:
    """The score interval; (0, 1) where nothing was labelled.

    Raises:
        ValueError: no such tally, or a level outside 0 to 1.

    Source: Wilson 1927.
    """
    check_tally(num_errors, num_labels)
    check_open_share("level", level)
    if not num_labels:
        return Interval(0.0, 1.0)
    z, rate = NormalDist().inv_cdf((1 + level) / 2), num_errors / num_labels
    weight = z * z / num_labels
    middle = (rate + weight / 2) / (1 + weight)
    half = z * math.sqrt(rate * (1 - rate) / num_labels + weight / num_labels / 4) / (1 + weight)
    # At no error and at nothing but errors one end is exact; rounding would leave it beside.
    low = 0.0 if not num_errors else middle - half
    high = 1.0 if num_errors == num_labels else middle + half
    return Interval(low, high)
