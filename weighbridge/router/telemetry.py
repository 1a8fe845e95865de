"""Telemetry: what a router tells the world outside about its tickets: log lines, spans, metrics.

Tickets, answers, keys and what vendors write stay inside: ids, configured names, our own classes
and numbers go out. Log lines go to the logger "weighbridge". Spans and metrics go to OpenTelemetry
where the application has loaded it; where it has not, nothing of it is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from weighbridge.decision import Attempt, Decision, FailureKind
from weighbridge.errors import QueueUnavailable
from weighbridge.providers.protocol import Failure, Provider, Reply

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from weighbridge.router.signals import Scope, Signals

_logger = logging.getLogger("weighbridge")
_logger.addHandler(logging.NullHandler())  # a library prints nothing unless it is asked to

# Somebody may have to do something about these; the others are a ticket's own business.
_ALARMING = frozenset(
    {
        FailureKind.TRANSIENT,
        FailureKind.RATE_LIMIT,
        FailureKind.QUOTA,
        FailureKind.CREDENTIAL,
        FailureKind.MODEL_GONE,
        FailureKind.CALLER_FAULT,
        FailureKind.UNAVAILABLE,
        FailureKind.UNKNOWN,
    }
)
_MOST_SHOWN = 128


class Telemetry:
    """Told by the router and its visits; decides nothing, and no ticket ever fails by it.

    Args:
        opentelemetry: whether spans and metrics are made, where the application has imported
            OpenTelemetry or a provider is given; it need not be there yet.
        tracer_provider: where spans go; None: wherever the application's go.
        meter_provider: the same for metrics.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        opentelemetry: bool = True,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._providers = tracer_provider, meter_provider
        self._is_wanted, self._lock = opentelemetry, threading.Lock()
        self._signals: Signals | None = None

    def ticket(self, task: str, ticket_id: str) -> TicketWatch:
        """The time in which a ticket is decided; the providers' spans are children of its span.

        Args:
            task: name of the task.
            ticket_id: of the ticket.
        """
        return TicketWatch(self, task, ticket_id)

    def attempt(self, provider: Provider, ticket_id: str) -> AttemptWatch:
        """The time of one request, until its answer has been checked."""
        return AttemptWatch(self, provider, ticket_id)

    def weighed(self, provider: Provider, attempt: Attempt) -> None:
        """Requests that only weighed an answer are over; they took the attempt's seconds."""
        with self.guarded() as signals:
            if signals is not None:
                signals.weighed(provider, attempt)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[Signals | None]:
        """OpenTelemetry, if it is there; what goes wrong in it ends with the block."""
        signals = self._signals or self._found()
        try:
            yield signals
        except Exception as error:  # noqa: BLE001 - whatever an exporter does, the ticket goes on
            _logger.debug("OpenTelemetry failed: %s", type(error).__name__)

    def _found(self) -> Signals | None:
        is_there = self._providers != (None, None) or "opentelemetry.trace" in sys.modules
        if not (self._is_wanted and is_there):
            return None
        with self._lock:
            if self._signals is None:
                try:
                    from weighbridge.router.signals import Signals

                    self._signals = Signals(*self._providers)
                except Exception as error:  # noqa: BLE001 - such as an API that is too old
                    self._is_wanted = False
                    _logger.warning("OpenTelemetry is not used: %s", type(error).__name__)
        return self._signals


