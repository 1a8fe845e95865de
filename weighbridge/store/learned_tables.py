"""The tables of what was learned from verdicts; `migrations` creates exactly these.

Both only grow. A version is what was learned once; a use says which version counts from then on, so
the newest use of a field tells which does, and going back is one more use. Times are integers:
microseconds since 1970 in UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from weighbridge.store.columns import CleanText, Counter, metadata

learned_table = Table(
    "learned",
    metadata,
    Column("version", Counter, primary_key=True),
    Column("task", CleanText, nullable=False),
    Column("field", CleanText, nullable=False),
    Column("fingerprint", Text, nullable=False),  # of the task as it was
    Column("encoder", Text, nullable=False),  # fingerprints of the models
    Column("generator", Text, nullable=False),
    Column("num_examples", Integer, nullable=False),
    Column("artefact", LargeBinary, nullable=False),
    Column("renamed_json", JSON, nullable=False),  # old label to new
    Column("report_json", JSON, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)
Index("ix_learned_field", learned_table.c.task, learned_table.c.field)

learned_use_table = Table(
    "learned_use",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("task", CleanText, nullable=False),
    Column("field", CleanText, nullable=False),
    # NULL: none counts, the label prior is left as it is.
    Column("version", Counter, ForeignKey("learned.version")),
    Column("actor", CleanText, nullable=False),
    Column("at", BigInteger, nullable=False),
)
Index(
    "ix_learned_use_field",
    learned_use_table.c.task,
    learned_use_table.c.field,
    learned_use_table.c.id,
)
