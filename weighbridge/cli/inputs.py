"""Tickets from files and standard input: plain text, JSON Lines, or CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from weighbridge.errors import JsonInvalid, TicketInvalid
from weighbridge.schemas.strict_json import loads
from weighbridge.schemas.ticket import Ticket

_OWN_COLUMNS = ("id", "subject", "body")


class InputFormat(StrEnum):
    """How a file is to be read."""

    AUTO = "auto"
    TEXT = "text"
    JSONL = "jsonl"
    CSV = "csv"


def read_tickets(path: Path, form: InputFormat) -> Iterator[Ticket | TicketInvalid]:
    """The tickets of a file ("-" is standard input), and in their place those that are none.

    Args:
        path: the file.
        form: AUTO goes by the suffix; other files, and standard input, are one ticket of plain
            text unless every line is a JSON object with a `body` or `subject`.

    Raises:
        TicketInvalid: the file cannot be read at all.
    """
    where = "standard input" if str(path) == "-" else str(path)
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise TicketInvalid(where, error.strerror or "cannot be read") from None
    # Mail knows many encodings; a byte that is no UTF-8 must not cost the ticket.
    text = raw.decode("utf-8-sig", errors="replace")
    match _format_of(path, text) if form is InputFormat.AUTO else form:
        case InputFormat.CSV:
            yield from _csv(text, where)
        case InputFormat.JSONL:
            for number, line in _lines(text):
                yield _json_ticket(line, f"{where}:{number}")
        case _:
            yield Ticket.of(text, where=where)


def _format_of(path: Path, text: str) -> InputFormat:
    by_suffix = {".jsonl": InputFormat.JSONL, ".ndjson": InputFormat.JSONL, ".csv": InputFormat.CSV}
    if path.suffix.lower() in by_suffix:
        return by_suffix[path.suffix.lower()]
    lines = list(_lines(text))
    are_tickets = bool(lines) and all(_looks_like_ticket(line) for _, line in lines)
    return InputFormat.JSONL if are_tickets else InputFormat.TEXT


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not splitlines(): that also splits at separators that may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _looks_like_ticket(line: str) -> bool:
    try:
        value = loads(line)
    except JsonInvalid:
        return False
    return isinstance(value, dict) and not {"body", "subject"}.isdisjoint(value)


def _json_ticket(line: str, where: str) -> Ticket | TicketInvalid:
    try:
        value = loads(line)
        if not isinstance(value, str | dict):
            return TicketInvalid(where, "neither an object nor a text")
        return Ticket.of(value, where=where)
    except JsonInvalid as error:
        return TicketInvalid(where, f"not strict JSON: {error}")
    except TicketInvalid as error:
        return error


def _csv(text: str, where: str) -> Iterator[Ticket | TicketInvalid]:
    """Columns id, subject and body; every other column travels along as metadata."""
    csv.field_size_limit(sys.maxsize)
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if "body" not in (rows.fieldnames or ()):
            yield TicketInvalid(where, "the first line names no column `body`")
            return
        for row in rows:
            if None in row or None in row.values():
                yield TicketInvalid(f"{where}:{rows.line_num}", "not as many cells as columns")
                continue
            own = {name: row[name] for name in _OWN_COLUMNS if name in row}
            rest = {name: cell for name, cell in row.items() if name not in own}
            yield Ticket.of({**own, "metadata": rest}, where=f"{where}:{rows.line_num}")
    except csv.Error as error:
        yield TicketInvalid(f"{where}:{rows.line_num}", f"not valid CSV: {error}")
