"""Calibrators, certificates, and the secret of the audit coin."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the four tables, and indexes for statistics."""
    op.create_table(
        "secret",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secret")),
    )
    op.create_table(
        "calibrator",
        sa.Column("key_id", _COUNTER, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("numbers_json", sa.JSON(), nullable=False),
        sa.Column("num_labels", sa.Integer(), nullable=False),
        sa.Column("is_pooled", sa.Boolean(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('platt', 'isotonic')", name=op.f("ck_calibrator_kind")),
        sa.ForeignKeyConstraint(
            ["key_id"], ["calibration_key.id"], name=op.f("fk_calibrator_key_id")
        ),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_calibrator")),
    )
    op.create_table(
        "certificate",
        sa.Column("id", _COUNTER, nullable=False),
        sa.Column("key_id", _COUNTER, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("alpha", sa.Double(), nullable=False),
        sa.Column("delta", sa.Double(), nullable=True),
        sa.Column("confidence", sa.Double(), nullable=True),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("coverage", sa.Double(), nullable=False),
        sa.Column("num_labels", sa.Integer(), nullable=False),
        sa.Column("tested_json", sa.JSON(), nullable=False),
        sa.Column("to_position", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("alarmed_at", sa.BigInteger(), nullable=True),
        sa.Column("alarm_position", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('risk', 'joint')", name=op.f("ck_certificate_kind")),
        sa.CheckConstraint(
            "(kind = 'risk') = (delta IS NOT NULL AND confidence IS NOT NULL)",
            name=op.f("ck_certificate_delta"),
        ),
        sa.CheckConstraint(
            "(alarmed_at IS NULL) = (alarm_position IS NULL)", name=op.f("ck_certificate_alarm")
        ),
        sa.ForeignKeyConstraint(
            ["key_id"], ["calibration_key.id"], name=op.f("fk_certificate_key_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certificate")),
    )
    op.create_index("ix_certificate_key_id", "certificate", ["key_id"])
    op.create_table(
        "look",
        sa.Column("key_id", _COUNTER, nullable=False),
        sa.Column("from_position", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("alpha", sa.Double(), nullable=False),
        sa.Column("delta", sa.Double(), nullable=True),
        sa.Column("to_position", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("certificate_id", _COUNTER, nullable=True),
        sa.CheckConstraint("kind IN ('risk', 'joint')", name=op.f("ck_look_kind")),
        sa.ForeignKeyConstraint(["key_id"], ["calibration_key.id"], name=op.f("fk_look_key_id")),
        sa.ForeignKeyConstraint(
            ["certificate_id"], ["certificate.id"], name=op.f("fk_look_certificate_id")
        ),
        sa.PrimaryKeyConstraint("key_id", "from_position", "kind", "round", name=op.f("pk_look")),
    )
    op.create_index(
        "ix_item_audit",
        "item",
        ["settled_no"],
        sqlite_where=sa.text("is_audit"),
        postgresql_where=sa.text("is_audit"),
    )
    op.create_index(
        "ix_item_due",
        "item",
        ["due_at"],
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index("ix_verdict_submitted_at", "verdict", ["submitted_at"])


def downgrade() -> None:
    """Remove the four tables; a later upgrade draws another secret, and so other tickets."""
    op.drop_index("ix_verdict_submitted_at", table_name="verdict")
    op.drop_index("ix_item_due", table_name="item")
    op.drop_index("ix_item_audit", table_name="item")
    op.drop_table("look")
    op.drop_table("certificate")
    op.drop_table("calibrator")
    op.drop_table("secret")
