"""Accuracy by verdicts per label, and what mass and distance add to a threshold.

    python -m bench.learning_curve shared/data/tickets/banking77-draw0

Verdicts are rows of `shots.jsonl`, judged are those of `dev.jsonl`. The first draw takes the first
rows of each label, others take rows by seed. All numbers are development numbers: features, penalty
and shares were chosen on these rows.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track

from bench.common import finish, parser, percent, read_rows, show
from weighbridge.cli.teaching import head_of, read_features
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.learned.head import Head
from weighbridge.local_engine.prior import PriorOpinion
from weighbridge.local_engine.weighing import MODEL_WEIGHT
from weighbridge.providers.local import field_spec
from weighbridge.review.learning.baselines import lexical_hits, majority, tfidf_says
from weighbridge.review.learning.examples import Gathered
from weighbridge.review.learning.fit import Features
from weighbridge.review.learning.lesson import Learned, learn
from weighbridge.review.statistics.intervals import wilson
from weighbridge.review.statistics.labels import Labels
from weighbridge.review.statistics.selective import Aurc, aurc
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

PROBABILITY, SUPPORT = 0.8, 0.5  # the gate's defaults
KEPT = 0.95


class Weighed:
    """Tickets, read and weighed once; heads are tried on them afterwards."""

    def __init__(self, engine: Engine, task: Task, texts: Sequence[str], what: str) -> None:
        [self.field] = task.fields
        assert task.language is not None
        spec = field_spec(self.field)
        weights = [
            engine.weigh(task.system, text, task.language, [spec]).weights.fields[0]
            for text in track(texts, what, transient=True)
        ]
        self.texts = tuple(texts)
        self.mass = np.asarray([each.mass[0] for each in weights])
        self.log_lift = np.log(np.maximum([each.lift for each in weights], 1e-300))
        self.features, self.opinions = read_features(engine, self.field, texts)

    def judged(self, head: Head | None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior [N, K] and support [N], as the engine gives them."""
        rows = zip(
            self.opinions,
            torch.from_numpy(self.features.embeddings).float(),
            torch.from_numpy(self.features.hidden).float(),
            strict=True,
        )
        found: list[PriorOpinion] = [
            opinion if head is None else head.opinion(opinion, self.field.options, one, other)
            for opinion, one, other in rows
        ]
        weight = MODEL_WEIGHT if head is None else head.model_weight
        logits = np.stack([each.log_probs.numpy() for each in found]) + weight * self.log_lift
        shares = np.exp(logits - logits.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True), np.asarray([each.support for each in found])


