"""Kept: certificates and calibrators as the database holds them, between values and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Update, delete, insert, select, update

from weighbridge.decision import CalibrationKey, Guarantee
from weighbridge.review.proving.labelled import Sample
from weighbridge.review.statistics.calibration import Isotonic, Platt
from weighbridge.review.statistics.certificate import Certificate, Tested
from weighbridge.review.statistics.joint_risk import JointGuarantee
from weighbridge.review.statistics.monitor import Proof, Standing, Watch, standing, watch
from weighbridge.store.guarantee_tables import calibrator_table, certificate_table
from weighbridge.store.times import microseconds, moment

_MEMORY_US: Final = 30 * 86_400_000_000  # however short a certificate's life is


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A certificate with its fate.

    Args:
        id: higher ones are newer.
        key_id: of the proof's key.
        proof: what was proved.
        confidence: of all certificates of its key together; None for a joint risk.
        to_position: of the newest label that it rests on.
        made_at: UTC.
        alarmed_at: UTC; None as long as no audit since has raised an alarm.
        alarm_position: of the newest label then; a new certificate needs labels later than that.
        revoked_at: UTC; None unless a person took it back.
        watched_from: positions of the newest labels of the certificates that it took over from,
            without those older than a month that had ended. It is held against what came after
            each of them: otherwise whoever certifies each night would begin each night to watch
            anew, and see nothing.
    """

    id: int
    key_id: int
    proof: Proof
    confidence: float | None
    to_position: int
    made_at: datetime
    alarmed_at: datetime | None = None
    alarm_position: int | None = None
    revoked_at: datetime | None = None
    watched_from: tuple[int, ...] = ()

    @property
    def guarantee(self) -> Guarantee:
        """What it promises of an answer that it accepts."""
        return Guarantee(
            certificate=str(self.id),
            risk=self.proof.alpha,
            confidence=self.confidence,
            threshold=self.proof.threshold,
            num_labels=self.proof.num_labels,
            expires_at=self.proof.expires_at,
        )

    def watched(self, sample: Sample) -> Watch:
        """What the audits after the certificate, or after one that it took over from, say of it.

        Args:
            sample: of its key.
        """
        begun = [
            self._seeing(sample.after(start)) for start in (self.to_position, *self.watched_from)
        ]
        # An alarm before the rest; they are few, and the newest is named where all are the same.
        watched = max(begun, key=lambda one: (one.is_alarmed, one.log_e))
        return replace(watched, is_alarmed=watched.is_alarmed or self.alarmed_at is not None)

    def _seeing(self, sample: Sample) -> Watch:
        watched = watch(self.proof)
        for audit in sample.audits:
            watched = watched.seeing(audit.confidence, is_correct=audit.is_correct)
        return watched

    def standing(self, now: datetime) -> Standing:
        """Whether it is in force; an alarm outlasts everything but a newer certificate."""
        known = replace(watch(self.proof), is_alarmed=self.alarmed_at is not None)
        found = standing(known, self.proof.key, now)
        if found == "in_force" and (self.revoked_at is not None or now < self.made_at):
            return "uncertified"  # before it was made a clock is wrong, and its end unknown
        return found


def newest_certificates(
    connection: Connection, keys: Mapping[int, CalibrationKey]
) -> dict[int, Kept]:
    """The newest certificate of each key that ever had one, by the key's id."""
    rows: dict[int, list[Row[Any]]] = {}
    for row in connection.execute(select(certificate_table).order_by(certificate_table.c.id)):
        if row.key_id in keys:
            rows.setdefault(row.key_id, []).append(row)
    return {
        key_id: replace(
            _kept(every[-1], keys[key_id]), watched_from=_taken_over(every[-1], every[:-1])
        )
        for key_id, every in rows.items()
    }


