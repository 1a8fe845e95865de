"""Decisions that were accepted, for tickets that say the same; providers that are left alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the two tables."""
    op.create_table(
        "cached_decision",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_cached_decision")),
    )
    op.create_index("ix_cached_decision_made_at", "cached_decision", ["made_at"])
    op.create_index("ix_cached_decision_used_at", "cached_decision", ["used_at"])
    op.create_table(
        "cooldown",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("over_at", sa.BigInteger(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("identity", "kind", name=op.f("pk_cooldown")),
    )


def downgrade() -> None:
    """Remove the two tables: nothing in them lasts longer than a day or so."""
    op.drop_table("cooldown")
    op.drop_table("cached_decision")
