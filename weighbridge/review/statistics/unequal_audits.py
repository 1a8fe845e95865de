"""UnequalAuditError: the error rate where a team audited some answers more than others.

The coin draws all tickets alike and needs none of this. It is for the extra audits that a team adds
by hand, whose probabilities differ; 47 such labels can say less than 30 uniform ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weighbridge.review.statistics.checks import check_tally
from weighbridge.review.statistics.intervals import Interval, clopper_pearson, clopper_pearson_upper
from weighbridge.review.statistics.labels import NotYet

_MIN_AUDITED = 2  # in each stratum: one label has no variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """Accepted tickets that were audited at one rate.

    Args:
        num_tickets: accepted, audited or not.
        rate: probability of an audit, as recorded when the ticket was decided.
        num_labels: audited.
        num_errors: wrong among them.

    Raises:
        ValueError: more audited than there are, no such tally, or a rate not in (0, 1].
    """

    num_tickets: int
    rate: float
    num_labels: int
    num_errors: int

    def __post_init__(self) -> None:
        check_tally(self.num_errors, self.num_labels)
        if self.num_tickets < 1 or self.num_labels > self.num_tickets:
            raise ValueError("want at least one ticket in a stratum, and no more labels than that")
        if not 0 < self.rate <= 1:
            raise ValueError(f"want an audit rate above 0 and at most 1, got {self.rate}")

    @property
    def error(self) -> float:
        """Observed error rate."""
        return self.num_errors / self.num_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalAuditError:
    """An error rate from unequal audits.

    No interval by the normal approximation: with few errors it falls below zero.

    Args:
        rate: stratified estimate, from 0 to 1.
        horvitz_thompson: Σ e/π over the number of tickets; may exceed 1.
        hajek: the same over Σ 1/π.
        standard_error: of the stratified estimate.
        poisson_standard_error: of Horvitz-Thompson where each ticket had a toss of its own.
        num_effective: uniform labels that would say as much (Kish).
        level: of interval and bound.
        interval: Clopper-Pearson at the effective number (Korn and Graubard).
        upper: the one-sided bound of the same kind.
    """

    rate: float
    horvitz_thompson: float
    hajek: float
    standard_error: float
    poisson_standard_error: float
    num_effective: float
    level: float
    interval: Interval
    upper: float


def unequal_audit_error(
    strata: Sequence[Stratum], level: float = 0.95
) -> UnequalAuditError | NotYet:
    """The error rate over all tickets of the strata.

    Returns:
        `NotYet` as long as a stratum has fewer than two labels.

    Raises:
        ValueError: no stratum, or a level outside 0 to 1.

    Source: Horvitz and Thompson 1952; Kish 1965; Korn and Graubard 1998.
    """
    if not strata:
        raise ValueError("want at least one stratum")
    missing = sum(
        max(0, min(_MIN_AUDITED, stratum.num_tickets) - stratum.num_labels) for stratum in strata
    )
    if missing:
        return NotYet(what="estimable", reason="too_few_labels", needed=missing)
    num_tickets = sum(stratum.num_tickets for stratum in strata)
    rate = sum(stratum.num_tickets * stratum.error for stratum in strata) / num_tickets
    weighted_errors = sum(stratum.num_errors / stratum.rate for stratum in strata)
    weights = sum(stratum.num_labels / stratum.rate for stratum in strata)
    num_effective = weights**2 / sum(stratum.num_labels / stratum.rate**2 for stratum in strata)
    return UnequalAuditError(
        rate=rate,
        horvitz_thompson=weighted_errors / num_tickets,
        hajek=weighted_errors / weights,
        standard_error=math.sqrt(sum(_variance(stratum, num_tickets) for stratum in strata)),
        poisson_standard_error=math.sqrt(
            sum((1 - stratum.rate) * stratum.num_errors / stratum.rate**2 for stratum in strata)
        )
        / num_tickets,
        num_effective=num_effective,
        level=level,
        interval=clopper_pearson(rate * num_effective, num_effective, level),
        upper=clopper_pearson_upper(rate * num_effective, num_effective, 1 - level),
    )


def _variance(stratum: Stratum, num_tickets: int) -> float:
    """What a stratum adds to the variance of the stratified estimate."""
    not_audited = 1 - stratum.num_labels / stratum.num_tickets
    if not not_audited:  # every ticket is known, and a stratum of one has no n - 1
        return 0.0
    weight = stratum.num_tickets / num_tickets
    spread = stratum.error * (1 - stratum.error) / (stratum.num_labels - 1)
    return weight**2 * not_audited * spread
