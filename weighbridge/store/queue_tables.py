"""The tables of the review queue as SQLAlchemy Core sees them; `migrations` creates exactly these.

An item is what a person must look at; a slot is one person's place at it, and the unit that is
claimed. A slot carries copies of all that a claim filters and orders by. Verdicts and events are
only ever added. Times are integers: microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from weighbridge.store.columns import CleanText, Counter, metadata

# A partial index is used only for a query that repeats its condition in the same words.
UNSETTLED: Final = text("state IN ('open', 'needs_adjudication')")
OPEN: Final = text("state = 'open'")
LEASED: Final = text("state = 'leased'")
LATER: Final = text("state = 'open' AND not_before > 0")

item_table = Table(
    "item",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("dedupe_key", CleanText, nullable=False, unique=True),
    Column("ticket_id", CleanText, nullable=False),
    Column("task", CleanText, nullable=False),
    Column("state", Text, nullable=False),
    Column("reasons", Text, nullable=False),  # joined by commas
    Column("is_audit", Boolean, nullable=False),
    Column("needed", Integer, nullable=False),  # people in the present round
    Column("round", Integer, nullable=False),  # 1, and one more with each reopening
    Column("uncertainty", Double, nullable=False),
    Column("due_at", BigInteger),
    Column("sort_key", BigInteger, nullable=False),
    Column("group_key", Text, nullable=False),  # "" if nobody knows what it resembles
    Column("assignee", CleanText),
    Column("version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("done_at", BigInteger),
    Column("settled_no", BigInteger),  # the id of the event "settled"; grows with each settling
    Column("resolved_kind", Text),
    Column("resolution_json", JSON(none_as_null=True)),
    Column("erased_at", BigInteger),
    Column("ticket_json", JSON, nullable=False),
    Column("decision_json", JSON, nullable=False),
    Column("questions_json", JSON, nullable=False),
    CheckConstraint("state IN ('open', 'needs_adjudication', 'done', 'cancelled')", name="state"),
    CheckConstraint(
        "(state = 'done') = (done_at IS NOT NULL AND settled_no IS NOT NULL"
        " AND resolved_kind IS NOT NULL)",
        name="done",
    ),
    CheckConstraint("resolved_kind IN ('answer', 'unclassifiable', 'unsure')", name="kind"),
)
_item = item_table.c
# PostgreSQL takes no more than 2.7 kB into a tree, and whoever sent the ticket chose its id.
Index("ix_item_ticket", _item.ticket_id, postgresql_using="hash")
Index("ix_item_created_at", _item.created_at, _item.id)
Index("ix_item_counts", _item.state, _item.reasons)
Index("ix_item_settled", _item.settled_no)
Index("ix_item_done_at", _item.done_at)
Index(
    "ix_item_waiting",
    _item.sort_key,
    _item.id,
    sqlite_where=UNSETTLED,
    postgresql_where=UNSETTLED,
)
Index("ix_item_state", _item.state, _item.created_at, _item.id)
Index(
    "ix_item_oldest",
    _item.created_at,
    sqlite_where=UNSETTLED,
    postgresql_where=UNSETTLED,
)
Index(
    "ix_item_group",
    _item.group_key,
    sqlite_where=UNSETTLED,
    postgresql_where=UNSETTLED,
)

slot_table = Table(
    "slot",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", CleanText),  # who holds it, or judged in it
    Column("lease_token", CleanText),
    Column("lease_until", BigInteger),
    Column("opened_at", BigInteger),  # when it was leased
    Column("sort_key", BigInteger, nullable=False),
    # Never NULL: comparisons with NULL are not true, which would hide the slot for ever.
    Column("not_before", BigInteger, nullable=False),
    Column("assignee", CleanText, nullable=False),  # "": anybody
    Column("skips", Integer, nullable=False),
    CheckConstraint("kind IN ('review', 'adjudicate')", name="kind"),
    CheckConstraint("state IN ('open', 'leased', 'done', 'cancelled')", name="state"),
    CheckConstraint("(state IN ('leased', 'done')) = (owner IS NOT NULL)", name="owner"),
    CheckConstraint(
        "(state = 'leased') = (lease_token IS NOT NULL AND lease_until IS NOT NULL"
        " AND opened_at IS NOT NULL)",
        name="lease",
    ),
)
_slot = slot_table.c
# Nobody judges one item twice in a round, except who adjudicates what they have judged themselves.
Index("ux_slot_owner", _slot.item_id, _slot.round, _slot.owner, _slot.kind, unique=True)
Index(
    "ix_slot_open",
    _slot.kind,
    _slot.assignee,
    _slot.sort_key,
    _slot.id,
    sqlite_where=OPEN,
    postgresql_where=OPEN,
)
Index("ix_slot_later", _slot.not_before, sqlite_where=LATER, postgresql_where=LATER)
Index("ix_slot_leased", _slot.lease_until, _slot.id, sqlite_where=LEASED, postgresql_where=LEASED)
Index("ix_slot_held", _slot.owner, sqlite_where=LEASED, postgresql_where=LEASED)

verdict_table = Table(
    "verdict",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("slot_id", Counter, ForeignKey("slot.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("reviewer", CleanText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("values_json", JSON, nullable=False),
    Column("machine_json", JSON, nullable=False),
    Column("was_shown", Boolean, nullable=False),  # what the machine said, before it was judged
    Column("is_adjudication", Boolean, nullable=False),
    Column("idem_key", CleanText, unique=True),
    Column("lease_token", CleanText, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("submitted_at", BigInteger, nullable=False),
    Column("note", CleanText, nullable=False),
    Column("supersedes", Counter, ForeignKey("verdict.id"), unique=True),
    CheckConstraint(
        "kind IN ('correct', 'corrected', 'unsure', 'unclassifiable', 'undo')", name="kind"
    ),
    CheckConstraint("(kind = 'undo') = (supersedes IS NOT NULL)", name="undo"),
)
Index("ix_verdict_item_id", verdict_table.c.item_id)
Index("ix_verdict_reviewer", verdict_table.c.reviewer, verdict_table.c.id)
Index("ix_verdict_kind", verdict_table.c.kind)

event_table = Table(
    "event",
    metadata,
    Column("id", Counter, primary_key=True),
    Column("item_id", CleanText, ForeignKey("item.id"), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", CleanText, nullable=False),
    Column("kind", Text, nullable=False),
    Column("detail_json", JSON, nullable=False),
)
Index("ix_event_item_id", event_table.c.item_id)

skip_table = Table(
    "skip",
    metadata,
    Column("item_id", CleanText, ForeignKey("item.id"), primary_key=True),
    Column("reviewer", CleanText, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("reason", CleanText, nullable=False),
)