def main() -> None:
    """Measure one folder."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--shots", default="0,4,8,16", help="verdicts per label")
    arguments.add_argument("--draws", type=int, default=3, help="of the verdicts")
    options = arguments.parse_args()
    labels = json.loads((options.folder / "labels.json").read_text("utf-8"))
    task = Task.triage(categories=labels, priorities=[])
    engine = Engine.load()

    def place(row: dict[str, Any]) -> int:
        return int(labels.index(row["category"]))

    def text(row: dict[str, Any]) -> str:
        return Ticket.of(row["body"]).text

    dev = read_rows(options.folder / "dev.jsonl")
    truth = np.asarray([place(row) for row in dev])
    inside = Weighed(engine, task, [text(row) for row in dev], "dev")
    outside = {
        name: Weighed(engine, task, [text(row) for row in rows], name)
        for name in ("near_oos", "oos")
        if (rows := read_rows(options.folder / f"{name}.jsonl"))
    }
    shots = read_rows(options.folder / "shots.jsonl")
    known = [place(row) for row in shots]
    shot_texts = [text(row) for row in shots]
    started = time.perf_counter()
    shot_features, _ = read_features(engine, inside.field, shot_texts)
    read_s = time.perf_counter() - started

    curve, first_draw, fit_s = {}, {}, {}
    for number in (int(each) for each in options.shots.split(",")):
        runs = []
        for draw in range(options.draws if number else 1):
            drawn = _draw(known, number, draw)
            started = time.perf_counter()
            head = _learn(shot_texts, known, shot_features, drawn, inside, labels)
            fit_s[number] = time.perf_counter() - started
            said, support = inside.judged(head)
            hits = {"learned": said.argmax(1) == truth}
            if drawn:
                hits["tf-idf"] = _tfidf(shot_texts, known, drawn, inside.texts) == truth
            runs.append(hits)
            if not draw:
                first_draw[number] = _out_of_scope(
                    inside, outside, head, said, support, said.argmax(1) == truth
                )
        curve[number] = {name: _accuracy([run[name] for run in runs]) for name in runs[0]}
    words = lexical_hits(inside.texts, truth.tolist(), labels)
    baselines = {
        "majority": float((truth == majority(truth.tolist())).mean()),
        "lexical": float(np.mean(words)),
    }
    _show(options.folder.name, len(dev), curve, baselines, first_draw)
    finish(
        {
            "folder": options.folder.name,
            "rows": len(dev),
            "baselines": baselines,
            "curve": curve,
            "selective": first_draw,
            "read_ms": 1000 * read_s / len(shots),
            "fit_s": fit_s,
        },
        as_json=options.json,
    )


def _draw(known: Sequence[int], number: int, draw: int) -> list[int]:
    """So many rows of each label, or all there are: the first, or others by seed."""
    order = list(range(len(known)))
    if draw:
        random.Random(draw).shuffle(order)  # noqa: S311  # to be repeated, not to be secret
    taken: dict[int, list[int]] = defaultdict(list)
    for row in order:
        if len(taken[known[row]]) < number:
            taken[known[row]].append(row)
    return sorted(row for rows in taken.values() for row in rows)


def _learn(
    texts: Sequence[str],
    known: Sequence[int],
    features: Features,
    rows: Sequence[int],
    inside: Weighed,
    labels: Sequence[str],
) -> Head | None:
    if not rows:
        return None
    gathered = Gathered(
        texts=tuple(texts[row] for row in rows),
        places=tuple(known[row] for row in rows),
        times=(datetime.now(UTC),) * len(rows),
        num_by_label={
            label: sum(known[row] == place for row in rows) for place, label in enumerate(labels)
        },
        left_out={},
        unknown={},
    )
    found = learn(gathered, features.at(np.asarray(rows)), model_weight=MODEL_WEIGHT)
    assert isinstance(found, Learned)
    head: Head = head_of(found.head, inside.field)
    return head


def _tfidf(
    texts: Sequence[str], known: Sequence[int], rows: Sequence[int], asked: Sequence[str]
) -> np.ndarray:
    said = tfidf_says([texts[row] for row in rows], [known[row] for row in rows], asked)
    return np.asarray(said)


def _accuracy(runs: Sequence[np.ndarray]) -> dict[str, Any]:
    """Mean over draws; the interval is that of one draw, of the rows judged."""
    each = [float(run.mean()) for run in runs]
    mean, num = float(np.mean(each)), len(runs[0])
    low, high = wilson(round((1 - mean) * num), num)
    return {"accuracy": mean, "interval": [1 - high, 1 - low], "draws": each}


def _out_of_scope(
    inside: Weighed,
    outside: dict[str, Weighed],
    head: Head | None,
    said: np.ndarray,
    support: np.ndarray,
    right: np.ndarray,
) -> dict[str, Any]:
    """What a threshold accepts with and without mass and distance, and how each finds strangers."""
    ways = _ways(said, support, inside.mass)
    strangers = {name: each.judged(head) for name, each in outside.items()}
    mass_cut = float(np.quantile(inside.mass, 1 - KEPT))
    result: dict[str, Any] = {"accepted": {}, "aurc": {}, "strangers": {}}
    for way in ("probability", "with mass", "with distance", "with both"):
        accepted = _accepted(way, said, support, inside.mass, mass_cut)
        area = aurc(
            Labels(
                confidences=np.where(accepted >= 0, accepted, 0.0).tolist(), correct=right.tolist()
            )
        )
        passes = accepted >= PROBABILITY
        result["aurc"][way] = area.area if isinstance(area, Aurc) else None
        result["accepted"][way] = {
            "coverage": float(passes.mean()),
            "accuracy": float(right[passes].mean()) if passes.any() else None,
            **{
                name: float(
                    (_accepted(way, *judged, outside[name].mass, mass_cut) >= PROBABILITY).mean()
                )
                for name, judged in strangers.items()
            },
        }
    for name, (their_said, their_support) in strangers.items():
        theirs = _ways(their_said, their_support, outside[name].mass)
        result["strangers"][name] = {
            way: {
                "auroc": _auroc(ways[way], theirs[way]),
                "sent_to_review": float((theirs[way] < np.quantile(ways[way], 1 - KEPT)).mean()),
            }
            for way in ways
        }
    return result


def _ways(said: np.ndarray, support: np.ndarray, mass: np.ndarray) -> dict[str, np.ndarray]:
    return {"probability": said.max(1), "mass": mass, "distance": support}


def _accepted(
    way: str, said: np.ndarray, support: np.ndarray, mass: np.ndarray, mass_cut: float
) -> np.ndarray:
    """Confidence of each ticket, 0 where something vetoes."""
    confidence: np.ndarray = said.max(1).copy()
    if way in ("with mass", "with both"):
        confidence[mass < mass_cut] = 0.0
    if way in ("with distance", "with both"):
        confidence[support < SUPPORT] = 0.0
    return confidence


def _auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    above = (inside[:, None] > outside[None, :]).mean()
    return float(above + (inside[:, None] == outside[None, :]).mean() / 2)


def _show(
    name: str,
    num: int,
    curve: dict[int, Any],
    baselines: dict[str, float],
    selective: dict[int, Any],
) -> None:
    show(
        f"{name}: {num} development tickets; majority {percent(baselines['majority'])},"
        f" lexical {percent(baselines['lexical'])}",
        ("verdicts per label", "accuracy", "95 %", "draws", "tf-idf"),
        [
            (
                str(number),
                percent(each["learned"]["accuracy"]),
                " … ".join(percent(end) for end in each["learned"]["interval"]),
                " ".join(percent(draw) for draw in each["learned"]["draws"]),
                percent(each["tf-idf"]["accuracy"]) if number else "",
            )
            for number, each in curve.items()
        ],
    )
    show(
        f"accepted at probability {PROBABILITY}, support {SUPPORT}, mass as 95 % have it",
        ("verdicts per label", "by", "coverage", "accuracy", "AURC", "strangers accepted"),
        [
            (
                str(number),
                way,
                percent(each["coverage"]),
                "" if each["accuracy"] is None else percent(each["accuracy"]),
                f"{found['aurc'][way]:.4f}",
                ", ".join(f"{key} {percent(each[key])}" for key in found["strangers"]),
            )
            for number, found in selective.items()
            for way, each in found["accepted"].items()
        ],
    )
    show(
        f"strangers found; share sent to review when {KEPT:.0%} of in-scope tickets are kept",
        ("verdicts per label", "set", "by", "AUROC", "sent to review"),
        [
            (str(number), key, way, percent(numbers["auroc"]), percent(numbers["sent_to_review"]))
            for number, found in selective.items()
            for key, ways in found["strangers"].items()
            for way, numbers in ways.items()
        ],
    )


if __name__ == "__main__":
    main()
