"""The tables as SQLAlchemy Core sees them; `migrations` creates exactly these.

Times are integers: microseconds since 1970 in UTC, by the clock of the process that writes.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    text,
)


class CleanText(TypeDecorator[str]):
    """Text that every database can hold, whatever a terminal or a model put into it.

    Lone surrogates cannot be encoded, and PostgreSQL has no NUL; both become U+FFFD, in stored
    values and in the values searched for alike. JSON needs no such care: it is stored in ASCII.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is sent to the database in place of `value`."""
        if value is None:
            return None
        # UTF-16 is the encoding in which a surrogate pair and the character it stands for agree.
        clean = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return clean.replace("\0", "\ufffd")


# SQLite counts a row up by itself only under the exact type INTEGER.
_Counter = BigInteger().with_variant(Integer(), "sqlite")

# SQLite uses a partial index only for a query that repeats its condition in the same words.
NOT_DONE: Final = text("state <> 'done'")
LEASED: Final = text("state = 'leased'")
OF_TICKET: Final = text("kind = 'ticket'")

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

item_table = Table(
    "item",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("dedupe_key", CleanText, nullable=False, unique=True),
    Column("ticket_id", CleanText, nullable=False),
    Column("task", CleanText, nullable=False),
    Column("ticket_json", JSON, nullable=False),
    Column("decision_json", JSON, nullable=False),
    Column("questions_json", JSON, nullable=False),
    Column("reasons", JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("priority", Double, nullable=False),
    # Never NULL: comparisons with NULL are not true, which would hide the item for ever.
    Column("not_before", BigInteger, nullable=False, server_default=text("0")),
    Column("version", Integer, nullable=False, server_default=text("1")),
    Column("lease_owner", CleanText),
    Column("lease_token", CleanText),
    Column("lease_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("done_at", BigInteger),
    CheckConstraint("state IN ('open', 'leased', 'done')", name="state"),
    CheckConstraint(
        "(state = 'leased') = (lease_owner IS NOT NULL AND lease_token IS NOT NULL"
        " AND lease_until IS NOT NULL)",
        name="lease",
    ),
)
Index(
    "ix_item_claim",
    item_table.c.priority.desc(),
    item_table.c.created_at,
    item_table.c.id,
    sqlite_where=NOT_DONE,
)
Index("ix_item_lease", item_table.c.lease_owner, sqlite_where=LEASED)

verdict_table = Table(
    "verdict",
    metadata,
    Column("id", _Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("reviewer", CleanText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("values_json", JSON, nullable=False),
    Column("machine_json", JSON, nullable=False),
    Column("idem_key", CleanText, unique=True),
    Column("lease_token", CleanText, nullable=False),
    Column("submitted_at", BigInteger, nullable=False),
    Column("note", CleanText, nullable=False),
    CheckConstraint("kind IN ('correct', 'corrected')", name="kind"),
)
Index("ix_verdict_item_id", verdict_table.c.item_id)

event_table = Table(
    "event",
    metadata,
    Column("id", _Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("detail_json", JSON, nullable=False),
)
Index("ix_event_item_id", event_table.c.item_id)

capability_table = Table(
    "capabilities",
    metadata,
    Column("base_url", CleanText, primary_key=True),
    Column("model", CleanText, primary_key=True),
    Column("feature", CleanText, primary_key=True),
    Column("status", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("at_most", Double),
    Column("value", CleanText),
    Column("note", CleanText, nullable=False),
    Column("source", CleanText, nullable=False),
    Column("checked_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("server", CleanText, nullable=False),
)

# Sums, not single payments: a reservation is a plus that its settlement takes back.
spending_table = Table(
    "spending",
    metadata,
    # The name first: by it a row is found, and old tickets by their own index.
    Column("name", CleanText, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("day", Integer, primary_key=True),  # since 1970, in UTC
    Column("reserved_micro_usd", BigInteger, nullable=False),
    Column("spent_micro_usd", BigInteger, nullable=False),
    CheckConstraint("reserved_micro_usd >= 0 AND spent_micro_usd >= 0", name="amounts"),
)
Index("ix_spending_ticket", spending_table.c.day, sqlite_where=OF_TICKET)

cached_decision_table = Table(
    "cached_decision",
    metadata,
    Column("key", CleanText, primary_key=True),
    Column("record", CleanText, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
)
Index("ix_cached_decision_made_at", cached_decision_table.c.made_at)
Index("ix_cached_decision_used_at", cached_decision_table.c.used_at)

cooldown_table = Table(
    "cooldown",
    metadata,
    Column("identity", CleanText, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("began_at", BigInteger, nullable=False),
    Column("over_at", BigInteger, nullable=False),
    Column("mark", Text, nullable=False),
)
