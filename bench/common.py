"""What the measurements share: rows, baselines, intervals, output."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

EXAMPLES = Path(__file__).parents[1] / "examples"
DEVELOPMENT = Path(__file__).parent / "data" / "triage-dev.jsonl"

RESAMPLES, SEED = 2000, 20261130


def parser(description: str) -> argparse.ArgumentParser:
    """A parser that knows --json."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="end with one JSON object")
    return made


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def bootstrap(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % bootstrap interval over rows, fixed seed."""
    data = np.asarray(values, dtype=float)
    draws = np.random.default_rng(SEED).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.quantile(data[draws].mean(1), [0.025, 0.975])
    return float(data.mean()), float(low), float(high)


def macro_f1(truth: Sequence[str], said: Sequence[str], labels: Sequence[str]) -> float:
    """Unweighted mean of the F1 of every label."""
    scores = []
    for label in labels:
        hits = sum(t == s == label for t, s in zip(truth, said, strict=True))
        sizes = sum(t == label for t in truth) + sum(s == label for s in said)
        scores.append(2 * hits / sizes if sizes else 0.0)
    return float(np.mean(scores))


def majority(truth: Sequence[str]) -> str:
    """The most frequent label."""
    return Counter(truth).most_common(1)[0][0]


def lexical_hits(texts: Sequence[str], truth: Sequence[str], labels: Sequence[str]) -> list[float]:
    """What matching the words of a ticket with those of the labels gets right; ties are shared."""
    hits = []
    for text, right in zip(texts, truth, strict=True):
        words = _words(text)
        score = {c: len(_words(c) & words) / len(_words(c)) ** 0.5 for c in labels}
        best = [c for c in labels if score[c] == max(score.values())]
        hits.append((right in best) / len(best))
    return hits


def _words(text: str) -> set[str]:
    return {re.sub(r"(ing|ed|es|s|e)$", "", word) for word in re.findall("[a-z]+", text.lower())}


def percent(value: float) -> str:
    """A share for a table."""
    return f"{value:.3f}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def finish(result: dict[str, Any], *, as_json: bool) -> None:
    """Print the JSON object, if it was asked for."""
    if as_json:
        print(json.dumps(result))
