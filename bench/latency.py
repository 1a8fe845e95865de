"""Milliseconds for one ticket of the built-in task, cold and warm, and peak memory.

    python -m bench.latency

Cold is a whole process: interpreter, imports, weights, the reading of the instructions, one ticket,
and the queue's database if it waits. Warm is `Router.triage` in one process, queue included.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.common import EXAMPLES, finish, parser, read_rows, show

COLD_RUNS = 3
TICKET = "I was charged twice, refund please"


def main() -> None:
    """Measure, print."""
    options = parser(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cold = [_cold(Path(folder)) for _ in range(COLD_RUNS)]
        cold_peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        first, warm = _warm(folder)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {
        "cold_process_s": statistics.median(cold),
        "first_ticket_s": first,
        "warm_median_ms": statistics.median(warm) * 1000,
        "warm_p90_ms": statistics.quantiles(warm, n=10)[-1] * 1000,
        "tickets": len(warm),
        "peak_mb": max(peak_mb, cold_peak_mb),
    }
    show(
        f"the built-in task, {os.cpu_count()} cores",
        ("what", "value"),
        [
            (
                f"process start to first answer, median of {COLD_RUNS}",
                f"{statistics.median(cold):.2f} s",
            ),
            ("first ticket in a running process, loading included", f"{first:.2f} s"),
            (f"warm, median of {len(warm)} example tickets", f"{result['warm_median_ms']:.0f} ms"),
            ("warm, 90th percentile (long tickets)", f"{result['warm_p90_ms']:.0f} ms"),
            ("peak memory of a process", f"{result['peak_mb']:.0f} MB"),
        ],
    )
    finish(result, as_json=options.json)


def _cold(folder: Path) -> float:
    environment = os.environ | {"WEIGHBRIDGE_REVIEW__DATABASE": f"sqlite:///{folder}/cold.db"}
    command = [sys.executable, "-m", "weighbridge", "triage", "--json"]
    started = time.perf_counter()
    subprocess.run(command, input=TICKET.encode(), check=True, capture_output=True, env=environment)
    return time.perf_counter() - started


def _warm(folder: str) -> tuple[float, list[float]]:
    from weighbridge.router.router import Router

    rows = read_rows(EXAMPLES / "tickets.jsonl")
    seconds = []
    started = time.perf_counter()
    with Router.from_config({"review": {"database": f"sqlite:///{folder}/warm.db"}}) as router:
        router.triage(TICKET)
        first = time.perf_counter() - started
        for row in rows:
            started = time.perf_counter()
            router.triage(row)
            seconds.append(time.perf_counter() - started)
    return first, seconds


if __name__ == "__main__":
    main()
