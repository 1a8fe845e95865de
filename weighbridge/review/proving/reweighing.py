"""Reweighing: old audits under a new model, prompt or schema, so that proof need not begin anew.

What a person said of an audit, unaware of any machine's answer, is as true of the next machine's.
So once the present one has weighed the same tickets, the labels count for it too, unless it was
made from them: learning leaves audits out. Each such weighing is marked, is no traffic, and a
certificate that rests on some of them spends what earlier looks at the field have left.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, exists, select

from weighbridge.decision import Json, ReviewEntry, ReviewId
from weighbridge.review.items import State
from weighbridge.review.queue_reading import QueueReading
from weighbridge.review.queueing.intake import add_reweighed
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import calibration_key_table, decision_table, weighing_table
from weighbridge.store.dialect import now_us
from weighbridge.store.guarantee_tables import AUDITED
from weighbridge.store.queue_tables import item_table


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTicket:
    """A ticket whose audit is judged.

    Args:
        item_id: of the audit.
        ticket: as plain JSON values: id, subject, body, metadata.
    """

    item_id: ReviewId
    ticket: dict[str, Json] = field(repr=False)


class Reweighing(QueueReading):
    """Takes the place of the queue under a router that is given audited tickets once more.

    Nothing is put before a person. Every method waits for the database.

    Args:
        database: the instance closes it.
        task: name of the task.

    Attributes:
        num_kept: weighings that are new under their key.

    Raises:
        QueueUnavailable: from every method, when the database fails.
    """

    def __init__(self, database: Database, task: str) -> None:
        super().__init__(database)
        self._task = task
        self._items: dict[str, ReviewId] = {}
        self._lock = threading.Lock()
        self.num_kept = 0

    def tickets(self) -> list[AuditedTicket]:
        """All judged audits whose text is still there, in the order of judging.

        Of several with one ticket's id, the one that was judged last: the ticket had changed.
        """
        item = item_table.c
        statement = (
            select(item.id, item.ticket_json)
            .where(
                AUDITED,
                item.task == self._task,
                item.state == State.DONE,
                item.erased_at.is_(None),
            )
            .order_by(item.settled_no)
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        found = [AuditedTicket(item_id=ReviewId(row.id), ticket=row.ticket_json) for row in rows]
        self._items = {str(each.ticket["id"]): each.item_id for each in found}
        return [each for each in found if self._items[str(each.ticket["id"])] == each.item_id]

    def enqueue(self, entry: ReviewEntry, *, patience_s: float | None = None) -> ReviewId:
        """Keep how a ticket was weighed that a person would have had to see."""
        self._keep([entry], patience_s)
        return self._items[entry.decision.ticket_id]

    def record(self, entries: Sequence[ReviewEntry]) -> None:
        """Keep how tickets were weighed, each once under one key."""
        self._keep(entries, None)

    def _keep(self, entries: Sequence[ReviewEntry], patience_s: float | None) -> None:
        with self._lock, self._database.writing(patience_s=patience_s) as connection:
            now = now_us(connection)
            for entry in entries:
                item_id = self._items[entry.decision.ticket_id]
                if entry.weighings and not _is_known(connection, entry, item_id):
                    add_reweighed(connection, entry, now, item_id)
                    self.num_kept += 1


def _is_known(connection: Connection, entry: ReviewEntry, item_id: ReviewId) -> bool:
    """Whether the ticket was weighed under the same key before, live or again."""
    key = next(iter(entry.weighings.values())).key
    known = calibration_key_table.c
    same = [known[name] == getattr(key, name) for name in key.__slots__]
    joined = weighing_table.join(
        decision_table, decision_table.c.id == weighing_table.c.decision_id
    ).join(calibration_key_table, known.id == weighing_table.c.key_id)
    found = select(exists().select_from(joined).where(decision_table.c.item_id == item_id, *same))
    return bool(connection.scalar(found))
