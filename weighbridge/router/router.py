"""Router: the long-lived object behind `triage`."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from weighbridge.decision import Decision, Json, ReviewId
from weighbridge.errors import QueueUnavailable
from weighbridge.providers.protocol import Provider
from weighbridge.router.admission import Admission
from weighbridge.router.background import Background
from weighbridge.router.cache import DecisionCache
from weighbridge.router.chain import Chain, Policy
from weighbridge.router.connections import Connections
from weighbridge.router.deciding import (
    Decided,
    decide,
    decide_again,
    lacks,
    record_entry,
    review_entry,
)
from weighbridge.router.gate import Gate
from weighbridge.router.health import ProviderHealth, SharedCooldowns
from weighbridge.router.injection import signs
from weighbridge.router.latency import Latencies
from weighbridge.router.outcome import Outcome
from weighbridge.router.queueing import Queue, patience_s
from weighbridge.router.recording import Recorder
from weighbridge.router.resolving import Resolution, resolution_of
from weighbridge.router.streams import in_order, in_order_sync
from weighbridge.router.telemetry import Telemetry
from weighbridge.router.under_way import UnderWay
from weighbridge.router.visit import Asked, Surroundings
from weighbridge.router.weighing import Coin, Rulings, Scales
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

if TYPE_CHECKING:
    from weighbridge.schemas.redaction import Redacts

DEFAULT_POLICY = Policy()

_LONG_CHARS = 20_000

TicketSource = str | Mapping[str, Any] | Ticket


class Closable(Protocol):
    """What is closed with the router."""

    def close(self) -> None:
        """Let go of what it holds; harmless when repeated."""
        ...


class Router:
    """Asks providers in order, checks and weighs the answer, accepts it or queues it for a person.

    Use it as a context manager, or close it. Synchronous calls work inside a running event loop.

    Args:
        providers: best first.
        queue: for what a person must judge.
        task: what `triage` asks.
        ledger: what the providers share; closed with the router, before the queue.
        gate: thresholds of acceptance, where audits have said nothing yet.
        coin: draws audits; None: no ticket is drawn, and nothing can ever be proved.
        rulings: what audits say of each kind of answer; None: nothing.
        redact: hides what no provider away from this machine may read, and puts it back into the
            answers; such as a `Redactor`.
        admission: lets requests be sent, within limits and a budget; None: all of them.
        cooldowns: what is known in other processes of providers that are left alone.
        cache: of accepted decisions; None: every ticket is asked about.
        deadline_s: for one ticket, over all retries and providers, and for the wait to be written
            into the queue, which gets a second at least; see `queueing.patience_s`.
        policy: how the providers are gone through.
        telemetry: what is told to the world outside; None: log lines, and what the application's
            OpenTelemetry takes.
        clock: monotonic seconds.
        sleep: seconds.
        jitter: 0 to 1.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        queue: Queue,
        *,
        task: Task,
        gate: Gate,
        coin: Coin | None = None,
        rulings: Rulings | None = None,
        ledger: Closable | None = None,
        redact: Redacts | None = None,
        admission: Admission | None = None,
        cooldowns: SharedCooldowns | None = None,
        cache: DecisionCache | None = None,
        deadline_s: float = 30.0,
        policy: Policy = DEFAULT_POLICY,
        telemetry: Telemetry | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.task, self.gate = task, gate
        self._providers, self._queue, self._ledger = tuple(providers), queue, ledger
        self._deadline_s, self._clock = deadline_s, clock
        self._redact, self._cache = redact, cache
        self._admission, self._cooldowns = admission or Admission(), cooldowns
        self._telemetry = telemetry or Telemetry(clock=clock)
        around = Surroundings(
            health=ProviderHealth(clock, cooldowns),
            latencies=Latencies(),
            clock=clock,
            sleep=sleep,
            jitter=jitter,
            telemetry=self._telemetry,
            admission=self._admission,
        )
        self._policy, self._coin, self._rulings = policy, coin, rulings
        self._scales = Scales(gate=gate, rulings=rulings, stronger=policy.stronger)
        self._recorder = Recorder(queue.record)
        self._chain = Chain(self._providers, around=around, policy=policy)
        self._background, self._under_way = Background(), UnderWay()
        self._connections = Connections()

    @classmethod
    def from_config(cls, source: str | Path | Mapping[str, Any] | None = None) -> Router:
        """A router as the configuration describes it.

        Args:
            source: a path, a mapping of the same shape, or None: `$WEIGHBRIDGE_CONFIG`, else the
                nearest `weighbridge.toml` upward from the working directory, else the defaults.

        Raises:
            ConfigError: with file, key and, for unknown keys, the nearest valid one.
            EngineError: the local engine is the only provider and cannot run here.
            QueueUnavailable: the review database cannot be opened.
        """
        # The one import against the arrows: config joins all parts, and this is its front door.
        from weighbridge.config import build_router
        from weighbridge.settings import load_settings

        return build_router(load_settings(source))

    async def atriage(self, ticket: TicketSource) -> Decision:
        """Triage one ticket; see `triage`."""
        return await self.aask(self.task, ticket)

    def triage(self, ticket: TicketSource) -> Decision:
        """Triage one ticket with the router's task.

        Args:
            ticket: text (a body), a mapping of a ticket's fields, or a Ticket.

        Raises:
            RouterClosed: it was closed before.
            TicketInvalid: the input is no ticket.
            QueueUnavailable: a person must look and the queue cannot be written; the error carries
                the decision.
        """
        return self.ask(self.task, ticket)

    def ask(self, task: Task, ticket: TicketSource) -> Decision:
        """Run any task on one ticket; see `triage`."""
        return self._background.run(self.aask(task, ticket))

    async def aask(self, task: Task, ticket: TicketSource) -> Decision:
        """Run any task on one ticket; see `triage`."""
        with self._under_way.ticket():
            ticket = await _read(ticket)
            with self._telemetry.ticket(task.name, ticket.id) as watch:
                return watch.decided(await self._decide(task, ticket))

    async def _decide(self, task: Task, ticket: Ticket) -> Decision:
        """Ask, judge, and queue what a person must see."""
        deadline = self._clock() + self._deadline_s
        # Before anything is known of the ticket: what is drawn is a fair sample of all there are.
        toss = None if self._coin is None else self._coin.toss(ticket.id)
        outcome = Outcome(answered=None, refused=False, trail=())
        found = await _signs(ticket, task)
        redacted = None if self._redact is None else self._redact(ticket.text)
        key = None
        if self._cache is not None and not ticket.is_empty:
            key = self._cache.key(task, ticket, redacted, is_suspicious=bool(found))
            if key is not None and (kept := await self._cache.recall(key, task, ticket)):
                again = decide_again(task, kept.decision, self._scales, toss=toss)
                return await self._settled(task, ticket, again, kept.value, deadline)
        if not ticket.is_empty:
            async with self._connections.client() as client:
                outcome = await self._chain.run(
                    Asked(client=client, task=task, ticket=ticket, redacted=redacted),
                    deadline=deadline,
                    lacks=lambda answered: lacks(
                        task, answered, self.gate, may_escalate=bool(self._policy.stronger)
                    ),
                )
        decided = decide(task, ticket, outcome, self._scales, signs=found, toss=toss)
        value = outcome.answered.accepted.value if outcome.answered else None
        if self._cache is not None and key is not None:
            self._cache.keep(key, decided.decision, value)
        return await self._settled(task, ticket, decided, value, deadline)

    async def _settled(
        self, task: Task, ticket: Ticket, decided: Decided, value: Json, deadline: float
    ) -> Decision:
        """Queue what a person must see, and have the rest written down."""
        decision = decided.decision
        if decision.status == "accepted":
            self._recorder.put(record_entry(decided))
            return decision
        entry = review_entry(task, ticket, decided, value)
        decided_at = self._clock()

        def enqueue() -> ReviewId:
            left_s = patience_s(deadline, decided_at, self._clock())
            return self._queue.enqueue(entry, patience_s=left_s)

        try:
            review_id = await asyncio.to_thread(enqueue)
        except QueueUnavailable as error:
            raise QueueUnavailable(error.database, error.problem, decision) from None
        return replace(decision, review_id=review_id)

    def result(self, review_id: str, *, task: Task | None = None) -> Resolution | None:
        """What a person made of a decision that was sent to review; None while it waits.

        Args:
            review_id: of the decision.
            task: that was asked; by default the router's own.

        Raises:
            ItemNotFound: there is no such item.
            QueueUnavailable: the queue cannot be read.
        """
        self._under_way.check()
        return resolution_of(self._queue.get(review_id), task or self.task)

    async def aresult(self, review_id: str, *, task: Task | None = None) -> Resolution | None:
        """What a person made of a decision; see `result`."""
        return await asyncio.to_thread(self.result, review_id, task=task)

    def resolved(
        self, since: int = 0, *, limit: int = 1000, task: Task | None = None
    ) -> list[Resolution]:
        """What people have settled, in the order of settling.

        Args:
            since: the `number` of the last resolution that is known already. One that is reopened
                and settled anew comes again, with a new number.
            limit: at the most.
            task: that was asked; by default the router's own.

        Raises:
            QueueUnavailable: the queue cannot be read.
        """
        self._under_way.check()
        found = [
            resolution_of(item, task or self.task) for item in self._queue.settled(since, limit)
        ]
        return [resolution for resolution in found if resolution is not None]

    async def aresolved(
        self, since: int = 0, *, limit: int = 1000, task: Task | None = None
    ) -> list[Resolution]:
        """What people have settled; see `resolved`."""
        return await asyncio.to_thread(self.resolved, since, limit=limit, task=task)

    def triage_many(
        self, tickets: Iterable[TicketSource], *, concurrency: int = 4
    ) -> Iterator[Decision]:
        """Triage many tickets, in order; see `atriage_many` and `streams.in_order_sync`."""
        return in_order_sync(self._background, self.atriage, tickets, concurrency=concurrency)

    def atriage_many(
        self, tickets: Iterable[TicketSource], *, concurrency: int = 4
    ) -> AsyncGenerator[Decision, None]:
        """Triage many tickets, several at a time, and yield the decisions in the tickets' order.

        Args:
            tickets: read only as far as there is room.
            concurrency: tickets under way at once, at least 1.

        Raises:
            ValueError: concurrency below 1.
            TicketInvalid, QueueUnavailable: as for `triage`; the tickets under way are cancelled.
        """
        return in_order(self.atriage, tickets, concurrency=concurrency)

    def close(self) -> None:
        """Close connections, providers and the queue; synchronous calls under way are cancelled."""
        self._under_way.shut()
        self._background.stop()
        for provider in self._providers:
            provider.close()
        self._recorder.close()
        for part in (self._cache, self._cooldowns, self._admission, self._ledger, self._rulings):
            if part is not None:
                part.close()
        self._queue.close()

    async def aclose(self) -> None:
        """Close connections, providers and the queue; calls under way are cancelled.

        Those on other loops than the running one are not, nor are their connections closed.
        """
        self._under_way.shut()
        await self._under_way.cancel()
        await self._connections.aclose()
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        self._under_way.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.aclose()


async def _read(source: TicketSource) -> Ticket:
    """The ticket; a long one, which may be a mail of a megabyte, off the event loop."""
    body = source.get("body") if isinstance(source, Mapping) else source
    if isinstance(body, str) and len(body) > _LONG_CHARS:
        return await asyncio.to_thread(Ticket.of, source)
    return Ticket.of(source)


async def _signs(ticket: Ticket, task: Task) -> tuple[str, ...]:
    """The signs of an injection; in a long ticket they are looked for off the event loop."""
    if len(ticket.body) > _LONG_CHARS:
        return await asyncio.to_thread(signs, ticket, task)
    return signs(ticket, task)
