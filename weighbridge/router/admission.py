"""Admission: whether a request may be sent now, by our own limits and by the money that is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure, Inquiry, Provider
from weighbridge.router.budget import Budget, Refused, Reservation
from weighbridge.schemas.ticket import Ticket

if TYPE_CHECKING:
    from weighbridge.router.limits import Limiter, Place


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may be sent.

    Args:
        waited_s: for a place within the limits.
        reservation: of what it can cost; None where nothing is counted.
        place: in the minute; None where there are no limits.
    """

    waited_s: float = 0.0
    reservation: Reservation | None = None
    place: Place | None = None

    def settle(self, usd: float | None) -> None:
        """Say what it cost; None where nobody knows."""
        if self.reservation is not None:
            self.reservation.settle(usd)

    def withdraw(self) -> None:
        """It is not sent after all: what was kept for it goes to others."""
        self.settle(0.0)
        if self.place is not None:
            self.place.give_back()


_FREELY = Admitted()


class Admission:
    """Limits and budget of a router; without any, everything is admitted.

    Args:
        limiters: by the configured name of the provider.
        budget: None: as much as it takes.
    """

    def __init__(
        self, limiters: Mapping[str, Limiter] | None = None, budget: Budget | None = None
    ) -> None:
        self._limiters, self._budget = limiters or {}, budget

    @asynccontextmanager
    async def request(
        self, provider: Provider, inquiry: Inquiry, *, until: float
    ) -> AsyncIterator[Admitted | Failure]:
        """The time in which one request is under way.

        Args:
            provider: of whom.
            inquiry: what is asked.
            until: before when it must begin, on the router's clock.

        Yields:
            That it may be sent, or why not.
        """
        limiter = self._limiters.get(provider.name)
        if limiter is None and self._budget is None:
            yield _FREELY
            return
        read, written = provider.worst_case(inquiry)
        if limiter is None:
            yield await self._paid(provider, inquiry.ticket, read, written, None)
            return
        tokens, most_tokens = read + written, limiter.most_tokens
        if most_tokens is not None and tokens > most_tokens:
            detail = f"it may take {tokens} tokens, more than its limit for a whole minute"
            yield Failure(kind=FailureKind.LIMIT, detail=f"{detail} ({most_tokens})")
            return
        async with limiter.acquire(tokens=tokens, until=until) as place:
            if place is None:
                yield Failure(kind=FailureKind.LIMIT, detail="no room within its limits in time")
            else:
                yield await self._paid(provider, inquiry.ticket, read, written, place)

    def close(self) -> None:
        """Write down what is spent."""
        if self._budget is not None:
            self._budget.close()

    async def _paid(
        self, provider: Provider, ticket: Ticket, read: int, written: int, place: Place | None
    ) -> Admitted | Failure:
        """Puts the money aside last, so that none lies idle while a request waits."""
        waited_s = 0.0 if place is None else place.waited_s
        if self._budget is None:
            return Admitted(waited_s, place=place)
        usd = provider.cost_usd(read, written)
        found: Reservation | Refused | None = None
        try:
            found = await self._budget.reserve(provider.name, ticket.id, usd)
        finally:
            if place is not None and not isinstance(found, Reservation):
                place.give_back()
        if isinstance(found, Refused):
            return Failure(kind=FailureKind.BUDGET, detail=found.value)
        return Admitted(waited_s, found, place)
