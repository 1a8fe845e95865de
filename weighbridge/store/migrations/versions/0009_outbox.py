"""What other systems are told: webhooks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "outbox",
        sa.Column("id", _COUNTER, nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("payload_json", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_token", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.Column("parked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.CheckConstraint("done_at IS NULL OR parked_at IS NULL", name=op.f("ck_outbox_end")),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_outbox_item_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("event_id", "target", name=op.f("uq_outbox_event_id")),
    )
    pending = sa.text("done_at IS NULL AND parked_at IS NULL")
    for name, columns in (
        ("ix_outbox_due", ["target", "next_at", "id"]),
        ("ix_outbox_pending_item", ["item_id", "target", "id"]),
    ):
        op.create_index(name, "outbox", columns, sqlite_where=pending, postgresql_where=pending)
    for column in ("item_id", "done_at", "parked_at"):
        op.create_index(f"ix_outbox_{column}", "outbox", [column])


def downgrade() -> None:
    """Remove the table, with what nobody was told yet."""
    op.drop_table("outbox")
