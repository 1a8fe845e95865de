"""Judging: verdicts are stored, taken back, and settle an item when the round is complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, exists, insert, select, update

from weighbridge.decision import Json
from weighbridge.errors import ChangeRefused, VerdictInvalid
from weighbridge.review.items import Item, Kind, Said, SlotKind, SlotState, State
from weighbridge.review.queueing.claiming import Term, claim_item, held, lease
from weighbridge.review.queueing.history import record, record_settled
from weighbridge.review.queueing.intake import add_slots, close_slots
from weighbridge.review.queueing.outcomes import Opinion, Outcome, adjudicated, agreed
from weighbridge.review.queueing.reading import locked, read, slots_of
from weighbridge.review.queueing.rows import item_from
from weighbridge.review.queueing.verdicts import judge
from weighbridge.store.queue_tables import item_table, slot_table, verdict_table

_item, _slot, _verdict = item_table.c, slot_table.c, verdict_table.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person says about an item.

    Args:
        said: whether it is an answer at all.
        values: by field; not looked at unless it is an answer.
        note: free text for colleagues.
        was_shown: whether they saw the machine's answer; None: as the item's blindness demands.
        idem_key: names this verdict, so that it is stored once however often it is sent.
    """

    said: Said = "answer"
    values: Mapping[str, Json] = field(repr=False)
    note: str = field(default="", repr=False)
    was_shown: bool | None = None
    idem_key: str | None = None


def answer(
    connection: Connection, item_id: str, reviewer: str, token: str, given: Answer, now: int
) -> Item:
    """Store a verdict and close its slot; settle the item if that was the last one needed."""
    item = locked(connection, item_id)
    if is_replay(connection, item.id, reviewer, given.idem_key):
        return read(connection, item.id)
    slot = held(connection, item.id, reviewer, token)
    seen = item_from(item, (), ())
    kind, values = _judged(seen, given)
    connection.execute(
        insert(verdict_table).values(
            **_verdict_row(slot, reviewer, now),
            kind=kind,
            values_json=values,
            machine_json={question.field: question.machine for question in seen.questions},
            was_shown=not seen.is_blind if given.was_shown is None else given.was_shown,
            idem_key=given.idem_key,
            lease_token=token,
            opened_at=slot.opened_at,
            note=given.note,
        )
    )
    connection.execute(
        update(slot_table)
        .where(_slot.id == slot.id)
        .values(state=SlotState.DONE, lease_token=None, lease_until=None, opened_at=None)
    )
    record(connection, item.id, now, reviewer, "answered", {"kind": _told(seen, kind)})
    _settle(connection, item, slot, reviewer, now)
    return read(connection, item.id)


def answer_by_name(
    connection: Connection,
    item_id: str,
    reviewer: str,
    given: Answer,
    term: Term,
    new_token: Callable[[], str],
) -> Item:
    """Claim an item, and answer it at once.

    Raises:
        ChangeRefused: it is judged blind, and whoever answers many looks at none of them alone.
    """
    item = locked(connection, item_id)
    if is_replay(connection, item.id, reviewer, given.idem_key):
        return read(connection, item.id)
    if item_from(item, (), ()).is_blind:
        raise ChangeRefused(item.id, "it is judged blind, and so never together with others")
    slot = claim_item(connection, item.id, reviewer, term, new_token, may_adjudicate=False)
    return answer(connection, item.id, reviewer, slot.lease_token, given, term.now)


def undo(
    connection: Connection,
    item_id: str,
    reviewer: str,
    term: Term,
    new_token: Callable[[], str],
    idem_key: str | None,
) -> Item:
    """Take the last verdict of `reviewer` in the present round back, and lease its slot to them."""
    item = locked(connection, item_id)
    if is_replay(connection, item.id, reviewer, idem_key, is_undo=True):
        return read(connection, item.id, leased=_held_by(connection, item, reviewer))
    slots_of(connection, item)
    last = _undoable(connection, item, reviewer)
    slot = lease(connection, last.slot_id, reviewer, term, new_token)
    connection.execute(
        insert(verdict_table).values(
            **_verdict_row(slot, reviewer, term.now),
            kind="undo",
            values_json={},
            machine_json=last.machine_json,
            was_shown=last.was_shown,
            idem_key=idem_key,
            lease_token=slot.lease_token,
            opened_at=term.now,
            note="",
            supersedes=last.id,
        )
    )
    if last.is_adjudication:
        _change(connection, item, state=State.NEEDS_ADJUDICATION)
    else:
        close_slots(connection, item.id, item.round, SlotKind.ADJUDICATE)
        _change(connection, item, state=State.OPEN)
    told = _told(item_from(item, (), ()), last.kind)
    record(connection, item.id, term.now, reviewer, "undone", {"kind": told})
    return read(connection, item.id, leased=slot)


