"""What providers were found to be able to do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "capabilities",
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("feature", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("at_most", sa.Double()),
        sa.Column("value", sa.Text()),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("checked_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("server", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("base_url", "model", "feature", name=op.f("pk_capabilities")),
    )


def downgrade() -> None:
    """Remove the table: everything in it can be found out again."""
    op.drop_table("capabilities")
