"""The review queue: items, verdicts, and their history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_counter = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the three tables."""
    op.create_table(
        "item",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("dedupe_key", sa.Text(), nullable=False),
        sa.Column("ticket_id", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("ticket_json", sa.JSON(), nullable=False),
        sa.Column("decision_json", sa.JSON(), nullable=False),
        sa.Column("questions_json", sa.JSON(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("priority", sa.Double(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("version", sa.Integer(), nullable=False, server_default=sa.text("1")),
        sa.Column("lease_owner", sa.Text()),
        sa.Column("lease_token", sa.Text()),
        sa.Column("lease_until", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger()),
        sa.CheckConstraint("state IN ('open', 'leased', 'done')", name=op.f("ck_item_state")),
        sa.CheckConstraint(
            "(state = 'leased') = (lease_owner IS NOT NULL AND lease_token IS NOT NULL"
            " AND lease_until IS NOT NULL)",
            name=op.f("ck_item_lease"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_item")),
        sa.UniqueConstraint("dedupe_key", name=op.f("uq_item_dedupe_key")),
    )
    not_done, leased = sa.text("state <> 'done'"), sa.text("state = 'leased'")
    op.create_index(
        "ix_item_claim",
        "item",
        [sa.text("priority DESC"), "created_at", "id"],
        sqlite_where=not_done,
        postgresql_where=not_done,
    )
    op.create_index(
        "ix_item_lease", "item", ["lease_owner"], sqlite_where=leased, postgresql_where=leased
    )
    op.create_table(
        "verdict",
        sa.Column("id", _counter, nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("values_json", sa.JSON(), nullable=False),
        sa.Column("machine_json", sa.JSON(), nullable=False),
        sa.Column("idem_key", sa.Text()),
        sa.Column("lease_token", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('correct', 'corrected')", name=op.f("ck_verdict_kind")),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_verdict_item_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint("idem_key", name=op.f("uq_verdict_idem_key")),
    )
    op.create_index("ix_verdict_item_id", "verdict", ["item_id"])
    op.create_table(
        "event",
        sa.Column("id", _counter, nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail_json", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_event_item_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.create_index("ix_event_item_id", "event", ["item_id"])


def downgrade() -> None:
    """Remove the three tables, with everything in them."""
    op.drop_table("event")
    op.drop_table("verdict")
    op.drop_table("item")
