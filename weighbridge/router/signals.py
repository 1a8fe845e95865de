"""Signals: OpenTelemetry's spans and metrics of tickets and attempts.

The only module that imports OpenTelemetry, and `telemetry` imports it only where it is wanted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextvars import Token
from typing import NamedTuple
from urllib.parse import urlsplit

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from weighbridge.decision import Attempt, Decision, FailureKind
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.protocol import Failure, Provider, Reply
from weighbridge.providers.systemone import SystemOneProvider
from weighbridge.router import genai_names as names
from weighbridge.router.telemetry import answering_attempt, shown

# What vendors call a regular end. Any other word of theirs stays out: it could be anything.
_FINISHES = frozenset({"stop", "STOP", "end_turn", "stop_sequence", "tool_use", "tool_calls"})
_STAND_INS = ("opentelemetry.trace", "opentelemetry.metrics")  # modules of what does nothing
_VERSION = re.compile(r"([-:@.]?(latest|preview|[0-9]+([-.][0-9]+)*))?")


class Scope(NamedTuple):
    """A span that is the current one until it ends, unless nobody collects it: then no token.

    What is known of an attempt's provider is kept for its metrics.
    """

    span: Span
    token: Token[Context] | None
    known: Mapping[str, AttributeValue]


class Signals:
    """Makes the spans and keeps the instruments.

    Args:
        tracer_provider: None: the application's.
        meter_provider: the same for metrics.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
    ) -> None:
        self._has_own = (tracer_provider, meter_provider) != (None, None)
        self._tracer = trace.get_tracer(names.SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(names.SCOPE, meter_provider=meter_provider)
        self._attempt_seconds = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.SECONDS_BOUNDARIES,
        )
        self._ticket_seconds = meter.create_histogram(
            names.WORKFLOW_DURATION,
            "s",
            "GenAI workflow duration.",
            explicit_bucket_boundaries_advisory=names.SECONDS_BOUNDARIES,
        )
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDARIES,
        )
        self._attempts = meter.create_counter(
            names.ATTEMPTS, "{attempt}", "Requests to providers, and those that were passed over."
        )
        self._decisions = meter.create_counter(
            names.DECISIONS, "{decision}", "Decisions by status and weightiest reason."
        )
        self._cost = meter.create_counter(names.COST, "USD", "What requests cost, where known.")

    def begin_ticket(self, task: str, ticket_id: str) -> Scope | None:
        """A ticket's span, from now on the current one; None where nobody collects anything."""
        if not self._are_collected():
            return None
        known = {names.OPERATION: names.INVOKE_WORKFLOW, names.WORKFLOW: task}
        span = self._tracer.start_span(
            f"{names.INVOKE_WORKFLOW} {task}", attributes={**known, names.TICKET_ID: ticket_id}
        )
        return _entered(span, known)

    def end_ticket(
        self,
        scope: Scope,
        decision: Decision | None,
        seconds: float,
        error: str | None,
    ) -> None:
        """End a ticket's span and count its decision.

        Args:
            scope: from `begin_ticket`.
            decision: None where none was made.
            seconds: that it took.
            error: what ended it early, in one word.
        """
        counted = dict(scope.known)
        try:
            if decision is not None:
                counted[names.STATUS] = decision.status
                self._count(decision, counted)
                if scope.span.is_recording():
                    scope.span.set_attributes(_of_decision(decision))
            if error is not None:
                counted[names.ERROR_TYPE] = error
                _fail(scope.span, error)
            self._ticket_seconds.record(seconds, counted)
        finally:
            _left(scope)

    def begin_attempt(self, provider: Provider) -> Scope | None:
        """The span of one request, from now on the current one; None as for a ticket."""
        if not self._are_collected():
            return None
        known = _of_provider(provider)
        return _entered(self._started(provider, known), known)

    def end_attempt(
        self,
        scope: Scope,
        attempt: Attempt,
        result: Reply | Failure | None,
        error: str | None,
    ) -> None:
        """End the span of a request and count it.

        Args:
            scope: from `begin_attempt`.
            attempt: its entry in the trail.
            result: what came; None if nothing.
            error: why it does not count: the kind of failure, or what ended it early.
        """
        try:
            if scope.span.is_recording():
                scope.span.set_attributes(_of_attempt(attempt, result))
            if error is not None:
                _fail(scope.span, error)
            self._attempts.add(1, {**scope.known, names.OUTCOME: error or "answered"})
            failed = {} if error is None else {names.ERROR_TYPE: error}
            self._attempt_seconds.record(attempt.seconds, {**scope.known, **failed})
            self._spent(attempt, scope.known)
        finally:
            _left(scope)

    def weighed(self, provider: Provider, attempt: Attempt) -> None:
        """A span for requests that are over, as long as they took, and what they cost."""
        if not self._are_collected():
            return
        ended = time.time_ns()
        known = _of_provider(provider)
        span = self._started(provider, known, started=ended - int(attempt.seconds * 1e9))
        span.set_attributes({names.PURPOSE: "weigh", **_of_attempt(attempt, None)})
        span.end(ended)
        self._spent(attempt, known)

    def _are_collected(self) -> bool:
        """Whether there is anything behind OpenTelemetry's API, which alone does nothing.

        Many libraries load it; an application that collects nothing should pay nothing.
        """
        if self._has_own:
            return True
        providers = trace.get_tracer_provider(), metrics.get_meter_provider()
        return not all(type(provider).__module__.startswith(_STAND_INS) for provider in providers)

    def _started(
        self,
        provider: Provider,
        known: Mapping[str, AttributeValue],
        *,
        started: int | None = None,
    ) -> Span:
        return self._tracer.start_span(
            f"{names.CHAT} {shown(provider.model)}",
            kind=SpanKind.CLIENT if provider.is_remote else SpanKind.INTERNAL,
            attributes={**known, names.OUTPUT_TYPE: names.JSON},
            start_time=started,
        )

    def _count(self, decision: Decision, counted: Mapping[str, AttributeValue]) -> None:
        reason = {names.REASON: decision.reasons[0].value} if decision.reasons else {}
        self._decisions.add(1, {**counted, **reason})
        span = trace.get_current_span()
        for attempt in filter(_is_passed_over, decision.trail):
            assert attempt.failure is not None
            passed: dict[str, AttributeValue] = {
                names.CONFIGURED: shown(attempt.provider),
                names.REQUEST_MODEL: shown(attempt.model),
                names.OUTCOME: attempt.failure.value,
            }
            self._attempts.add(1, passed)
            span.add_event(names.NOT_ASKED, passed)

    def _spent(self, attempt: Attempt, counted: Mapping[str, AttributeValue]) -> None:
        for kind, tokens in (
            ("input", attempt.prompt_tokens),
            ("output", attempt.completion_tokens),
        ):
            if tokens is not None:
                self._tokens.record(tokens, {**counted, names.TOKEN_TYPE: kind})
        if attempt.cost_usd is not None and attempt.cost_usd >= 0.0:
            self._cost.add(attempt.cost_usd, counted)


