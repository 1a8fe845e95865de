"""What `weighbridge learn` takes, from the start of the process to the version that is kept.

    python -m bench.learning_time shared/data/tickets/banking77-draw0 --verdicts 320
    python -m bench.learning_time shared/data/tickets/* --verdicts 5000

The verdicts are those of the folders' labelled tickets, with the labels of all folders as options.
Where they are too few, two tickets that stand one behind the other are one more, with the answer of
the first: it is the time that counts here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.common import finish, parser, read_rows, show
from weighbridge.config import build_task, open_queue
from weighbridge.decision import Decision, FieldEvidence, Question, Reason, ReviewEntry
from weighbridge.review.queue import ReviewQueue
from weighbridge.settings import load_settings

REVIEWER = "reviewer"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a queue, settle it, learn."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="+", help="with shots.jsonl and dev.jsonl")
    options.add_argument("--verdicts", type=int, default=320, help="to learn from (default 320)")
    chosen = options.parse_args(arguments)
    labelled = list(islice(_labelled(chosen.folder), chosen.verdicts))
    if len(labelled) < chosen.verdicts:
        raise SystemExit(f"the folders have {len(labelled)} verdicts only")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "weighbridge.toml"
        _write(config, sorted({label for _, label in labelled}))
        with closing(open_queue(load_settings(config))) as queue:
            for row in track(labelled, "verdicts", console=Console(stderr=True)):
                _settle(queue, *row)
        task = build_task(load_settings(config))
        began = time.perf_counter()
        learned = _learn(config)
        seconds = time.perf_counter() - began
    (field,) = task.fields
    scores = learned[field.name]["scores"]
    show(
        "weighbridge learn",
        ("verdicts", "labels", "seconds", "accuracy", "tf-idf"),
        [
            (
                str(len(labelled)),
                str(len(field.options)),
                f"{seconds:.0f}",
                f"{scores['learned']['accuracy']:.3f}",
                f"{scores['tf-idf']['accuracy']:.3f}",
            )
        ],
    )
    finish({"verdicts": len(labelled), "seconds": seconds, **learned}, as_json=chosen.json)


def _labelled(folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Texts and their labels, those that stand so in the folders first, none twice."""
    rows = [
        (row["body"], row["category"])
        for folder in folders
        for name in ("shots", "dev")
        for row in read_rows(folder / f"{name}.jsonl")
    ]
    glued = ((f"{one} {other}", label) for (one, label), (other, _) in pairwise(rows))
    seen = set()
    for text, label in (*rows, *glued):
        if text not in seen:
            seen.add(text)
            yield text, label


def _write(config: Path, labels: Sequence[str]) -> None:
    config.write_text(
        f"""
[[provider]]
name = "offline"
kind = "local"

[review]
database = "sqlite:///{config.parent / "learning.db"}"

[task]
categories = {json.dumps(labels)}
priorities = []
""",
        "utf-8",
    )


def _settle(queue: ReviewQueue, text: str, label: str) -> None:
    """Put a ticket into the queue and answer it."""
    ticket_id = str(abs(hash(text)))
    decision = Decision(
        ticket_id=ticket_id,
        task="triage",
        status="review",
        value=None,
        fields={"category": FieldEvidence(value=None, source="none")},
        reasons=(Reason.NO_EVIDENCE,),
    )
    question = Question(field="category", options=(label,), machine=None)
    item_id = queue.enqueue(
        ReviewEntry(
            dedupe_key=ticket_id,
            decision=decision,
            ticket={"id": ticket_id, "body": text},
            questions=(question,),
        )
    )
    item = queue.claim(REVIEWER, item_id=item_id)
    assert item is not None
    assert item.lease_token is not None
    queue.answer(item_id, reviewer=REVIEWER, token=item.lease_token, values={"category": label})


def _learn(config: Path) -> dict[str, Any]:
    command = (sys.executable, "-m", "weighbridge", "learn", "--json", "--config", str(config))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
