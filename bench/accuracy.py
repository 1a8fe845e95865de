"""Accuracy on a folder of labelled tickets, beside baselines, and what the gate lets through.

    python -m bench.accuracy shared/data/tickets/banking77-draw0 --shots 0

All numbers are development numbers: prompt, weights and thresholds were chosen on these rows.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from rich.progress import track

from bench.common import (
    bootstrap,
    finish,
    lexical_hits,
    macro_f1,
    majority,
    parser,
    percent,
    read_rows,
    show,
)
from weighbridge.decision import FieldEvidence
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.prior import LabelText
from weighbridge.local_engine.weighing import MODEL_WEIGHT, PRIOR_WEIGHT, FieldSpec, FieldWeights
from weighbridge.router.gate import Gate
from weighbridge.router.injection import signs
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Row:
    """One ticket, weighed."""

    def __init__(self, engine: Engine, task: Task, spec: FieldSpec, body: str) -> None:
        ticket = Ticket.of(body)
        assert task.language is not None
        weighed = engine.weigh(task.system, ticket.text, task.language, [spec])
        self.weights: FieldWeights = weighed.weights.fields[0]
        evidence = FieldEvidence(
            value=self.weights.value,
            source="combined",
            probability=max(self.weights.posterior),
            support=self.weights.support,
        )
        is_clean = not weighed.is_foreign and not signs(ticket, task)
        self.is_accepted = Gate().judge(evidence).accepted and is_clean

    def said(self, model_weight: float, prior_weight: float) -> str:
        """The label that a pair of weights chooses."""
        w = self.weights
        assert w.prior is not None
        scores = [
            prior_weight * math.log(p) + model_weight * math.log(m)
            for p, m in zip(w.prior, w.lift, strict=True)
        ]
        return str(w.options[scores.index(max(scores))])


def main() -> None:
    """Measure one folder."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--shots", type=int, choices=[0], default=0, help="verdicts per label")
    arguments.add_argument("--reorder", action="store_true", help="the options in another order")
    options = arguments.parse_args()
    labels = json.loads((options.folder / "labels.json").read_text("utf-8"))
    if options.reorder:
        import hashlib

        labels.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    rows = read_rows(options.folder / "dev.jsonl")
    texts, truth = [row["body"] for row in rows], [row["category"] for row in rows]

    engine = Engine.load()
    task = Task.triage(categories=labels, priorities=[])
    names = tuple(LabelText(name=name) for name in labels)
    spec = FieldSpec(path=("category",), options=tuple(labels), labels=names)
    found = [Row(engine, task, spec, text) for text in track(texts, "tickets", transient=True)]
    outside = {
        name: [
            Row(engine, task, spec, row["body"]).is_accepted
            for row in track(read_rows(options.folder / f"{name}.jsonl"), name, transient=True)
        ]
        for name in ("near_oos", "oos")
    }

    first = majority(truth)
    raw = [str(r.weights.options[r.weights.model.index(max(r.weights.model))]) for r in found]
    said = {
        "majority": [first] * len(rows),
        "language model alone, raw": raw,
        "language model alone, lift": [row.said(1.0, 0.0) for row in found],
        "prior alone": [row.said(0.0, 1.0) for row in found],
        "combined": [row.said(MODEL_WEIGHT, PRIOR_WEIGHT) for row in found],
    }
    accuracy = {"lexical": bootstrap(lexical_hits(texts, truth, labels))}
    for name, answers in said.items():
        accuracy[name] = bootstrap([a == t for a, t in zip(answers, truth, strict=True)])
    show(
        f"{options.folder.name}: {len(rows)} development tickets, {len(labels)} labels, 0 shots",
        ("method", "accuracy", "95 % interval", "macro-F1"),
        [
            (
                name,
                percent(mean),
                f"{percent(low)} … {percent(high)}",
                percent(macro_f1(truth, said[name], labels)) if name in said else "",
            )
            for name, (mean, low, high) in accuracy.items()
        ],
    )

    sweep = {
        weight: sum(
            row.said(weight, PRIOR_WEIGHT) == t for row, t in zip(found, truth, strict=True)
        )
        / len(rows)
        for weight in WEIGHTS
    }
    show(
        f"combined, by model weight (default {MODEL_WEIGHT})",
        [f"{weight:g}" for weight in sweep],
        [[percent(value) for value in sweep.values()]],
    )

    hits = [
        answer == right
        for row, answer, right in zip(found, said["combined"], truth, strict=True)
        if row.is_accepted
    ]
    coverage = bootstrap([row.is_accepted for row in found])
    among = bootstrap(hits) if hits else (math.nan,) * 3
    show(
        "the gate at its defaults",
        ("accepted share", "95 %", "accuracy among accepted", "95 %", "accepted out of scope"),
        [
            (
                percent(coverage[0]),
                f"{percent(coverage[1])} … {percent(coverage[2])}",
                percent(among[0]),
                f"{percent(among[1])} … {percent(among[2])}",
                ", ".join(
                    f"{name} {percent(sum(accepted) / len(accepted))}"
                    for name, accepted in outside.items()
                    if accepted
                ),
            )
        ],
    )
    finish(
        {
            "folder": options.folder.name,
            "rows": len(rows),
            "accuracy": {name: values[0] for name, values in accuracy.items()},
            "interval": {name: values[1:] for name, values in accuracy.items()},
            "by_model_weight": {f"{weight:g}": value for weight, value in sweep.items()},
            "accepted_share": coverage[0],
            "accuracy_among_accepted": among[0],
            "accepted_outside": {n: sum(a) / len(a) for n, a in outside.items() if a},
        },
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
