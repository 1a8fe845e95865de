"""Alarms: certificates that the audits since contradict, found and noted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection

from weighbridge.review.proving.kept import Kept, alarm
from weighbridge.review.proving.labelled import newest_position, read_samples
from weighbridge.store.times import microseconds


def alarmed(connection: Connection, certificates: Mapping[int, Kept], now: datetime) -> list[Kept]:
    """Certificates in force that the audits since contradict.

    Args:
        connection: inside a transaction.
        certificates: the newest of some keys, by the key's id.
        now: UTC.
    """
    watched = {
        kept.key_id: kept for kept in certificates.values() if kept.standing(now) == "in_force"
    }
    if not watched:
        return []
    keys = {key_id: kept.proof.key for key_id, kept in watched.items()}
    oldest = min(min((kept.to_position, *kept.watched_from)) for kept in watched.values())
    samples = read_samples(connection, keys, after=oldest)
    return [kept for key_id, kept in watched.items() if kept.watched(samples[key_id]).is_alarmed]


def note_alarms(
    connection: Connection, certificates: Mapping[int, Kept], now: datetime
) -> list[Kept]:
    """Write down, inside a writing transaction, which of them are; see `alarmed`."""
    found = alarmed(connection, certificates, now)
    position = newest_position(connection) if found else 0
    for kept in found:
        connection.execute(alarm(kept.id, now=microseconds(now), position=position))
    return found
