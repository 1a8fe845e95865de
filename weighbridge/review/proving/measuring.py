"""Measuring: all metrics of one moment, read in one transaction."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, exists, func, select, text

from weighbridge.review.proving.kept import Kept, kept_calibrators, newest_certificates
from weighbridge.review.proving.labelled import (
    Audit,
    Sample,
    known_keys,
    read_samples,
    read_traffic,
)
from weighbridge.review.proving.looking import foresee, read_ground
from weighbridge.review.proving.looks import Wanted
from weighbridge.review.proving.metrics import (
    FieldMetrics,
    KeyMetrics,
    Metrics,
    QueueMetrics,
    ReviewerMetrics,
    Trigger,
)
from weighbridge.review.queueing.outcomes import canonical
from weighbridge.review.queueing.rows import split
from weighbridge.review.statistics.agreement import Agreement, agreement_of
from weighbridge.review.statistics.audited_error import AuditedError, error_rate
from weighbridge.review.statistics.calibration import Isotonic, Platt
from weighbridge.review.statistics.drift import confidence_drift
from weighbridge.review.statistics.labels import NotYet
from weighbridge.store import dialect
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import decision_table
from weighbridge.store.guarantee_tables import DUE
from weighbridge.store.queue_tables import UNSETTLED, item_table, verdict_table
from weighbridge.store.times import microseconds, moment

WINDOW_DAYS: Final = 7.0

_DAY_US: Final = 86_400_000_000
_WANTED: Final = Wanted(risk=0.02)  # what is asked for where nobody has asked for anything
_NUM_TRAFFIC: Final = 2_000  # answers that tell coverage and drift well enough to look at


def measure(database: Database, *, audit_rate: float, window_days: float = WINDOW_DAYS) -> Metrics:
    """All metrics now.

    Args:
        database: of the queue.
        audit_rate: of the coin, for telling how long labels will take.
        window_days: that rates, times and counts of verdicts and decisions look back.

    Raises:
        QueueUnavailable: the database cannot be read.
    """
    with database.reading() as connection:
        now = dialect.now_us(connection)
        since = now - round(window_days * _DAY_US)
        verdicts = _verdicts(connection, since)
        keys = known_keys(connection)
        samples = read_samples(connection, keys)
        num_decisions, num_accepted, triggers = _decisions(connection, since)
        return Metrics(
            at=moment(now),
            window_days=window_days,
            num_decisions=num_decisions,
            accepted_share=num_accepted / num_decisions if num_decisions else None,
            queue=_queue(connection, verdicts, now),
            reviewers=_reviewers(verdicts),
            triggers=triggers,
            fields=_fields(samples.values(), verdicts),
            keys=_keys(
                connection, samples, since=moment(since), now=moment(now), audit_rate=audit_rate
            ),
        )


def _verdicts(connection: Connection, since: int) -> Sequence[Row[Any]]:
    """Those of late that nobody took back, with the task of their item; the oldest first."""
    verdict, undo = verdict_table.c, verdict_table.alias("undo")
    statement = (
        select(verdict_table, item_table.c.task)
        .join(item_table, item_table.c.id == verdict.item_id)
        .where(
            verdict.submitted_at >= since,
            verdict.kind != "undo",
            ~exists().where(undo.c.supersedes == verdict.id),
        )
        .order_by(verdict.id)
    )
    return connection.execute(statement).all()


def _decisions(connection: Connection, since: int) -> tuple[int, int, dict[str, Trigger]]:
    """How many there were of late, how many were accepted, and what sent the others to a person."""
    decision = decision_table.c
    counted = connection.execute(
        select(decision.status, decision.reasons, func.count())
        .where(decision.at >= since, ~decision.is_reweighed)
        .group_by(decision.status, decision.reasons)
    ).all()
    total, accepted, reasons = 0, 0, Counter[str]()
    for status, combination, number in counted:
        total += number
        accepted += number * (status == "accepted")
        reasons.update(dict.fromkeys(split(combination), number))
    return (
        total,
        accepted,
        {
            reason: Trigger(num_decisions=number, share=number / total)
            for reason, number in reasons.most_common()
        },
    )


def _queue(connection: Connection, verdicts: Iterable[Row[Any]], now: int) -> QueueMetrics:
    item = item_table.c
    num_waiting, oldest = connection.execute(
        select(func.count(), func.min(item.created_at)).where(UNSETTLED)
    ).one()

    def num_due(before: int) -> int:
        items = dialect.by_index(connection, item_table, "ix_item_due")
        is_due = text("due_at < :before").bindparams(before=before)
        due = select(func.count()).select_from(items).where(DUE, is_due, UNSETTLED)
        return connection.execute(due).scalar_one()

    num_overdue = num_due(now)
    return QueueMetrics(
        num_waiting=num_waiting,
        num_overdue=num_overdue,
        num_due_soon=num_due(now + _DAY_US) - num_overdue,
        oldest_s=None if oldest is None else max(0.0, (now - oldest) / 1e6),
        median_decision_s=_median_s(verdicts),
    )


def _reviewers(verdicts: Iterable[Row[Any]]) -> tuple[ReviewerMetrics, ...]:
    by_reviewer: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    for verdict in verdicts:
        by_reviewer[verdict.reviewer].append(verdict)
    busiest = sorted(by_reviewer.items(), key=lambda one: (-len(one[1]), one[0]))
    return tuple(
        ReviewerMetrics(
            reviewer=reviewer, num_verdicts=len(theirs), median_decision_s=_median_s(theirs)
        )
        for reviewer, theirs in busiest
    )


def _median_s(verdicts: Iterable[Row[Any]]) -> float | None:
    took = [max(0, verdict.submitted_at - verdict.opened_at) / 1e6 for verdict in verdicts]
    return statistics.median(took) if took else None


def _fields(samples: Iterable[Sample], verdicts: Sequence[Row[Any]]) -> tuple[FieldMetrics, ...]:
    blind: defaultdict[tuple[str, str], list[Audit]] = defaultdict(list)
    for sample in samples:
        for audit in sample.audits:
            blind[audit.task, sample.key.field].append(audit)
    overridden = _overridden(verdicts)
    pairs = _pairs(verdicts)
    return tuple(
        FieldMetrics(
            task=task,
            field=field,
            blind=_error(blind[task, field]),
            overridden=error_rate(*overridden[task, field]),
            with_machine=_with_machine(blind[task, field]),
            among_reviewers=agreement_of(pairs[task, field]),
        )
        for task, field in sorted({*blind, *overridden, *pairs})
    )


def _error(audits: Sequence[Audit]) -> AuditedError | NotYet:
    return error_rate(sum(not audit.is_correct for audit in audits), len(audits))


def _with_machine(audits: Iterable[Audit]) -> Agreement | NotYet:
    return agreement_of(
        (audit.machine, audit.person)
        for audit in audits
        if audit.person is not None and not audit.is_sighted
    )


def _overridden(
    verdicts: Iterable[Row[Any]],
) -> defaultdict[tuple[str, str], tuple[int, int]]:
    """(changed, all) among answers of people who saw the machine's, by task and field."""
    tally: defaultdict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for verdict in verdicts:
        if not verdict.was_shown:
            continue
        for field, value in verdict.values_json.items():
            changed, total = tally[verdict.task, field]
            is_other = canonical(value) != canonical(verdict.machine_json.get(field))
            tally[verdict.task, field] = changed + is_other, total + 1
    return tally