def keep_certificate(
    connection: Connection,
    proof: Proof,
    *,
    key_id: int,
    confidence: float | None,
    to_position: int,
    now: int,
) -> Kept:
    """Store a new certificate.

    Args:
        connection: inside a writing transaction.
        proof: what was proved.
        key_id: of its key.
        confidence: of all certificates of the key together; None for a joint risk.
        to_position: of the newest label that it rests on.
        now: microseconds since 1970.
    """
    tested: list[dict[str, Any]]
    if isinstance(proof, JointGuarantee):
        kind, delta = "joint", None
        tested = [{"num_accepted": proof.num_accepted, "num_errors": proof.num_errors}]
    else:
        kind, delta = "risk", proof.delta
        tested = [asdict(test) for test in proof.tested]
    new_id = connection.scalars(
        insert(certificate_table)
        .values(
            key_id=key_id,
            kind=kind,
            alpha=proof.alpha,
            delta=delta,
            confidence=confidence,
            threshold=proof.threshold,
            coverage=proof.coverage,
            num_labels=proof.num_labels,
            tested_json=tested,
            to_position=to_position,
            made_at=now,
            expires_at=microseconds(proof.expires_at),
        )
        .returning(certificate_table.c.id)
    ).one()
    return Kept(
        id=new_id,
        key_id=key_id,
        proof=proof,
        confidence=confidence,
        to_position=to_position,
        made_at=moment(now),
    )


def alarm(certificate_id: int, *, now: int, position: int) -> Update:
    """Note an alarm, unless somebody has: nothing takes one back, and the first one counts."""
    table = certificate_table
    return (
        update(table)
        .where(table.c.id == certificate_id, table.c.alarmed_at.is_(None))
        .values(alarmed_at=now, alarm_position=position)
    )


def revoke(certificate_id: int, *, now: int) -> Update:
    """Note that a person took a certificate back."""
    table = certificate_table
    return (
        update(table)
        .where(table.c.id == certificate_id, table.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )


def kept_calibrators(connection: Connection) -> dict[int, tuple[Platt | Isotonic, bool]]:
    """The calibrators in use by the key's id, each with whether it is pooled."""
    rows = connection.execute(select(calibrator_table))
    return {row.key_id: (_calibrator(row), bool(row.is_pooled)) for row in rows}


def keep_calibrators(
    connection: Connection, fitted: Mapping[int, tuple[Platt | Isotonic, bool]], *, now: int
) -> None:
    """Put calibrators, by the key's id, in the place of all that were in use."""
    connection.execute(delete(calibrator_table))
    rows = [
        {
            "key_id": key_id,
            "kind": "platt" if isinstance(fit, Platt) else "isotonic",
            "numbers_json": [fit.a, fit.b] if isinstance(fit, Platt) else fit.knots,
            "num_labels": fit.num_labels,
            "is_pooled": is_pooled,
            "made_at": now,
        }
        for key_id, (fit, is_pooled) in fitted.items()
    ]
    if rows:
        connection.execute(insert(calibrator_table), rows)


def _taken_over(newest: Row[Any], earlier: list[Row[Any]]) -> tuple[int, ...]:
    """See `Kept.watched_from`; after an alarm everything begins anew."""
    alarmed = max((row.id for row in earlier if row.alarmed_at is not None), default=0)
    return tuple(
        row.to_position
        for row in earlier
        if row.id > alarmed and max(row.expires_at, row.made_at + _MEMORY_US) > newest.made_at
    )


def _kept(row: Row[Any], key: CalibrationKey) -> Kept:
    return Kept(
        id=row.id,
        key_id=row.key_id,
        proof=_proof(row, key),
        confidence=row.confidence,
        to_position=row.to_position,
        made_at=moment(row.made_at),
        alarmed_at=None if row.alarmed_at is None else moment(row.alarmed_at),
        alarm_position=row.alarm_position,
        revoked_at=None if row.revoked_at is None else moment(row.revoked_at),
    )


def _proof(row: Row[Any], key: CalibrationKey) -> Proof:
    if row.kind == "joint":
        return JointGuarantee(
            key=key,
            alpha=row.alpha,
            threshold=row.threshold,
            num_labels=row.num_labels,
            expires_at=moment(row.expires_at),
            **row.tested_json[0],
        )
    return Certificate(
        key=key,
        alpha=row.alpha,
        delta=row.delta,
        threshold=row.threshold,
        coverage=row.coverage,
        num_labels=row.num_labels,
        tested=tuple(Tested(**test) for test in row.tested_json),
        expires_at=moment(row.expires_at),
    )


def _calibrator(row: Row[Any]) -> Platt | Isotonic:
    if row.kind == "platt":
        a, b = row.numbers_json
        return Platt(a=a, b=b, num_labels=row.num_labels)
    knots = tuple((confidence, probability) for confidence, probability in row.numbers_json)
    return Isotonic(knots=knots, num_labels=row.num_labels)
