"""Certificate: the loosest threshold whose risk is proved to be at most alpha.

*Risk* is the error rate among accepted answers; the proof may be wrong with probability delta.
Learn-then-Test: for each threshold the exact binomial test of "the risk is above alpha", in a fixed
order from strict to loose, until one fails. The order is planned on unlabelled traffic, so labels
do not choose what is tested, and no correction for the number of tests is due.

Confidences are those before any calibration: a calibrator fitted on the same labels plays no part.

What voids it: labels that are no uniform sample; unsure verdicts left out; reviewers who saw the
machine's answer; anything that learned from the same labels and changes the confidences; testing
again and again as labels come in (give each round its share, `delta_of_round`); traffic that is no
longer what it was (`monitor`).

Source: Angelopoulos et al. 2021, arXiv 2110.01052; fixed-sequence testing.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weighbridge.decision import CalibrationKey
from weighbridge.review.statistics.checks import check_open_share, check_share
from weighbridge.review.statistics.intervals import binomial_tail, clopper_pearson_upper
from weighbridge.review.statistics.labels import Labels, NotYet

GRID: Final = (0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.92, 0.90, 0.85, 0.80, 0.70, 0.50)
_START_MARGIN: Final = 1.3  # expected labels at the first threshold, over the fewest that can pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What will be tested, in order; fixed before a label is seen.

    Args:
        alpha: highest risk that may be certified, above 0 and below 1.
        delta: chance that a certificate is wrong, at the most; above 0 and below 1.
        thresholds: falling, each above 0.
        coverage: share of the traffic that each would accept.

    Raises:
        ValueError: none of these.
    """

    alpha: float
    delta: float
    thresholds: tuple[float, ...]
    coverage: tuple[float, ...]

    def __post_init__(self) -> None:
        check_open_share("alpha", self.alpha)
        check_open_share("delta", self.delta)
        _check_grid(self.thresholds)
        if len(self.coverage) != len(self.thresholds):
            raise ValueError("want one coverage for each threshold")
        for share in self.coverage:
            check_share("coverage", share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One threshold with its test.

    Args:
        threshold: accepted is confidence ≥ this.
        num_accepted: labels at or above it.
        num_errors: wrong among them.
        p_value: exact, of "the risk is above alpha"; passes at ≤ delta.
        upper: exact one-sided bound of the risk at 1 - delta; passes at ≤ alpha, which is the same.
    """

    threshold: float
    num_accepted: int
    num_errors: int
    p_value: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """P(risk at the threshold > alpha) ≤ delta, for one key, until it expires or an alarm.

    Args:
        key: what it holds for; anything else is uncertified.
        alpha: highest risk.
        delta: chance that it is wrong.
        threshold: accepted is confidence ≥ this.
        coverage: share of the traffic that is accepted.
        num_labels: all labels looked at.
        tested: the thresholds in order; the last may have failed.
        expires_at: UTC.
    """

    key: CalibrationKey
    alpha: float
    delta: float
    threshold: float
    coverage: float
    num_labels: int
    tested: tuple[Tested, ...]
    expires_at: datetime

    @property
    def chosen(self) -> Tested:
        """The test of the certified threshold."""
        return next(test for test in self.tested if test.threshold == self.threshold)


def plan(
    traffic: Sequence[float],
    *,
    num_labels: int,
    alpha: float,
    delta: float,
    grid: Sequence[float] = GRID,
) -> Walk:
    """Plan the walk: the first threshold is the strictest that will have labels enough to pass.

    A stricter one would end the walk at once for want of labels. If none has enough, only the
    loosest is tested.

    Args:
        traffic: confidences of all tickets of late, without labels.
        num_labels: how many there will be.
        alpha: highest risk.
        delta: chance that the certificate may be wrong.
        grid: falling; must not depend on the labels. About a dozen is enough.

    Raises:
        ValueError: no traffic, a confidence outside 0 to 1, or none of the above.
    """
    if not traffic or not all(0 <= confidence <= 1 for confidence in traffic):
        raise ValueError("want traffic as at least one confidence, each from 0 to 1")
    _check_grid(grid)
    ordered = sorted(traffic)
    coverage = [1 - bisect.bisect_left(ordered, threshold) / len(ordered) for threshold in grid]
    enough = _START_MARGIN * sample_size(alpha=alpha, delta=delta)
    start = next(
        (place for place, share in enumerate(coverage) if share * num_labels >= enough),
        len(coverage) - 1,
    )
    return Walk(
        alpha=alpha,
        delta=delta,
        thresholds=tuple(grid[start:]),
        coverage=tuple(coverage[start:]),
    )


def certify(
    labels: Labels, walk: Walk, *, key: CalibrationKey, expires_at: datetime
) -> Certificate | NotYet:
    """Walk to looser thresholds while they pass, and certify the last that did.

    Args:
        labels: all audited labels of the key, below every threshold too, by the same confidence
            that `walk` was planned with.
        walk: planned without them.
        key: what they belong to.
        expires_at: UTC.

    Returns:
        `NotYet` with the fewest labels that could make the first threshold pass.

    Raises:
        ValueError: a time without its zone.
    """
    if expires_at.tzinfo is None:
        raise ValueError("want expires_at with a time zone")
    tested = walked(labels, walk)
    passed = sum(test.p_value <= walk.delta for test in tested)
    if not passed:
        return _not_certifiable(walk, tested[0])
    return Certificate(
        key=key,
        alpha=walk.alpha,
        delta=walk.delta,
        threshold=walk.thresholds[passed - 1],
        coverage=walk.coverage[passed - 1],
        num_labels=len(labels),
        tested=tested,
        expires_at=expires_at,
    )


def walked(labels: Labels, walk: Walk) -> tuple[Tested, ...]:
    """The tests in their order, up to the first that fails.

    Args:
        labels: as for `certify`.
        walk: planned without them.
    """
    tested: list[Tested] = []
    for threshold, (num_accepted, num_errors) in zip(
        walk.thresholds, labels.tallies(walk.thresholds), strict=True
    ):
        tested.append(_test(walk, threshold, num_accepted, num_errors))
        if tested[-1].p_value > walk.delta:
            break
    return tuple(tested)


def most_errors(num_labels: int, *, alpha: float, delta: float) -> int:
    """How many errors among accepted labels still certify alpha; -1 where not even none does.

    Raises:
        ValueError: alpha or delta outside 0 to 1, or a negative number of labels.
    """
    check_open_share("alpha", alpha)
    check_open_share("delta", delta)
    low, high = -1, num_labels + 1  # none is enough, and more than there are is too many
    while high - low > 1:
        middle = (low + high) // 2
        if middle <= num_labels and binomial_tail(middle, num_labels, alpha) <= delta:
            low = middle
        else:
            high = middle
    return low


def sample_size(*, alpha: float, delta: float, num_errors: int = 0) -> int:
    """The fewest accepted labels that certify alpha with that many errors among them.

    Without errors that is ⌈ln delta / ln(1 - alpha)⌉.

    Raises:
        ValueError: alpha or delta outside 0 to 1, or a negative number of errors.
    """
    check_open_share("alpha", alpha)
    check_open_share("delta", delta)
    if num_errors < 0:
        raise ValueError(f"want a number of errors of at least 0, got {num_errors}")
    low, high = num_errors, num_errors + 1
    while binomial_tail(num_errors, high, alpha) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if binomial_tail(num_errors, middle, alpha) > delta:
            low = middle
        else:
            high = middle
    return high


def delta_of_round(delta: float, round_number: int) -> float:
    """What the k-th certificate may spend so that all together keep delta: delta / (k·(k + 1)).

    Args:
        delta: of all rounds together.
        round_number: k, from 1.

    Raises:
        ValueError: delta outside 0 to 1, or a round before the first.
    """
    check_open_share("delta", delta)
    if round_number < 1:
        raise ValueError(f"want a round of at least 1, got {round_number}")
    return delta / (round_number * (round_number + 1))


def _test(walk: Walk, threshold: float, num_accepted: int, num_errors: int) -> Tested:
    return Tested(
        threshold=threshold,
        num_accepted=num_accepted,
        num_errors=num_errors,
        p_value=binomial_tail(num_errors, num_accepted, walk.alpha),
        upper=clopper_pearson_upper(num_errors, num_accepted, walk.delta),
    )


def _not_certifiable(walk: Walk, first: Tested) -> NotYet:
    """How many labels are missing at the first threshold, should no more of them be wrong."""
    if not walk.coverage[0]:
        return NotYet(what="certifiable", reason="nothing_accepted")
    size = sample_size(alpha=walk.alpha, delta=walk.delta, num_errors=first.num_errors)
    too_many = first.num_errors > walk.alpha * first.num_accepted
    return NotYet(
        what="certifiable",
        reason="too_many_errors" if too_many else "too_few_labels",
        # Not every audited ticket is one that would be accepted.
        needed=math.ceil((size - first.num_accepted) / walk.coverage[0]),
    )


def _check_grid(grid: Sequence[float]) -> None:
    falls = all(left > right for left, right in itertools.pairwise(grid))
    if not grid or not falls or not grid[-1] > 0 or not grid[0] <= 1:
        raise ValueError("want thresholds that fall, each above 0 and at most 1")
