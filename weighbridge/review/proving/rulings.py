"""Rulings: what audits say of each calibration key, answered from memory for every ticket.

A thread of its own reads the database every few seconds, so a ticket waits for nothing. It also
looks at the audits that came since a certificate was made; whoever sees first that answers have got
worse writes the alarm down, and nobody takes it back. While the database cannot be reached what is
known stays, but for certificates that end meanwhile.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from weighbridge.decision import CalibrationKey, Ruling
from weighbridge.errors import QueueUnavailable
from weighbridge.review.proving.alarms import alarmed, note_alarms
from weighbridge.review.proving.kept import Kept, kept_calibrators, newest_certificates
from weighbridge.review.proving.labelled import known_keys, newest_position
from weighbridge.review.statistics.calibration import Isotonic, Platt
from weighbridge.store.database import Database
from weighbridge.store.exchanger import Exchanger
from weighbridge.store.times import EPOCH

PAUSE_S: Final = 3.0  # between two looks at the database

_NOTHING: Final = Ruling()


class Rulings:
    """The newest certificate and calibrator of each key.

    Args:
        database: must not be closed before this, which leaves it open.
        clock: the time, with a time zone. It is taken to stand still where it jumps back.
        monotonic: seconds.

    Raises:
        QueueUnavailable: the database cannot be read at the beginning: an alarm might be in it.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._clock, self._monotonic = database, clock, monotonic
        self._latest = clock()
        self._seen: _Seen | None = None
        self._turn = self._told = 0  # of the look that began last, and of the one that is known
        self._known: Mapping[CalibrationKey, _Known] = {}
        self._lock = threading.Lock()
        self._learn()
        self._asked_at = monotonic()
        self._exchanger = Exchanger(self._exchange, self._lock, "certificates")

    def ruling(self, key: CalibrationKey) -> Ruling:
        """What the gate goes by for an answer of this key, now."""
        with self._lock:
            now = self._monotonic()
            if now - self._asked_at >= PAUSE_S:
                self._asked_at = now
                self._exchanger.ask()
            known, wall = self._known.get(key), self._wall()
        return _NOTHING if known is None else known.ruling(wall)

    @property
    def version(self) -> str:
        """Another one whenever the ruling of any key has become another; the same everywhere."""
        with self._lock:
            known, wall = self._known, self._wall()
        parts = sorted(one.stamp + str(one.begin <= wall < one.end) for one in known.values())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def refresh(self) -> None:
        """Read the database now, and look at what audits came.

        Raises:
            QueueUnavailable: it cannot be read.
        """
        self._learn()

    def close(self) -> None:
        """Let the thread end; harmless when repeated."""
        self._exchanger.close()

    def _wall(self) -> datetime:
        """The time; called with the lock held."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _exchange(self) -> None:
        with self._lock:
            self._exchanger.begun()
        try:
            self._learn()
        except QueueUnavailable as error:
            self._exchanger.failed(error)

    def _learn(self) -> None:
        with self._lock:
            seen, now = self._seen, self._wall()
            self._turn += 1
            turn = self._turn
        with self._database.reading() as connection:
            keys = known_keys(connection)
            certificates = newest_certificates(connection, keys)
            calibrators = kept_calibrators(connection)
            newest = newest_position(connection)
            news = _Seen(newest, frozenset(kept.id for kept in certificates.values()))
            worse = alarmed(connection, certificates, now) if news != seen else []
        if worse:
            with self._database.writing() as connection:
                # Looked at once more: another certificate may have come in between.
                note_alarms(connection, newest_certificates(connection, keys), now)
                certificates = newest_certificates(connection, keys)
        known = {}
        for key_id in certificates.keys() | calibrators.keys():
            fit, _ = calibrators.get(key_id, (None, False))
            known[keys[key_id]] = _Known.of(key_id, certificates.get(key_id), fit)
        with self._lock:
            if turn > self._told:  # else a look that began later has ended earlier
                self._known, self._seen, self._told = known, news, turn


class _Seen(NamedTuple):
    """What every certificate was held against; while it is the same there can be no new alarm."""

    position: int
    certificates: frozenset[int]


class _Known(NamedTuple):
    """A key's ruling while its certificate is in force, and otherwise."""

    begin: datetime
    end: datetime
    within: Ruling
    otherwise: Ruling
    stamp: str  # of all but the time

    @classmethod
    def of(cls, key_id: int, kept: Kept | None, fit: Platt | Isotonic | None) -> _Known:
        probability = None if fit is None else fit.probability
        otherwise = Ruling(probability=probability)
        if kept is None or kept.revoked_at is not None:
            begin = end = EPOCH
            within = otherwise
        else:
            begin, end = kept.made_at, kept.proof.expires_at
            within = Ruling(guarantee=kept.guarantee, probability=probability)
        if kept is not None and kept.alarmed_at is not None:
            within = otherwise = Ruling(is_alarmed=True)
        certified = kept and (kept.id, kept.alarmed_at is None, kept.revoked_at is None)
        return cls(begin, end, within, otherwise, repr((key_id, certified, fit)))

    def ruling(self, now: datetime) -> Ruling:
        return self.within if self.begin <= now < self.end else self.otherwise
