"""The tables of what providers share; `migrations` creates exactly these.

Times are integers: microseconds since 1970 in UTC, by the clock of the process that writes.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from weighbridge.store.columns import CleanText, metadata

# SQLite uses a partial index only for a query that repeats its condition in the same words.
OF_TICKET: Final = text("kind = 'ticket'")

capability_table = Table(
    "capabilities",
    metadata,
    Column("base_url", CleanText, primary_key=True),
    Column("model", CleanText, primary_key=True),
    Column("feature", CleanText, primary_key=True),
    Column("status", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("at_most", Double),
    Column("value", CleanText),
    Column("note", CleanText, nullable=False),
    Column("source", CleanText, nullable=False),
    Column("checked_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("server", CleanText, nullable=False),
)

# Sums, not single payments: a reservation is a plus that its settlement takes back.
spending_table = Table(
    "spending",
    metadata,
    # The name first: by it a row is found, and old tickets by their own index.
    Column("name", CleanText, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("day", Integer, primary_key=True),  # since 1970, in UTC
    Column("reserved_micro_usd", BigInteger, nullable=False),
    Column("spent_micro_usd", BigInteger, nullable=False),
    CheckConstraint("reserved_micro_usd >= 0 AND spent_micro_usd >= 0", name="amounts"),
)
Index(
    "ix_spending_ticket",
    spending_table.c.day,
    sqlite_where=OF_TICKET,
    postgresql_where=OF_TICKET,
)

cached_decision_table = Table(
    "cached_decision",
    metadata,
    Column("key", CleanText, primary_key=True),
    Column("record", CleanText, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
)
Index("ix_cached_decision_made_at", cached_decision_table.c.made_at)
Index("ix_cached_decision_used_at", cached_decision_table.c.used_at)

cooldown_table = Table(
    "cooldown",
    metadata,
    Column("identity", CleanText, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("began_at", BigInteger, nullable=False),
    Column("over_at", BigInteger, nullable=False),
    Column("mark", Text, nullable=False),
)
