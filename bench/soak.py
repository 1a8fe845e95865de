"""Many calls against good and bad servers at once: nothing lost, nothing wrong, flat memory.

`python -m bench.soak --calls 20000`. Every ticket is asked of a random order of providers, each of
which misbehaves in its own way most of the time; one in ten tickets finds nobody good. A ticket is
lost if it ends neither accepted nor in the queue. An answer is wrong if it is accepted and is not
the one that the good server gives.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.progress import Progress

from bench.common import finish, parser, show
from bench.stub_server import serving
from weighbridge import Router, Ticket
from weighbridge.config import open_queue
from weighbridge.settings import load_settings

BAD = ("down", "limited", "prose", "wrong", "cut", "twice", "empty", "html", "hangs")
CONCURRENCY, SEED = 64, 20261130
RIGHT = {"category": "billing", "priority": "high"}
_SAMPLES = 20  # of the memory


def main() -> None:
    """Run, print."""
    made = parser(__doc__ or "")
    made.add_argument("--calls", type=int, default=20_000, help="tickets (default 20000)")
    options = made.parse_args()
    with serving() as server, tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(_soak(server, f"sqlite:///{folder}/soak.db", options.calls))
    show(
        f"{options.calls} tickets, {CONCURRENCY} under way",
        ("what", "value"),
        [
            ("accepted", f"{result['accepted']}"),
            ("in front of a person", f"{result['review']}"),
            ("lost", f"{result['lost']}"),
            ("wrong and accepted", f"{result['wrong']}"),
            ("tickets per second", f"{result['per_s']:.0f}"),
            ("memory after a tenth, at the end", f"{result['rss_mb'][0]:.0f}, "
             f"{result['rss_mb'][1]:.0f} MB"),
        ],
    )  # fmt: skip
    finish(result, as_json=options.json)
    if result["lost"] or result["wrong"]:
        raise SystemExit(1)


async def _soak(server: str, database: str, calls: int) -> dict[str, Any]:
    settings = _settings(server, database)
    draw = random.Random(SEED)  # noqa: S311  # no secret depends on it
    routers = [Router.from_config(settings | {"router": _order(draw, i)}) for i in range(10)]
    counts: Counter[str] = Counter()
    memory: list[float] = []
    numbers = iter(range(calls))
    began = time.perf_counter()
    with Progress(transient=True) as progress:
        bar = progress.add_task("tickets", total=calls)

        async def work() -> None:
            for number in numbers:
                ticket = Ticket.of({"id": f"t-{number}", "body": f"charged twice, case {number}"})
                decision = await routers[number % len(routers)].atriage(ticket)
                value = decision.value and decision.value.model_dump()
                is_queued = decision.review_id is not None
                counts[decision.status] += decision.status == "accepted" or is_queued
                counts["wrong"] += decision.status == "accepted" and value != RIGHT
                if number % max(1, calls // _SAMPLES) == 0:
                    memory.append(_rss_mb())
                progress.advance(bar)

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    seconds = time.perf_counter() - began
    for router in routers:
        await router.aclose()
    queue = open_queue(load_settings(settings))
    waiting = queue.stats().num_waiting
    queue.close()
    return {
        "calls": calls,
        "accepted": counts["accepted"],
        "review": counts["review"],
        "in_queue": waiting,
        "lost": calls - counts["accepted"] - min(counts["review"], waiting),
        "wrong": counts["wrong"],
        "per_s": calls / seconds,
        "rss_mb": (memory[min(len(memory) - 1, _SAMPLES // 10)], _rss_mb()),
    }


def _settings(server: str, database: str) -> dict[str, Any]:
    return {
        "provider": [
            {
                "name": name,
                "kind": "openai",
                "base_url": f"{server}/{name}",
                "model": "stub",
                "timeout": "1s",
            }
            for name in ("good", *BAD)
        ],
        "gate": {"without_evidence": "accept"},
        "review": {"database": database},
    }


def _order(draw: random.Random, number: int) -> dict[str, Any]:
    """Two or three bad ones and then the good one; the last router has no good one."""
    bad = draw.sample(BAD, 3)
    return {"order": bad if number == 9 else [*bad[: 2 + number % 2], "good"], "deadline": "8s"}


def _rss_mb() -> float:
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
