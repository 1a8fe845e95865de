"""Intake: what the router hands over becomes rows, all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, exists, insert, select, update

from weighbridge.decision import CalibrationKey, Decision, Json, ReviewEntry, ReviewId, label
from weighbridge.review.items import SlotKind, SlotState, State
from weighbridge.review.queueing.hiding import Redact, hide_texts
from weighbridge.review.queueing.history import MACHINE, record
from weighbridge.review.queueing.ordering import sort_key, uncertainty
from weighbridge.review.queueing.rows import joined, question_json
from weighbridge.review.queueing.twins import group_key
from weighbridge.store import dialect
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)
from weighbridge.store.queue_tables import item_table, slot_table, verdict_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How items come in.

    Args:
        needed: how many people judge an item.
        audits_needed: how many judge one of the uniform sample.
        head_start_s: see `ordering`.
        redact: see `hiding`; None stores all texts as they are.
    """

    needed: int
    audits_needed: int
    head_start_s: float
    redact: Redact | None = None


def add_item(
    connection: Connection, entry: ReviewEntry, item_id: ReviewId, now: int, policy: Policy
) -> ReviewId:
    """Add item, slots, decision and history, unless an item with that dedupe key is or was there.

    An older item about the same ticket, judged by nobody, is cancelled: the ticket has changed.

    Returns:
        `item_id`, or the id of the item that was there first.
    """
    ticket = entry.decision.ticket_id, entry.decision.task
    dialect.lock(connection, f"ticket {ticket!r}")
    row = _item_row(entry, item_id, now, policy)
    # The key is named, so that a clash of ids is an error and not taken for a repetition.
    new = dialect.insert_or_keep(connection, item_table, [item_table.c.dedupe_key])
    if connection.scalar(new.values(row).returning(item_table.c.id)) is None:
        same = item_table.c.dedupe_key == entry.dedupe_key
        return ReviewId(connection.scalars(select(item_table.c.id).where(same)).one())
    add_slots(connection, row, SlotKind.REVIEW, row["needed"])
    _add_decisions(connection, [entry], now, item_id)
    record(connection, item_id, now, MACHINE, "enqueued")
    _cancel_older(connection, ticket, item_id, now)
    return item_id


def add_decisions(connection: Connection, entries: Sequence[ReviewEntry], now: int) -> None:
    """Add decisions that need no person."""
    _add_decisions(connection, entries, now, None)


def add_reweighed(connection: Connection, entry: ReviewEntry, now: int, item_id: ReviewId) -> None:
    """Add how an audit was weighed once more; see `reweighing`."""
    _add_decisions(connection, [entry], now, item_id, is_reweighed=True)


def add_slots(connection: Connection, item: Mapping[str, Any], kind: SlotKind, number: int) -> None:
    """Open places at an item, in its present round."""
    slot = {
        "item_id": item["id"],
        "round": item["round"],
        "kind": kind,
        "state": SlotState.OPEN,
        "sort_key": item["sort_key"],
        "not_before": 0,
        # It is kept for somebody who has judged it by the time it needs an adjudicator.
        "assignee": (item["assignee"] or "") if kind is SlotKind.REVIEW else "",
        "skips": 0,
    }
    connection.execute(insert(slot_table), [slot] * number)


def close_slots(
    connection: Connection, item_id: str, round_no: int, kind: SlotKind | None = None
) -> None:
    """Take away the places of one round at which nobody has judged."""
    slot = slot_table.c
    unjudged = slot.state.in_([SlotState.OPEN, SlotState.LEASED])
    wanted = [slot.item_id == item_id, slot.round == round_no, unjudged]
    connection.execute(
        update(slot_table)
        .where(*wanted, *([] if kind is None else [slot.kind == kind]))
        .values(
            state=SlotState.CANCELLED,
            owner=None,
            lease_token=None,
            lease_until=None,
            opened_at=None,
        )
    )


