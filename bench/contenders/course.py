"""The course that every contender runs, and the only clock."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

from bench.contenders.job import Answers, Contender, Job, Report, Workload, Writing


def run(imported: Callable[[], Callable[[Job], Contender]], job: Job) -> Report:
    """Load a contender, let it do its job, and take the times.

    Args:
        imported: imports the contender; returns what loads it.
        job: with at least one workload.
    """
    started = time.perf_counter()
    load = imported()
    ready = time.perf_counter()
    contender = load(job)
    loaded = time.perf_counter()
    first, *others = job["workloads"]
    contender.prepare(first)
    prepared = time.perf_counter()
    contender.answer(first, first["users"][0])
    answered_at = time.time()
    answers = {first["name"]: _answers(contender, first)}
    peak_mb = megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    for workload in others:
        contender.prepare(workload)
        contender.answer(workload, workload["users"][0])
        answers[workload["name"]] = _answers(contender, workload)
    writing = job["writing"]
    return Report(
        version=contender.version,
        import_s=ready - started,
        load_s=loaded - ready,
        prepare_s=prepared - loaded,
        answered_at=answered_at,
        peak_mb=peak_mb,
        answers=answers,
        written={} if writing is None else _written(contender, writing),
        masks={} if writing is None else contender.masks(writing),
        rates=contender.rates(job),
    )


def megabytes(maxrss: int) -> float:
    """Peak memory as the system counts it: in bytes on macOS, else in kilobytes."""
    return maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _answers(contender: Contender, workload: Workload) -> Answers:
    """Answer every ticket but the first, which has been answered to warm up."""
    ids = contender.prompt_ids()
    seconds, texts = [], []
    for user in workload["users"][1:]:
        started = time.perf_counter()
        texts.append(contender.answer(workload, user))
        seconds.append(time.perf_counter() - started)
    return Answers(seconds=seconds, texts=texts, ids=ids)


def _written(contender: Contender, writing: Writing) -> dict[str, tuple[int, float]]:
    written = {}
    for kind, write, num_tokens in (
        ("json", contender.write_json, writing["json_tokens"]),
        ("plain", contender.write_plain, writing["plain_tokens"]),
    ):
        write(writing, 2)  # compiles the grammar and reads the prompt, which is kept
        started = time.perf_counter()
        written[kind] = (write(writing, num_tokens), time.perf_counter() - started)
    return written
