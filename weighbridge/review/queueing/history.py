"""An item's history, which is only ever added to, and the number of its settling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, insert

from weighbridge.decision import Json
from weighbridge.store import dialect
from weighbridge.store.queue_tables import event_table

MACHINE: Final = "weighbridge"  # the actor of what no person did


def record(
    connection: Connection,
    item_id: str,
    at: int,
    actor: str,
    kind: str,
    detail: Mapping[str, Json] | None = None,
) -> int:
    """Add a line, and return its number."""
    line = {"item_id": item_id, "at": at, "actor": actor, "kind": kind}
    number: int = connection.execute(
        insert(event_table)
        .values(**line, detail_json=dict(detail or {}))
        .returning(event_table.c.id)
    ).scalar_one()
    return number


def record_settled(
    connection: Connection, item_id: str, at: int, actor: str, resolved_kind: str
) -> int:
    """Add the line that an item is settled; its number is larger than that of any settled before.

    Whoever has read up to a number must never be shown a smaller one later. PostgreSQL gives
    numbers out when asked, not when a transaction ends, so here transactions queue up.
    """
    dialect.lock(connection, "settled")
    return record(connection, item_id, at, actor, "settled", {"kind": resolved_kind})
