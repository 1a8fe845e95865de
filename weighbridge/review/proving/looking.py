"""Looking: certifying one key, once, from what the queue holds.

Each time that outcomes are looked at in order to certify spends a part of the delta that a key has,
so it is noted whatever it brings. Where too few labels are there whatever they say, no outcome is
looked at and nothing is spent. After an alarm only labels that came later count, and the looks
begin anew; labels from before an alarm of another key do not count here either. Keys that share
labels (`reweighing`) share looks: else one could learn anew until a certificate comes out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, insert, or_, select

from weighbridge.decision import CalibrationKey
from weighbridge.review.proving.kept import Kept, keep_certificate
from weighbridge.review.proving.labelled import Sample, read_samples, read_traffic
from weighbridge.review.proving.looks import Look, Step, Wanted
from weighbridge.review.statistics.certificate import (
    Certificate,
    Tested,
    Walk,
    certify,
    delta_of_round,
    most_errors,
    plan,
    sample_size,
    walked,
)
from weighbridge.review.statistics.joint_risk import (
    JointGuarantee,
    allowed_errors,
    control_joint_risk,
)
from weighbridge.review.statistics.labels import NotYet
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)
from weighbridge.store.dialect import now_us
from weighbridge.store.guarantee_tables import certificate_table, look_table
from weighbridge.store.times import moment

_DAY_US: Final = 86_400_000_000
_RATE_DAYS: Final = 7  # that the present traffic is counted over


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a look stands on.

    Args:
        sample: the audits that count; those that were opened and left unjudged do.
        from_position: only later ones do.
        traffic: confidences of all answers of late.
        tickets_per_day: the same, counted.
        audit_rate: of the coin.
        now: microseconds since 1970.
    """

    sample: Sample
    from_position: int
    traffic: list[float]
    tickets_per_day: float
    audit_rate: float
    now: int


def read_ground(
    connection: Connection,
    key: CalibrationKey,
    key_id: int,
    *,
    audit_rate: float,
    num_traffic: int = 20_000,
) -> Ground:
    """What is known of a key.

    Args:
        connection: inside a transaction.
        key: whose answers.
        key_id: its id.
        audit_rate: of the coin.
        num_traffic: how many of its latest answers to look at.
    """
    now = now_us(connection)
    alarm_position = select(func.max(certificate_table.c.alarm_position))
    own = alarm_position.where(certificate_table.c.key_id == key_id)
    from_position = connection.scalar(own) or 0
    kin = alarm_position.where(certificate_table.c.key_id.in_(_kin(key)))
    # The answers to one field got worse since the tickets are others now, for all one knows.
    stale = connection.scalar(kin) or 0
    sample = read_samples(connection, {key_id: key}, after=from_position)[key_id].with_abandoned()
    audits = [one for one in sample.audits if not one.is_reweighed or one.position > stale]
    return Ground(
        sample=replace(sample, audits=tuple(audits)),
        from_position=from_position,
        traffic=read_traffic(connection, key_id, at_most=num_traffic),
        tickets_per_day=_tickets_per_day(connection, key_id, now),
        audit_rate=audit_rate,
        now=now,
    )


def foresee(connection: Connection, ground: Ground, wanted: Wanted) -> Look:
    """What `look` would test, without any outcome; says no where none could help."""
    sample = ground.sample
    kind = "joint" if wanted.is_joint else "risk"
    number = _num_looks(connection, ground, kind) + 1
    delta = None if wanted.is_joint else delta_of_round(1 - wanted.confidence, number)
    look = Look(
        key=sample.key,
        wanted=wanted,
        round=number,
        delta=delta,
        num_labels=len(sample.audits),
        num_open=sample.num_open,
        num_abandoned=len(sample.abandoned),
        num_sighted=sample.num_sighted,
        tickets_per_day=ground.tickets_per_day,
        is_reweighed=sample.is_reweighed,
    )
    if not sample.audits:
        return _short(look, ground, _fewest(wanted, delta))
    if delta is None:
        allowed = allowed_errors(len(sample.audits), alpha=wanted.risk)
        return look if allowed >= 0 else _short(look, ground, _fewest(wanted, delta))
    look = replace(look, steps=_steps(sample, _walk(ground, wanted, delta)))
    first = look.steps[0]
    if first.most_errors >= 0:
        return look
    if not first.coverage:
        return replace(look, result=NotYet(what="certifiable", reason="nothing_accepted"))
    missing = sample_size(alpha=wanted.risk, delta=delta) - first.num_accepted
    return _short(look, ground, len(sample.audits) + math.ceil(missing / first.coverage))


def look(connection: Connection, ground: Ground, wanted: Wanted) -> Look:
    """Certify, note that outcomes were looked at, and keep the certificate if there is one.

    Args:
        connection: inside a writing transaction, one at a time.
        ground: read in it.
        wanted: what is to be certified.
    """
    seen = foresee(connection, ground, wanted)
    if seen.result is not None:
        return seen
    sample, labels = ground.sample, ground.sample.labels
    expires_at = moment(ground.now) + wanted.validity
    proof: Certificate | JointGuarantee | NotYet
    if seen.delta is None:
        proof = control_joint_risk(labels, alpha=wanted.risk, key=sample.key, expires_at=expires_at)
        tested: tuple[Tested, ...] = ()
    else:
        walk = _walk(ground, wanted, seen.delta)
        proof = certify(labels, walk, key=sample.key, expires_at=expires_at)
        tested = walked(labels, walk)
    result: Kept | NotYet
    if isinstance(proof, NotYet):
        result = proof
    else:
        result = keep_certificate(
            connection,
            proof,
            key_id=sample.key_id,
            confidence=None if wanted.is_joint else wanted.confidence,
            to_position=sample.audits[-1].position,
            now=ground.now,
        )
    _note(connection, ground, seen, result)
    if isinstance(result, NotYet):
        if tested and seen.steps[0].coverage:
            result = replace(result, needed=_needed_next(seen, tested[0]))
        return replace(seen, tested=tested, result=result, days=_days(ground, result.needed))
    return replace(seen, tested=tested, result=result)


