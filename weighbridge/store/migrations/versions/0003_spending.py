"""What was spent, by account and day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "spending",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("reserved_micro_usd", sa.BigInteger(), nullable=False),
        sa.Column("spent_micro_usd", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "reserved_micro_usd >= 0 AND spent_micro_usd >= 0", name=op.f("ck_spending_amounts")
        ),
        sa.PrimaryKeyConstraint("name", "kind", "day", name=op.f("pk_spending")),
    )
    of_ticket = sa.text("kind = 'ticket'")
    op.create_index(
        "ix_spending_ticket",
        "spending",
        ["day"],
        sqlite_where=of_ticket,
        postgresql_where=of_ticket,
    )


def downgrade() -> None:
    """Remove the table: today's budgets begin anew."""
    op.drop_table("spending")
