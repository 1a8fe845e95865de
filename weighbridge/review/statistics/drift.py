"""Drift: whether confidences still fall as they did, seen without a single label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from weighbridge.review.statistics.calibration import bin_of
from weighbridge.review.statistics.checks import check_distribution
from weighbridge.review.statistics.labels import NotYet
from weighbridge.review.statistics.reliability import equal_mass_edges

Drift = Literal["steady", "look", "act"]

# Convention, not theory.
_LOOK: Final = 0.1
_ACT: Final = 0.25
_MIN_SHARE: Final = 1e-4  # stands in for an empty bin, whose logarithm would be infinite
_NUM_BINS: Final = 10
# Two samples of one population differ by a PSI of 0.036 on average with 50 in a bin, 0.18 with 10.
_MIN_PER_BIN: Final = 50


def population_stability(expected: Sequence[float], actual: Sequence[float]) -> float:
    """PSI: Σ (a - e)·ln(a / e) over the shares of the same bins; 0 where nothing changed.

    Args:
        expected: shares then.
        actual: shares now. Both are lifted to 0.0001, so an empty bin counts much but not all.

    Raises:
        ValueError: no shares, or unlike bins.
    """
    check_distribution("expected", expected)
    check_distribution("actual", actual)
    if len(expected) != len(actual):
        raise ValueError("want shares of the same bins")
    lifted = [
        (max(then, _MIN_SHARE), max(now, _MIN_SHARE))
        for then, now in zip(expected, actual, strict=True)
    ]
    return math.fsum((now - then) * math.log(now / then) for then, now in lifted)


def confidence_drift(then: Sequence[float], now: Sequence[float]) -> float | NotYet:
    """PSI of two samples of confidences, over the deciles of the earlier one.

    Args:
        then: confidences of all tickets while the certificate was made.
        now: of late.

    Returns:
        `NotYet` below five hundred in either: smaller samples differ without any drift.

    Raises:
        ValueError: a confidence outside 0 to 1.
    """
    if not all(0 <= confidence <= 1 for sample in (then, now) for confidence in sample):
        raise ValueError("want confidences from 0 to 1")
    missing = _NUM_BINS * _MIN_PER_BIN - min(len(then), len(now))
    if missing > 0:
        return NotYet(what="estimable", reason="too_little_traffic", needed=missing)
    edges = equal_mass_edges(then, _NUM_BINS)
    return population_stability(_shares(then, edges), _shares(now, edges))


def drift_of(stability: float) -> Drift:
    """What a PSI calls for: above 0.1 have a look, above 0.25 act.

    Raises:
        ValueError: a negative number, which no PSI is.
    """
    if not stability >= 0:
        raise ValueError(f"want a PSI of at least 0, got {stability}")
    if stability > _ACT:
        return "act"
    return "look" if stability > _LOOK else "steady"


def _shares(confidences: Sequence[float], edges: tuple[float, ...]) -> list[float]:
    counts = [0] * (len(edges) - 1)
    for confidence in confidences:
        counts[bin_of(confidence, edges)] += 1
    return [count / len(confidences) for count in counts]
