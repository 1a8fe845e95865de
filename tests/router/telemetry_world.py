"""OpenTelemetry's own in-memory exporters around one Telemetry: what left, and where it hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from weighbridge.router.telemetry import Telemetry


@dataclass
class World:
    """A tracer and a meter provider of their own, and a telemetry that tells them."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)
        self.telemetry = self.another()

    def another(self) -> Telemetry:
        """One more telemetry for the same collectors."""
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)

    def add(self, processor: SpanProcessor) -> None:
        self.tracers.add_span_processor(processor)

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they ended: children before their parents."""
        return list(self.exporter.get_finished_spans())

    @property
    def attempts(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith("chat ")]

    @property
    def ticket(self) -> ReadableSpan:
        (span,) = (span for span in self.spans if span.name.startswith("invoke_workflow "))
        return span

    def points(self, name: str) -> list[Any]:
        """The data points of one metric."""
        data = self.reader.get_metrics_data()
        scopes = [] if data is None else [s for r in data.resource_metrics for s in r.scope_metrics]
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in metrics for point in metric.data.data_points]

    def counts(self, name: str, attribute: str) -> dict[Any, Any]:
        """A counter's or histogram's sum by one attribute."""
        found: dict[Any, Any] = {}
        for point in self.points(name):
            key = point.attributes.get(attribute)
            value = point.value if hasattr(point, "value") else point.sum
            found[key] = found.get(key, 0) + value
        return found

    def written(self) -> str:
        """All that has left, as text."""
        data = self.reader.get_metrics_data()
        spans = [json.loads(span.to_json()) for span in self.spans]
        return json.dumps(spans, ensure_ascii=False) + ("" if data is None else data.to_json())


@contextmanager
def world() -> Iterator[World]:
    opened = World()
    try:
        yield opened
    finally:
        opened.tracers.shutdown()
        opened.meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and span.parent.span_id == parent.context.span_id
