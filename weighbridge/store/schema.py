"""The whole schema: every module of tables, so that `metadata` knows all of them."""

from weighbridge.store import (
    decision_tables,
    guarantee_tables,
    learned_tables,
    outbox_tables,
    people_tables,
    queue_tables,
    tables,
)
from weighbridge.store.columns import metadata

__all__ = [
    "decision_tables",
    "guarantee_tables",
    "learned_tables",
    "metadata",
    "outbox_tables",
    "people_tables",
    "queue_tables",
    "tables",
]
