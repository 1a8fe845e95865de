"""The whole loop on labelled tickets: triage, review, learn, audit, certify, and act on the rest.

    python -m bench.story shared/data/tickets/banking77-draw0

A script that knows the truth plays the reviewer; everything else is what a team would run, on a
database that is thrown away. `docs/tutorial.md` tells the story and quotes its figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.common import finish, parser, percent, read_rows
from weighbridge import Router
from weighbridge.config import open_queue
from weighbridge.decision import Decision
from weighbridge.review.statistics.intervals import wilson
from weighbridge.settings import load_settings

TICKETS, PROVING = 600, 80
RISK, CONFIDENCE, AUDIT_RATE = 0.05, 0.9, 0.3

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one stretch of tickets came to.

    Args:
        name: of the stretch.
        num_tickets: in it.
        num_accepted: decisions that software would have acted on.
        num_wrong: of them, as only this script knows.
        num_audits: that would have been accepted, and were drawn by the coin.
        num_reviewed: by a person; with the accepted ones all tickets.
    """

    name: str
    num_tickets: int
    num_accepted: int
    num_wrong: int
    num_audits: int
    num_reviewed: int

    def __str__(self) -> str:
        shown = f"{self.num_wrong} of {self.num_accepted} accepted are wrong"
        if self.num_accepted:
            found = wilson(self.num_wrong, self.num_accepted)
            share = percent(self.num_wrong / self.num_accepted)
            shown += f", {share} ({percent(found.low)} to {percent(found.high)})"
        return (
            f"{self.name}: {self.num_tickets} tickets, {shown};"
            f" {self.num_reviewed} reviewed, {self.num_audits} of them for being drawn alone"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the story."""
    options = _options(arguments)
    console = Console(stderr=True)
    run = partial(_run, console, as_json=options.json)
    shots, dev = (read_rows(options.folder / f"{name}.jsonl") for name in ("shots", "dev"))
    first, second, third = shots[: TICKETS - len(dev)], dev[:PROVING], dev[PROVING:]
    truth = {row["id"]: row["category"] for row in (*first, *dev)}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "weighbridge.toml"
        labels = json.loads((options.folder / "labels.json").read_text("utf-8"))

        # Nobody knows yet what the engine is worth here, so a person sees every ticket. The coin
        # sets some aside: nothing is learned from them, and so they can prove what was learned.
        _write(config, labels, probability=1.0)
        tallies = [_stretch("before learning", config, first, truth)]
        learned = run(config, "learn")
        reweighed = run(config, "review", "reweigh")

        _write(config, labels, probability=0.8)
        tallies.append(_stretch("learned, uncertified", config, second, truth))
        wanted = "--risk", str(RISK), "--confidence", str(CONFIDENCE)
        certified = run(config, "certify", *wanted)
        tallies.append(_stretch("certified", config, third, truth))
    for tally in tallies:
        console.print(str(tally), highlight=False)
    console.print(
        f"promised: at most {percent(RISK)} of what is accepted is wrong,"
        f" with {percent(CONFIDENCE)} confidence",
        highlight=False,
    )
    finish(
        {
            "tallies": [asdict(tally) for tally in tallies],
            "learned": learned,
            "reweighed": reweighed,
            "certified": certified,
            "risk": RISK,
            "confidence": CONFIDENCE,
        },
        as_json=options.json,
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("folder", type=Path, help="dev.jsonl, shots.jsonl, labels.json")
    return options.parse_args(arguments)


def _write(config: Path, labels: Any, *, probability: float) -> None:
    """A configuration with the folder's labels and a database beside it."""
    names = labels if isinstance(labels, list) else list(labels)
    config.write_text(
        f"""
[[provider]]
name = "offline"
kind = "local"

[gate]
probability = {probability}

[review]
database = "sqlite:///{config.parent / "story.db"}"
audit_rate = {AUDIT_RATE}

[task]
categories = {json.dumps(names)}
priorities = []
""",
        "utf-8",
    )


def _stretch(name: str, config: Path, rows: Sequence[Row], truth: dict[str, str]) -> Tally:
    """Triage some tickets, then review all that waits."""
    tickets = [{"id": row["id"], "body": row["body"]} for row in rows]
    with Router.from_config(config) as router:
        decisions = list(track(router.triage_many(tickets), name, len(tickets)))
    reviewed = _review(config, truth)
    accepted = [decision for decision in decisions if decision.status == "accepted"]
    return Tally(
        name=name,
        num_tickets=len(decisions),
        num_accepted=len(accepted),
        num_wrong=sum(_said(decision) != truth[decision.ticket_id] for decision in accepted),
        num_audits=sum("audit" in decision.reasons for decision in decisions),
        num_reviewed=reviewed,
    )


def _said(decision: Decision) -> str:
    return str(decision.fields["category"].value)


def _review(config: Path, truth: dict[str, str]) -> int:
    """The reviewer: takes one item after the other and answers what is true."""
    with closing(open_queue(load_settings(config))) as queue:
        done = 0
        while item := queue.claim("reviewer"):
            assert item.lease_token is not None
            queue.answer(
                item.id,
                reviewer="reviewer",
                token=item.lease_token,
                values={"category": truth[item.ticket_id]},
            )
            done += 1
        return done


def _run(console: Console, config: Path, *command: str, as_json: bool) -> list[Any]:
    """One command of weighbridge, as a team would type it; what it prints, if that is JSON."""
    console.print(f"$ weighbridge {' '.join(command)}", highlight=False)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "weighbridge", *command, "--config", str(config)),
            *(["--json"] if as_json else []),
        ],
        stdout=subprocess.PIPE if as_json else None,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"weighbridge {command[0]} ended with {done.returncode}")
    return [json.loads(line) for line in (done.stdout or "").splitlines()]


if __name__ == "__main__":
    main()
