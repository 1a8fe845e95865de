"""What leaves a router: spans, metrics and log lines, and never a ticket's words."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes
from opentelemetry.trace import SpanKind, StatusCode
from telemetry_world import World, attributes, is_child, world

from weighbridge.decision import Attempt, Decision, FailureKind, Guarantee, Reason
from weighbridge.errors import QueueUnavailable
from weighbridge.providers import profiles
from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.local import LocalProvider
from weighbridge.providers.protocol import Failure, Reply
from weighbridge.router import genai_names as names
from weighbridge.router.telemetry import Telemetry

OK = Reply(text="{}", finish_reason="stop", status=200, model="gpt-4o-2024-08-06")
ANSWERED = Attempt(
    provider="a",
    model="gpt-4o",
    status=200,
    seconds=0.5,
    waited_s=0.25,
    prompt_tokens=100,
    completion_tokens=10,
    cost_usd=0.002,
    mode="native",
    dropped=("seed",),
)
ACCEPTED = Decision(
    ticket_id="7", task="triage", status="accepted", value={}, provider="a", trail=(ANSWERED,)
)


@pytest.fixture
def watched() -> Iterator[World]:
    with world() as opened:
        yield opened


def provider(
    profile: str = "openai", *, model: str = "gpt-4o", base_url: str = "https://api.openai.com/v1"
) -> HttpProvider:
    known = profiles.named(profile)
    return HttpProvider(
        name="a",
        model=model,
        base_url=base_url,
        profile=known,
        adapter=adapter_for(known),
        ledger=MemoryLedger(),
    )


def failed(kind: FailureKind, **more: Any) -> tuple[Attempt, Failure]:
    attempt = Attempt(provider="a", model="gpt-4o", failure=kind, mode="native", **more)
    return attempt, Failure(kind=kind, detail="")


def tell(telemetry: Telemetry, attempt: Attempt, result: Reply | Failure = OK) -> None:
    with telemetry.attempt(provider(), "7") as watch:
        watch.ended(attempt, result)


def decide(telemetry: Telemetry, decision: Decision) -> None:
    with telemetry.ticket("triage", "7") as watch:
        assert watch.decided(decision) is decision


def test_answer_has_the_conventional_attributes(watched: World) -> None:
    """The span and the two conventional metrics, name by name."""
    tell(watched.telemetry, ANSWERED)
    (span,) = watched.spans
    assert (span.name, span.kind) == ("chat gpt-4o", SpanKind.CLIENT)
    assert span.status.status_code is StatusCode.UNSET
    known = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "server.address": "api.openai.com",
        "server.port": 443,
        "weighbridge.provider": "a",
    }
    assert attributes(span) == known | {
        "gen_ai.output.type": "json",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "http.response.status_code": 200,
        "weighbridge.cost": 0.002,
        "weighbridge.mode": "native",
        "weighbridge.dropped": ("seed",),
        "weighbridge.waited": 0.25,
    }
    (duration,) = watched.points("gen_ai.client.operation.duration")
    assert (duration.sum, dict(duration.attributes)) == (0.5, known)
    assert duration.explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert duration.explicit_bounds[-1] == 81.92
    assert watched.counts("gen_ai.client.token.usage", "gen_ai.token.type") == {
        "input": 100,
        "output": 10,
    }
    assert watched.counts("weighbridge.cost", "gen_ai.provider.name") == {"openai": 0.002}


@pytest.mark.parametrize("kind", FailureKind)
def test_failed_attempt_is_an_error_of_our_kind(watched: World, kind: FailureKind) -> None:
    """One span and one count each, with nothing of what the vendor said."""
    with watched.telemetry.ticket("triage", "7"):
        tell(watched.telemetry, *failed(kind, status=418, detail="canary"))
    (span,) = watched.attempts
    assert is_child(span, watched.ticket)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, kind.value)
    assert attributes(span)["error.type"] == kind.value
    assert attributes(span)["http.response.status_code"] == 418
    assert watched.counts("weighbridge.attempts", "weighbridge.outcome") == {kind.value: 1}
    (duration,) = watched.points("gen_ai.client.operation.duration")
    assert duration.attributes["error.type"] == kind.value
    assert "canary" not in watched.written()


def test_local_engine_is_no_client(watched: World) -> None:
    """Its spans are internal ones, without a server."""
    local = LocalProvider(model="smollm2-135m")
    with watched.telemetry.attempt(local, "7") as watch:
        watch.ended(Attempt(provider="local", model="smollm2-135m", mode="native"), OK)
    (span,) = watched.spans
    assert span.kind is SpanKind.INTERNAL
    assert attributes(span)["gen_ai.provider.name"] == "weighbridge"
    assert "server.address" not in attributes(span)


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("openai", "openai"),
        ("openai_compatible", "openai"),
        ("azure_openai", "azure.ai.openai"),
        ("groq", "groq"),
        ("gemini_native", "gcp.gemini"),
        ("gemini_openai_compat", "gcp.gemini"),
        ("anthropic", "anthropic"),
        ("mistral", "mistral_ai"),
        ("deepseek", "deepseek"),
        ("xai", "x_ai"),
        ("ollama_native", "ollama"),
        ("vllm", "vllm"),
    ],
)
def test_vendor_has_its_conventional_name(watched: World, profile: str, name: str) -> None:
    """Where the conventions have none, our profile's."""
    asked = provider(profile, base_url="http://127.0.0.1:8000/v1")
    with watched.telemetry.attempt(asked, "7") as watch:
        watch.ended(ANSWERED, OK)
    (span,) = watched.spans
    assert attributes(span)["gen_ai.provider.name"] == name
    assert attributes(span)["server.port"] == 8000


