"""Who may review: people, what proves who they are, and logins that failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_ROLES = "('viewer', 'reviewer', 'adjudicator', 'admin')"


def upgrade() -> None:
    """Create the three tables."""
    op.create_table(
        "person",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("settings_json", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(f"role IN {_ROLES}", name=op.f("ck_person_role")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_person")),
    )
    op.create_table(
        "credential",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('session', 'token', 'link')", name=op.f("ck_credential_kind")),
        sa.CheckConstraint(f"scope IN {_ROLES}", name=op.f("ck_credential_scope")),
        sa.ForeignKeyConstraint(["person"], ["person.name"], name=op.f("fk_credential_person")),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_credential")),
    )
    op.create_index("ix_credential_person", "credential", ["person"])
    op.create_index("ix_credential_expires_at", "credential", ["expires_at"])
    op.create_table(
        "login_failure",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("num", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_login_failure")),
    )
    op.create_index("ix_login_failure_last_at", "login_failure", ["last_at"])


def downgrade() -> None:
    """Remove the three tables: without the page nobody logs in."""
    op.drop_table("login_failure")
    op.drop_table("credential")
    op.drop_table("person")
