"""Guarantees: certificates and calibrators, made from audits and kept beside the queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from sqlalchemy import Connection, func, select

from weighbridge.decision import CalibrationKey
from weighbridge.review.proving import looking
from weighbridge.review.proving.alarms import note_alarms
from weighbridge.review.proving.kept import (
    Kept,
    keep_calibrators,
    kept_calibrators,
    newest_certificates,
    revoke,
)
from weighbridge.review.proving.labelled import Sample, known_keys, read_samples
from weighbridge.review.proving.looks import Look, Wanted
from weighbridge.review.statistics.calibration import Isotonic, Platt
from weighbridge.review.statistics.calibration_fits import (
    MIN_LABELS_ISOTONIC,
    fit_isotonic,
    fit_platt,
)
from weighbridge.review.statistics.labels import Labels, NotYet
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import calibration_key_table, weighing_table
from weighbridge.store.dialect import lock, now_us
from weighbridge.store.guarantee_tables import look_table
from weighbridge.store.times import moment

Fit: TypeAlias = Platt | Isotonic


class Guarantees:
    """Makes, keeps and takes back; every method waits for the database.

    Args:
        database: is left open.
        audit_rate: of the coin, for telling how long labels will take.

    Raises:
        QueueUnavailable: from every method, when the database fails.
    """

    def __init__(self, database: Database, *, audit_rate: float) -> None:
        self._database, self._audit_rate = database, audit_rate

    def keys(self) -> tuple[CalibrationKey, ...]:
        """Every key under which an answer was weighed, the newest first."""
        with self._database.reading() as connection:
            known = known_keys(connection)
        return tuple(known[key_id] for key_id in sorted(known, reverse=True))

    def current_keys(self) -> tuple[CalibrationKey, ...]:
        """Of each provider, field and source the key of the latest answer, the latest first.

        The others are those of an earlier model, prompt or schema.
        """
        latest = func.max(weighing_table.c.decision_id)
        statement = (
            select(weighing_table.c.key_id)
            .group_by(weighing_table.c.key_id)
            .order_by(latest.desc())
        )
        with self._database.reading() as connection:
            known = known_keys(connection)
            latest_first = [known[key_id] for key_id in connection.scalars(statement)]
        current: dict[tuple[str, str, str], CalibrationKey] = {}
        for key in latest_first:
            current.setdefault((key.provider, key.field, key.source), key)
        return tuple(current.values())

    def sample(self, key: CalibrationKey) -> Sample:
        """The judged audits of a key.

        Raises:
            KeyError: no answer was ever weighed under it.
        """
        with self._database.reading() as connection:
            key_id = _id_of(connection, key)
            return read_samples(connection, {key_id: key})[key_id]

    def foresee(self, key: CalibrationKey, wanted: Wanted) -> Look:
        """What `certify` would test, without looking at any outcome; spends and keeps nothing.

        Raises:
            KeyError: no answer was ever weighed under the key.
        """
        with self._database.reading() as connection:
            ground = looking.read_ground(
                connection, key, _id_of(connection, key), audit_rate=self._audit_rate
            )
            return looking.foresee(connection, ground, wanted)

    def certify(self, key: CalibrationKey, wanted: Wanted) -> Look:
        """Prove the loosest threshold that the labels carry, and put it in force.

        Where nothing is proved, an older certificate stays as it is. If the audits since contradict
        it, that is an alarm, and only what comes later counts.

        Raises:
            KeyError: no answer was ever weighed under the key.
        """
        with self._database.writing() as connection:
            lock(connection, look_table)  # two at once must not both be the same round
            key_id = _id_of(connection, key)
            now = moment(now_us(connection))
            note_alarms(connection, newest_certificates(connection, {key_id: key}), now)
            ground = looking.read_ground(connection, key, key_id, audit_rate=self._audit_rate)
            return looking.look(connection, ground, wanted)

    def certificates(self) -> dict[CalibrationKey, Kept]:
        """The newest certificate of each key that ever had one, whatever became of it."""
        with self._database.reading() as connection:
            newest = newest_certificates(connection, known_keys(connection))
        return {kept.proof.key: kept for kept in newest.values()}

    def revoke(self, certificate: str) -> bool:
        """Take a certificate back, so that its key is uncertified; an alarm stays an alarm.

        Args:
            certificate: its id, as a decision's guarantee names it.

        Returns:
            Whether there was one to take back.
        """
        if not certificate.isdecimal():
            return False
        with self._database.writing() as connection:
            taken = connection.execute(revoke(int(certificate), now=now_us(connection)))
            return taken.rowcount > 0

    def fit_calibrators(self) -> dict[CalibrationKey, Fit | NotYet]:
        """Fit a calibrator for each key, and put them in force instead of all earlier ones.

        A key with too few labels of its own borrows from those answers to the same field, with the
        same options and evidence of the same source, whoever gave them.
        """
        with self._database.reading() as connection:
            samples = read_samples(connection, known_keys(connection))
        found: dict[CalibrationKey, Fit | NotYet] = {}
        fitted: dict[int, tuple[Fit, bool]] = {}
        for key_id, sample in samples.items():
            fit, is_pooled = _fit([sample]), False
            if isinstance(fit, NotYet) and fit.reason == "too_few_labels":
                pooled = _fit([other for other in samples.values() if _is_kin(other, sample)])
                if not isinstance(pooled, NotYet):
                    fit, is_pooled = pooled, True
            if not isinstance(fit, NotYet):
                fitted[key_id] = fit, is_pooled
            found[sample.key] = fit
        with self._database.writing() as connection:
            keep_calibrators(connection, fitted, now=now_us(connection))
        return found

    def calibrators(self) -> dict[CalibrationKey, tuple[Fit, bool]]:
        """The calibrators in force, each with whether it is borrowed."""
        with self._database.reading() as connection:
            known, kept = known_keys(connection), kept_calibrators(connection)
        return {known[key_id]: fit for key_id, fit in kept.items()}


def _id_of(connection: Connection, key: CalibrationKey) -> int:
    table = calibration_key_table
    same = [table.c[name] == getattr(key, name) for name in key.__slots__]
    key_id: int | None = connection.scalar(select(table.c.id).where(*same))
    if key_id is None:
        raise KeyError(key)
    return key_id


def _is_kin(one: Sample, other: Sample) -> bool:
    return all(
        getattr(one.key, part) == getattr(other.key, part) for part in ("schema", "field", "source")
    )


def _fit(samples: Iterable[Sample]) -> Fit | NotYet:
    """The finest calibrator that the labels carry.

    Answers of no confidence at all are left out: something else than a probability speaks against
    them, and no calibrator is ever asked about them.
    """
    audits = [audit for sample in samples for audit in sample.audits if audit.confidence > 0]
    labels = Labels(
        confidences=[audit.confidence for audit in audits],
        correct=[audit.is_correct for audit in audits],
    )
    return fit_isotonic(labels) if len(labels) >= MIN_LABELS_ISOTONIC else fit_platt(labels)
