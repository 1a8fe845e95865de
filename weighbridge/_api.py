"""`triage`, `atriage`, `triage_many`: the router of the found configuration, made on first use."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from functools import cache

from weighbridge.decision import Decision
from weighbridge.router.router import Router, TicketSource


def triage(ticket: TicketSource) -> Decision:
    """Triage one ticket.

    Args:
        ticket: text (a body), a mapping with `body` and, if you like, `id`, `subject`, `metadata`,
            or a `Ticket`.

    Returns:
        A decision: "accepted" when software may act on it, "review" when it waits for a person.

    Raises:
        ConfigError: see `Router.from_config`.
        EngineError: the local engine is the only provider and cannot run; its hint names the
            command that helps.
        TicketInvalid: the input is no ticket.
        QueueUnavailable: a person must look and the queue cannot be written; the error carries the
            decision.
    """
    return _router().triage(ticket)


async def atriage(ticket: TicketSource) -> Decision:
    """Triage one ticket from a coroutine; see `triage`."""
    return await _router().atriage(ticket)


def triage_many(tickets: Iterable[TicketSource], *, concurrency: int = 4) -> Iterator[Decision]:
    """Triage many tickets, in order; see `triage` and `Router.triage_many`."""
    return _router().triage_many(tickets, concurrency=concurrency)


@cache
def _router() -> Router:
    router = Router.from_config()
    atexit.register(router.close)
    return router