def _note(connection: Connection, ground: Ground, seen: Look, result: Kept | NotYet) -> None:
    """Write down that outcomes were looked at, whatever it brought."""
    connection.execute(
        insert(look_table).values(
            key_id=ground.sample.key_id,
            from_position=ground.from_position,
            kind="joint" if seen.wanted.is_joint else "risk",
            round=seen.round,
            alpha=seen.wanted.risk,
            delta=seen.delta,
            to_position=ground.sample.audits[-1].position,
            at=ground.now,
            certificate_id=result.id if isinstance(result, Kept) else None,
        )
    )


def _num_looks(connection: Connection, ground: Ground, kind: str) -> int:
    """Looks at outcomes so far: its own, and those of keys that share labels with it."""
    sample, looks = ground.sample, look_table.c
    own = and_(looks.key_id == sample.key_id, looks.from_position == ground.from_position)
    counted = own
    if sample.audits:
        sharing = _kin(sample.key)
        if not sample.is_reweighed:  # then some of its own labels may have gone to others
            sharing = sharing.where(_has_reweighed(calibration_key_table.c.id))
        first = sample.audits[0].position
        counted = or_(own, and_(looks.key_id.in_(sharing), looks.to_position >= first))
    num, highest = select(func.count()), select(func.max(looks.round))
    return max(
        connection.scalar(num.select_from(look_table).where(looks.kind == kind, counted)) or 0,
        # Others may count no more, since labels that were shared have gone.
        connection.scalar(highest.where(looks.kind == kind, own)) or 0,
    )


def _kin(key: CalibrationKey) -> Select[tuple[int]]:
    """Ids of the keys for the same field, this one too."""
    known = calibration_key_table.c
    return select(known.id).where(known.field == key.field)


def _has_reweighed(key_id: ColumnElement[int]) -> ColumnElement[bool]:
    joined = weighing_table.join(
        decision_table, decision_table.c.id == weighing_table.c.decision_id
    )
    return exists(
        select(weighing_table.c.key_id)
        .select_from(joined)
        .where(weighing_table.c.key_id == key_id, decision_table.c.is_reweighed)
    )


def _walk(ground: Ground, wanted: Wanted, delta: float) -> Walk:
    return plan(
        ground.traffic, num_labels=len(ground.sample.audits), alpha=wanted.risk, delta=delta
    )


def _steps(sample: Sample, walk: Walk) -> tuple[Step, ...]:
    # Of the labels only how sure the machine was: how many pass depends on no outcome.
    tallies = sample.labels.tallies(walk.thresholds)
    return tuple(
        Step(
            threshold=threshold,
            coverage=coverage,
            num_accepted=num_accepted,
            most_errors=most_errors(num_accepted, alpha=walk.alpha, delta=walk.delta),
        )
        for threshold, coverage, (num_accepted, _) in zip(
            walk.thresholds, walk.coverage, tallies, strict=True
        )
    )


def _fewest(wanted: Wanted, delta: float | None) -> int:
    """Labels without which nothing is certified, all of them right and accepted."""
    if delta is not None:
        return sample_size(alpha=wanted.risk, delta=delta)
    fewest = math.ceil(1 / wanted.risk) - 1
    while allowed_errors(fewest, alpha=wanted.risk) < 0:
        fewest += 1
    return fewest


def _needed_next(seen: Look, first: Tested) -> int:
    """Labels that the next look would need at the first threshold, if no more of them are wrong.

    It may spend less than this one, so it needs more than this one lacked.
    """
    delta = delta_of_round(1 - seen.wanted.confidence, seen.round + 1)
    size = sample_size(alpha=seen.wanted.risk, delta=delta, num_errors=first.num_errors)
    return math.ceil((size - first.num_accepted) / seen.steps[0].coverage)


def _short(look: Look, ground: Ground, needed_in_all: int) -> Look:
    missing = max(1, needed_in_all - look.num_labels)
    return replace(
        look,
        result=NotYet(what="certifiable", reason="too_few_labels", needed=missing),
        days=_days(ground, missing),
    )


def _days(ground: Ground, num_labels: int | None) -> float | None:
    per_day = ground.tickets_per_day * ground.audit_rate
    return None if num_labels is None or not per_day else num_labels / per_day


def _tickets_per_day(connection: Connection, key_id: int, now: int) -> float:
    """Answers of a key in the last days; in fewer where the key is younger, but a whole day."""
    since = now - _RATE_DAYS * _DAY_US
    num, first = connection.execute(
        select(func.count(), func.min(decision_table.c.at))
        .join(weighing_table, weighing_table.c.decision_id == decision_table.c.id)
        .where(
            weighing_table.c.key_id == key_id,
            decision_table.c.at >= since,
            ~decision_table.c.is_reweighed,
        )
    ).one()
    if not num:
        return 0.0
    days: float = max(1.0, (now - first) / _DAY_US)
    return float(num) / days