def _item_row(entry: ReviewEntry, item_id: ReviewId, now: int, policy: Policy) -> dict[str, Any]:
    ticket: dict[str, Json] = dict(entry.ticket)
    decision = replace(entry.decision, review_id=item_id).to_json()
    questions = [question_json(question) for question in entry.questions]
    if policy.redact is not None:
        ticket, decision, questions = hide_texts(ticket, decision, questions, policy.redact)
    doubt = uncertainty(entry.decision)
    return {
        "id": item_id,
        "dedupe_key": entry.dedupe_key,
        "ticket_id": entry.decision.ticket_id,
        "task": entry.decision.task,
        "state": State.OPEN,
        "reasons": joined(entry.decision.reasons),
        "is_audit": entry.is_audit,
        "needed": policy.audits_needed if entry.is_audit else policy.needed,
        "round": 1,
        "uncertainty": doubt,
        "sort_key": sort_key(now, doubt, None, head_start_s=policy.head_start_s),
        "group_key": group_key(entry.ticket),
        "assignee": None,
        "version": 1,
        "created_at": now,
        "ticket_json": ticket,
        "decision_json": decision,
        "questions_json": questions,
    }


def _add_decisions(
    connection: Connection,
    entries: Sequence[ReviewEntry],
    now: int,
    item_id: ReviewId | None,
    *,
    is_reweighed: bool = False,
) -> None:
    """Add decisions and how they were weighed, all of them in a few statements."""
    if not entries:
        return
    new = insert(decision_table).returning(decision_table.c.id, sort_by_parameter_order=True)
    rows = [
        _decision_row(entry, now, item_id) | {"is_reweighed": is_reweighed} for entry in entries
    ]
    numbers = connection.scalars(new, rows)
    key_ids: dict[CalibrationKey, int] = {}
    weighings = []
    for entry, number in zip(entries, numbers.all(), strict=True):
        for name, weighing in entry.weighings.items():
            if weighing.key not in key_ids:
                key_ids[weighing.key] = _key_id(connection, weighing.key)
            weighings.append(
                {
                    "decision_id": number,
                    "field": name,
                    "key_id": key_ids[weighing.key],
                    "confidence": weighing.confidence,
                    "passed": weighing.passed,
                    "value_label": _value_label(entry.decision, name),
                }
            )
    if weighings:
        connection.execute(insert(weighing_table), weighings)


def _decision_row(entry: ReviewEntry, now: int, item_id: ReviewId | None) -> dict[str, Any]:
    decision, toss = entry.decision, entry.toss
    costs = [attempt.cost_usd for attempt in decision.trail if attempt.cost_usd is not None]
    return {
        "ticket_id": decision.ticket_id,
        "task": decision.task,
        "status": decision.status,
        "reasons": joined(decision.reasons),
        "provider": decision.provider,
        "model": decision.model,
        "seconds": sum(attempt.seconds + attempt.waited_s for attempt in decision.trail),
        "cost_usd": sum(costs) if costs else None,
        "item_id": item_id,
        "audit_u": None if toss is None else toss.u,
        "audit_rate": None if toss is None else toss.rate,
        "at": now,
    }


def _key_id(connection: Connection, key: CalibrationKey) -> int:
    table = calibration_key_table
    parts = {
        column.name: getattr(key, column.name) for column in table.columns if column.name != "id"
    }
    same = [table.c[name] == part for name, part in parts.items()]
    found: int | None = connection.scalar(select(table.c.id).where(*same))
    if found is None:
        connection.execute(dialect.insert_or_keep(connection, table).values(parts))
        found = connection.execute(select(table.c.id).where(*same)).scalar_one()
    return found


def _value_label(decision: Decision, field: str) -> str:
    evidence = decision.fields.get(field)
    return label(None if evidence is None else evidence.value)


def _cancel_older(
    connection: Connection, ticket: tuple[str, str], item_id: ReviewId, now: int
) -> None:
    item = item_table.c
    older = connection.execute(
        select(item.id, item.round)
        .where(
            item.ticket_id == ticket[0],
            item.task == ticket[1],
            item.id != item_id,
            item.state == State.OPEN,
            ~exists().where(verdict_table.c.item_id == item.id),
        )
        .with_for_update(key_share=True)
    ).all()
    for row in older:
        connection.execute(
            update(item_table)
            .where(item.id == row.id)
            .values(state=State.CANCELLED, version=item.version + 1)
        )
        close_slots(connection, row.id, row.round)
        record(connection, row.id, now, MACHINE, "superseded", {"by": item_id})