def test_every_renamed_profile_is_one_of_ours() -> None:
    """A profile that is renamed takes its row along."""
    known = {name for wire in profiles.GENERIC for name in profiles.names(wire)}
    assert set(names.PROVIDERS) <= known


def constants() -> set[str]:
    return {
        value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
    }


def test_names_are_those_of_the_conventions() -> None:
    """Compared with the package that is generated from them; misspelt names would just be lost."""
    published = {
        value
        for module in (
            gen_ai_attributes,
            gen_ai_metrics,
            error_attributes,
            http_attributes,
            server_attributes,
        )
        for value in vars(module).values()
        if isinstance(value, str)
    }
    enums = (
        gen_ai_attributes.GenAiOperationNameValues,
        gen_ai_attributes.GenAiProviderNameValues,
        gen_ai_attributes.GenAiOutputTypeValues,
    )
    published |= {member.value for values in enums for member in values}
    ours = constants()
    conventional = {value for value in ours if value.startswith(("gen_ai.", "error.", "server."))}
    newer = {names.WORKFLOW_DURATION}  # published after the package
    assert (
        conventional | {names.STATUS_CODE, names.CHAT, names.INVOKE_WORKFLOW} <= published | newer
    )
    assert set(names.PROVIDERS.values()) - published == {"ollama"}


def test_every_name_and_kind_is_documented() -> None:
    """On the page for those who build dashboards."""
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text("utf-8")
    ours = constants()
    told = {value for value in ours if value.startswith(("gen_ai.", "weighbridge.", "error."))}
    sent = set(FailureKind) - {FailureKind.COOLING, FailureKind.LIMIT, FailureKind.BUDGET}
    assert [name for name in sorted(told | sent) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("told", "is_shown"),
    [
        ("gpt-4o", True),
        ("gpt-4o-2024-08-06", True),
        ("gpt-4o-latest", True),
        ("gpt-4o:latest", True),
        ("gpt-4o@20240806", True),
        ("gpt-4o-mini", False),
        ("gpt-4", False),
        ("gpt-4o charged twice", False),
        ("gpt-4o-2024-08-06\n", False),
        ("", False),
    ],
)
def test_vendor_names_its_model_only_as_a_version_of_ours(
    watched: World, told: str, is_shown: bool
) -> None:
    """Anything else in that place could be anything, the ticket's words among it."""
    reply = Reply(text="{}", finish_reason="stop", model=told)
    tell(watched.telemetry, ANSWERED, reply)
    (span,) = watched.spans
    assert attributes(span).get("gen_ai.response.model") == (told if is_shown else None)


