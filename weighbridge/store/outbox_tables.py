"""The table of what other systems are to be told; `migrations` creates exactly this.

A row is one event for one webhook. It is written together with what it tells of, so that neither is
ever without the other. Times are integers: microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from weighbridge.store.columns import CleanText, Counter, metadata

# A partial index is used only for a query that repeats its condition in the same words.
_PENDING: Final = text("done_at IS NULL AND parked_at IS NULL")

outbox_table = Table(
    "outbox",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("event_id", CleanText, nullable=False),
    Column("target", CleanText, nullable=False),  # name of the webhook
    Column("kind", Text, nullable=False),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("payload_json", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", BigInteger, nullable=False),  # in the past: nobody delivers it
    Column("done_at", BigInteger),
    Column("parked_at", BigInteger),  # when it was given up
    Column("last_error", Text, nullable=False),
    UniqueConstraint("event_id", "target"),
    CheckConstraint("done_at IS NULL OR parked_at IS NULL", name="end"),
)
_outbox = outbox_table.c
Index(
    "ix_outbox_due",
    _outbox.target,
    _outbox.next_at,
    _outbox.id,
    sqlite_where=_PENDING,
    postgresql_where=_PENDING,
)
Index(
    "ix_outbox_pending_item",
    _outbox.item_id,
    _outbox.target,
    _outbox.id,
    sqlite_where=_PENDING,
    postgresql_where=_PENDING,
)
Index("ix_outbox_item_id", _outbox.item_id)
Index("ix_outbox_done_at", _outbox.done_at)
Index("ix_outbox_parked_at", _outbox.parked_at)
