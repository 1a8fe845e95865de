"""JointGuarantee: the starter mode, which promises less and needs far fewer labels.

It bounds the *joint* risk: of all tickets, how many are accepted and wrong. And it does so on
average over all that might have been sampled. A `Certificate` bounds the share of wrong ones among
the accepted, and says how sure that is. With half of the tickets accepted, a joint risk of 2 % can
mean that 4 % of the accepted ones are wrong.

Source: conformal risk control, Angelopoulos et al. 2022, arXiv 2208.02814.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from weighbridge.decision import CalibrationKey
from weighbridge.review.statistics.checks import check_open_share
from weighbridge.review.statistics.labels import Labels, NotYet


@dataclass(frozen=True, slots=True, kw_only=True)
class JointGuarantee:
    """E[a ticket is accepted and wrong] ≤ alpha, for one key, until it expires.

    Args:
        key: what it holds for.
        alpha: highest joint risk, of all tickets.
        threshold: accepted is confidence ≥ this; above 0.
        num_labels: all labels, those below the threshold too.
        num_accepted: labels at or above it.
        num_errors: wrong among them.
        expires_at: UTC.
    """

    key: CalibrationKey
    alpha: float
    threshold: float
    num_labels: int
    num_accepted: int
    num_errors: int
    expires_at: datetime

    @property
    def coverage(self) -> float:
        """Share of the labels that are accepted."""
        return self.num_accepted / self.num_labels


def control_joint_risk(
    labels: Labels, *, alpha: float, key: CalibrationKey, expires_at: datetime
) -> JointGuarantee | NotYet:
    """The loosest threshold at which few enough of all labels are accepted and wrong.

    Only confidences that occur become thresholds, so nothing is accepted that is less sure than
    every label, and never an answer without evidence.

    Args:
        labels: a uniform sample of all tickets, by confidences before any calibration.
        alpha: highest joint risk.
        key: what they belong to.
        expires_at: UTC.

    Returns:
        `NotYet` with the fewest labels that could make the strictest threshold pass.

    Raises:
        ValueError: alpha outside 0 to 1, or a time without its zone.
    """
    if expires_at.tzinfo is None:
        raise ValueError("want expires_at with a time zone")
    allowed = allowed_errors(len(labels), alpha=alpha)
    thresholds = sorted({c for c in labels.confidences if c > 0}, reverse=True)
    rows = [*zip(thresholds, labels.tallies(thresholds), strict=True)]
    passing = [row for row in rows if row[1][1] <= allowed]
    if passing:
        threshold, (num_accepted, num_errors) = passing[-1]
        return JointGuarantee(
            key=key,
            alpha=alpha,
            threshold=threshold,
            num_labels=len(labels),
            num_accepted=num_accepted,
            num_errors=num_errors,
            expires_at=expires_at,
        )
    if labels.confidences and not rows:
        return NotYet(what="certifiable", reason="nothing_accepted")
    wrong_first = rows[0][1][1] if rows else 0
    return NotYet(
        what="certifiable",
        reason="too_few_labels" if allowed < 0 else "too_many_errors",
        needed=_fewest(wrong_first, alpha) - len(labels),
    )


def allowed_errors(num_labels: int, *, alpha: float) -> int:
    """How many of all labels may be accepted and wrong: k with (k + 1) / (n + 1) ≤ alpha.

    -1 where there are too few labels to allow anything, even no error at all.

    Raises:
        ValueError: alpha outside 0 to 1, or a negative number of labels.
    """
    check_open_share("alpha", alpha)
    if num_labels < 0:
        raise ValueError(f"want a number of labels of at least 0, got {num_labels}")
    return math.floor(alpha * (num_labels + 1)) - 1


def _fewest(num_errors: int, alpha: float) -> int:
    """The fewest labels that allow so many errors."""
    fewest = math.ceil((num_errors + 1) / alpha) - 2
    while allowed_errors(fewest, alpha=alpha) < num_errors:
        fewest += 1
    return fewest
