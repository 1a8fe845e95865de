"""The tables of what audits prove and of the coin's secret; `migrations` creates exactly these.

Positions are those of `item.settled_no`: they only grow, whatever a clock does, so "later than"
means the same to every process. Times are integers: microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from weighbridge.store.columns import Counter, metadata
from weighbridge.store.queue_tables import item_table, verdict_table

# A partial index is used only for a query that repeats its condition in the same words.
AUDITED: Final = text("is_audit")

# For statistics, which would read the texts of all items to find two of a hundred.
Index("ix_item_audit", item_table.c.settled_no, sqlite_where=AUDITED, postgresql_where=AUDITED)
DUE: Final = text("due_at IS NOT NULL")
Index("ix_item_due", item_table.c.due_at, sqlite_where=DUE, postgresql_where=DUE)
Index("ix_verdict_submitted_at", verdict_table.c.submitted_at)

secret_table = Table(
    "secret",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

calibrator_table = Table(
    "calibrator",
    metadata,
    Column("key_id", Counter, ForeignKey("calibration_key.id"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("numbers_json", JSON, nullable=False),
    Column("num_labels", Integer, nullable=False),
    # Fitted on the labels of several keys, since this one had too few of its own.
    Column("is_pooled", Boolean, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    CheckConstraint("kind IN ('platt', 'isotonic')", name="kind"),
)

certificate_table = Table(
    "certificate",
    metadata,
    Column("id", Counter, primary_key=True),  # a higher one is newer, whatever a clock does
    Column("key_id", Counter, ForeignKey("calibration_key.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("alpha", Double, nullable=False),
    Column("delta", Double),  # of its round; NULL: the joint risk is bounded on average
    Column("confidence", Double),  # of all rounds together
    Column("threshold", Double, nullable=False),
    Column("coverage", Double, nullable=False),
    Column("num_labels", Integer, nullable=False),
    Column("tested_json", JSON, nullable=False),
    Column("to_position", BigInteger, nullable=False),  # of the newest label that it rests on
    Column("made_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("alarmed_at", BigInteger),
    Column("alarm_position", BigInteger),  # of the newest label when the alarm went off
    Column("revoked_at", BigInteger),
    CheckConstraint("kind IN ('risk', 'joint')", name="kind"),
    CheckConstraint(
        "(kind = 'risk') = (delta IS NOT NULL AND confidence IS NOT NULL)", name="delta"
    ),
    CheckConstraint("(alarmed_at IS NULL) = (alarm_position IS NULL)", name="alarm"),
)
Index("ix_certificate_key_id", certificate_table.c.key_id)

# Each time that outcomes were looked at in order to certify: every look spends some of the delta.
look_table = Table(
    "look",
    metadata,
    Column("key_id", Counter, ForeignKey("calibration_key.id"), primary_key=True),
    # Labels up to here were left aside: the alarm that they caused made them useless.
    Column("from_position", BigInteger, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("round", Integer, primary_key=True),
    Column("alpha", Double, nullable=False),
    Column("delta", Double),  # of this round
    Column("to_position", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("certificate_id", Counter, ForeignKey("certificate.id")),  # NULL: nothing was proved
    CheckConstraint("kind IN ('risk', 'joint')", name="kind"),
)