def is_replay(
    connection: Connection,
    item_id: str,
    reviewer: str,
    idem_key: str | None,
    *,
    is_undo: bool = False,
) -> bool:
    """Whether this very call is stored under that key already; the item is locked.

    Raises:
        VerdictInvalid: the key belongs to something else: silence would lose this verdict.
    """
    if idem_key is None:
        return False
    used_for = connection.execute(
        select(_verdict.item_id, _verdict.reviewer, _verdict.kind).where(
            _verdict.idem_key == idem_key
        )
    ).one_or_none()
    if used_for is None:
        return False
    if used_for.item_id != item_id:
        problem = "this key belongs to the verdict on another item"
    elif used_for.reviewer != reviewer:
        problem = "this key belongs to the verdict of somebody else"
    elif (used_for.kind == "undo") != is_undo:
        problem = "this key belongs to an answer" if is_undo else "this key belongs to an undo"
    else:
        return True
    raise VerdictInvalid(item_id, "idem_key", problem, "Give every call a key of its own.")


def _undoable(connection: Connection, item: Row[Any], reviewer: str) -> Row[Any]:
    """The last verdict of `reviewer` in the present round, if it may be taken back."""
    last = connection.execute(
        _standing(item).where(_verdict.reviewer == reviewer).order_by(_verdict.id.desc()).limit(1)
    ).one_or_none()
    if last is None:
        raise ChangeRefused(item.id, "you have no verdict in this round to take back")
    if item.state == State.CANCELLED:
        raise ChangeRefused(item.id, "it was cancelled")
    if item.erased_at is not None:
        raise ChangeRefused(item.id, "its text was erased, so nobody can judge it anew")
    if not last.is_adjudication and connection.scalar(
        _standing(item).where(_verdict.is_adjudication).with_only_columns(_verdict.id)
    ):
        raise ChangeRefused(item.id, "an adjudicator has judged since")
    return last


def _judged(item: Item, given: Answer) -> tuple[Kind, dict[str, Json]]:
    if given.said != "answer":
        return given.said, {}
    values = dict(given.values)
    return judge(item.id, item.questions, values), values


def _told(item: Item, kind: str) -> str:
    """What the history tells of a verdict: of a blind one not whether it is the machine's."""
    return "answer" if item.is_blind and kind in ("correct", "corrected") else kind


def _settle(
    connection: Connection, item: Row[Any], slot: Row[Any], reviewer: str, now: int
) -> None:
    """Look at what the round has come to, after a verdict in `slot`."""
    said = connection.execute(_standing(item)).all()
    if slot.kind == SlotKind.ADJUDICATE:
        final = next(verdict for verdict in said if verdict.slot_id == slot.id)
        _close(connection, item, adjudicated(_opinion(final)), reviewer, now)
        return
    states = [found.state for found in slots_of(connection, item)]
    if SlotState.OPEN in states or SlotState.LEASED in states:
        return
    outcome = agreed([_opinion(verdict) for verdict in said])
    if outcome is not None:
        _close(connection, item, outcome, reviewer, now)
        return
    add_slots(connection, dict(item._mapping), SlotKind.ADJUDICATE, 1)
    _change(connection, item, state=State.NEEDS_ADJUDICATION)
    record(connection, item.id, now, reviewer, "disputed")


def _close(
    connection: Connection, item: Row[Any], outcome: Outcome, reviewer: str, now: int
) -> None:
    number = record_settled(connection, item.id, now, reviewer, outcome.kind)
    values = None if outcome.values is None else dict(outcome.values)
    _change(
        connection,
        item,
        state=State.DONE,
        done_at=now,
        settled_no=number,
        resolved_kind=outcome.kind,
        resolution_json=values,
    )


def _change(connection: Connection, item: Row[Any], **values: Any) -> None:
    unsettled = dict.fromkeys(("done_at", "settled_no", "resolved_kind", "resolution_json"))
    changed = {**unsettled, "version": _item.version + 1, **values}
    connection.execute(update(item_table).where(_item.id == item.id).values(changed))


def _standing(item: Row[Any]) -> Any:
    """The verdicts of the present round that nobody took back."""
    undo_row = verdict_table.alias("taken_back")
    return select(verdict_table).where(
        _verdict.item_id == item.id,
        _verdict.round == item.round,
        _verdict.kind != "undo",
        ~exists().where(undo_row.c.supersedes == _verdict.id),
    )


def _held_by(connection: Connection, item: Row[Any], reviewer: str) -> Row[Any] | None:
    return connection.execute(
        select(slot_table).where(
            _slot.item_id == item.id,
            _slot.round == item.round,
            _slot.owner == reviewer,
            _slot.state == SlotState.LEASED,
        )
    ).first()


def _verdict_row(slot: Row[Any], reviewer: str, now: int) -> dict[str, Any]:
    return {
        "item_id": slot.item_id,
        "slot_id": slot.id,
        "round": slot.round,
        "reviewer": reviewer,
        "is_adjudication": slot.kind == SlotKind.ADJUDICATE,
        "submitted_at": now,
    }


def _opinion(row: Row[Any]) -> Opinion:
    return Opinion(kind=row.kind, values=row.values_json)
