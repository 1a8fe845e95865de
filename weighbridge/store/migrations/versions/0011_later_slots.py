"""An index of the places that are kept for later, so that those for now are counted at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_LATER = sa.text("state = 'open' AND not_before > 0")


def upgrade() -> None:
    """Index the few places that have a time before which nobody gets them."""
    op.create_index(
        "ix_slot_later", "slot", ["not_before"], sqlite_where=_LATER, postgresql_where=_LATER
    )


def downgrade() -> None:
    """Count without it."""
    op.drop_index("ix_slot_later", "slot")
