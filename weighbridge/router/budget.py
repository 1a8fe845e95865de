"""Budget: US dollars that may be spent, taken before a request and settled after it.

What is taken is the most that the request can cost, so that no number of tickets, threads or
processes spends more than there is. What nobody can tell afterwards counts as spent.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, TypeAlias

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure, Reply

Account: TypeAlias = tuple[str, str]  # kind and name, such as ("provider", "groq")

_MOST_MICRO_USD = 10**15  # for one request: sums of it stay far from the end of 64 bits
_REMEMBERED_DAYS = 7  # by books in memory, where tickets are many
# Refusals at the door: no model has read the request, and nobody charges for it. Others may cost
# something: Azure says so of a 400 by its content filter and of a 408.
_UNREAD = frozenset(
    {FailureKind.RATE_LIMIT, FailureKind.QUOTA, FailureKind.CREDENTIAL, FailureKind.MODEL_GONE}
)


class Refused(StrEnum):
    """Why a request must not be sent, in words for the trail."""

    DAY = "the day's budget has too little left"
    PROVIDER_DAY = "the provider's budget of the day has too little left"
    TICKET = "the ticket's budget has too little left"
    NO_PRICE = "no price: a budget needs to know what a request can cost"
    UNREACHABLE = "the books of the budget cannot be written"


_REFUSED_BY: Mapping[str, Refused] = {
    "day": Refused.DAY,
    "provider": Refused.PROVIDER_DAY,
    "ticket": Refused.TICKET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """US dollars that may be spent within one day (UTC); None: as many as it takes.

    Args:
        usd_per_day: by all providers together.
        usd_per_ticket: for one ticket, over all attempts and askings.
        provider_usd_per_day: by single providers, by their configured names.
    """

    usd_per_day: float | None = None
    usd_per_ticket: float | None = None
    provider_usd_per_day: Mapping[str, float] = field(default_factory=dict)


class Booking(Protocol):
    """Money that is reserved."""

    def settle(self, micro_usd: int) -> None:
        """Put what was spent in place of what was reserved. Called once; never waits or raises."""
        ...


class Books(Protocol):
    """What was reserved and spent, by account and day."""

    async def reserve(
        self, micro_usd: int, caps: Mapping[Account, int]
    ) -> Booking | Account | None:
        """Reserve an amount on all accounts, or on none. Never raises.

        What is reserved counts as spent until it is settled. What was booked on days that are
        still to come counts as well, so that a clock that is put back frees no money.

        Args:
            micro_usd: at most; rounded up.
            caps: what each account may hold for one day.

        Returns:
            The booking; or the first account that has too little left; or None where the books
            cannot be written.
        """
        ...

    def close(self) -> None:
        """Write down what is still to be settled; harmless when repeated."""
        ...


class Reservation:
    """Money that is put aside for one request.

    One that is never settled stays as it is: a ticket that was cancelled, or whose process was
    killed, may have been paid for.
    """

    def __init__(self, booking: Booking | None, micro_usd: int) -> None:
        self._booking, self._micro_usd = booking, micro_usd

    def settle(self, usd: float | None) -> None:
        """Say what the request really cost; None where nobody knows. Only the first time counts."""
        booking, self._booking = self._booking, None
        if booking is None:
            return
        if usd is None or not math.isfinite(usd):
            booking.settle(self._micro_usd)
        else:
            booking.settle(_micro(usd))


class Budget:
    """Lets a request be sent if all the budgets that it counts against can bear it.

    Args:
        caps: what may be spent.
        books: what has been; closed with the budget.
    """

    def __init__(self, caps: Caps, books: Books) -> None:
        self._caps, self._books = caps, books

    async def reserve(self, provider: str, ticket: str, usd: float | None) -> Reservation | Refused:
        """Put aside what a request can cost at most.

        Args:
            provider: its configured name.
            ticket: its id; the books hold a hash of it.
            usd: for all the tokens of the prompt and all that the answer may have; None where no
                price is known, which no budget lets pass. What costs nothing always passes.
        """
        caps = self._capped(provider, ticket)
        if not caps or usd == 0.0:
            return Reservation(None, 0)
        if usd is None or not math.isfinite(usd):
            return Refused.NO_PRICE
        micro_usd = _micro(usd)
        booked = await self._books.reserve(micro_usd, caps)
        if booked is None:
            return Refused.UNREACHABLE
        if isinstance(booked, tuple):
            return _REFUSED_BY[booked[0]]
        return Reservation(booked, micro_usd)

    def close(self) -> None:
        """Write down what is still to be settled; harmless when repeated."""
        self._books.close()

    def _capped(self, provider: str, ticket: str) -> dict[Account, int]:
        """The accounts that have a cap, the widest last: the nearest refusal is the clearest."""
        hashed = hashlib.sha256(ticket.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        caps = {
            ("ticket", hashed): self._caps.usd_per_ticket,
            ("provider", provider): self._caps.provider_usd_per_day.get(provider),
            ("day", ""): self._caps.usd_per_day,
        }
        # Rounded to the nearest: a cap of 0.1 is 100000, whatever its double says.
        return {account: round(usd * 1e6) for account, usd in caps.items() if usd is not None}


class MemoryBooks:
    """Books of one process, which end with it.

    Args:
        clock: the time, with a time zone.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._by_day: dict[int, dict[Account, int]] = {}

    async def reserve(
        self, micro_usd: int, caps: Mapping[Account, int]
    ) -> Booking | Account | None:
        """See `Books.reserve`."""
        today = (self._clock() - datetime(1970, 1, 1, tzinfo=UTC)).days
        with self._lock:
            for account, cap in caps.items():
                days = self._by_day.items()
                used = sum(booked.get(account, 0) for day, booked in days if day >= today)
                if used + micro_usd > cap:
                    return account
            booked = self._by_day.setdefault(today, {})
            for account in caps:
                booked[account] = booked.get(account, 0) + micro_usd
            oldest = min(self._by_day)
            if oldest < today and len(self._by_day) > _REMEMBERED_DAYS:
                del self._by_day[oldest]
        return _MemoryBooking(self._lock, booked, tuple(caps), micro_usd)

    def close(self) -> None:
        """Nothing to write down."""


@dataclass(frozen=True, slots=True)
class _MemoryBooking:
    lock: threading.Lock
    booked: dict[Account, int]
    accounts: tuple[Account, ...]
    micro_usd: int

    def settle(self, micro_usd: int) -> None:
        with self.lock:
            for account in self.accounts:
                self.booked[account] += micro_usd - self.micro_usd


def spent_usd(result: Reply | Failure, cost_usd: float | None) -> float | None:
    """What an attempt cost, for its settlement; None where nobody can tell.

    Args:
        result: how it ended.
        cost_usd: of the tokens that were reported, if they were.
    """
    if cost_usd is not None:
        return cost_usd
    if isinstance(result, Failure) and (
        result.is_unsent or (result.status is not None and result.kind in _UNREAD)
    ):
        return 0.0
    return None


def _micro(usd: float) -> int:
    """Micro-dollars, rounded up. Never negative: a provider's numbers must not give money away."""
    return max(0, math.ceil(round(min(usd, _MOST_MICRO_USD / 1e6) * 1e6, 3)))
