"""What was learned from verdicts, in versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the two tables."""
    op.create_table(
        "learned",
        sa.Column("version", _COUNTER, nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("encoder", sa.Text(), nullable=False),
        sa.Column("generator", sa.Text(), nullable=False),
        sa.Column("num_examples", sa.Integer(), nullable=False),
        sa.Column("artefact", sa.LargeBinary(), nullable=False),
        sa.Column("renamed_json", sa.JSON(), nullable=False),
        sa.Column("report_json", sa.JSON(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_learned")),
    )
    op.create_index("ix_learned_field", "learned", ["task", "field"])
    op.create_table(
        "learned_use",
        sa.Column("id", _COUNTER, nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("version", _COUNTER, nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version"], ["learned.version"], name=op.f("fk_learned_use_version")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_learned_use")),
    )
    op.create_index("ix_learned_use_field", "learned_use", ["task", "field", "id"])


def downgrade() -> None:
    """Drop them, and with them all that was learned."""
    op.drop_table("learned_use")
    op.drop_table("learned")