def _entered(span: Span, known: Mapping[str, AttributeValue]) -> Scope:
    is_collected = span.get_span_context().is_valid
    token = context.attach(trace.set_span_in_context(span)) if is_collected else None
    return Scope(span, token, known)


def _left(scope: Scope) -> None:
    # A coroutine that was thrown away ends in another context than it began in.
    is_current = trace.get_current_span() is scope.span
    try:
        scope.span.end()
    finally:
        if scope.token is not None and is_current:
            context.detach(scope.token)


def _fail(span: Span, error: str) -> None:
    span.set_attribute(names.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR, error))


def _is_passed_over(attempt: Attempt) -> bool:
    """Not asked at all. The loser of two was asked: it has had its span."""
    return attempt.mode is None and attempt.failure not in (None, FailureKind.CANCELLED)


def _of_provider(provider: Provider) -> dict[str, AttributeValue]:
    """What is known before anything is asked: the same few values for every request."""
    known: dict[str, AttributeValue] = {
        names.OPERATION: names.CHAT,
        names.PROVIDER: names.LOCAL_PROVIDER,
        names.REQUEST_MODEL: shown(provider.model),
        names.CONFIGURED: shown(provider.name),
    }
    if isinstance(provider, HttpProvider | SystemOneProvider):
        profile, url = provider.profile.name, urlsplit(provider.base_url)
        known[names.PROVIDER] = names.PROVIDERS.get(profile, profile)
        known[names.SERVER_ADDRESS] = url.hostname or ""
        known[names.SERVER_PORT] = url.port or (80 if url.scheme == "http" else 443)
    return known


def _of_attempt(attempt: Attempt, result: Reply | Failure | None) -> dict[str, AttributeValue]:
    known: dict[str, AttributeValue | None] = {
        names.STATUS_CODE: attempt.status,
        names.INPUT_TOKENS: attempt.prompt_tokens,
        names.OUTPUT_TOKENS: attempt.completion_tokens,
        names.COST: attempt.cost_usd,
        names.MODE: attempt.mode,
        names.DROPPED: attempt.dropped or None,
        names.WAITED: attempt.waited_s or None,
    }
    if isinstance(result, Reply):
        if result.finish_reason in _FINISHES:
            known[names.FINISH_REASONS] = (result.finish_reason,)
        if result.model is not None and _is_version(result.model, attempt.model):
            known[names.RESPONSE_MODEL] = shown(result.model)
    return {name: value for name, value in known.items() if value is not None}


def _of_decision(decision: Decision) -> dict[str, AttributeValue]:
    costs = [attempt.cost_usd for attempt in decision.trail if attempt.cost_usd is not None]
    known: dict[str, AttributeValue | None] = {
        names.STATUS: decision.status,
        names.REASONS: tuple(reason.value for reason in decision.reasons) or None,
        names.NUM_ATTEMPTS: len(decision.trail),
        names.COST: sum(costs) if costs else None,
    }
    if (guarantee := decision.guarantee) is not None:
        known[names.CERTIFICATE] = guarantee.certificate
        known[names.CERTIFIED_RISK] = guarantee.risk
    if (answering := answering_attempt(decision)) is not None:
        known[names.CONFIGURED] = shown(answering.provider)
    return {name: value for name, value in known.items() if value is not None}


def _is_version(told: str, asked: str) -> bool:
    """Whether what a vendor calls its model is the one asked for, with a version at most.

    >>> _is_version("gpt-4o-2024-08-06", "gpt-4o"), _is_version("gpt-4o, who pays twice", "gpt-4o")
    (True, False)
    """
    return told.startswith(asked) and _VERSION.fullmatch(told[len(asked) :]) is not None
