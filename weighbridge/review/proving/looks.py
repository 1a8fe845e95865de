"""Look: what is wanted of a certificate, and what came of one try."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from weighbridge.decision import CalibrationKey
from weighbridge.review.proving.kept import Kept
from weighbridge.review.statistics.certificate import Tested
from weighbridge.review.statistics.checks import check_open_share
from weighbridge.review.statistics.labels import NotYet


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be certified.

    Args:
        risk: highest error rate among accepted answers, or with `is_joint` the highest share of
            all tickets that are accepted and wrong; above 0 and below 1.
        confidence: that all certificates of a key keep what they promise; above 0 and below 1. Of
            no account where the risk is joint, which is kept on average.
        validity: how long a certificate lasts.
        is_joint: the starter mode, which promises less and needs fewer labels.

    Raises:
        ValueError: none of these.
    """

    risk: float
    confidence: float = 0.95
    validity: timedelta = timedelta(days=30)
    is_joint: bool = False

    def __post_init__(self) -> None:
        check_open_share("the risk", self.risk)
        check_open_share("the confidence", self.confidence)
        if self.validity <= timedelta():
            raise ValueError("want a certificate that lasts some time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One threshold before any outcome was looked at.

    Args:
        threshold: accepted is confidence ≥ this.
        coverage: share of the traffic that it would accept.
        num_accepted: labels at or above it.
        most_errors: among them at which it still passes; -1 if not even none would do.
    """

    threshold: float
    coverage: float
    num_accepted: int
    most_errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What came of certifying one key.

    Args:
        key: whose answers.
        wanted: what was to be certified.
        round: how often outcomes were looked at since the last alarm, this time included.
        delta: what this round may spend; None for a joint risk.
        num_labels: audits that count.
        num_open: audits that are not yet judged.
        num_abandoned: among both; opened and left unjudged, so they count as wrong.
        num_sighted: audits that were judged with the answer in sight; they count as wrong.
        tickets_per_day: answered under the key of late.
        is_reweighed: whether labels that served another key before are among them.
        steps: what was to be tested; empty for a joint risk, whose thresholds are the labels' own.
        tested: what was tested, up to the first that failed; empty where no outcome was looked at.
        result: the certificate, or why there is none; None where nothing was tried.
        days: until enough labels are there, at the present traffic and audit rate; None where
            nobody knows.
    """

    key: CalibrationKey
    wanted: Wanted
    round: int
    delta: float | None
    num_labels: int
    num_open: int
    num_abandoned: int
    num_sighted: int
    tickets_per_day: float
    is_reweighed: bool = False
    steps: tuple[Step, ...] = ()
    tested: tuple[Tested, ...] = ()
    result: Kept | NotYet | None = None
    days: float | None = None
