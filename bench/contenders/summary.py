"""One contender's numbers out of its reports, and ours over those of the others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.contenders.job import Job, Report
from bench.contenders.workloads import is_member

OURS = "ours-int8"

# What is compared, by its key in a summary; times and memory are better small, rates large.
COMPARED = {
    "triage": "triage_ms",
    "banking77": "banking77_ms",
    "json": "json_tokens_per_s",
    "plain": "plain_tokens_per_s",
    "load": "load_s",
    "first_answer": "first_answer_s",
    "peak": "peak_mb",
}


class Run(NamedTuple):
    """One process: the time of day before it was started, and what it reported."""

    started_at: float
    report: Report


def summary(runs: Sequence[Run], job: Job) -> dict[str, Any]:
    """Medians over rounds, tickets and masks.

    Args:
        runs: of one contender; at least one.
        job: what it was asked to do.
    """
    reports = [run.report for run in runs]
    first_answers = [run.report["answered_at"] - run.started_at for run in runs]
    result: dict[str, Any] = {
        "version": reports[0]["version"],
        "import_s": statistics.median(report["import_s"] for report in reports),
        "load_s": statistics.median(report["load_s"] for report in reports),
        "prepare_s": statistics.median(report["prepare_s"] for report in reports),
        "first_answer_s": statistics.median(first_answers),
        "peak_mb": statistics.median(report["peak_mb"] for report in reports),
    }
    for workload in job["workloads"]:
        answers = [report["answers"][workload["name"]] for report in reports]
        seconds = [s for answer in answers for s in answer["seconds"]]
        wrong = [text for text in answers[0]["texts"] if not is_member(workload, text)]
        result[f"{workload['name']}_ms"] = statistics.median(seconds) * 1e3
        result[f"{workload['name']}_invalid"] = len(wrong)
    for kind in reports[0]["written"]:
        rates = [tokens / seconds for tokens, seconds in (r["written"][kind] for r in reports)]
        result[f"{kind}_tokens"] = reports[0]["written"][kind][0]
        result[f"{kind}_tokens_per_s"] = statistics.median(rates)
    result["masks"] = {
        name: _mask([s for r in reports for s in r["masks"][name]], result["plain_tokens_per_s"])
        for name in reports[0]["masks"]
    }
    if reports[0]["rates"]:
        alone, reading = (
            statistics.median(report["rates"][name] for report in reports) / 1e9
            for name in ("matmul", "prefill")
        )
        result["gops"] = {"matmul": alone, "prefill": reading, "share": reading / alone}
    return result


def ratios(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Ours in int8 over each of the others, by what was measured of both."""
    ours = summaries.get(OURS, {})
    return {
        what: {
            name: ours[key] / numbers[key]
            for name, numbers in summaries.items()
            if name != OURS and key in numbers
        }
        for what, key in COMPARED.items()
        if key in ours
    }


def same_prompts(runs: Mapping[str, Sequence[Run]]) -> dict[str, bool]:
    """Whether each contender has read the prompts of the first one, token by token."""
    answers = {name: own[0].report["answers"] for name, own in runs.items()}
    reference = next(iter(answers.values()), {})
    return {
        name: all(own[task]["ids"] == reference[task]["ids"] for task in reference)
        for name, own in answers.items()
    }


def _mask(seconds: Sequence[float], steps_per_s: float) -> dict[str, float]:
    median_s = statistics.median(seconds)
    return {
        "median_us": median_s * 1e6,
        "per_s": len(seconds) / sum(seconds),
        "share_of_step": median_s * steps_per_s,
    }
