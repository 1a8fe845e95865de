"""Secrets that an installation makes for itself and that all of its processes share."""

from __future__ import annotations

import secrets
from typing import Final

from sqlalchemy import select

from weighbridge.store.database import Database
from weighbridge.store.dialect import insert
from weighbridge.store.guarantee_tables import secret_table

_NUM_BYTES: Final = 32


def shared_secret(database: Database, name: str) -> bytes:
    """The secret of that name; the first who asks for it makes it.

    Args:
        database: holds it; readable by its owner alone.
        name: what it is for.

    Raises:
        QueueUnavailable: it can neither be read nor made.
    """
    table = secret_table
    with database.reading() as connection:
        known: bytes | None = connection.scalar(select(table.c.value).where(table.c.name == name))
    if known is not None:
        return known
    with database.writing() as connection:
        # One statement that makes it or finds the one of whoever was quicker: an update that
        # changes nothing, for an insert that does nothing would return nothing either.
        new = insert(connection, table).values(name=name, value=secrets.token_bytes(_NUM_BYTES))
        made = new.on_conflict_do_update(
            index_elements=[table.c.name], set_={"name": new.excluded.name}
        )
        return bytes(connection.scalars(made.returning(table.c.value)).one())
