"""Export: the queue as a file, JSON Lines for machines or CSV for people.

Items are read a page at a time, so that a million of them need no more memory than a thousand. Each
item is consistent in itself; what comes while an export runs is not in it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from weighbridge.decision import Json, ReviewId, label
from weighbridge.review.exporting.csv_guard import MARK, guarded
from weighbridge.review.exporting.plain import events_json, item_json
from weighbridge.review.items import Item
from weighbridge.review.overviews import Search
from weighbridge.review.queue_reading import QueueReading

PAGE: Final = 500

_BEFORE: Final = ("item", "ticket", "task", "state", "reasons", "audit", "created_at", "done_at")
_AFTER: Final = ("outcome", "reviewers", "notes", "subject", "body")


def items(
    queue: QueueReading, wanted: Search, *, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Item]:
    """All items that meet the conditions, the newest first.

    Args:
        queue: to read from.
        wanted: the conditions.
        progress: told after each page how many there were so far.
    """
    num, after = 0, None
    while True:
        page = queue.search(wanted, after=after, limit=PAGE)
        yield from page
        num += len(page)
        progress(num)
        if len(page) < PAGE:
            return
        after = ReviewId(page[-1].id)


def write_jsonl(
    queue: QueueReading,
    wanted: Search,
    out: TextIO,
    *,
    with_events: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write an item a line, nothing left out; returns how many.

    Args:
        queue: to read from.
        wanted: the conditions.
        out: gets ASCII, which no tool reads wrongly.
        with_events: with the history of each item.
        progress: see `items`.
    """
    num = 0
    for item in items(queue, wanted, progress=progress):
        line = item_json(item)
        if with_events:
            line["events"] = events_json(queue.history(item.id))
        out.write(json.dumps(line) + "\n")
        num += 1
    return num


def write_csv(
    queue: QueueReading,
    wanted: Search,
    out: TextIO,
    *,
    is_guarded: bool = True,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write an item a row, for a spreadsheet; returns how many.

    Every cell is in quotes. A field of the tasks has two columns: what the machine answered, and
    what people did.

    Args:
        queue: read twice: the columns are known only when all items have been seen.
        wanted: the conditions.
        out: opened with `newline=""`.
        is_guarded: see `csv_guard`; a column then says which cells were changed, and `triage`
            refuses the file.
        progress: see `items`.
    """
    fields = dict.fromkeys(
        question.field for item in items(queue, wanted) for question in item.questions
    )
    answers = [f"{field} ({whose})" for field in fields for whose in ("machine", "people")]
    header = [*_BEFORE, *answers, *_AFTER]
    rows = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    # The names of fields come from a configuration, but they are cells too.
    rows.writerow([*map(guarded, header), MARK] if is_guarded else header)
    num = 0
    for item in items(queue, wanted, progress=progress):
        cells = _cells(item, list(fields))
        if is_guarded:
            safe = [guarded(cell) for cell in cells]
            changed = [name for name, a, b in zip(header, cells, safe, strict=True) if a != b]
            cells = [*safe, guarded(" ".join(changed))]
        rows.writerow(cells)
        num += 1
    return num


def _cells(item: Item, fields: list[str]) -> list[str]:
    # A list that colleagues pass around must not tell those who are to judge blind.
    shown = () if item.is_blind else item.questions
    machine = {question.field: question.machine for question in shown}
    people = item.resolution or {}
    before = [
        item.id,
        item.ticket_id,
        item.task,
        item.state.value,
        " ".join(item.reasons),
        "yes" if item.is_audit else "",
        item.created_at.isoformat(),
        "" if item.done_at is None else item.done_at.isoformat(),
    ]
    answers = [_cell(given.get(field)) for field in fields for given in (machine, people)]
    after = [
        item.resolved_kind or "",
        " ".join(dict.fromkeys(verdict.reviewer for verdict in item.standing)),
        "\n".join(verdict.note for verdict in item.standing if verdict.note),
        str(item.ticket.get("subject") or ""),
        str(item.ticket.get("body") or ""),
    ]
    return [_clean(cell) for cell in (*before, *answers, *after)]


def _cell(value: Json) -> str:
    return "" if value is None else label(value)


def _clean(cell: str) -> str:
    """Without what no file in UTF-8 can hold, and no spreadsheet shows."""
    return cell.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
