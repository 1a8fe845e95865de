"""Ticket ids of any length, which PostgreSQL refuses in an index that is a tree."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Look ticket ids up by their hash, where the database can."""
    op.drop_index("ix_item_ticket", "item")
    op.create_index("ix_item_ticket", "item", ["ticket_id"], postgresql_using="hash")


def downgrade() -> None:
    """Look them up in a tree again; fails on PostgreSQL where an id is too long for one."""
    op.drop_index("ix_item_ticket", "item")
    op.create_index("ix_item_ticket", "item", ["ticket_id", "task"])
