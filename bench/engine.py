"""The local engine beside its peers: same weights, same prompts, same tickets, in one run.

    python -m bench.engine [--shared ../shared] [--rounds 2] [--contenders ours-int8 llama.cpp]

Each contender runs in a process of its own, one after another, so that start and memory are its
own; the rounds take turns, and medians are taken over all of them. Ours scores every answer of a
finite language; the peers decode one greedily under the same grammar, everybody keeping what the
prompts have in common. A peer that is not installed is named, and left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from bench.common import finish, parser
from bench.contenders import workloads
from bench.contenders.course import megabytes
from bench.contenders.job import Job, Weights
from bench.contenders.summary import OURS, Run, ratios, same_prompts, summary
from bench.contenders.tables import show_all

# Each, and the packages that it needs besides our own.
CONTENDERS: Mapping[str, tuple[str, ...]] = {
    OURS: (),
    "ours-prior": (),
    "ours-float32": (),
    "llama.cpp": ("llama_cpp",),
    "outlines": ("outlines", "transformers"),
    "xgrammar": ("xgrammar", "transformers"),
}
ANSWERS_ALONE = frozenset({"ours-prior"})
PINS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "GOMP_SPINCOUNT")
TIMEOUT_S = 600.0
MAX_BUSY = 0.5  # processes, over the last minute
TICKET = "I was charged twice, refund please"
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure, print."""
    options = _options()
    loud, busy = Console(stderr=True), os.getloadavg()[0]
    if busy > MAX_BUSY:
        loud.print(f"[bold yellow]the machine is busy[/]: load {busy:.1f} over the last minute")
    absent = {name: packages for name in options.contenders if (packages := _absent(name))}
    for name, packages in absent.items():
        loud.print(f"[bold yellow]{name} is absent[/]: pip install {' '.join(packages)}")
    with _job(options) as job:
        skipped = [] if len(job["workloads"]) > 1 else ["banking77"]
        if skipped:
            loud.print(f"[bold yellow]no tickets[/] in {options.shared / workloads.BANKING}")
        present = [name for name in options.contenders if name not in absent]
        found, failed = _rounds(present, job, options.rounds, loud)
    cli = _command_line(options.rounds)
    summaries = {name: summary(runs, job) for name, runs in found.items()}
    for name, is_same in same_prompts(found).items():
        summaries[name]["same_prompt"] = is_same
    result = {
        "machine": _machine(options.threads, busy),
        "tickets": options.tickets,
        "rounds": options.rounds,
        "contenders": summaries,
        "ratios": ratios(summaries),
        "cli": cli,
        "absent": absent,
        "failed": failed,
        "skipped": skipped,
    }
    show_all(result)
    finish(result, as_json=options.json)
    sys.exit(1 if failed else 0)


def _options() -> argparse.Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--shared", type=Path, default=Path("../shared"), help="has data/tickets")
    made.add_argument("--rounds", type=int, default=2, help="how often everybody runs")
    made.add_argument("--tickets", type=int, default=6, help="of each task")
    made.add_argument("--threads", type=int, default=2, help="of each contender")
    names = list(CONTENDERS)
    made.add_argument("--contenders", nargs="+", choices=names, default=names, metavar="NAME")
    options = made.parse_args()
    for name in ("rounds", "tickets", "threads"):
        if getattr(options, name) < 1:
            made.error(f"--{name} must be 1 or more")
    return options


def _absent(name: str) -> list[str]:
    """The packages of a contender that are not installed, as pip calls them."""
    missing = (p for p in CONTENDERS[name] if importlib.util.find_spec(p) is None)
    return ["llama-cpp-python" if package == "llama_cpp" else package for package in missing]


@contextmanager
def _job(options: argparse.Namespace) -> Iterator[Job]:
    """The job, and the files that it names."""
    triage = workloads.triage(options.tickets)
    banking = workloads.banking77(options.shared, options.tickets)
    with tempfile.TemporaryDirectory(prefix="weighbridge-bench-") as folder:
        command = [sys.executable, "-m", "bench.contenders.checkpoint", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
        weights: Weights = json.loads(done.stdout)
        yield Job(
            **weights,
            threads=options.threads,
            workloads=[triage] if banking is None else [triage, banking],
            writing=workloads.writing(triage["users"][0]),
        )


def _rounds(
    names: Sequence[str], job: Job, num_rounds: int, loud: Console
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """The runs of each contender, and why others have failed."""
    found: dict[str, list[Run]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    for number in range(num_rounds):
        for name in names:
            if name in failed:
                continue
            with loud.status(f"round {number + 1} of {num_rounds}: {name}"):
                try:
                    found[name].append(_run(name, job))
                except subprocess.SubprocessError as error:
                    failed[name] = _reason(error)
                    del found[name]
                    loud.print(f"[bold red]{name} failed[/]: {escape(failed[name])}")
    return found, failed


def _run(name: str, job: Job) -> Run:
    own: Job = {**job, "writing": None} if name in ANSWERS_ALONE else job
    started_at = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "bench.contenders", name],
        input=json.dumps(own),
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "OMP_NUM_THREADS": str(job["threads"])},
        cwd=ROOT,
    )
    return Run(started_at, json.loads(done.stdout.splitlines()[-1]))


def _reason(error: subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError) and error.stderr.strip():
        return str(error.stderr.strip().splitlines()[-1])
    return str(error)


def _command_line(num_runs: int) -> dict[str, float]:
    """`weighbridge triage` of one ticket, the whole process: seconds, and its peak memory."""
    seconds, peaks = [], []
    with tempfile.TemporaryDirectory() as folder:
        own = os.environ | {"WEIGHBRIDGE_REVIEW__DATABASE": f"sqlite:///{folder}/queue.db"}
        ticket = Path(folder) / "ticket.txt"
        ticket.write_text(TICKET, "utf-8")
        command = [sys.executable, "-m", "weighbridge", "triage", "--json", str(ticket)]
        for _ in range(num_runs):
            started = time.perf_counter()
            process = subprocess.Popen(command, env=own, cwd=ROOT, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            seconds.append(time.perf_counter() - started)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)
            peaks.append(megabytes(usage.ru_maxrss))
    return {"process_s": statistics.median(seconds), "peak_mb": max(peaks)}


def _machine(threads: int, busy: float) -> dict[str, Any]:
    """What the numbers belong to; never a name."""
    import torch  # only now: see `checkpoint`

    return {
        "cores": os.cpu_count(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "busy": busy,
        "pins": {name: os.environ[name] for name in PINS if name in os.environ},
    }


if __name__ == "__main__":
    main()
