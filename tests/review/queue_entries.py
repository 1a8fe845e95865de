"""Entries for the queue, a clock that a test moves, and worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import delete

from weighbridge.decision import Decision, FieldEvidence, Question, Reason, ReviewEntry, Toss
from weighbridge.store.database import Database
from weighbridge.store.schema import metadata

CANARY = "canary-7f3a"
CATEGORIES = ("billing", "bug", "how_to")
WORKER = Path(__file__).with_name("queue_worker.py")


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def make_entry(key: str = "a", *, probability: float | None = 0.4, **changes: Any) -> ReviewEntry:
    """An entry that asks for a category and, if the reviewer likes, a priority from 1 to 3."""
    decision = Decision(
        ticket_id=f"ticket-{key}",
        task="triage",
        status="review",
        value={"category": "bug", "priority": 2},
        fields={
            "priority": FieldEvidence(
                value=2, source="exact", probability=0.001, required=False, accepted=True
            ),
            "category": FieldEvidence(value="bug", source="exact", probability=probability),
        },
        reasons=(Reason.LOW_PROBABILITY, Reason.LANGUAGE),
    )
    whole = {
        "dedupe_key": key,
        "decision": decision,
        "ticket": {"id": f"ticket-{key}", "subject": None, "body": CANARY, "metadata": {}},
        "questions": (
            Question(field="category", options=CATEGORIES, machine="bug"),
            Question(field="priority", options=(1, 2, 3), machine=2, required=False),
        ),
    }
    return ReviewEntry(**{**whole, **changes})


def make_audit(key: str = "a", **changes: Any) -> ReviewEntry:
    """An entry of the uniform sample, to be judged blind."""
    return make_entry(key, toss=Toss(u=0.01, rate=0.02), **changes)


def emptied(database: Database) -> Database:
    """The same database without a row."""
    with database.writing() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
    return database


def start_worker(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
