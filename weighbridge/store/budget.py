"""SharedBooks: what was reserved and spent, in the database, for all processes together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, tuple_, update

from weighbridge.errors import QueueUnavailable
from weighbridge.store import forks
from weighbridge.store.database import Database
from weighbridge.store.dialect import insert_or_add, lock
from weighbridge.store.tables import OF_TICKET, spending_table
from weighbridge.store.times import EPOCH

TICKETS_KEPT_DAYS: Final = 7

_FORGOTTEN_AT_ONCE = 8  # rows: more than a reservation adds, and no burden to it
_logger = logging.getLogger(__name__)

_Account: TypeAlias = tuple[str, str]
_row = spending_table.c


class SharedBooks:
    """See `Books`. A thread of its own talks to the database, in the order of asking.

    A reservation raises the sums in one transaction that holds a lock from its beginning, so that
    no other process can read in between. It needs no lease: what a killed process has
    reserved is in the sum already and stays there.

    Args:
        database: must not be closed before the books, which leave it open.
        clock: the time, with a time zone.
        patience_s: for one reservation. It is refused when the database takes longer, whether
            somebody holds a lock or a disk is slow.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        patience_s: float = 2.0,
    ) -> None:
        self._database, self._clock, self._patience_s = database, clock, patience_s
        self._has_warned = False
        self._start()
        forks.watch(self)

    async def reserve(
        self, micro_usd: int, caps: Mapping[_Account, int]
    ) -> _Booking | _Account | None:
        """See `Books.reserve`."""
        try:
            future = self._worker.submit(self._reserve, micro_usd, caps)
        except RuntimeError:
            return None  # closed, or the interpreter is ending
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.wrap_future(future)
        except BaseException as error:
            # Whoever asked has left, and nothing was sent.
            future.add_done_callback(_returned)
            if isinstance(error, TimeoutError):
                self._warn("it is locked or slow")
                return None
            raise

    def settle(self, booking: _Booking, micro_usd: int) -> None:
        """Write a settlement down, soon; what cannot be written stays reserved."""
        try:
            self._worker.submit(self._settle, booking, micro_usd).add_done_callback(Future.result)
        except RuntimeError:
            return  # as above

    def close(self) -> None:
        """See `Books.close`."""
        self._worker.shutdown()

    def before_fork(self) -> None:
        """See `forks`: it holds nothing."""

    def after_fork(self, *, is_child: bool) -> None:
        """See `forks`."""
        if is_child:
            self._start()

    def _start(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="weighbridge-budget")

    def _reserve(self, micro_usd: int, caps: Mapping[_Account, int]) -> _Booking | _Account | None:
        day = (self._clock() - EPOCH).days
        try:
            with self._database.writing() as connection:
                lock(connection, spending_table)
                used = _used(connection, caps, day)
                for account, cap in caps.items():
                    if used.get(account, 0) + micro_usd > cap:
                        return account
                _add(connection, caps, day, micro_usd)
                _forget(connection, before=day - TICKETS_KEPT_DAYS)
        except QueueUnavailable as error:
            self._warn(error.problem)
            return None
        self._has_warned = False
        return _Booking(self, day, tuple(caps), micro_usd)

    def _settle(self, booking: _Booking, micro_usd: int) -> None:
        is_theirs = and_(_is_one_of(booking.accounts), _row.day == booking.day)
        try:
            with self._database.writing() as connection:
                lock(connection, spending_table)
                connection.execute(
                    update(spending_table)
                    .where(is_theirs)
                    .values(
                        reserved_micro_usd=_row.reserved_micro_usd - booking.micro_usd,
                        spent_micro_usd=_row.spent_micro_usd + micro_usd,
                    )
                )
        except QueueUnavailable as error:
            self._warn(error.problem)

    def _warn(self, problem: str) -> None:
        """Once in each time of trouble."""
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "the budget in %s cannot be written: %s; requests that cost money are not sent",
                self._database.url,
                problem,
            )


@dataclass(frozen=True, slots=True)
class _Booking:
    """See `Booking`."""

    books: SharedBooks
    day: int
    accounts: tuple[_Account, ...]
    micro_usd: int

    def settle(self, micro_usd: int) -> None:
        """See `Booking.settle`."""
        self.books.settle(self, micro_usd)


def _returned(future: Future[_Booking | _Account | None]) -> None:
    """Give a reservation back that nobody waits for any more."""
    if not future.cancelled() and isinstance(booking := future.result(), _Booking):
        booking.settle(0)


def _is_one_of(accounts: Collection[_Account]) -> ColumnElement[bool]:
    # SQLite looks single keys up in the index, and reads the whole table for a list of pairs.
    return or_(*(and_(_row.kind == kind, _row.name == name) for kind, name in accounts))


def _used(connection: Connection, accounts: Collection[_Account], day: int) -> dict[_Account, int]:
    amounts = func.sum(_row.reserved_micro_usd + _row.spent_micro_usd)
    rows = connection.execute(
        select(_row.kind, _row.name, amounts)
        .where(_is_one_of(accounts), _row.day >= day)
        .group_by(_row.kind, _row.name)
    )
    return {(kind, name): int(amount) for kind, name, amount in rows}


def _add(connection: Connection, accounts: Collection[_Account], day: int, micro_usd: int) -> None:
    connection.execute(
        insert_or_add(connection, spending_table),
        [
            {
                "kind": kind,
                "name": name,
                "day": day,
                "reserved_micro_usd": micro_usd,
                "spent_micro_usd": 0,
            }
            for kind, name in accounts
        ],
    )


def _forget(connection: Connection, *, before: int) -> None:
    """Remove a few old tickets, of which there are many; the other sums are few and stay."""
    old = select(_row.name, _row.day).where(OF_TICKET, _row.day < before).limit(_FORGOTTEN_AT_ONCE)
    connection.execute(
        delete(spending_table).where(OF_TICKET, tuple_(_row.name, _row.day).in_(old))
    )
