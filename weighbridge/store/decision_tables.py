"""The tables of what was decided and how it was weighed; `migrations` creates exactly these.

They hold no ticket text, so that statistics outlive it. Times are integers: microseconds since 1970
in UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from weighbridge.store.columns import CleanText, Counter, metadata

decision_table = Table(
    "decision",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("ticket_id", CleanText, nullable=False),
    Column("task", CleanText, nullable=False),
    Column("status", Text, nullable=False),
    Column("reasons", Text, nullable=False),  # joined by commas
    Column("provider", CleanText),  # NULL if nobody answered
    Column("model", CleanText),
    Column("seconds", Double, nullable=False),  # of all attempts
    Column("cost_usd", Double),  # NULL if nobody knows
    Column("item_id", CleanText, ForeignKey("item.id")),
    Column("audit_u", Double),  # NULL if no coin was tossed
    Column("audit_rate", Double),
    # An audit that was weighed once more later on: no traffic, see `review.proving.reweighing`.
    Column("is_reweighed", Boolean, nullable=False, server_default=false()),
    Column("at", BigInteger, nullable=False),
)
Index("ix_decision_item_id", decision_table.c.item_id)
Index("ix_decision_at", decision_table.c.at)

calibration_key_table = Table(
    "calibration_key",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("provider", CleanText, nullable=False),
    Column("model", CleanText, nullable=False),
    Column("prompt", CleanText, nullable=False),
    Column("schema", CleanText, nullable=False),
    Column("field", CleanText, nullable=False),
    Column("source", Text, nullable=False),
    UniqueConstraint("provider", "model", "prompt", "schema", "field", "source"),
)

weighing_table = Table(
    "weighing",
    metadata,
    Column("decision_id", Counter, ForeignKey("decision.id"), primary_key=True),
    Column("field", CleanText, primary_key=True),
    Column("key_id", Counter, ForeignKey("calibration_key.id"), nullable=False),
    Column("confidence", Double, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("value_label", CleanText, nullable=False),
)
Index("ix_weighing_key_id", weighing_table.c.key_id, weighing_table.c.confidence)
