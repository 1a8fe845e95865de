"""The tables of who may review, and of what proves it; `migrations` creates exactly these.

Nothing here opens a door by itself: secrets are stored as SHA-256, passwords as Argon2. Times are
integers: microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
)

from weighbridge.store.columns import CleanText, metadata

_ROLES: Final = "('viewer', 'reviewer', 'adjudicator', 'admin')"

person_table = Table(
    "person",
    metadata,
    Column("name", CleanText, primary_key=True),
    Column("password_hash", Text),  # NULL: no password opens the door
    Column("role", Text, nullable=False),
    Column("settings_json", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("disabled_at", BigInteger),
    CheckConstraint(f"role IN {_ROLES}", name="role"),
)

credential_table = Table(
    "credential",
    metadata,
    Column("hash", CleanText, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("person", CleanText, ForeignKey("person.name"), nullable=False),
    # At most this role, whatever the person's own is.
    Column("scope", Text, nullable=False),
    Column("label", CleanText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    CheckConstraint("kind IN ('session', 'token', 'link')", name="kind"),
    CheckConstraint(f"scope IN {_ROLES}", name="scope"),
)
Index("ix_credential_person", credential_table.c.person)
Index("ix_credential_expires_at", credential_table.c.expires_at)

login_failure_table = Table(
    "login_failure",
    metadata,
    Column("subject", Text, primary_key=True),  # a hash of whom or what the attempts had in common
    Column("num", Integer, nullable=False),
    Column("last_at", BigInteger, nullable=False),
)
Index("ix_login_failure_last_at", login_failure_table.c.last_at)