class TicketWatch:
    """One ticket under way; see `Telemetry.ticket`."""

    __slots__ = ("_decision", "_scope", "_started", "_task", "_telemetry", "_ticket_id")

    def __init__(self, telemetry: Telemetry, task: str, ticket_id: str) -> None:
        self._telemetry, self._task, self._ticket_id = telemetry, shown(task), shown(ticket_id)
        self._decision: Decision | None = None
        self._scope: Scope | None = None

    def __enter__(self) -> Self:
        self._started = self._telemetry.clock()
        with self._telemetry.guarded() as signals:
            if signals is not None:
                self._scope = signals.begin_ticket(self._task, self._ticket_id)
        return self

    def decided(self, decision: Decision) -> Decision:
        """The ticket has its decision, which is handed back."""
        self._decision = decision
        return decision

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        seconds = self._telemetry.clock() - self._started
        if isinstance(error, QueueUnavailable):
            self._decision = error.decision  # it was made, and its caller gets it with the error
        if self._decision is not None:
            self._log(self._decision, seconds, is_queued=error is None)
        if self._scope is not None:
            with self._telemetry.guarded() as signals:
                if signals is not None:
                    signals.end_ticket(self._scope, self._decision, seconds, error_type(kind))

    def _log(self, decision: Decision, seconds: float, *, is_queued: bool) -> None:
        level = logging.INFO if is_queued else logging.ERROR
        if not _logger.isEnabledFor(level):
            return
        answering = answering_attempt(decision)
        costs = [a.cost_usd for a in decision.trail if a.cost_usd is not None]
        _logger.log(
            level,
            "ticket %s: %s%s in %.3f s, %d attempts%s",
            self._ticket_id,
            decision.status,
            f" ({', '.join(decision.reasons)})" if decision.reasons else "",
            seconds,
            len(decision.trail),
            "" if is_queued else "; the review queue could not be written",
            extra={
                "event": "decision",
                "ticket_id": self._ticket_id,
                "task": self._task,
                "status": decision.status,
                "reasons": [reason.value for reason in decision.reasons],
                "provider": None if answering is None else shown(answering.provider),
                "model": None if answering is None else shown(answering.model),
                "seconds": seconds,
                "attempts": len(decision.trail),
                "cost_usd": sum(costs) if costs else None,
                "review_id": decision.review_id,
            },
        )


class AttemptWatch:
    """One request under way; see `Telemetry.attempt`."""

    __slots__ = ("_attempt", "_provider", "_result", "_scope", "_started", "_telemetry", "_ticket")

    def __init__(self, telemetry: Telemetry, provider: Provider, ticket_id: str) -> None:
        self._telemetry, self._provider, self._ticket = telemetry, provider, ticket_id
        self._attempt: Attempt | None = None
        self._result: Reply | Failure | None = None
        self._scope: Scope | None = None

    def __enter__(self) -> Self:
        self._started = self._telemetry.clock()
        with self._telemetry.guarded() as signals:
            if signals is not None:
                self._scope = signals.begin_attempt(self._provider)
        return self

    def ended(self, attempt: Attempt, result: Reply | Failure) -> None:
        """The request is over.

        Args:
            attempt: its entry in the trail.
            result: what came.
        """
        self._attempt, self._result = attempt, result
        if attempt.failure is not None:
            self._log(attempt, attempt.failure)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._scope is None:
            return
        attempt, failed = self._attempt, error_type(kind)
        if attempt is None:  # ended by its caller, or by a fault of ours
            seconds = self._telemetry.clock() - self._started
            attempt = Attempt(
                provider=self._provider.name, model=self._provider.model, seconds=seconds
            )
        elif attempt.failure is not None:
            failed = attempt.failure.value
        with self._telemetry.guarded() as signals:
            if signals is not None:
                signals.end_attempt(self._scope, attempt, self._result, failed)

    def _log(self, attempt: Attempt, failure: FailureKind) -> None:
        level = logging.WARNING if failure in _ALARMING else logging.DEBUG
        if not _logger.isEnabledFor(level):
            return
        ticket_id, model = shown(self._ticket), shown(attempt.model)
        _logger.log(
            level,
            "ticket %s: %s (%s) failed: %s%s after %.3f s",
            ticket_id,
            shown(attempt.provider),
            model,
            failure.value,
            "" if attempt.status is None else f", status {attempt.status},",
            attempt.seconds,
            extra={
                "event": "attempt",
                "ticket_id": ticket_id,
                "provider": shown(attempt.provider),
                "model": model,
                "failure": failure.value,
                "status": attempt.status,
                "seconds": attempt.seconds,
                "waited_s": attempt.waited_s,
            },
        )


def answering_attempt(decision: Decision) -> Attempt | None:
    """The attempt whose answer the decision is about; its model is the one that was configured."""
    answered = (a for a in decision.trail if a.failure is None and a.provider == decision.provider)
    return next(answered, None)


def error_type(kind: type[BaseException] | None) -> str | None:
    """What ended a block early, in one word; never its message, which may hold anything."""
    if kind is None:
        return None
    return "cancelled" if issubclass(kind, asyncio.CancelledError) else kind.__qualname__


def shown(text: str) -> str:
    r"""A name from outside on one short line: what takes over a terminal or a log is replaced.

    >>> shown("a\nb\x1b[31m"), len(shown("x" * 1000))
    ('a\ufffdb\ufffd[31m', 128)
    """
    if not text.isprintable():  # the stand-ins are for few: nearly all names are printable
        text = "".join(c if c.isprintable() else "\ufffd" for c in text[:_MOST_SHOWN])
    return text[:_MOST_SHOWN]
