"""Fits: calibrators from labels, by SciPy and scikit-learn.

A certificate rests on confidences as they were before any calibration, so the same labels serve for
both: what is fitted here keeps order, says how likely an answer is right, and moves no threshold
that a certificate has proved.

Every fit answers `NotYet` where labels are few, all right or all wrong, or of one confidence: a
number would come out of each, and none would mean anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from weighbridge.review.statistics.calibration import (
    MIN_PROBABILITY,
    Isotonic,
    Platt,
    Temperature,
    logit,
)
from weighbridge.review.statistics.checks import check_distribution
from weighbridge.review.statistics.labels import Labels, NotYet, Shortfall
from weighbridge.review.statistics.learn_extra import learn_module

MIN_LABELS: Final = 100  # for one or two numbers
MIN_LABELS_ISOTONIC: Final = 1000  # for a whole curve
_TEMPERATURES: Final = (0.05, 20.0)


def fit_temperature(labels: Labels, *, at_least: int = MIN_LABELS) -> Temperature | NotYet:
    """The temperature of least log loss over right and wrong.

    Args:
        labels: a uniform sample.
        at_least: fewer labels are not enough.

    Returns:
        `NotYet`, "contradicting", where no temperature helps: the confidences say nothing, or the
        contrary.
    """
    short = _shortfall(labels, at_least)
    if short:
        return short
    found = fit_temperature_of(
        [(confidence, 1 - confidence) for confidence in labels.confidences],
        [0 if right else 1 for right in labels.correct],
    )
    if found is None:
        return _not_yet("contradicting")
    return Temperature(temperature=found, num_labels=len(labels))


def fit_temperature_of(
    distributions: Sequence[Sequence[float]], truths: Sequence[int]
) -> float | None:
    """The temperature of least log loss over whole distributions of options.

    Args:
        distributions: for each answer the probability of every option.
        truths: for each answer the place of the right option.

    Returns:
        None where the best temperature lies at an end of the range from 0.05 to 20.

    Raises:
        ValueError: no answers, another number of truths, no distribution, or no such place.

    Source: Guo et al. 2017.
    """
    if not distributions or len(distributions) != len(truths):
        raise ValueError("want at least one distribution, and one truth for each")
    for options, truth in zip(distributions, truths, strict=True):
        check_distribution("options", options)
        if not 0 <= truth < len(options):
            raise ValueError(f"want the place of an option, got {truth} of {len(options)}")

    # What the wrong options are short of the right one, in logs: all that the loss depends on.
    gaps = [
        [_log(option) - _log(options[truth]) for option in options]
        for options, truth in zip(distributions, truths, strict=True)
    ]

    def log_loss(log_temperature: float) -> float:
        return math.fsum(_log_sum_exp(row, math.exp(log_temperature)) for row in gaps)

    low, high = map(math.log, _TEMPERATURES)
    best = learn_module("scipy.optimize").minimize_scalar(
        log_loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9}
    )
    found = float(best.x)
    return math.exp(found) if low + 1e-3 < found < high - 1e-3 else None


def fit_platt(labels: Labels, *, l2: float = 1.0, at_least: int = MIN_LABELS) -> Platt | NotYet:
    """Logistic regression of being right on the logit of the confidence.

    Args:
        labels: a uniform sample.
        l2: weight of ½·a² beside the summed log loss; the intercept is free. 0 is the plain fit.
        at_least: fewer labels are not enough.

    Returns:
        `NotYet`, "contradicting", where the slope is not above 0: such a map would accept the
        answers that the machine doubts.

    Raises:
        ValueError: a negative weight.
    """
    if not 0 <= l2 < math.inf:
        raise ValueError(f"want l2 of at least 0, got {l2}")
    short = _shortfall(labels, at_least)
    if short:
        return short
    if not l2 and _is_separated(labels):
        return _not_yet("separated")
    # With a single feature Newton's steps are exact and few; the default stops too far away.
    fit = learn_module("sklearn.linear_model").LogisticRegression(
        C=1 / l2 if l2 else math.inf, solver="newton-cholesky", tol=1e-10, max_iter=1000
    )
    fit.fit([[logit(confidence)] for confidence in labels.confidences], labels.correct)
    a, b = float(fit.coef_[0][0]), float(fit.intercept_[0])
    if not a > 0:
        return _not_yet("contradicting")
    return Platt(a=a, b=b, num_labels=len(labels))


def fit_isotonic(labels: Labels, *, at_least: int = MIN_LABELS_ISOTONIC) -> Isotonic | NotYet:
    """The rising steps of least squared error; answers of one confidence are pooled.

    Args:
        labels: a uniform sample.
        at_least: fewer labels are not enough.

    Returns:
        `NotYet`, "contradicting", where the best rising line is flat.
    """
    short = _shortfall(labels, at_least)
    if short:
        return short
    fit = learn_module("sklearn.isotonic").IsotonicRegression(out_of_bounds="clip")
    fit.fit(labels.confidences, [float(right) for right in labels.correct])
    knots = tuple(zip(map(float, fit.X_thresholds_), map(float, fit.y_thresholds_), strict=True))
    if knots[0][1] == knots[-1][1]:
        return _not_yet("contradicting")
    return Isotonic(knots=knots, num_labels=len(labels))


def _shortfall(labels: Labels, at_least: int) -> NotYet | None:
    if len(labels) < max(at_least, 1):
        return _not_yet("too_few_labels", max(at_least, 1) - len(labels))
    if labels.num_errors in {0, len(labels)}:
        return _not_yet("one_outcome", 1)
    if len({logit(confidence) for confidence in labels.confidences}) == 1:
        return _not_yet("one_confidence", 1)
    return None


def _not_yet(reason: Shortfall, needed: int | None = None) -> NotYet:
    return NotYet(what="calibrated", reason=reason, needed=needed)


def _is_separated(labels: Labels) -> bool:
    """Whether a threshold parts right from wrong, so that the plain fit has no end."""
    rows = [*zip(labels.confidences, labels.correct, strict=True)]
    right = [confidence for confidence, outcome in rows if outcome]
    wrong = [confidence for confidence, outcome in rows if not outcome]
    return min(right) >= max(wrong) or min(wrong) >= max(right)


def _log(probability: float) -> float:
    return math.log(max(probability, MIN_PROBABILITY))


def _log_sum_exp(logs: Sequence[float], temperature: float) -> float:
    top = max(logs) / temperature
    return top + math.log(math.fsum(math.exp(log / temperature - top) for log in logs))
