"""Risk and coverage: what accepting only the surer answers would mean.

A table for looking. The threshold whose *observed* risk looks good enough is no promise: in
simulation that rule broke its word in 22 to 47 of 100 cases. `certificate` makes promises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weighbridge.review.statistics.checks import check_share
from weighbridge.review.statistics.labels import Labels, NotYet


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskCoverage:
    """What one threshold would have done to the labels.

    Args:
        threshold: accepted is confidence ≥ this.
        num_accepted: labels at or above it.
        num_errors: wrong among them.
        coverage: accepted among all labels.
        risk: wrong among the accepted.
    """

    threshold: float
    num_accepted: int
    num_errors: int
    coverage: float
    risk: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Aurc:
    """The area under the risk-coverage curve: how well confidence ranks answers.

    Args:
        area: mean risk among the k surest, over all k; lower is better.
        optimal: the same if every wrong answer were ranked last.
        excess: what ranking costs; 0 where no wrong answer is surer than a right one.
    """

    area: float
    optimal: float
    excess: float


def risk_coverage(labels: Labels) -> tuple[RiskCoverage, ...]:
    """One row for each confidence that occurs, the strictest first; empty without labels.

    Source: El-Yaniv and Wiener 2010.
    """
    thresholds = sorted(set(labels.confidences), reverse=True)
    return tuple(
        RiskCoverage(
            threshold=threshold,
            num_accepted=num_accepted,
            num_errors=num_errors,
            coverage=num_accepted / len(labels),
            risk=num_errors / num_accepted,
        )
        for threshold, (num_accepted, num_errors) in zip(
            thresholds, labels.tallies(thresholds), strict=True
        )
    )


def aurc(labels: Labels) -> Aurc | NotYet:
    """The area, where answers of one confidence keep the order in which they were given.

    Source: Geifman, Uziel and El-Yaniv 2019; Traub et al. 2024 for its flaws.
    """
    if not len(labels):
        return NotYet(what="estimable", reason="too_few_labels", needed=1)
    rows = zip(labels.confidences, labels.correct, strict=True)
    ranked = [right for _, right in sorted(rows, key=lambda row: -row[0])]
    area, optimal = _area(ranked), _area(sorted(ranked, reverse=True))
    return Aurc(area=area, optimal=optimal, excess=area - optimal)


def reviews_per_day(*, tickets_per_day: float, coverage: float, audit_rate: float) -> float:
    """Tickets that people see: those below the threshold, and the audited ones above it.

    Raises:
        ValueError: a share outside 0 to 1, or a negative number of tickets.
    """
    check_share("coverage", coverage)
    check_share("audit_rate", audit_rate)
    if not 0 <= tickets_per_day < math.inf:
        raise ValueError(f"want a number of tickets per day, got {tickets_per_day}")
    return tickets_per_day * (1 - coverage * (1 - audit_rate))


def _area(ranked: list[bool]) -> float:
    """Mean over k of the errors among the first k, divided by k."""
    errors, risks = 0, []
    for place, right in enumerate(ranked, start=1):
        errors += not right
        risks.append(errors / place)
    return math.fsum(risks) / len(risks)
