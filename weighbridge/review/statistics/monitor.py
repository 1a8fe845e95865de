"""Watch: looks on after a certificate, and ends it when the accepted answers get worse.

An e-process over the audits of accepted tickets: a fortune that is multiplied by p₁ / alpha for
each wrong answer and by (1 - p₁) / (1 - alpha) for each right one. While the risk is at most alpha
it does not grow on average, so it ever reaches 1 / delta with probability at most delta (Ville
1939), however often one looks. Where a certificate bounds the joint risk, the audits are those of
all tickets, and wrong is what was accepted and wrong.

It fails closed: after an alarm everything goes to review until there is a new certificate, made
from labels that came after what caused the alarm.

Source: Wald 1945 for the ratio; Ramdas et al. 2023 for betting and e-processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from weighbridge.decision import CalibrationKey
from weighbridge.review.statistics.certificate import Certificate
from weighbridge.review.statistics.checks import check_open_share
from weighbridge.review.statistics.joint_risk import JointGuarantee

Proof: TypeAlias = Certificate | JointGuarantee

FALSE_ALARM: Final = 0.05  # chance of an alarm without cause, over the whole life of a certificate

Standing = Literal[
    "in_force",
    "uncertified",  # no certificate, or one for another key
    "expired",
    "alarm",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A certificate and what was seen since. Unchangeable: an audit gives a new one.

    Args:
        certificate: what is watched.
        worse: p₁, the risk that is to be noticed soonest; above the certificate's alpha, below 1.
        false_alarm: delta of the alarm, not the certificate's.
        num_audits: seen.
        num_errors: wrong among them.
        log_e: natural log of the e-process; it is 1 at the beginning.
        is_alarmed: whether it ever reached 1/delta; nothing but a new certificate takes that back.

    Raises:
        ValueError: none of these.
    """

    certificate: Proof
    worse: float
    false_alarm: float = FALSE_ALARM
    num_audits: int = 0
    num_errors: int = 0
    log_e: float = 0.0
    is_alarmed: bool = False

    def __post_init__(self) -> None:
        check_open_share("false_alarm", self.false_alarm)
        log_factors(alpha=self.certificate.alpha, worse=self.worse)

    @property
    def e_value(self) -> float:
        """The e-process now; infinite where a float cannot hold it."""
        return math.exp(self.log_e) if self.log_e < 700 else math.inf

    def seeing(self, confidence: float, *, is_correct: bool) -> Watch:
        """The watch after one more audit, whether or not the certificate accepts the answer."""
        is_accepted = confidence >= self.certificate.threshold
        if isinstance(self.certificate, JointGuarantee):
            return self.after(is_correct=is_correct or not is_accepted)
        return self.after(is_correct=is_correct) if is_accepted else self

    def after(self, *, is_correct: bool) -> Watch:
        """The watch after one more audit that counts; unsure is not correct."""
        wrong, right = log_factors(alpha=self.certificate.alpha, worse=self.worse)
        log_e = self.log_e + (right if is_correct else wrong)
        return replace(
            self,
            num_audits=self.num_audits + 1,
            num_errors=self.num_errors + (not is_correct),
            log_e=log_e,
            is_alarmed=self.is_alarmed or log_e >= -math.log(self.false_alarm),
        )


def watch(
    certificate: Proof, *, worse: float | None = None, false_alarm: float = FALSE_ALARM
) -> Watch:
    """Begin to watch a new certificate.

    Args:
        certificate: with no audit of it seen yet.
        worse: the risk to be noticed soonest; three times alpha if that leaves room, else half way
            from alpha to 1.
        false_alarm: chance of an alarm while the risk is at most alpha.

    Raises:
        ValueError: `worse` not between alpha and 1, or a chance outside 0 to 1.
    """
    alpha = certificate.alpha
    default = min(3 * alpha, (1 + alpha) / 2)
    return Watch(
        certificate=certificate,
        worse=default if worse is None else worse,
        false_alarm=false_alarm,
    )


def standing(watched: Watch | None, key: CalibrationKey, now: datetime) -> Standing:
    """Whether answers of a key may be accepted by the watched certificate, or why not.

    Args:
        watched: the newest for the key; None if there is none.
        key: of the answer. A new model, prompt or schema is another key, and uncertified.
        now: UTC.

    Raises:
        ValueError: a time without its zone.
    """
    if now.tzinfo is None:
        raise ValueError("want now with a time zone")
    if watched is None or watched.certificate.key != key:
        return "uncertified"
    if watched.is_alarmed:
        return "alarm"
    return "in_force" if now < watched.certificate.expires_at else "expired"


def log_factors(*, alpha: float, worse: float) -> tuple[float, float]:
    """Natural logs of what a wrong and what a right answer multiply the e-process by.

    Raises:
        ValueError: not 0 < alpha < worse < 1.
    """
    if not 0 < alpha < worse < 1:
        raise ValueError(f"want 0 < alpha < worse < 1, got alpha {alpha} and worse {worse}")
    return math.log(worse / alpha), math.log((1 - worse) / (1 - alpha))
