"""Two indexes, so that no page of the queue reads every item: by state, and what is for later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_LATER = sa.text("state = 'open' AND not_before > 0")


def upgrade() -> None:
    """Index items by state, the newest last, and the few places that are kept for later."""
    op.create_index("ix_item_state", "item", ["state", "created_at", "id"])
    op.create_index(
        "ix_slot_later", "slot", ["not_before"], sqlite_where=_LATER, postgresql_where=_LATER
    )


def downgrade() -> None:
    """Do without them."""
    op.drop_index("ix_slot_later", "slot")
    op.drop_index("ix_item_state", "item")
