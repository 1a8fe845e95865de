"""The built-in task: what is settled, what is right, and what rightly waits for a person.

    python -m bench.triage [--oos shared/data/tickets/clinc150-domains/oos.jsonl]

The label descriptions were tuned on bench/data/triage-dev.jsonl; examples/tickets.jsonl was written
apart and not tuned on. Both are this project's own tickets, and small.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rich.progress import track

from bench.common import (
    DEVELOPMENT,
    EXAMPLES,
    bootstrap,
    finish,
    lexical_hits,
    majority,
    parser,
    percent,
    read_rows,
    show,
)
from weighbridge.decision import Decision
from weighbridge.router.router import Router


def main() -> None:
    """Measure all sets."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--oos", type=Path, help="tickets about anything at all")
    options = arguments.parse_args()
    expected = {row["id"]: row for row in read_rows(EXAMPLES / "expected.jsonl")}
    examples = [
        row | {key: expected[row["id"]][key] for key in ("kind", "category")}
        for row in read_rows(EXAMPLES / "tickets.jsonl")
    ]
    sets = {"examples": examples, "development": read_rows(DEVELOPMENT)}
    if options.oos is not None:
        sets["out of scope"] = [r | {"kind": "off_topic"} for r in read_rows(options.oos)]
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _router(folder, "all-minilm-l6-v2") as router:
        for name, rows in sets.items():
            result[name] = _measure(router, name, rows)
    with tempfile.TemporaryDirectory() as folder, _router(folder, "off") as router:
        result["examples, prior off"] = _measure(router, "examples, prior off", examples)
    finish(result, as_json=options.json)


def _router(folder: str, prior: str) -> Router:
    return Router.from_config(
        {
            "provider": [{"kind": "local", "prior": prior, "timeout": "10m"}],
            "router": {"deadline": "10m"},  # a busy machine must not change the answers
            "review": {"database": f"sqlite:///{folder}/queue.db", "audit_rate": 0.0},
        }
    )


def _measure(router: Router, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    decisions = [
        router.triage({"subject": row.get("subject", ""), "body": row["body"]})
        for row in track(rows, name, transient=True)
    ]
    settled: dict[str, Any] = {}
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [(r, d) for r, d in zip(rows, decisions, strict=True) if r["kind"] == kind]
        accepted = [(r, d) for r, d in own if d.status == "accepted"]
        right = [d.value.category == r["category"] for r, d in accepted]
        reasons = Counter(d.reasons[0].value for _, d in own if d.reasons)
        settled[kind] = len(accepted) / len(own)
        lines.append(
            (
                kind,
                str(len(own)),
                f"{len(accepted)} ({percent(settled[kind])})",
                f"{sum(right)} of {len(right)}" if kind == "on_topic" else "",
                ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(4)),
            )
        )
    show(name, ("kind", "tickets", "settled", "of these right", "first reason to review"), lines)
    return {"settled": settled, **_accuracy(name, rows, decisions)}


def _accuracy(name: str, rows: list[dict[str, Any]], decisions: list[Decision]) -> dict[str, Any]:
    """Accuracy of all on-topic answers, accepted or not, beside the baselines."""
    own = [(r, d) for r, d in zip(rows, decisions, strict=True) if r["kind"] == "on_topic"]
    if not own:
        return {}
    truth = [r["category"] for r, _ in own]
    texts = [f"{r.get('subject', '')} {r['body']}" for r, _ in own]
    labels = sorted(set(truth))
    scores = {
        "majority": bootstrap([t == majority(truth) for t in truth]),
        "lexical": bootstrap(lexical_hits(texts, truth, labels)),
        "weighbridge": bootstrap(
            [d.value.category == t for (_, d), t in zip(own, truth, strict=True)]
        ),
    }
    show(
        f"{name}: category of on-topic tickets",
        ("method", "accuracy", "95 % interval"),
        [(n, percent(m), f"{percent(lo)} … {percent(hi)}") for n, (m, lo, hi) in scores.items()],
    )
    return {"accuracy": {n: m for n, (m, _, _) in scores.items()}}


if __name__ == "__main__":
    main()
