"""The tables of the review queue as SQLAlchemy Core sees them; `migrations` creates exactly these.

Times are integers: microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from weighbridge.store.columns import CleanText, Counter, metadata

# SQLite uses a partial index only for a query that repeats its condition in the same words.
NOT_DONE: Final = text("state <> 'done'")
LEASED: Final = text("state = 'leased'")

item_table = Table(
    "item",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("dedupe_key", CleanText, nullable=False, unique=True),
    Column("ticket_id", CleanText, nullable=False),
    Column("task", CleanText, nullable=False),
    Column("ticket_json", JSON, nullable=False),
    Column("decision_json", JSON, nullable=False),
    Column("questions_json", JSON, nullable=False),
    Column("reasons", JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("priority", Double, nullable=False),
    # Never NULL: comparisons with NULL are not true, which would hide the item for ever.
    Column("not_before", BigInteger, nullable=False, server_default=text("0")),
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("lease_owner", CleanText),
    Column("lease_token", CleanText),
    Column("lease_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("done_at", BigInteger),
    CheckConstraint("state IN ('open', 'leased', 'done')", name="state"),
    CheckConstraint(
        "(state = 'leased') = (lease_owner IS NOT NULL AND lease_token IS NOT NULL"
        " AND lease_until IS NOT NULL)",
        name="lease",
    ),
)
Index(
    "ix_item_claim",
    item_table.c.priority.desc(),
    item_table.c.created_at,
    item_table.c.id,
    sqlite_where=NOT_DONE,
)
Index("ix_item_lease", item_table.c.lease_owner, sqlite_where=LEASED)

verdict_table = Table(
    "verdict",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("reviewer", CleanText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("values_json", JSON, nullable=False),
    Column("machine_json", JSON, nullable=False),
    Column("idem_key", CleanText, unique=True),
    Column("lease_token", CleanText, nullable=False),
    Column("submitted_at", BigInteger, nullable=False),
    Column("note", CleanText, nullable=False),
    CheckConstraint("kind IN ('correct', 'corrected')", name="kind"),
)
Index("ix_verdict_item_id", verdict_table.c.item_id)

event_table = Table(
    "event",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("detail_json", JSON, nullable=False),
)
Index("ix_event_item_id", event_table.c.item_id)
