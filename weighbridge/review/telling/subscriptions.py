"""Telling: what happens to an item is written down for the webhooks that want to hear of it.

It is written in the transaction in which it happens, so neither is ever without the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from weighbridge.decision import Json
from weighbridge.store import dialect
from weighbridge.store.outbox_tables import outbox_table
from weighbridge.store.queue_tables import event_table, item_table
from weighbridge.store.times import moment

_outbox, _event = outbox_table.c, event_table.c


class EventKind(StrEnum):
    """What is told of an item."""

    ENQUEUED = "review.item.enqueued"  # it waits for a person
    SETTLED = "review.item.settled"  # people have answered
    REOPENED = "review.item.reopened"  # what they answered holds no longer, or is asked anew


# By the words of an item's history. A verdict that is taken back tells only what it unsettles.
_KINDS: Final = {
    "enqueued": EventKind.ENQUEUED,
    "settled": EventKind.SETTLED,
    "reopened": EventKind.REOPENED,
    "undone": EventKind.REOPENED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Who is told what.

    Args:
        target: name of the webhook.
        events: kinds that it wants.
        include_answer: whether it is told what people answered, and not only which item.
    """

    target: str
    events: frozenset[EventKind] = frozenset(EventKind)
    include_answer: bool = False


def tell(
    connection: Connection, item_id: str, subscriptions: Iterable[Subscription], now: int
) -> None:
    """Write down for the subscribers what has just happened to an item; harmless when repeated.

    Args:
        connection: of the transaction in which it happened.
        item_id: of the item.
        subscriptions: of all webhooks.
        now: microseconds since 1970.
    """
    subscriptions = list(subscriptions)
    if not subscriptions:
        return
    latest = connection.execute(
        select(_event.id, _event.kind, _event.at)
        .where(_event.item_id == item_id, _event.kind.in_(_KINDS))
        .order_by(_event.id.desc())
        .limit(2)
    ).all()
    if not latest or (latest[0].kind == "undone" and [e.kind for e in latest[1:]] != ["settled"]):
        return  # a verdict was taken back that had settled nothing yet
    kind = _KINDS[latest[0].kind]
    item = connection.execute(select(item_table).where(item_table.c.id == item_id)).one()
    rows = [
        {
            "event_id": f"evt_{latest[0].id}",
            "target": each.target,
            "kind": kind,
            "item_id": item_id,
            "payload_json": _payload(item, kind, latest[0].at, each),
            "created_at": now,
            "attempts": 0,
            "next_at": 0,
            "lease_until": 0,
            "last_error": "",
        }
        for each in subscriptions
        if kind in each.events
    ]
    if rows:
        key = [_outbox.event_id, _outbox.target]
        connection.execute(dialect.insert_or_keep(connection, outbox_table, key), rows)


def _payload(item: Row[Any], kind: EventKind, at: int, to: Subscription) -> dict[str, Json]:
    """Ids alone, unless the subscriber is to know the answer."""
    data: dict[str, Json] = {"item_id": item.id, "ticket_id": item.ticket_id, "task": item.task}
    if to.include_answer and kind is EventKind.SETTLED:
        data |= {"resolved_kind": item.resolved_kind, "answer": item.resolution_json}
    return {"type": kind.value, "timestamp": moment(at).isoformat(), "data": data}
