"""What the router adds to a call, beside bare httpx and the clients that others use.

Every client asks the same loopback server, which answers at once, in turns with bare httpx, pair by
pair. Ours includes the schema plan, the strict parser, validation against the original schema,
evidence from log-probabilities, the injection signs, the gate, the statistics of what was accepted;
writing to the review queue is reported apart, so no ticket is drawn for an audit. The others take
the schema and validate as they do by themselves.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from bench.common import finish, parser, show
from bench.peers import Peer, peers
from bench.stub_server import serving
from weighbridge import Router, Task, Ticket
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.protocol import Inquiry

CALLS, WARM_UP = 600, 60
MANY_CALLS, CONCURRENCY, ROUNDS = 3000, 64, 5
IMPORTS = (
    "weighbridge",
    "weighbridge.router.router",
    "httpx",
    "pydantic_ai",
    "instructor",
    "openai",
)

Call = Callable[[int], Awaitable[Any]]


def main() -> None:
    """Measure, print."""
    options = parser(__doc__ or "").parse_args()
    with serving() as server, tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(_measure(server, Path(folder)))
    result["import_s"] = {name: _import_s(name) for name in IMPORTS}
    _show(result)
    finish(result, as_json=options.json)


async def _measure(server: str, folder: Path) -> dict[str, Any]:
    accepting, queueing = (
        Router.from_config(_settings(server, f"sqlite:///{folder}/{policy}.db", policy))
        for policy in ("accept", "review")
    )
    body = _wire_body(accepting)
    url = f"{server}/good/chat/completions"
    async with (
        httpx.AsyncClient() as client,
        accepting,
        queueing,
    ):
        key = {"content-type": "application/json", "authorization": "Bearer k"}

        async def bare(_: int) -> Any:
            response = await client.post(url, content=body, headers=key)
            return response.json()

        async def ours(i: int) -> Any:
            return await accepting.atriage(f"I was charged twice, case {i}")

        made: list[Peer] = peers(f"{server}/good")
        calls: dict[str, Call] = {"weighbridge": ours} | {peer.name: peer.call for peer in made}
        seconds = {
            name: await _interleaved({"bare httpx": bare, "client": call})
            for name, call in calls.items()
        }
        mine = _clients_of_their_own()

        async def bare_alone(_: int) -> Any:
            alone = mine.pop()
            response = await alone.post(url, content=body, headers=key)
            mine.append(alone)
            return response.json()

        queued = await _interleaved(
            {"queue": lambda i: queueing.atriage(f"I was charged twice, case {i}")}, calls_each=200
        )
        throughput = await _throughput(
            {
                "bare httpx": bare,
                "bare httpx, a client each": bare_alone,
                "weighbridge": ours,
            }
        )
        for alone in mine:
            await alone.aclose()
    own = seconds["weighbridge"]
    return {
        "cores": os.cpu_count(),
        "bare_ms": statistics.median(own["bare httpx"]) * 1000,
        "added_ms": {name: _added(s["bare httpx"], s["client"]) for name, s in seconds.items()},
        "queue_write_ms": 1000
        * (statistics.median(queued["queue"]) - statistics.median(own["client"])),
        "calls_per_s": throughput,
        "throughput_ratio": throughput["weighbridge"] / throughput["bare httpx"],
        "throughput_ratio_alone": throughput["weighbridge"]
        / throughput["bare httpx, a client each"],
    }


def _clients_of_their_own() -> list[httpx.AsyncClient]:
    """A client for each call under way: one pool for all is slow, whoever stands behind it."""
    trusted = httpx.create_ssl_context()
    return [httpx.AsyncClient(verify=trusted) for _ in range(CONCURRENCY)]


def _settings(server: str, database: str, policy: str) -> dict[str, Any]:
    return {
        "provider": [
            {"name": "a", "kind": "openai", "base_url": f"{server}/good", "model": "stub"}
        ],
        "gate": {"without_evidence": policy},
        "review": {"database": database, "audit_rate": 0.0},
    }


def _wire_body(router: Router) -> bytes:
    """The bytes that the router itself sends, so that bare httpx has the same to send."""
    (provider,) = router._providers
    assert isinstance(provider, HttpProvider)
    task = Task.triage()
    ticket = Ticket.of("I was charged twice, case 100")
    inquiry = Inquiry(task=task, approach=provider.approach(task), ticket=ticket)
    wanted = provider._options(inquiry)
    return provider.adapter.build(inquiry.approach.schema, task.prompt(ticket), wanted).body


async def _interleaved(
    calls: dict[str, Call], *, calls_each: int = CALLS
) -> dict[str, list[float]]:
    """Seconds of every call; the clients take turns, and who begins changes."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for i in range(-WARM_UP, calls_each):
        order = [*order[1:], order[0]]
        for name in order:
            began = time.perf_counter()
            await calls[name](i)
            if i >= 0:
                seconds[name].append(time.perf_counter() - began)
    return seconds


async def _throughput(calls: dict[str, Call]) -> dict[str, float]:
    """Calls per second with CONCURRENCY under way; the clients take turns."""
    seconds = dict.fromkeys(calls, 0.0)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            numbers = iter(range(MANY_CALLS // ROUNDS))

            async def work(call: Call = call, numbers: Iterator[int] = numbers) -> None:
                for i in numbers:
                    await call(i)

            began = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
            seconds[name] += time.perf_counter() - began
    return {name: MANY_CALLS / spent for name, spent in seconds.items()}


def _added(bare: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """Milliseconds of a client beyond bare httpx, of all pairs."""
    pairs = sorted((theirs - ours) * 1000 for ours, theirs in zip(bare, other, strict=True))
    return {"median": statistics.median(pairs), "p99": pairs[int(len(pairs) * 0.99)]}


def _import_s(module: str) -> float | None:
    """Median time that a fresh interpreter takes to import, beyond its own start."""
    program = (
        "import time; began = time.perf_counter(); import " + module + ";"
        " print(time.perf_counter() - began)"
    )
    found = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        for _ in range(5)
    ]
    if any(run.returncode for run in found):
        return None
    return statistics.median(float(run.stdout) for run in found)


def _show(result: dict[str, Any]) -> None:
    show(
        f"added to a call of {result['bare_ms']:.2f} ms, {result['cores']} cores",
        ("client", "median", "99th percentile"),
        [
            (name, f"{added['median']:.2f} ms", f"{added['p99']:.2f} ms")
            for name, added in result["added_ms"].items()
        ],
    )
    imports = [
        (f"import {name}", "not installed" if seconds is None else f"{seconds:.2f} s")
        for name, seconds in result["import_s"].items()
    ]
    show(
        "and",
        ("what", "value"),
        [
            ("writing to the review queue", f"{result['queue_write_ms']:.2f} ms"),
            (
                f"calls per second, {CONCURRENCY} under way",
                f"{result['throughput_ratio']:.2f} of bare httpx, "
                f"{result['throughput_ratio_alone']:.2f} of it with a client each",
            ),
            *imports,
        ],
    )


if __name__ == "__main__":
    main()