@pytest.mark.parametrize(
    ("word", "is_shown"),
    [("stop", True), ("STOP", True), ("end_turn", True), ("charged", False), ("", False)],
)
def test_finish_reason_is_a_known_word_or_none(watched: World, word: str, is_shown: bool) -> None:
    tell(watched.telemetry, ANSWERED, Reply(text="{}", finish_reason=word))
    (span,) = watched.spans
    shown = attributes(span).get("gen_ai.response.finish_reasons")
    assert shown == ((word,) if is_shown else None)


def test_decision_is_on_the_span_of_its_ticket(watched: World) -> None:
    """Accepted or not, it is no error."""
    cooling = Attempt(provider="c", model="m", failure=FailureKind.COOLING)
    reasons = (Reason.LOW_MASS, Reason.INJECTION_SUSPECTED)
    decide(
        watched.telemetry,
        Decision(
            ticket_id="7",
            task="triage",
            status="review",
            value=None,
            provider="a",
            model="what the vendor said",
            reasons=reasons,
            trail=(cooling, ANSWERED),
        ),
    )
    span = watched.ticket
    assert (span.name, span.kind) == ("invoke_workflow triage", SpanKind.INTERNAL)
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "triage",
        "weighbridge.ticket.id": "7",
        "weighbridge.status": "review",
        "weighbridge.reasons": ("low_mass", "injection_suspected"),
        "weighbridge.provider": "a",
        "weighbridge.num_attempts": 2,
        "weighbridge.cost": 0.002,
    }
    (event,) = span.events
    assert event.name == "weighbridge.not_asked"
    assert dict(event.attributes or {})["weighbridge.outcome"] == "cooling"
    assert watched.counts("weighbridge.attempts", "weighbridge.outcome") == {"cooling": 1}
    (counted,) = watched.points("weighbridge.decisions")
    assert counted.attributes["weighbridge.reason"] == "low_mass"
    (duration,) = watched.points("gen_ai.workflow.duration")
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "triage",
        "weighbridge.status": "review",
    }


def test_certificate_is_on_the_span_of_the_ticket_that_it_covers(watched: World) -> None:
    covered = Decision(
        ticket_id="7",
        task="triage",
        status="accepted",
        value=None,
        guarantee=Guarantee(
            certificate="3",
            risk=0.02,
            confidence=0.95,
            threshold=0.9,
            num_labels=300,
            expires_at=datetime(2027, 1, 1, tzinfo=UTC),
        ),
    )
    decide(watched.telemetry, covered)
    known = attributes(watched.ticket)
    assert (known["weighbridge.certificate"], known["weighbridge.certified_risk"]) == ("3", 0.02)


attempt_lists = st.lists(
    st.builds(
        Attempt,
        provider=st.just("a"),
        model=st.just("gpt-4o"),
        failure=st.none() | st.sampled_from(FailureKind),
        seconds=st.floats(0.0, 60.0),
        prompt_tokens=st.none() | st.integers(0, 10_000),
        completion_tokens=st.none() | st.integers(0, 10_000),
        cost_usd=st.none() | st.floats(0.0, 1.0),
        mode=st.sampled_from(["native", None]),
    ),
    max_size=6,
)


@given(trails=st.lists(attempt_lists, max_size=4))
def test_counts_add_up(trails: list[list[Attempt]]) -> None:
    """Decisions, attempts, tokens and dollars: each is counted once, wherever it came about."""
    with world() as watched:
        for trail in trails:
            with watched.telemetry.ticket("triage", "7") as watch:
                for attempt in trail:
                    if attempt.mode is not None:
                        tell(watched.telemetry, attempt)
                reasons = () if trail else (Reason.NO_ANSWER,)
                status = "accepted" if trail else "review"
                watch.decided(
                    Decision(
                        ticket_id="7",
                        task="triage",
                        status=status,  # type: ignore[arg-type]
                        value=None,
                        reasons=reasons,
                        trail=tuple(trail),
                    )
                )
        attempts = [attempt for trail in trails for attempt in trail]
        sent = [attempt for attempt in attempts if attempt.mode is not None]
        passed = [
            attempt
            for attempt in attempts
            if attempt.mode is None and attempt.failure not in (None, FailureKind.CANCELLED)
        ]
        assert sum(watched.counts("weighbridge.decisions", "").values()) == len(trails)
        assert sum(watched.counts("weighbridge.attempts", "").values()) == len(sent) + len(passed)
        assert len(watched.attempts) == len(sent)
        assert sum(watched.counts("weighbridge.cost", "").values()) == pytest.approx(
            sum(attempt.cost_usd or 0.0 for attempt in sent)
        )
        assert sum(watched.counts("gen_ai.client.token.usage", "").values()) == sum(
            (attempt.prompt_tokens or 0) + (attempt.completion_tokens or 0) for attempt in sent
        )


