"""Metrics for people: a few short tables, each left out where there is nothing to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from weighbridge.cli.output import harmless, number_table
from weighbridge.review.statistics.drift import drift_of
from weighbridge.review.statistics.labels import NotYet

if TYPE_CHECKING:
    from weighbridge.review.proving.metrics import FieldMetrics, KeyMetrics, Metrics
    from weighbridge.review.statistics.audited_error import AuditedError
    from weighbridge.review.statistics.intervals import Interval

_STANDING_STYLES = {"in_force": "green", "alarm": "bold red", "expired": "yellow"}


def print_metrics(console: Console, metrics: Metrics) -> None:
    """Queue, people, reasons, fields and kinds of answers."""
    _queue(console, metrics)
    if metrics.reviewers:
        table = number_table("reviewer", "verdicts", "median time")
        for who in metrics.reviewers:
            name = harmless(who.reviewer, limit=40)
            table.add_row(name, str(who.num_verdicts), _duration(who.median_decision_s))
        console.print(table)
    if metrics.triggers:
        table = number_table("why a person must look", "decisions", "of all")
        for reason, trigger in metrics.triggers.items():
            table.add_row(reason, str(trigger.num_decisions), f"{trigger.share:.1%}")
        console.print(table)
    for field in metrics.fields:
        _field(console, field)
    for key in metrics.keys:
        _key(console, key)


def _queue(console: Console, metrics: Metrics) -> None:
    queue, days = metrics.queue, f"{metrics.window_days:g} days"
    told = [
        f"{queue.num_waiting} items wait",
        f"{queue.num_overdue} are overdue",
        f"{queue.num_due_soon} are due within a day",
    ]
    if queue.oldest_s is not None:
        told.append(f"the oldest for {_duration(queue.oldest_s)}")
    console.print("; ".join(told))
    if metrics.accepted_share is not None:
        console.print(
            f"in {days}: {metrics.num_decisions} decisions,"
            f" {metrics.accepted_share:.1%} accepted without a person;"
            f" a verdict takes {_duration(queue.median_decision_s) or '?'}"
        )


def _field(console: Console, field: FieldMetrics) -> None:
    """What blind audits, sighted reviews and pairs of people say of one field."""
    told = []
    if not isinstance(field.blind, NotYet):
        shown, exact = _interval(field.blind.shown), _interval(field.blind.exact)
        told.append(f"{_rate(field.blind)} blind audits wrong (Wilson {shown}, exact {exact})")
    if not isinstance(field.overridden, NotYet):
        told.append(f"{_rate(field.overridden)} answers changed by people who saw them")
    for who, agreement in (
        ("machine and person", field.with_machine),
        ("two people", field.among_reviewers),
    ):
        if not isinstance(agreement, NotYet):
            kappa = agreement.kappa
            by = "" if isinstance(kappa, NotYet) else f" (kappa {kappa:.2f})"
            told.append(f"{who} agree on {agreement.raw:.1%} of {agreement.num_items}{by}")
    name = harmless(f"{field.task}.{field.field}", limit=60)
    console.print(Text.assemble((name, "bold"), "  ", "; ".join(told)), soft_wrap=True)


def _key(console: Console, key: KeyMetrics) -> None:
    """One kind of answer: what audits found, and what is promised."""
    from weighbridge.cli.certify import words

    standing = key.standing.replace("_", " ")
    console.print(
        Text.assemble(
            (words(key.key), "bold"), "  ", (standing, _STANDING_STYLES.get(key.standing, ""))
        )
    )
    told = [f"{key.num_labels} audited labels", f"{key.tickets_per_day:.0f} tickets a day"]
    if key.num_open_audits:
        told.append(f"{key.num_open_audits} audits wait for a person")
    if key.num_abandoned:
        told.append(f"{key.num_abandoned} of these opened and left, wrong for a certificate")
    if key.num_sighted:
        told.append(f"{key.num_sighted} judged in sight of the answer count as wrong")
    if not isinstance(key.accepted, NotYet):
        exact = _interval(key.accepted.exact)
        told.append(f"{_rate(key.accepted)} that would be accepted wrong ({exact})")
    if not isinstance(key.drift, NotYet):
        told.append(f"drift {key.drift:.2f} ({drift_of(key.drift)})")
    if key.calibrator is not None:
        told.append(f"calibrated ({key.calibrator})")
    console.print("  " + "; ".join(told), soft_wrap=True)
    if key.risk is not None and key.threshold is not None and key.expires_at is not None:
        what = (
            "of all tickets wrong on average"
            if key.confidence is None
            else f"of the accepted wrong, with confidence {key.confidence:.3g}"
        )
        console.print(
            f"  certificate {key.certificate}: at most {key.risk:.3g} {what}; from"
            f" {key.threshold:.3g} on, until {key.expires_at:%Y-%m-%d}",
            soft_wrap=True,
        )
    if key.alarmed_at is not None:
        console.print(
            Text(
                f"  ALARM since {key.alarmed_at:%Y-%m-%d %H:%M}: all of these go to a person until"
                " later labels certify them anew",
                style="red",
            ),
            soft_wrap=True,
        )
    if key.missing is not None:
        console.print(f"  a risk of 0.02 at 0.95: {key.missing}", soft_wrap=True)


def _rate(error: AuditedError) -> str:
    return f"{error.rate:.1%} of {error.num_labels}"


def _interval(interval: Interval) -> str:
    return f"{interval.low:.1%}\N{EN DASH}{interval.high:.1%}"


def _duration(seconds: float | None) -> str:
    """Roughly how long.

    >>> _duration(12.3), _duration(600.0), _duration(7200.0), _duration(4e5), _duration(None)
    ('12 s', '10 min', '2 h', '5 days', '')
    """
    if seconds is None:
        return ""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit == "min" and seconds >= size):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
