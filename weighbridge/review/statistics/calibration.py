"""Calibrators: what turns a confidence into the probability of being right. Pure, and light.

They are fitted in `calibration_fits`; applying one needs neither SciPy nor scikit-learn, since it
happens for every ticket. A calibrator belongs to its key: another model, prompt or schema makes
another kind of number.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Final

from weighbridge.review.statistics.checks import check_share

# A confidence of exactly 1 is rounding, not certainty, and has no logit.
MIN_PROBABILITY: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperature:
    """sigmoid(logit(c) / T): one number that makes a model less sure, or surer. Keeps order.

    Args:
        temperature: above 0; above 1 it draws towards one half.
        num_labels: that it was fitted on.

    Source: Guo et al. 2017.
    """

    temperature: float
    num_labels: int

    def probability(self, confidence: float) -> float:
        """Of being right."""
        return _sigmoid(logit(confidence) / self.temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platt:
    """sigmoid(a·logit(c) + b): as a temperature, and may also shift. Keeps order.

    Args:
        a: slope, above 0.
        b: intercept.
        num_labels: that it was fitted on.

    Source: Platt 1999, on the logit of the confidence.
    """

    a: float
    b: float
    num_labels: int

    def probability(self, confidence: float) -> float:
        """Of being right."""
        return _sigmoid(self.a * logit(confidence) + self.b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Isotonic:
    """A rising line through knots, flat beyond the first and last. Keeps order, with ties.

    Args:
        knots: (confidence, probability), confidences rising.
        num_labels: that it was fitted on.

    Source: Zadrozny and Elkan 2002.
    """

    knots: tuple[tuple[float, float], ...]
    num_labels: int

    def probability(self, confidence: float) -> float:
        """Of being right."""
        check_share("confidence", confidence)
        above = bisect.bisect_right(self.knots, confidence, key=lambda knot: knot[0])
        if above == 0:
            return self.knots[0][1]
        (left, low), (right, high) = (
            self.knots[above - 1],
            self.knots[min(above, len(self.knots) - 1)],
        )
        if left == right:
            return high
        share = (confidence - left) / (right - left)
        # Not low + share·(high - low): rounding would let it fall beside a flat stretch.
        return low if low == high else (1 - share) * low + share * high


def logit(confidence: float) -> float:
    """ln(c / (1 - c)), with c held 1e-6 off both ends.

    Raises:
        ValueError: outside 0 to 1.
    """
    check_share("confidence", confidence)
    held = min(max(confidence, MIN_PROBABILITY), 1 - MIN_PROBABILITY)
    return math.log(held / (1 - held))


def bin_of(confidence: float, edges: tuple[float, ...]) -> int:
    """Which bin (a, b] holds a confidence; the lowest edge belongs to the first bin."""
    return max(0, bisect.bisect_left(edges, confidence, hi=len(edges) - 1) - 1)


def _sigmoid(x: float) -> float:
    # exp of a large positive number overflows, of a large negative one it is 0.
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