def test_requests_that_weigh_have_a_span_and_a_price(watched: World) -> None:
    """As long as they took, beside the attempt whose answer they weigh."""
    with watched.telemetry.ticket("triage", "7"):
        watched.telemetry.weighed(
            provider(),
            Attempt(
                provider="a",
                model="gpt-4o",
                seconds=2.0,
                prompt_tokens=5,
                completion_tokens=1,
                cost_usd=0.5,
            ),
        )
    (span,) = watched.attempts
    assert is_child(span, watched.ticket)
    assert attributes(span)["weighbridge.purpose"] == "weigh"
    assert (span.end_time or 0) - (span.start_time or 0) == 2_000_000_000
    assert watched.counts("weighbridge.cost", "") == {None: 0.5}
    assert watched.points("weighbridge.attempts") == []


@pytest.mark.parametrize(
    ("error", "told"),
    [(asyncio.CancelledError(), "cancelled"), (ZeroDivisionError("canary"), "ZeroDivisionError")],
)
def test_what_ends_early_says_so_in_one_word(
    watched: World, error: BaseException, told: str
) -> None:
    """With the class of an exception and never its message."""
    with (
        pytest.raises(type(error)),
        watched.telemetry.ticket("triage", "7"),
        watched.telemetry.attempt(provider(), "7"),
    ):
        raise error
    assert [attributes(span)["error.type"] for span in watched.spans] == [told, told]
    assert all(span.status.status_code is StatusCode.ERROR for span in watched.spans)
    assert watched.counts("weighbridge.attempts", "weighbridge.outcome") == {told: 1}
    assert watched.points("weighbridge.decisions") == []
    assert "canary" not in watched.written()


def test_decision_that_could_not_be_queued_is_counted_and_an_error(
    watched: World, caplog: pytest.LogCaptureFixture
) -> None:
    lost = Decision(ticket_id="7", task="triage", status="review", value=None)
    with pytest.raises(QueueUnavailable), watched.telemetry.ticket("triage", "7"):
        raise QueueUnavailable("sqlite:///canary", "canary", lost)
    assert attributes(watched.ticket)["error.type"] == "QueueUnavailable"
    assert watched.counts("weighbridge.decisions", "weighbridge.status") == {"review": 1}
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "weighbridge")
    assert "canary" not in watched.written() + caplog.text


class Sulking(SpanProcessor):
    """Raises wherever it is told anything."""

    def __init__(self, *, on_start: bool) -> None:
        self.starts = on_start

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.starts:
            raise RuntimeError("collector")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("collector")


@pytest.mark.parametrize("on_start", [True, False])
def test_collector_that_raises_costs_no_ticket(watched: World, on_start: bool) -> None:
    """And leaves the caller's span the current one."""
    watched.add(Sulking(on_start=on_start))
    with trace.use_span(trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT)) as mine:
        with watched.telemetry.ticket("triage", "7") as watch:
            tell(watched.telemetry, ANSWERED)
            watched.telemetry.weighed(provider(), ANSWERED)
            watch.decided(ACCEPTED)
        assert trace.get_current_span() is mine


