"""A database full of audits, written row by row: as many verdicts by hand would take minutes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import func, insert, select

from weighbridge.decision import CalibrationKey
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import (
    calibration_key_table,
    decision_table,
    weighing_table,
)
from weighbridge.store.dialect import insert_or_keep, now_us
from weighbridge.store.queue_tables import event_table, item_table

Answer = tuple[float, bool | None]  # confidence, and whether it was right; None: not yet judged


def stock(
    database: Database,
    key: CalibrationKey,
    audits: Iterable[Answer],
    traffic: Sequence[float] = (),
    *,
    age_us: int = 0,
) -> None:
    """Add audits of a key, in the order of their judging, and answers that nobody looked at."""
    with database.writing() as connection:
        at = now_us(connection) - age_us
        table = calibration_key_table
        parts = {name: getattr(key, name) for name in key.__slots__}
        connection.execute(insert_or_keep(connection, table).values(parts))
        key_id = connection.scalar(
            select(table.c.id).where(*(table.c[name] == part for name, part in parts.items()))
        )
        first = (connection.scalar(select(func.max(decision_table.c.id))) or 0) + 1
        rows = [*((c, o, True) for c, o in audits), *((c, None, False) for c in traffic)]
        settled = (connection.scalar(select(func.max(item_table.c.settled_no))) or 0) + 1
        items, decisions, weighings = [], [], []
        for number, (confidence, is_right, is_audit) in enumerate(rows, start=first):
            if is_audit:
                items.append(_item(number, is_right, key.field, at, settled))
                settled += is_right is not None
            decisions.append(
                {
                    "id": number,
                    "ticket_id": f"t-{number}",
                    "task": "triage",
                    "status": "review" if is_audit else "accepted",
                    "reasons": "audit" if is_audit else "",
                    "provider": key.provider,
                    "model": key.model,
                    "seconds": 0.1,
                    "item_id": f"i-{number}" if is_audit else None,
                    "at": at,
                }
            )
            weighings.append(
                {
                    "decision_id": number,
                    "field": key.field,
                    "key_id": key_id,
                    "confidence": confidence,
                    "passed": confidence >= 0.8,
                    "value_label": "bug",
                }
            )
        for table_, values in (
            (item_table, items),
            (decision_table, decisions),
            (weighing_table, weighings),
        ):
            if values:
                connection.execute(insert(table_), values)


def cancel(database: Database, item_id: str, kind: str) -> None:
    """As a person does ("cancelled"), or the machine for a ticket that changed ("superseded")."""
    with database.writing() as connection:
        connection.execute(
            item_table.update()
            .where(item_table.c.id == item_id)
            .values(state="cancelled", settled_no=None, done_at=None, resolved_kind=None)
        )
        connection.execute(
            insert(event_table).values(
                id=10_000, item_id=item_id, at=0, actor="ann", kind=kind, detail_json={}
            )
        )


def _item(
    number: int, is_right: bool | None, field: str, at: int, settled: int
) -> dict[str, object]:
    is_done = is_right is not None
    return {
        "id": f"i-{number}",
        "dedupe_key": f"k-{number}",
        "ticket_id": f"t-{number}",
        "task": "triage",
        "state": "done" if is_done else "open",
        "reasons": "audit",
        "is_audit": True,
        "needed": 1,
        "round": 1,
        "uncertainty": 0.5,
        "sort_key": at,
        "group_key": "",
        "version": 1,
        "created_at": at,
        "done_at": at if is_done else None,
        "settled_no": settled if is_done else None,
        "resolved_kind": "answer" if is_done else None,
        "resolution_json": {field: "bug" if is_right else "billing"} if is_done else None,
        "ticket_json": {"id": f"t-{number}"},
        "decision_json": {},
        "questions_json": [],
    }
