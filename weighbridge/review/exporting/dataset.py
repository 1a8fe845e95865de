"""Dataset: what people said as labelled texts, for training whatever you like.

Audits are apart. What is certified and how large errors are rests on them; a model that has seen
them would be measured by its own memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from weighbridge.decision import Json, Question, label
from weighbridge.review.exporting.export import items
from weighbridge.review.items import Item, State
from weighbridge.review.overviews import Search
from weighbridge.review.queue_reading import QueueReading

TRAIN: Final = "train.jsonl"
AUDITS: Final = "audits.jsonl"
LABELS: Final = "labels.json"
CARD: Final = "README.md"


@dataclass(slots=True, kw_only=True)
class Contents:
    """What is in a data set, and what is not.

    Args:
        num_train: rows in `train.jsonl`.
        num_audits: rows in `audits.jsonl`.
        num_by_label: rows of both, by field and label.
        left_out: settled items that gave no row, by why.
        labels: by field, each label with what it means.
    """

    num_train: int = 0
    num_audits: int = 0
    num_by_label: defaultdict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    left_out: Counter[str] = field(default_factory=Counter)
    labels: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))


def write_dataset(
    queue: QueueReading,
    wanted: Search,
    folder: Path,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Contents:
    """Write the labels that people gave into a new folder.

    There is one row for each ticket and field with options. The folder appears when it is whole.

    Args:
        queue: to read from.
        wanted: the conditions; only settled items count.
        folder: must not be there, or be empty.
        progress: see `export.items`.

    Raises:
        OSError: the folder cannot be written, or holds something.
    """
    folder = folder.absolute()
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        with _new(beside / TRAIN) as train, _new(beside / AUDITS) as audits:
            contents = _write_rows(items(queue, wanted, progress=progress), train, audits)
        with _new(beside / LABELS) as out:
            out.write(json.dumps(contents.labels, indent=2) + "\n")
        with _new(beside / CARD) as out:
            out.write(_card(contents))
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return contents


def rows_of(item: Item) -> list[dict[str, Json]]:
    """The labelled texts of one settled item; none where people gave no answer with options."""
    text = "\n\n".join(
        str(part) for part in (item.ticket.get("subject"), item.ticket.get("body")) if part
    )
    if not text or not item.standing:
        return []
    # Whoever judged last agreed with the others, or settled what they differed on.
    source = item.standing[-1]
    return [
        {
            "text": text,
            "field": question.field,
            "label": label((item.resolution or {})[question.field]),
            "task": item.task,
            "ticket_id": item.ticket_id,
            "item_id": item.id,
            "verdict": source.id,
            "kind": source.kind,
        }
        for question in item.questions
        if question.options and question.field in (item.resolution or {})
    ]


def _write_rows(found: Iterator[Item], train: TextIO, audits: TextIO) -> Contents:
    contents = Contents()
    for item in found:
        if item.state is not State.DONE:
            continue
        rows = rows_of(item)
        if not rows:
            contents.left_out[_why_not(item)] += 1
        for question in item.questions:
            _note_labels(contents, question)
        for row in rows:
            (audits if item.is_audit else train).write(json.dumps(row) + "\n")
            contents.num_by_label[str(row["field"])][str(row["label"])] += 1
        contents.num_audits += len(rows) if item.is_audit else 0
        contents.num_train += 0 if item.is_audit else len(rows)
    return contents


def _note_labels(contents: Contents, question: Question) -> None:
    for option in question.options:
        # The newest items come first: what a label means now stays.
        name = label(option)
        contents.labels[question.field].setdefault(name, question.descriptions.get(name, ""))


def _why_not(item: Item) -> str:
    if item.erased_at is not None:
        return "the text was removed"
    if item.resolved_kind == "answer":
        return "no text, or no field with options"
    return "people were unsure" if item.resolved_kind == "unsure" else "the ticket fits no label"


def _new(path: Path) -> TextIO:
    """A file for its owner alone: it holds what customers wrote."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="\n")


def _card(contents: Contents) -> str:
    """What the folder holds, for people and for `datasets.load_dataset`."""
    lines = [
        "---",
        "configs:",
        "- config_name: default",
        f"  data_files: {TRAIN}",
        "- config_name: audits",
        f"  data_files: {AUDITS}",
        "---",
        "",
        "# Labelled tickets",
        "",
        "What reviewers said about support tickets, one row for each ticket and field: `text`,",
        "`field`, `label`, and where it comes from: `task`, `ticket_id`, `item_id`, the id of the",
        "`verdict`, and whether it was `correct` or `corrected` what a machine had said.",
        f"`{LABELS}` has each label with what it means.",
        "",
        f"- `{TRAIN}`: {contents.num_train} rows. Most of these tickets went to people because a",
        "  machine was unsure of them: the sample is harder than all tickets are.",
        f"- `{AUDITS}`: {contents.num_audits} rows, drawn at random from all tickets and judged",
        "  blind. **Do not train on them**: error rates and guarantees rest on them.",
        "",
        "The texts are what customers wrote. Keep them as their privacy demands, and remove them",
        "when they are removed from the queue.",
        "",
        "## Labels",
    ]
    for name, counts in contents.num_by_label.items():
        lines += ["", "| " + _inline(name) + " | rows |", "| --- | ---: |"]
        lines += [f"| {_inline(option)} | {num} |" for option, num in counts.most_common()]
    lines += ["", "## Left out", ""]
    lines += [f"- {num} items: {why}" for why, num in contents.left_out.most_common()] or [
        "Nothing."
    ]
    return "\n".join(lines) + "\n"


def _inline(text: str) -> str:
    """A label inside a table of Markdown; nothing in it is markup."""
    return "".join(f"&#{ord(c)};" if c in "|<>&*_`[]\\\n\r" else c for c in text)
