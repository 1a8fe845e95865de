"""ReviewQueue: entries go in once, people judge them one at a time, and nothing is lost."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from sqlalchemy import Connection

from weighbridge.decision import Json, ReviewEntry, ReviewId
from weighbridge.errors import QueueError, QueueUnavailable
from weighbridge.review.items import Item, Said
from weighbridge.review.overviews import BulkResult
from weighbridge.review.queue_reading import QueueReading
from weighbridge.review.queueing import changing, claiming, intake, judging
from weighbridge.review.queueing.claiming import Term
from weighbridge.review.queueing.ids import time_ordered_id
from weighbridge.review.queueing.judging import Answer
from weighbridge.review.queueing.names import check_name, kept_key
from weighbridge.review.queueing.ordering import HEAD_STARTS_S
from weighbridge.review.queueing.reading import read
from weighbridge.review.queueing.statements import MAX_LEASE_US
from weighbridge.review.telling.subscriptions import Subscription, tell
from weighbridge.store.database import Database
from weighbridge.store.dialect import now_us
from weighbridge.store.times import microseconds

LEASE_S: Final = 600.0


class ReviewQueue(QueueReading):
    """The queue over one database; safe to use from many threads and processes at once.

    An item is judged by as many people as it needs, each in a slot of their own. If they agree it
    is settled; if they differ or one of them is unsure, an adjudicator has the last word. Verdicts
    and history are only ever added to.

    Every method is one transaction, except where it says otherwise, and may wait for the database,
    so an event loop should call it in a thread. Any of them raises `QueueUnavailable` when the
    database fails, those that take an item's id raise `ItemNotFound` if there is no such item, and
    those that write somebody's name down raise `PersonRefused` if it is empty or overlong.

    Args:
        database: the queue closes it.
        clock: seconds since 1970; by default the clock that all users of the database share.
        new_id: of an item; by default `ids.time_ordered_id` of the clock.
        new_token: proves a lease; must not be guessable.
        needed: how many people judge an item.
        audits_needed: how many judge one of the uniform sample of all tickets.
        head_start_s: what full uncertainty is worth in age; see `ordering`.
        redact: applied to all text of a ticket before it is stored; see `hiding`.
        subscriptions: who is told of what happens; see `telling`.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] | None = None,
        new_id: Callable[[], str] | None = None,
        new_token: Callable[[], str] = secrets.token_urlsafe,
        needed: int = 1,
        audits_needed: int = 1,
        head_start_s: float = HEAD_STARTS_S["fair"],
        redact: Callable[[str], str] | None = None,
        subscriptions: Sequence[Subscription] = (),
    ) -> None:
        if needed < 1 or audits_needed < 1:
            raise ValueError("an item needs at least one person")
        super().__init__(database, clock=clock)
        self._new_id, self._new_token = new_id, new_token
        self._subscriptions = tuple(subscriptions)
        self._policy = intake.Policy(
            needed=needed, audits_needed=audits_needed, head_start_s=head_start_s, redact=redact
        )

    def enqueue(self, entry: ReviewEntry, *, patience_s: float | None = None) -> ReviewId:
        """Put an entry into the queue, unless one with its dedupe key is or was there.

        An older item about the same ticket that nobody has judged yet is cancelled: the ticket has
        changed since.

        Args:
            entry: what a person must judge.
            patience_s: how long to wait for others to let go of the database; see
                `Database.writing`.

        Returns:
            The id of the new item, or of the one that was there first.

        Raises:
            QueueUnavailable: with the entry's decision in it.
        """
        try:
            with self._writing(patience_s=patience_s) as (connection, now):
                new = self._new_id() if self._new_id else time_ordered_id(now)
                item_id = intake.add_item(connection, entry, ReviewId(new), now, self._policy)
                tell(connection, item_id, self._subscriptions, now)
                return item_id
        except QueueUnavailable as error:
            raise QueueUnavailable(error.database, error.problem, entry.decision) from None

    def record(self, entries: Sequence[ReviewEntry]) -> None:
        """Keep what was decided without a person, for statistics; no ticket text is kept."""
        with self._writing() as (connection, now):
            intake.add_decisions(connection, entries, now)

    def claim(
        self,
        reviewer: str,
        *,
        lease_s: float = LEASE_S,
        item_id: str | None = None,
        may_adjudicate: bool = False,
    ) -> Item | None:
        """Lease the next item to `reviewer`, or the one that is named.

        Whoever holds a lease gets it prolonged, with the same token: without `item_id` that item
        comes again before any other, so that a person who starts over leaves none behind. Then
        come leases that ended, the longest ago first, then what is kept for this reviewer, then
        what is for anybody, in the order of work. Nobody is offered what they skipped, what is kept
        for somebody else, or an item that they have judged in this round; by name they get the
        first two, and may adjudicate what they have judged.

        Args:
            reviewer: who.
            lease_s: at most a day.
            item_id: wanted by name.
            may_adjudicate: whether they may settle what others disagree on.

        Returns:
            The item with its `lease`; None if nothing is offered, and `why_empty` says why.

        Raises:
            LeaseLost: the named item cannot be had; the message says why.
        """
        check_name(reviewer)
        with self._writing(is_fleeting=True) as (connection, now):
            term = _term(now, lease_s)
            if item_id is None:
                return claiming.claim_next(
                    connection, reviewer, term, self._new_token, may_adjudicate=may_adjudicate
                )
            slot = claiming.claim_item(
                connection, item_id, reviewer, term, self._new_token, may_adjudicate=may_adjudicate
            )
            return read(connection, slot.item_id, leased=slot)

    def renew(self, item_id: str, *, reviewer: str, token: str, lease_s: float = LEASE_S) -> Item:
        """Prolong a lease from now on, also one that has ended while nobody else took the slot.

        Raises:
            LeaseLost: it is no longer theirs; the message says why.
        """
        with self._writing(is_fleeting=True) as (connection, now):
            until = _term(now, lease_s).until
            slot = claiming.renew(connection, item_id, reviewer, token, until)
            return read(connection, slot.item_id, leased=slot)

    def release(self, item_id: str, *, reviewer: str, token: str) -> None:
        """Give an item back unjudged.

        Raises:
            LeaseLost: see `renew`.
        """
        with self._writing() as (connection, now):
            claiming.release(connection, item_id, reviewer, token, now)

    def skip(self, item_id: str, *, reviewer: str, token: str, reason: str = "") -> None:
        """Give an item back unjudged; this reviewer is not offered it again until they `unskip`.

        Raises:
            LeaseLost: see `renew`.
        """
        with self._writing() as (connection, now):
            claiming.skip(connection, item_id, reviewer, token, reason, now)

    def unskip(self, reviewer: str) -> int:
        """Offer a reviewer again all that they skipped; returns how many items that are."""
        with self._writing() as (connection, _):
            return claiming.unskip(connection, reviewer)

    def answer(
        self,
        item_id: str,
        *,
        reviewer: str,
        token: str,
        values: Mapping[str, Json],
        kind: Said = "answer",
        was_shown: bool | None = None,
        note: str = "",
        idem_key: str | None = None,
    ) -> Item:
        """Store a person's verdict; all of it, or nothing.

        A lease that has ended is honoured as long as nobody else took the slot: a slow reader does
        not lose the work for nothing.

        Args:
            item_id: of a claimed item.
            reviewer: whoever claimed it.
            token: the `lease_token` that `claim` gave.
            values: the answer to each question, by field; optional ones may be missing. Not looked
                at unless `kind` is "answer".
            kind: whether it is an answer at all: "unsure" asks an adjudicator, "unclassifiable"
                says that the ticket fits no option.
            was_shown: whether the reviewer saw the machine's answer; by default what `is_blind`
                demands is taken to have been done.
            note: free text for colleagues.
            idem_key: a verdict sent twice under one key is stored once, and the second call
                returns the item as it stands, whatever it brought.

        Raises:
            LeaseLost: see `renew`.
            VerdictInvalid: see `verdicts.judge`; or the key was used for something else.
        """
        given = Answer(
            said=kind, values=values, note=note, was_shown=was_shown, idem_key=kept_key(idem_key)
        )
        with self._writing() as (connection, now):
            item = judging.answer(connection, item_id, reviewer, token, given, now)
            tell(connection, item.id, self._subscriptions, now)
            return item

    def answer_many(
        self,
        item_ids: Sequence[str],
        *,
        reviewer: str,
        values: Mapping[str, Json],
        idem_key: str,
        kind: Said = "answer",
        note: str = "",
    ) -> list[BulkResult]:
        """Give the same verdict on many items, each in a transaction of its own.

        Each is claimed by name, so one that somebody else holds is left to them. What is judged
        blind is refused, for nobody looks at it alone; so nothing is adjudicated. Sent again with
        the same key, what is stored is not stored twice and the rest is tried again.

        Returns:
            What became of each, in the order given.

        Raises:
            QueueUnavailable: the database failed; what was stored before stays.
        """
        check_name(reviewer)
        results = []
        for item_id in dict.fromkeys(item_ids):
            key = kept_key(f"{idem_key}:{item_id}")
            given = Answer(said=kind, values=values, note=note, idem_key=key)
            try:
                with self._writing() as (connection, now):
                    item = judging.answer_by_name(
                        connection, item_id, reviewer, given, _term(now, LEASE_S), self._new_token
                    )
                    tell(connection, item.id, self._subscriptions, now)
            except QueueUnavailable:
                raise
            except QueueError as error:
                results.append(BulkResult(item_id=item_id, error=error))
            else:
                results.append(BulkResult(item_id=item_id, item=item))
        return results

    def undo(self, item_id: str, *, reviewer: str, idem_key: str | None = None) -> Item:
        """Take this reviewer's last verdict in the present round back, by another verdict.

        Returns:
            The item, leased to the reviewer again.

        Raises:
            ChangeRefused: they have none there, an adjudicator has judged since, or the item was
                cancelled.
            VerdictInvalid: the key was used for something else.
        """
        with self._writing() as (connection, now):
            term = _term(now, LEASE_S)
            item = judging.undo(
                connection, item_id, reviewer, term, self._new_token, kept_key(idem_key)
            )
            tell(connection, item.id, self._subscriptions, now)
            return item

    def note(self, item_id: str, *, by: str, text: str) -> Item:
        """Write something beside the item, for colleagues; it is in the history."""
        check_name(by)
        with self._writing() as (connection, now):
            return changing.note(connection, item_id, by, text, now)

    def assign(self, item_id: str, *, to: str | None, by: str) -> Item:
        """Keep an item for one person, or for nobody any more.

        Raises:
            ChangeRefused: it is done or cancelled.
        """
        for name in (by,) if to is None else (by, to):
            check_name(name)
        with self._writing() as (connection, now):
            return changing.assign(connection, item_id, to, by, now)

    def set_due(
        self,
        item_id: str,
        *,
        due_at: datetime | None,
        by: str,
        not_before: datetime | None = None,
    ) -> Item:
        """Say by when an item should be judged, and from when on it is offered.

        Raises:
            ChangeRefused: it is done or cancelled.
            ValueError: a time without a time zone.
        """
        check_name(by)
        due = None if due_at is None else microseconds(due_at)
        earliest = 0 if not_before is None else microseconds(not_before)
        head_start_s = self._policy.head_start_s
        with self._writing() as (connection, now):
            return changing.set_due(
                connection, item_id, due, earliest, by, now, head_start_s=head_start_s
            )

    def cancel(self, item_id: str, *, by: str, reason: str) -> Item:
        """Take an item out of the queue unjudged; harmless when repeated.

        Raises:
            ChangeRefused: it is done.
        """
        check_name(by)
        with self._writing() as (connection, now):
            return changing.cancel(connection, item_id, by, reason, now)

    def reopen(self, item_id: str, *, by: str, reason: str, needed: int = 1) -> Item:
        """Start another round about a settled or cancelled item; what was said before is kept.

        Raises:
            ChangeRefused: it is still open.
        """
        check_name(by)
        if needed < 1:
            raise ValueError("an item needs at least one person")
        with self._writing() as (connection, now):
            item = changing.reopen(connection, item_id, by, reason, needed, now)
            tell(connection, item.id, self._subscriptions, now)
            return item

    @contextmanager
    def _writing(
        self, *, is_fleeting: bool = False, patience_s: float | None = None
    ) -> Iterator[tuple[Connection, int]]:
        """A transaction that writes, and the time. A lease that a power cut takes harms nobody."""
        writing = self._database.writing(is_fleeting=is_fleeting, patience_s=patience_s)
        with writing as connection:
            yield connection, now_us(connection, self._clock)


def _term(now: int, lease_s: float) -> Term:
    length = lease_s * 1e6
    if not 0 < length <= MAX_LEASE_US:
        raise ValueError("a lease lasts more than 0 s and at most a day")
    return Term(now=now, until=now + round(length))
