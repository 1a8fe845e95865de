"""Slots, rounds and verdicts of several people, and the records of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from weighbridge.store.migrations.carried_over import (
    drop_copies,
    fill_back,
    fill_forward,
    set_aside,
)

revision = "0005"
down_revision = "0004"

_BEFORE = ("event", "verdict", "item")  # children first
_UNSETTLED = sa.text("state IN ('open', 'needs_adjudication')")
_KEY = ("provider", "model", "prompt", "schema", "field", "source")
_OPEN, _LEASED = sa.text("state = 'open'"), sa.text("state = 'leased'")


def upgrade() -> None:
    """Give each item one slot, and keep its verdicts and its history.

    Nobody knows which old items resemble each other.
    """
    set_aside(_BEFORE)
    _create_items()
    _create_slots()
    _create_verdicts()
    _create_events()
    _create_decisions()
    fill_forward()
    drop_copies(_BEFORE)


def downgrade() -> None:
    """Return to one verdict an item, as far as the old form can say it.

    Slots, skips, rounds and records of decisions go. Verdicts of kinds that the old form does not
    know go too, and so do those that were taken back. An item that waits for an adjudicator is
    open again; one that was cancelled counts as done.
    """
    after = ("weighing", "calibration_key", "decision", "skip", "event", "verdict", "slot", "item")
    set_aside(after)
    _create_old()
    fill_back()
    drop_copies(after)


def _create_items() -> None:
    op.create_table(
        "item",
        *_columns(sa.Text(), "id", "dedupe_key", "ticket_id", "task", "state", "reasons"),
        sa.Column("is_audit", sa.Boolean(), nullable=False),
        *_columns(sa.Integer(), "needed", "round"),
        sa.Column("uncertainty", sa.Double(), nullable=False),
        sa.Column("due_at", sa.BigInteger()),
        sa.Column("sort_key", sa.BigInteger(), nullable=False),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("assignee", sa.Text()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger()),
        sa.Column("settled_no", sa.BigInteger()),
        sa.Column("resolved_kind", sa.Text()),
        sa.Column("resolution_json", sa.JSON()),
        sa.Column("erased_at", sa.BigInteger()),
        *_columns(sa.JSON(), "ticket_json", "decision_json", "questions_json"),
        sa.CheckConstraint(
            "state IN ('open', 'needs_adjudication', 'done', 'cancelled')",
            name=op.f("ck_item_state"),
        ),
        sa.CheckConstraint(
            "(state = 'done') = (done_at IS NOT NULL AND settled_no IS NOT NULL"
            " AND resolved_kind IS NOT NULL)",
            name=op.f("ck_item_done"),
        ),
        sa.CheckConstraint(
            "resolved_kind IN ('answer', 'unclassifiable', 'unsure')", name=op.f("ck_item_kind")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_item")),
        sa.UniqueConstraint("dedupe_key", name=op.f("uq_item_dedupe_key")),
    )
    op.create_index("ix_item_ticket", "item", ["ticket_id", "task"])
    op.create_index("ix_item_created_at", "item", ["created_at", "id"])
    op.create_index("ix_item_counts", "item", ["state", "reasons"])
    op.create_index("ix_item_settled", "item", ["settled_no"])
    op.create_index("ix_item_done_at", "item", ["done_at"])
    _create_partial("ix_item_waiting", "item", ["sort_key", "id"], _UNSETTLED)
    _create_partial("ix_item_oldest", "item", ["created_at"], _UNSETTLED)
    _create_partial("ix_item_group", "item", ["group_key"], _UNSETTLED)


def _create_slots() -> None:
    op.create_table(
        "slot",
        sa.Column("id", _counter(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        *_columns(sa.Text(), "kind", "state"),
        sa.Column("owner", sa.Text()),
        sa.Column("lease_token", sa.Text()),
        sa.Column("lease_until", sa.BigInteger()),
        sa.Column("opened_at", sa.BigInteger()),
        *_columns(sa.BigInteger(), "sort_key", "not_before"),
        sa.Column("assignee", sa.Text(), nullable=False),
        sa.Column("skips", sa.Integer(), nullable=False),
        sa.CheckConstraint("kind IN ('review', 'adjudicate')", name=op.f("ck_slot_kind")),
        sa.CheckConstraint(
            "state IN ('open', 'leased', 'done', 'cancelled')", name=op.f("ck_slot_state")
        ),
        sa.CheckConstraint(
            "(state IN ('leased', 'done')) = (owner IS NOT NULL)", name=op.f("ck_slot_owner")
        ),
        sa.CheckConstraint(
            "(state = 'leased') = (lease_token IS NOT NULL AND lease_until IS NOT NULL"
            " AND opened_at IS NOT NULL)",
            name=op.f("ck_slot_lease"),
        ),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_slot_item_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slot")),
    )
    op.create_index("ux_slot_owner", "slot", ["item_id", "round", "owner", "kind"], unique=True)
    _create_partial("ix_slot_open", "slot", ["kind", "assignee", "sort_key", "id"], _OPEN)
    _create_partial("ix_slot_leased", "slot", ["lease_until", "id"], _LEASED)
    _create_partial("ix_slot_held", "slot", ["owner"], _LEASED)
    op.create_table(
        "skip",
        *_columns(sa.Text(), "item_id", "reviewer"),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_skip_item_id")),
        sa.PrimaryKeyConstraint("item_id", "reviewer", name=op.f("pk_skip")),
    )


def _create_verdicts() -> None:
    op.create_table(
        "verdict",
        sa.Column("id", _counter(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("slot_id", _counter(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        *_columns(sa.Text(), "reviewer", "kind"),
        *_columns(sa.JSON(), "values_json", "machine_json"),
        *_columns(sa.Boolean(), "was_shown", "is_adjudication"),
        sa.Column("idem_key", sa.Text()),
        sa.Column("lease_token", sa.Text(), nullable=False),
        *_columns(sa.BigInteger(), "opened_at", "submitted_at"),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("supersedes", _counter()),
        sa.CheckConstraint(
            "kind IN ('correct', 'corrected', 'unsure', 'unclassifiable', 'undo')",
            name=op.f("ck_verdict_kind"),
        ),
        sa.CheckConstraint(
            "(kind = 'undo') = (supersedes IS NOT NULL)", name=op.f("ck_verdict_undo")
        ),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_verdict_item_id")),
        sa.ForeignKeyConstraint(["slot_id"], ["slot.id"], name=op.f("fk_verdict_slot_id")),
        sa.ForeignKeyConstraint(["supersedes"], ["verdict.id"], name=op.f("fk_verdict_supersedes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint("idem_key", name=op.f("uq_verdict_idem_key")),
        sa.UniqueConstraint("supersedes", name=op.f("uq_verdict_supersedes")),
    )
    op.create_index("ix_verdict_item_id", "verdict", ["item_id"])
    op.create_index("ix_verdict_reviewer", "verdict", ["reviewer", "id"])
    op.create_index("ix_verdict_kind", "verdict", ["kind"])


def _create_events() -> None:
    op.create_table(
        "event",
        sa.Column("id", _counter(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        *_columns(sa.Text(), "actor", "kind"),
        sa.Column("detail_json", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_event_item_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
    )
    op.create_index("ix_event_item_id", "event", ["item_id"])


def _create_decisions() -> None:
    op.create_table(
        "decision",
        sa.Column("id", _counter(), nullable=False),
        *_columns(sa.Text(), "ticket_id", "task", "status", "reasons"),
        sa.Column("provider", sa.Text()),
        sa.Column("model", sa.Text()),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("cost_usd", sa.Double()),
        sa.Column("item_id", sa.Text()),
        sa.Column("audit_u", sa.Double()),
        sa.Column("audit_rate", sa.Double()),
        sa.Column("is_reweighed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["item.id"], name=op.f("fk_decision_item_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
    )
    op.create_index("ix_decision_item_id", "decision", ["item_id"])
    op.create_index("ix_decision_at", "decision", ["at"])
    op.create_table(
        "calibration_key",
        sa.Column("id", _counter(), nullable=False),
        *_columns(sa.Text(), *_KEY),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibration_key")),
        sa.UniqueConstraint(*_KEY, name=op.f("uq_calibration_key_provider")),
    )
    op.create_table(
        "weighing",
        sa.Column("decision_id", _counter(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("key_id", _counter(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("value_label", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["decision_id"], ["decision.id"], name=op.f("fk_weighing_decision_id")
        ),
        sa.ForeignKeyConstraint(
            ["key_id"], ["calibration_key.id"], name=op.f("fk_weighing_key_id")
        ),
        sa.PrimaryKeyConstraint("decision_id", "field", name=op.f("pk_weighing")),
    )
    op.create_index("ix_weighing_key_id", "weighing", ["key_id", "confidence"])


def _create_old() -> None:
    op.create_table(
        "item",
        *_columns(sa.Text(), "id", "dedupe_key", "ticket_id", "task"),
        *_columns(sa.JSON(), "ticket_json", "decision_json", "questions_json", "reasons"),
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
    not_done = sa.text("state <> 'done'")
    _create_partial(
        "ix_item_claim", "item", [sa.text("priority DESC"), "created_at", "id"], not_done
    )
    _create_partial("ix_item_lease", "item", ["lease_owner"], _LEASED)
    op.create_table(
        "verdict",
        sa.Column("id", _counter(), nullable=False),
        *_columns(sa.Text(), "item_id", "reviewer", "kind"),
        *_columns(sa.JSON(), "values_json", "machine_json"),
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
    _create_events()


def _create_partial(
    name: str, table: str, columns: Sequence[str | sa.TextClause], where: sa.TextClause
) -> None:
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def _columns(kind: sa.types.TypeEngine[Any], *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _counter() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
