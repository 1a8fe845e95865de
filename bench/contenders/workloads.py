"""What is asked: the built-in task, twenty labels of banking77, and text under a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.common import EXAMPLES, read_rows
from bench.contenders.job import Workload, Writing
from weighbridge.schemas.finite import FiniteLanguage, Literal
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

BANKING = Path("data/tickets/banking77-draw0")

# Long enough that no answer ends within the tokens that are counted.
_TEXT = {"type": "string", "minLength": 100, "maxLength": 120}
_FIELDS = ("summary", "cause", "reply")
_SENTENCE = (
    "The customer was charged twice for the same plan in March and asks for the money back now."
)

_META = re.compile(r"[.^$*+?{}\[\]\\|()]")


def triage(num_tickets: int) -> Workload:
    """The built-in task over the first on-topic example tickets, and one more to warm up."""
    kinds = {row["id"]: row["kind"] for row in read_rows(EXAMPLES / "expected.jsonl")}
    rows = [r for r in read_rows(EXAMPLES / "tickets.jsonl") if kinds[r["id"]] == "on_topic"]
    return _workload(Task.triage(), [Ticket.of(row) for row in rows], num_tickets)


def banking77(shared: Path, num_tickets: int) -> Workload | None:
    """One of 20 labels; None where the tickets are not there."""
    folder = shared / BANKING
    if not folder.is_dir():
        return None
    labels = json.loads((folder / "labels.json").read_text("utf-8"))
    task = Task.triage(categories=labels, priorities=[])
    tickets = [Ticket.of(row["body"]) for row in read_rows(folder / "dev.jsonl")]
    return _workload(task, tickets, num_tickets, name="banking77")


def writing(ticket: str) -> Writing:
    """Three short fields about a ticket, and a story to go on with."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": dict.fromkeys(_FIELDS, _TEXT),
        "required": list(_FIELDS),
        "additionalProperties": False,
    }
    return Writing(
        system="You read support tickets. Answer with one JSON object: a summary, the likely "
        "cause, and a short reply to the customer.",
        user=ticket,
        schema=schema,
        json_tokens=60,
        plain="Once upon a time, in a small village by the sea,",
        plain_tokens=100,
        valid=json.dumps(dict.fromkeys(_FIELDS, f"{_SENTENCE} The invoice is attached.")),
    )


def is_member(workload: Workload, text: str) -> bool:
    """Whether a text is one of the answers that the workload permits, to the letter."""
    return re.fullmatch(workload["pattern"], text) is not None


def _workload(task: Task, tickets: list[Ticket], num_tickets: int, name: str = "") -> Workload:
    assert task.language is not None  # labels alone
    users = [task.prompt(ticket).user for ticket in tickets]
    if num_tickets >= len(users):
        raise SystemExit(f"there are {len(users) - 1} tickets; ask for as many or fewer")
    return Workload(
        name=name or task.name,
        system=task.system,
        users=[users[-1], *users[:num_tickets]],
        schema=dict(task.schema),
        pattern=_pattern(task.language),
        gbnf=_gbnf(task.language),
    )


def _pattern(language: FiniteLanguage) -> str:
    """The language as a regular expression that every dialect reads alike."""

    def plain(text: str) -> str:
        return _META.sub(r"\\\g<0>", text)

    parts = (
        plain(part.text)
        if isinstance(part, Literal)
        else f"({'|'.join(plain(option.text) for option in part.options)})"
        for part in language.parts
    )
    return "".join(parts)


def _gbnf(language: FiniteLanguage) -> str:
    """The language in the notation of llama.cpp."""
    parts = (
        json.dumps(part.text)
        if isinstance(part, Literal)
        else f"({' | '.join(json.dumps(option.text) for option in part.options)})"
        for part in language.parts
    )
    return f"root ::= {' '.join(parts)}"