def _pairs(
    verdicts: Iterable[Row[Any]],
) -> defaultdict[tuple[str, str], list[tuple[str, str]]]:
    """What the first two people of a round said, by task and field."""
    rounds: defaultdict[tuple[str, int], list[Row[Any]]] = defaultdict(list)
    for verdict in verdicts:
        if not verdict.is_adjudication and not verdict.was_shown:
            rounds[verdict.item_id, verdict.round].append(verdict)
    pairs: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for said in rounds.values():
        if len(said) > 1:
            one, other = said[:2]
            for field in one.values_json.keys() & other.values_json.keys():
                values = one.values_json[field], other.values_json[field]
                pairs[one.task, field].append((canonical(values[0]), canonical(values[1])))
    return pairs


def _keys(
    connection: Connection,
    samples: Mapping[int, Sample],
    *,
    since: datetime,
    now: datetime,
    audit_rate: float,
) -> tuple[KeyMetrics, ...]:
    """The keys that were used of late, or that are promised something."""
    certificates = newest_certificates(
        connection, {key_id: sample.key for key_id, sample in samples.items()}
    )
    calibrators = kept_calibrators(connection)
    found = []
    for key_id, sample in samples.items():
        kept = certificates.get(key_id)
        ground = read_ground(
            connection, sample.key, key_id, audit_rate=audit_rate, num_traffic=_NUM_TRAFFIC
        )
        if kept is None and not ground.tickets_per_day:
            continue
        look = foresee(connection, ground, _WANTED)
        found.append(
            KeyMetrics(
                key=sample.key,
                **_promised(kept, now),
                num_labels=len(sample.audits),
                num_open_audits=sample.num_open,
                num_abandoned=len(sample.abandoned),
                num_sighted=sample.num_sighted,
                accepted=_error([audit for audit in sample.audits if audit.passed]),
                drift=_drift(connection, key_id, since if kept is None else kept.made_at),
                calibrator=_name(*calibrators[key_id]) if key_id in calibrators else None,
                tickets_per_day=ground.tickets_per_day,
                missing=look.result if isinstance(look.result, NotYet) else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.tickets_per_day))


def _promised(kept: Kept | None, now: datetime) -> dict[str, Any]:
    """What a key's newest certificate says, whatever became of it."""
    if kept is None:
        promised = dict.fromkeys(
            ("certificate", "risk", "confidence", "threshold", "expires_at", "alarmed_at")
        )
        return {"standing": "uncertified", **promised}
    return {
        "standing": kept.standing(now),
        "certificate": kept.guarantee.certificate,
        "risk": kept.proof.alpha,
        "confidence": kept.confidence,
        "threshold": kept.proof.threshold,
        "expires_at": kept.proof.expires_at,
        "alarmed_at": kept.alarmed_at,
    }


def _drift(connection: Connection, key_id: int, split_at: datetime) -> float | NotYet:
    """How confidences have moved since a certificate was made, or since the window began."""
    at = microseconds(split_at)
    then = read_traffic(connection, key_id, at_most=_NUM_TRAFFIC, until=at)
    return confidence_drift(then, read_traffic(connection, key_id, at_most=_NUM_TRAFFIC, since=at))


def _name(fit: Platt | Isotonic, is_pooled: bool) -> str:
    name = "platt" if isinstance(fit, Platt) else "isotonic"
    return f"pooled {name}" if is_pooled else name