def test_coroutine_that_is_thrown_away_ends_its_span_quietly(
    watched: World, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a loop is closed before its tasks are done: in another context than it began."""

    async def work() -> None:
        with watched.telemetry.ticket("triage", "7"):
            await asyncio.sleep(60)

    async def main() -> Any:
        coroutine = work()
        asyncio.get_running_loop().call_soon(lambda: coroutine.send(None))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return coroutine

    asyncio.run(main()).close()
    assert attributes(watched.ticket)["error.type"] == "GeneratorExit"
    assert caplog.records == []


def test_two_routers_share_one_set_of_instruments(
    watched: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Their numbers add up, and the SDK finds nothing to warn of."""
    for telemetry in (watched.telemetry, watched.another()):
        decide(telemetry, ACCEPTED)
    assert watched.counts("weighbridge.decisions", "weighbridge.status") == {"accepted": 2}
    assert [record.message for record in caplog.records] == []


def test_decision_is_one_line_with_fields(caplog: pytest.LogCaptureFixture) -> None:
    """At INFO; what was answered is not in it."""
    caplog.set_level(logging.INFO, "weighbridge")
    decision = Decision(
        ticket_id="7",
        task="triage",
        status="review",
        value={"category": "canary"},
        reasons=(Reason.LOW_MASS,),
        reasoning="canary",
        provider="a",
        model="canary",
        trail=(failed(FailureKind.TRANSIENT)[0], ANSWERED),
    )
    decide(Telemetry(clock=iter([1.0, 3.5]).__next__), decision)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("weighbridge", "INFO")
    assert record.message == "ticket 7: review (low_mass) in 2.500 s, 2 attempts"
    fields = (
        "event ticket_id task status reasons provider model seconds attempts cost_usd review_id"
    )
    told = {name: getattr(record, name) for name in fields.split()}
    assert told == {
        "event": "decision",
        "ticket_id": "7",
        "task": "triage",
        "status": "review",
        "reasons": ["low_mass"],
        "provider": "a",
        "model": "gpt-4o",
        "seconds": 2.5,
        "attempts": 2,
        "cost_usd": 0.002,
        "review_id": None,
    }
    assert "canary" not in repr(vars(record))


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        (FailureKind.TRANSIENT, "WARNING"),
        (FailureKind.RATE_LIMIT, "WARNING"),
        (FailureKind.QUOTA, "WARNING"),
        (FailureKind.CREDENTIAL, "WARNING"),
        (FailureKind.MODEL_GONE, "WARNING"),
        (FailureKind.UNKNOWN, "WARNING"),
        (FailureKind.REFUSAL, "DEBUG"),
        (FailureKind.INVALID, "DEBUG"),
        (FailureKind.CAPABILITY, "DEBUG"),
        (FailureKind.CANCELLED, "DEBUG"),
    ],
)
def test_failed_attempt_is_one_line(
    kind: FailureKind, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning where a provider is in trouble, and not where a ticket is."""
    caplog.set_level(logging.DEBUG, "weighbridge")
    tell(Telemetry(), *failed(kind, status=500, seconds=1.5, detail="canary"))
    (record,) = caplog.records
    assert record.levelname == level
    assert record.message == f"ticket 7: a (gpt-4o) failed: {kind}, status 500, after 1.500 s"
    assert (record.failure, record.status) == (kind.value, 500)  # type: ignore[attr-defined]
    assert "canary" not in repr(vars(record))


def test_answer_is_no_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "weighbridge")
    tell(Telemetry(), ANSWERED)
    assert caplog.records == []


@given(name=st.text(max_size=300))
@example(name="x" * 3000)
def test_no_name_breaks_a_line_or_a_span(name: str) -> None:
    """Ids and model names come from files: line ends, escape codes, half characters, any length."""
    with world() as watched:
        records: list[logging.LogRecord] = []
        handler = logging.Handler(logging.DEBUG)
        handler.emit = records.append  # type: ignore[method-assign]
        logger = logging.getLogger("weighbridge")
        logger.addHandler(handler)
        try:
            with watched.telemetry.ticket(name, name):
                attempt, failure = failed(FailureKind.TRANSIENT)
                with watched.telemetry.attempt(provider(model=name), name) as watch:
                    watch.ended(Attempt(provider="a", model=name, failure=attempt.failure), failure)
        finally:
            logger.removeHandler(handler)
        (record,) = records
        assert all(c.isprintable() or c == "\ufffd" for c in record.getMessage())
        for text in [record.getMessage(), *(span.name for span in watched.spans)]:
            assert len(text.encode()) < 2000
        assert len(attributes(watched.ticket)["weighbridge.ticket.id"]) <= 128


def ran(code: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: this one has loaded OpenTelemetry already."""
    setting = (
        "import sys\n"
        "from weighbridge.router.telemetry import Telemetry\n"
        "from weighbridge.decision import Decision\n"
        "D = Decision(ticket_id='7', task='t', status='accepted', value=None)\n"
        "def decide(telemetry):\n"
        "    with telemetry.ticket('t', '7') as watch: watch.decided(D)\n"
        "def loaded():\n"
        "    return sorted(n for n in sys.modules if n.split('.')[0] == 'opentelemetry')\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", setting + code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_nothing_is_imported_or_printed_unless_somebody_asked() -> None:
    """Neither OpenTelemetry nor a line on standard error, not even of an error."""
    done = ran(
        "import logging\n"
        "decide(Telemetry())\n"
        "logging.getLogger('weighbridge').error('x')\n"
        "print(loaded())"
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_application_that_loads_it_later_is_found() -> None:
    """With the provider that it sets, at whatever time; and left alone where it is switched off."""
    done = ran(
        "telemetry, off = Telemetry(), Telemetry(opentelemetry=False)\n"
        "decide(telemetry)\n"
        "from opentelemetry import trace\n"
        "decide(telemetry)\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter\n"
        "exporter, tracers = InMemorySpanExporter(), TracerProvider()\n"
        "tracers.add_span_processor(SimpleSpanProcessor(exporter))\n"
        "trace.set_tracer_provider(tracers)\n"
        "decide(telemetry); decide(off)\n"
        "print([span.name for span in exporter.get_finished_spans()])"
    )
    assert (done.stdout.strip(), done.stderr) == ("['invoke_workflow t']", "")


def test_application_that_collects_metrics_alone_is_found() -> None:
    done = ran(
        "from opentelemetry import metrics, trace\n"
        "telemetry = Telemetry()\n"
        "decide(telemetry)\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from opentelemetry.sdk.metrics.export import InMemoryMetricReader\n"
        "reader = InMemoryMetricReader()\n"
        "metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))\n"
        "decide(telemetry)\n"
        "scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics\n"
        "print(sorted(metric.name for scope in scopes for metric in scope.metrics))"
    )
    names = "['gen_ai.workflow.duration', 'weighbridge.decisions']"
    assert (done.stdout.strip(), done.stderr) == (names, "")


def test_nothing_is_made_where_nothing_collects() -> None:
    """The API alone, which many libraries load, gets no span to throw away."""
    done = ran(
        "from opentelemetry import trace\n"
        "begun = []\n"
        "plainly = trace.NoOpTracer.start_span\n"
        "trace.NoOpTracer.start_span = lambda *a, **k: begun.append(a) or plainly(*a, **k)\n"
        "telemetry = Telemetry()\n"
        "decide(telemetry)\n"
        "given = Telemetry(tracer_provider=trace.NoOpTracerProvider())\n"
        "print(len(begun)); decide(given); print(len(begun))"
    )
    assert (done.stdout.split(), done.stderr) == (["0", "1"], "")


def test_opentelemetry_that_cannot_be_used_is_said_once() -> None:
    """Such as half an installation: the tickets go on."""
    done = ran(
        "import logging, types\n"
        "logging.basicConfig(format='%(levelname)s %(message)s')\n"
        "sys.modules['opentelemetry'] = types.ModuleType('opentelemetry')\n"
        "sys.modules['opentelemetry.trace'] = types.ModuleType('opentelemetry.trace')\n"
        "telemetry = Telemetry()\n"
        "decide(telemetry); decide(telemetry); print('done')"
    )
    assert done.stdout.strip() == "done"
    assert done.stderr.strip() == "WARNING OpenTelemetry is not used: ImportError"
