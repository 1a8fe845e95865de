"""Canaries: a key, an address and the words of tickets, planted and then looked for everywhere."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scene import Scene
from servers import Behaviour, answers, hangs, raw, says, slowly, status

from weighbridge import Router
from weighbridge.errors import QueueUnavailable
from weighbridge.router.telemetry import Telemetry

KEY = "sk-canary-5up3rs3cr3t"
CANARIES = (KEY, "eve@canary.example", "zanzibar", "quince")
LEAK = " ".join(CANARIES)
BODY = "Dear zanzibar team, eve@canary.example was charged twice for the quince."

SCENARIOS: dict[str, Behaviour] = {
    "answers": answers(),
    "answers with its own words": answers(LEAK),
    "no such option": answers(answer={"category": "zanzibar", "priority": "high"}),
    "another field": answers(answer={"category": "billing", "priority": "high", LEAK: LEAK}),
    "cut": answers(LEAK, finish="length"),
    "refuses": answers(None, answer=None, refusal=LEAK),
    "filters": answers(LEAK, finish="content_filter"),
    "thinks aloud": answers(reasoning_content=LEAK),
    "ends in other words": answers(finish=LEAK),  # a single word of a vendor's is reported
    "ends with an address": answers(finish="eve@canary.example"),
    "400": status(400, f"quince: {LEAK}"),
    "400 names a parameter": says(
        400, json.dumps({"error": {"message": LEAK, "param": "zanzibar"}}).encode()
    ),
    "401": status(401, f"Incorrect API key provided: {KEY}"),
    "404": status(404, LEAK),
    "413": status(413, LEAK),
    "429": status(429, f"quince: {LEAK}", retry_after=LEAK),
    "503": status(503, LEAK, x_request_id=LEAK, x_should_retry="false"),
    "200 with an error": says(200, json.dumps({"error": {"message": LEAK, "code": LEAK}}).encode()),
    "redirects": says(307, location=f"http://zanzibar.example/{KEY}"),
    "is no HTTP": raw(LEAK.encode(), hang_up=True),
    "is no JSON": says(200, LEAK.encode()),
    "wrong header": raw(f"HTTP/1.1 200 x\r\n{LEAK}\r\n\r\n".encode(), hang_up=True),
    "hangs": hangs,
    "slow": slowly(0.3, answers(LEAK)),
}


class Captured:
    """All that leaves a router, but for what stays on disk."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)
        self.errors: list[BaseException] = []
        self.trails: list[str] = []

    def route(self, config: dict[str, Any]) -> Router:
        router = Router.from_config(config)
        telemetry = Telemetry(tracer_provider=self.tracers, meter_provider=self.meters)
        router._telemetry = telemetry
        object.__setattr__(router._chain._around, "telemetry", telemetry)
        return router

    def ask(self, router: Router, **ticket: Any) -> None:
        try:
            decision = router.triage({"body": BODY, "subject": CANARIES[-1], **ticket})
        except QueueUnavailable as error:
            self.errors.append(error)
            decision = error.decision
        if decision is not None:
            self.trails.append(f"{decision.trail!r} {decision.fields!r} {router!r}")

    def texts(self, records: list[logging.LogRecord]) -> dict[str, str]:
        """By where they were caught; of an error also all that its traceback would print."""
        spans = [json.loads(span.to_json()) for span in self.exporter.get_finished_spans()]
        metrics = self.reader.get_metrics_data()
        return {
            "logs": "".join(f"{r.getMessage()} {vars(r)!r}" for r in records),
            "spans": json.dumps(spans, ensure_ascii=False),
            "metrics": "" if metrics is None else metrics.to_json(),
            "errors": "".join(
                "".join(traceback.format_exception(e)) + f"{e!r} {e.__dict__.get('problem')!r}"
                for e in self.errors
            ),
            "trails": "".join(self.trails),
        }


def config_of(scene: Scene, **more: Any) -> dict[str, Any]:
    """Everything is switched on that writes or tells something."""
    return {
        **scene.config,
        "router": {"deadline": "2s", "share_health": True, "hedge_after": 0.9},
        "decision_cache": {"enabled": True, "kind": "database"},
        "budget": {"usd_per_day": 5.0, "usd_per_ticket": 2.0},
        **more,
    }


def without_queue(folder: Path, database: Path) -> str:
    """The database without what belongs there: the tickets that wait for a person."""
    copy = folder / "copy"
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.executescript("DELETE FROM event; DELETE FROM verdict; DELETE FROM item; VACUUM")
        tables = [name for (name,) in target.execute("SELECT name FROM sqlite_schema")]
        assert {"cached_decision", "cooldown", "spending", "capabilities"} <= {*tables}
    return copy.read_bytes().decode("latin-1")


def test_no_canary_is_anywhere_but_in_the_queue(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever way a vendor, the budget, the queue or the caller fails."""
    caplog.set_level(logging.DEBUG, logger="weighbridge")
    monkeypatch.setenv("CANARY_KEY", KEY)
    captured = Captured()
    keyed = {"api_key_env": "CANARY_KEY", "price": {"prompt": 1.0, "completion": 2.0}}
    for number, (name, behaviour) in enumerate(SCENARIOS.items()):
        scene.providers.clear()
        scene.add("a", behaviour, timeout="400ms", max_concurrency=3, **keyed)
        scene.add("b", answers() if number % 2 else behaviour, timeout="400ms", **keyed)
        with captured.route(config_of(scene)) as router:
            captured.ask(router, id=f"case {number}", body=f"{BODY} {name}")
            captured.ask(router, id=f"case {number}", body=f"{BODY} {name}")  # perhaps kept
    with captured.route(config_of(scene, budget={"usd_per_day": 0.0})) as router:
        captured.ask(router, id="refused by the budget")
    scene.providers.clear()
    scene.add("a", hangs, **keyed)
    with captured.route(config_of(scene)) as router:
        router._queue._database._engine.dispose()  # type: ignore[attr-defined]
        with closing(sqlite3.connect(scene.folder / "queue.db")) as other:
            other.execute("ALTER TABLE item RENAME TO zz")
            captured.ask(router, id="queue fails")
            other.execute("ALTER TABLE zz RENAME TO item")

        async def give_up() -> None:
            ticket = asyncio.create_task(router.atriage({"body": BODY, "id": "given up"}))
            await asyncio.sleep(0.1)
            ticket.cancel()
            await asyncio.gather(ticket, return_exceptions=True)

        asyncio.run(give_up())
    ours = [record for record in caplog.records if record.name.startswith("weighbridge")]
    texts = captured.texts(ours)
    texts["database"] = without_queue(scene.folder, scene.folder / "queue.db")
    texts |= {str(path): path.read_bytes().decode("latin-1") for path in others(scene.folder)}
    assert all(texts[place] for place in ("logs", "spans", "metrics", "errors", "trails"))
    found = [
        (place, canary) for place, text in texts.items() for canary in CANARIES if canary in text
    ]
    assert found == []
    queue = (scene.folder / "queue.db").read_bytes().decode("latin-1")
    assert "zanzibar" in queue, "it was looked for in the right place"
    assert KEY not in queue


def others(folder: Path) -> list[Path]:
    """Files that have no business to hold a ticket."""
    known = {"queue.db", "queue.db-wal", "queue.db-shm", "copy"}
    return [path for path in folder.rglob("*") if path.is_file() and path.name not in known]
