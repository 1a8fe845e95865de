"""Claiming: who gets a slot, keeps it, and gives it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, select, update

from weighbridge.errors import ItemNotFound, LeaseLost, QueueError
from weighbridge.review.items import Item, SlotKind, SlotState, State
from weighbridge.review.queueing import statements
from weighbridge.review.queueing.history import record
from weighbridge.review.queueing.reading import locked, read, slots_of
from weighbridge.store import dialect
from weighbridge.store.queue_tables import item_table, skip_table, slot_table
from weighbridge.store.times import moment

_slot = slot_table.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """When a lease begins and ends, in microseconds since 1970."""

    now: int
    until: int


def claim_next(
    connection: Connection,
    reviewer: str,
    term: Term,
    new_token: Callable[[], str],
    *,
    may_adjudicate: bool,
) -> Item | None:
    """Prolong the lease that `reviewer` holds, or take the first free slot; None without any."""
    # On PostgreSQL, two claims of one person must not both find that they hold nothing.
    dialect.lock(connection, f"claims of {reviewer!r}")
    of_this: dict[str, Any] = {"reviewer": reviewer, "now": term.now, "until": term.until}
    slot = connection.execute(statements.renew_first(), of_this).one_or_none()
    if slot is None:
        statement = statements.claim(may_adjudicate=may_adjudicate)
        slot = connection.execute(statement, {**of_this, "token": new_token()}).one_or_none()
        if slot is None:
            return None
        _record_claim(connection, slot)
    return read(connection, slot.item_id, leased=slot)


def claim_item(
    connection: Connection,
    item_id: str,
    reviewer: str,
    term: Term,
    new_token: Callable[[], str],
    *,
    may_adjudicate: bool,
) -> Row[Any]:
    """Prolong the lease that `reviewer` holds on an item, or take a free slot of it.

    A lease that has ended is prolonged too, as long as nobody else took the slot. Neither skips nor
    assignments count here: the item is wanted by name.

    Returns:
        The slot.

    Raises:
        ItemNotFound: there is no such item.
        LeaseLost: there is no slot for this reviewer; the message says why.
    """
    dialect.lock(connection, f"claims of {reviewer!r}")
    item = locked(connection, item_id)
    slots_of(connection, item)
    in_round = and_(_slot.item_id == item.id, _slot.round == item.round)
    own = and_(in_round, _slot.owner == reviewer)
    held = connection.execute(
        update(slot_table)
        .where(own, _slot.state == SlotState.LEASED)
        .values(lease_until=term.until)
        .returning(slot_table)
    ).first()
    if held is not None:
        return held
    free = and_(in_round, statements.is_free(slot_table, term.now))
    may_have = connection.execute(
        select(_slot.id, _slot.kind).where(free).order_by(_slot.kind, _slot.id)
    ).all()
    has_judged = connection.scalar(select(_slot.id).where(own).limit(1)) is not None
    for slot in may_have:
        is_adjudication = slot.kind == SlotKind.ADJUDICATE
        # In a team of one, whoever was unsure comes back to it by name.
        if may_adjudicate if is_adjudication else not has_judged:
            taken = lease(connection, slot.id, reviewer, term, new_token)
            _record_claim(connection, taken)
            return taken
    if may_have and has_judged:
        raise LeaseLost(item.id, "you have judged it already in this round")
    if may_have:
        raise LeaseLost(item.id, "it waits for an adjudicator")
    raise refusal(connection, item.id, reviewer)


def lease(
    connection: Connection,
    slot_id: int,
    reviewer: str,
    term: Term,
    new_token: Callable[[], str],
) -> Row[Any]:
    """Lease a slot that is locked and may be had, under a new token."""
    parameters = {
        "slot_id": slot_id,
        "reviewer": reviewer,
        "token": new_token(),
        "now": term.now,
        "until": term.until,
    }
    return connection.execute(statements.claim_slot(), parameters).one()


def renew(connection: Connection, item_id: str, reviewer: str, token: str, until: int) -> Row[Any]:
    """Prolong a lease, also one that has ended while nobody else took the slot."""
    slot = connection.execute(
        update(slot_table)
        .where(_is_lease(item_id, reviewer, token))
        .values(lease_until=until)
        .returning(slot_table)
    ).one_or_none()
    if slot is None:
        raise refusal(connection, item_id, reviewer)
    return slot


def release(connection: Connection, item_id: str, reviewer: str, token: str, now: int) -> Row[Any]:
    """Give a slot back unjudged."""
    slot = _opened(connection, item_id, reviewer, token)
    record(connection, slot.item_id, now, reviewer, "released")
    return slot


def skip(
    connection: Connection, item_id: str, reviewer: str, token: str, reason: str, now: int
) -> Row[Any]:
    """Give a slot back unjudged, never to be offered it again unless they ask."""
    slot = _opened(connection, item_id, reviewer, token)
    connection.execute(update(slot_table).where(_slot.id == slot.id).values(skips=_slot.skips + 1))
    row = {"item_id": slot.item_id, "reviewer": reviewer, "at": now, "reason": reason}
    connection.execute(dialect.insert_or_replace(connection, skip_table).values(row))
    record(connection, slot.item_id, now, reviewer, "skipped", {"reason": reason})
    return slot


def unskip(connection: Connection, reviewer: str) -> int:
    """Let a reviewer be offered again what they skipped; returns how many items that are."""
    # The history keeps that they were skipped.
    return connection.execute(delete(skip_table).where(skip_table.c.reviewer == reviewer)).rowcount


def refusal(connection: Connection, item_id: str, reviewer: str) -> QueueError:
    """Why `reviewer` cannot have, or has no longer, a slot of the item of that id."""
    item = connection.execute(
        select(item_table.c.state, item_table.c.round).where(item_table.c.id == item_id)
    ).one_or_none()
    if item is None:
        return ItemNotFound(item_id)
    if item.state == State.DONE:
        return LeaseLost(item_id, "it is already done")
    if item.state == State.CANCELLED:
        return LeaseLost(item_id, "it was cancelled")
    held = connection.execute(
        select(slot_table)
        .where(
            _slot.item_id == item_id,
            _slot.round == item.round,
            _slot.state == SlotState.LEASED,
        )
        # Their own comes first: then it is the token that is wrong.
        .order_by(_slot.owner != reviewer, _slot.opened_at.desc())
        .limit(1)
    ).one_or_none()
    if held is None:
        return LeaseLost(item_id, "nobody has claimed it")
    if connection.scalar(select(_slot.id).where(_slot.id == held.id, _slot.owner == reviewer)):
        return LeaseLost(item_id, "the token is not that of the lease")
    since = f"{moment(held.opened_at):%Y-%m-%d %H:%M:%S} UTC"
    return LeaseLost(item_id, f"{held.owner!r} holds it since {since}")


def held(connection: Connection, item_id: str, reviewer: str, token: str) -> Row[Any]:
    """The slot of a lease, locked. When the lease ends plays no part.

    A slow reader does not lose the work for nothing: the slot is theirs until somebody takes it.
    """
    slot = connection.execute(
        select(slot_table)
        .where(_is_lease(item_id, reviewer, token))
        .with_for_update(key_share=True)
    ).one_or_none()
    if slot is None:
        raise refusal(connection, item_id, reviewer)
    return slot


def _opened(connection: Connection, item_id: str, reviewer: str, token: str) -> Row[Any]:
    slot = connection.execute(
        update(slot_table)
        .where(_is_lease(item_id, reviewer, token))
        .values(
            state=SlotState.OPEN, owner=None, lease_token=None, lease_until=None, opened_at=None
        )
        .returning(slot_table)
    ).one_or_none()
    if slot is None:
        raise refusal(connection, item_id, reviewer)
    return slot


def _is_lease(item_id: str, reviewer: str, token: str) -> ColumnElement[bool]:
    return and_(
        _slot.item_id == item_id,
        _slot.owner == reviewer,
        _slot.lease_token == token,
        _slot.state == SlotState.LEASED,
    )


def _record_claim(connection: Connection, slot: Row[Any]) -> None:
    detail = {"lease_until": slot.lease_until, "kind": slot.kind}
    record(connection, slot.item_id, slot.opened_at, slot.owner, "claimed", detail)
