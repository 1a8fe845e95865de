"""The whole schema: every module of tables, so that `metadata` knows all of them."""

from weighbridge.store import people_tables, queue_tables, tables
from weighbridge.store.columns import metadata

__all__ = ["metadata", "people_tables", "queue_tables", "tables"]
