"""Reading one item: with its places, its verdicts, and a lock where it is going to be changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from weighbridge.errors import ItemNotFound
from weighbridge.review.items import Item
from weighbridge.review.queueing.rows import item_from
from weighbridge.store.queue_tables import item_table, slot_table, verdict_table

_MAX_VALUES: Final = 5_000  # in one statement; SQLite allows 32,766


def locked(connection: Connection, item_id: str) -> Row[Any]:
    """The row of an item that this transaction is going to change; others wait for it.

    Raises:
        ItemNotFound: there is none.
    """
    # Not FOR UPDATE: that would wait for whoever is adding a verdict or a line of history.
    return _found(connection, item_id, is_locked=True)


def read(connection: Connection, item_id: str, *, leased: Row[Any] | None = None) -> Item:
    """The item of that id.

    Args:
        connection: to read with.
        item_id: of the item.
        leased: the slot whose lease is handed out with it.

    Raises:
        ItemNotFound: there is none.
    """
    row = _found(connection, item_id)
    return items_of(connection, [row], {} if leased is None else {row.id: leased})[0]


def items_of(
    connection: Connection,
    rows: Sequence[Row[Any]],
    leased: dict[str, Row[Any]] | None = None,
) -> list[Item]:
    """Items with all that belongs to them, in the order of their rows.

    Args:
        connection: to read with.
        rows: of the items.
        leased: by item, the slot whose lease is handed out with it.
    """
    leased = leased or {}
    slots, verdicts = defaultdict(list), defaultdict(list)
    slot, verdict = slot_table.c, verdict_table.c
    round_of = {row.id: row.round for row in rows}
    for start in range(0, len(rows), _MAX_VALUES):
        ids = [row.id for row in rows[start : start + _MAX_VALUES]]
        # Not by pairs of item and round: SQLite would read the whole table for those.
        of_these = select(slot_table).where(slot.item_id.in_(ids)).order_by(slot.id)
        for found in connection.execute(of_these):
            if found.round == round_of[found.item_id]:
                slots[found.item_id].append(found)
        said = select(verdict_table).where(verdict.item_id.in_(ids)).order_by(verdict.id)
        for found in connection.execute(said):
            verdicts[found.item_id].append(found)
    return [
        item_from(row, slots[row.id], verdicts[row.id], leased=leased.get(row.id)) for row in rows
    ]


def slots_of(connection: Connection, item: Row[Any]) -> Sequence[Row[Any]]:
    """The places of an item's present round, which this transaction is going to change."""
    slot = slot_table.c
    return connection.execute(
        select(slot_table)
        .where(slot.item_id == item.id, slot.round == item.round)
        .order_by(slot.id)
        .with_for_update(key_share=True)
    ).all()


def _found(connection: Connection, item_id: str, *, is_locked: bool = False) -> Row[Any]:
    statement = select(item_table).where(item_table.c.id == item_id)
    if is_locked:
        statement = statement.with_for_update(key_share=True)
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise ItemNotFound(item_id)
    return row
