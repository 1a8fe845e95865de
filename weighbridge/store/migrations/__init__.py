"""Versions of the schema, and the one function that needs Alembic to move between them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection

# Known without Alembic, whose import would double the time it takes to open a database.
REVISIONS: Final = tuple(f"{number:04}" for number in range(1, 12))
HEAD: Final = REVISIONS[-1]

# Alembic keeps the migration that is running in module globals.
_alembic = threading.Lock()


def upgrade(connection: Connection) -> None:
    """Bring the schema to `HEAD` within the transaction that `connection` is in.

    The version is read again inside that transaction, so that of two processes which both found
    an old schema the second changes nothing.
    """
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "weighbridge.store:migrations")
    config.set_main_option("path_separator", "os")
    with _alembic:
        command.upgrade(config, HEAD)
