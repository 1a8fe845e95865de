"""Metrics: queue, people and answers in numbers, for the terminal and the page alike.

Rates that rest on blind audits are honest; those of sighted reviews are not, since people who see
an answer tend to agree with it, and since most tickets were reviewed because they looked doubtful.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any

from weighbridge.decision import CalibrationKey
from weighbridge.review.statistics.agreement import Agreement
from weighbridge.review.statistics.audited_error import AuditedError
from weighbridge.review.statistics.labels import NotYet
from weighbridge.review.statistics.monitor import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMetrics:
    """What waits, and how long it takes.

    Args:
        num_waiting: items that somebody could take now or soon, adjudications among them.
        num_overdue: of these, those whose due time has passed.
        num_due_soon: those that are due within a day.
        oldest_s: age of the oldest of them; None if nothing waits.
        median_decision_s: from opening an item to the verdict, in the window; None without any.
    """

    num_waiting: int
    num_overdue: int
    num_due_soon: int
    oldest_s: float | None
    median_decision_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewerMetrics:
    """What one person did in the window.

    Args:
        reviewer: their name.
        num_verdicts: undone ones left out.
        median_decision_s: from opening to verdict; None if no opening is known.
    """

    reviewer: str
    num_verdicts: int
    median_decision_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """How often one reason sends tickets to a person.

    Args:
        num_decisions: in the window, with this reason among others.
        share: of all decisions in the window.
    """

    num_decisions: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMetrics:
    """One field of a task, whoever answered it.

    Args:
        task: name of the task.
        field: name of the field.
        blind: error rate among all audited answers, below the threshold too.
        overridden: how often people who saw the answer changed it: no error rate, see above.
        with_machine: machine and person over blind audits.
        among_reviewers: two people over the same items, each without seeing the other.
    """

    task: str
    field: str
    blind: AuditedError | NotYet
    overridden: AuditedError | NotYet
    with_machine: Agreement | NotYet
    among_reviewers: Agreement | NotYet


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMetrics:
    """One calibration key: what is known of its answers, and what is promised.

    Args:
        key: provider, model, prompt, schema, field and source.
        standing: of its newest certificate.
        certificate: its id; None if there is none.
        risk: certified at the most; None without a certificate.
        confidence: of the certificate; None also where the joint risk is bounded on average.
        threshold: from which answers are accepted; None without a certificate.
        expires_at: UTC.
        alarmed_at: UTC, when audits showed that answers had got worse; None if they have not.
        num_labels: audited answers.
        num_open_audits: drawn, and not yet judged.
        num_abandoned: of these, opened by somebody and left; they count as wrong in a certificate.
        num_sighted: audits that were judged with the answer in sight; they count as wrong.
        accepted: error rate among audited answers that would be accepted.
        drift: population stability of the confidences, then and now.
        calibrator: "platt", "isotonic", or None; "pooled" comes first where it is borrowed.
        tickets_per_day: answered under this key of late.
        missing: what certifying a risk of 2 % with confidence 0.95 still needs; None if nothing.
    """

    key: CalibrationKey
    standing: Standing
    certificate: str | None
    risk: float | None
    confidence: float | None
    threshold: float | None
    expires_at: datetime | None
    alarmed_at: datetime | None
    num_labels: int
    num_open_audits: int
    num_abandoned: int
    num_sighted: int
    accepted: AuditedError | NotYet
    drift: float | NotYet
    calibrator: str | None
    tickets_per_day: float
    missing: NotYet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """All of it at one moment.

    Args:
        at: UTC.
        window_days: that rates, times and counts of verdicts and decisions look back.
        num_decisions: in the window.
        accepted_share: of them; None without any.
        queue: what waits.
        reviewers: the busiest first.
        triggers: by reason, the most frequent first.
        fields: by task and field.
        keys: the busiest first.
    """

    at: datetime
    window_days: float
    num_decisions: int
    accepted_share: float | None
    queue: QueueMetrics
    reviewers: tuple[ReviewerMetrics, ...]
    triggers: Mapping[str, Trigger]
    fields: tuple[FieldMetrics, ...]
    keys: tuple[KeyMetrics, ...]


def plain(value: Any) -> Any:
    """Metrics, or any part of them, as plain JSON; what is not known yet says what is missing.

    >>> plain(NotYet(what="estimable", reason="too_few_labels", needed=1))
    {'not_yet': 'not estimable yet (too few labels): 1 more label needed', 'needed': 1}
    """
    if isinstance(value, NotYet):
        return {"not_yet": str(value), "needed": value.needed}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(content) for name, content in value.items()}
    if isinstance(value, tuple):
        return [plain(content) for content in value]
    if isinstance(value, datetime):
        return value.isoformat()
    assert value is None or isinstance(value, bool | int | float | str)
    return value
