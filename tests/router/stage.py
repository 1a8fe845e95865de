"""A router on a stage: scripted responses at the transport, a clock that only sleep moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from weighbridge.decision import (
    CalibrationKey,
    Decision,
    FailureKind,
    ReviewEntry,
    ReviewId,
    Ruling,
)
from weighbridge.errors import ItemNotFound, QueueUnavailable
from weighbridge.providers.asking import Wishes
from weighbridge.providers.http import DEFAULT_WISHES, HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.prices import Price
from weighbridge.providers.profiles import named
from weighbridge.router.chain import Policy
from weighbridge.router.connections import Connections
from weighbridge.router.gate import Gate
from weighbridge.router.router import DEFAULT_POLICY, Router
from weighbridge.schemas.task import Task

TASK = Task.triage(categories=["billing", "bug"], priorities=["low", "high"])
VALID = '{"category": "billing", "priority": "high"}'
KEY = "sk-canary-0123456789"

Response = httpx.Response | Exception
Script = Sequence[Response] | Callable[[httpx.Request], Response]


def answer(
    text: str | None = VALID, *, finish: str | None = "stop", **message: Any
) -> httpx.Response:
    """A chat completion with one choice."""
    choice = {"finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return httpx.Response(200, json={"model": "m-1", "choices": [choice], "usage": usage})


def error(status: int, code: str | None = None, **headers: str) -> httpx.Response:
    """An error in OpenAI's envelope."""
    body = {"error": {"message": "vendor says something", "type": "t", "code": code, "param": None}}
    return httpx.Response(
        status, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@dataclass
class Clock:
    """Monotonic seconds that pass only in `sleep`."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class MemoryQueue:
    """Keeps entries by their key, as the real one does, and what needed nobody."""

    entries: dict[str, ReviewEntry] = field(default_factory=dict)
    recorded: list[ReviewEntry] = field(default_factory=list)
    is_broken: bool = False
    patience_s: float | None = None  # of the last one

    def enqueue(self, entry: ReviewEntry, *, patience_s: float) -> ReviewId:
        self.patience_s = patience_s
        if self.is_broken:
            raise QueueUnavailable("sqlite:///nowhere", "disk full")
        self.entries.setdefault(entry.dedupe_key, entry)
        return ReviewId(f"item-{list(self.entries).index(entry.dedupe_key)}")

    def record(self, entries: Sequence[ReviewEntry]) -> None:
        if self.is_broken:
            raise QueueUnavailable("sqlite:///nowhere", "disk full")
        self.recorded += entries

    def get(self, item_id: str) -> Any:
        raise ItemNotFound(item_id)

    def settled(self, since: int, limit: int) -> list[Any]:
        return []

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Fixed:
    """Rulings that a test makes; all keys have the same unless some are named by their field."""

    ruling_: Ruling = field(default_factory=Ruling)
    by_field: dict[str, Ruling] = field(default_factory=dict)
    version: str = "1"

    def ruling(self, key: CalibrationKey) -> Ruling:
        return self.by_field.get(key.field, self.ruling_)

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class Stage:
    """Providers by name with their scripts, and what was asked of each."""

    scripts: dict[str, Script]
    clock: Clock = field(default_factory=Clock)
    queue: MemoryQueue = field(default_factory=MemoryQueue)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    profile: str = "openai"
    wishes: Wishes = DEFAULT_WISHES
    requests: list[httpx.Request] = field(default_factory=list)

    def hits(self, name: str) -> int:
        return sum(request.url.host == f"{name}.test" for request in self.requests)

    def bodies(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(r.content) for r in self.requests if r.url.host == f"{name}.test"]

    def router(self, *, gate: Gate | None = None, task: Task = TASK, **options: Any) -> Router:
        providers = [
            HttpProvider(
                name=name,
                model="m",
                base_url=f"https://{name}.test/v1",
                profile=named(self.profile),
                adapter=OpenAIAdapter(named(self.profile)),
                ledger=self.ledger,
                wishes=self.wishes,
                key=SecretStr(KEY) if name == "a" else None,
                price=Price(prompt=1.0, completion=10.0),
            )
            for name in self.scripts
        ]
        router = Router(
            providers,
            self.queue,
            task=task,
            gate=gate or Gate(without_evidence="accept"),
            clock=self.clock,
            sleep=self.clock.sleep,
            jitter=lambda: 0.0,
            **options,
        )
        # The transport is the only fake: everything from the request's bytes on is real.
        router._connections = Connections(
            lambda: httpx.AsyncClient(transport=httpx.MockTransport(self._respond))
        )
        return router

    def _respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        name = request.url.host.removesuffix(".test")
        script = self.scripts[name]
        response = (
            script(request) if callable(script) else script[min(self.hits(name), len(script)) - 1]
        )
        if isinstance(response, Exception):
            raise response
        return httpx.Response(
            response.status_code, headers=response.headers, content=response.content
        )


def failures(decision: Decision) -> list[tuple[str, FailureKind | None]]:
    return [(attempt.provider, attempt.failure) for attempt in decision.trail]


def cooling(stage: Stage, policy: Policy = DEFAULT_POLICY, **waits_s: float) -> Router:
    """A router whose providers are cooling already."""
    router = stage.router(deadline_s=60.0, policy=policy)
    for name, wait_s in waits_s.items():
        router._chain._around.health.cool(identity_of(router, name), wait_s)
    return router


def identity_of(router: Router, name: str) -> str:
    return next(p.identity for p in router._providers if p.name == name)
