"""Tickets from files and standard input: plain text, JSON Lines, or separated values."""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from weighbridge.cli.columns import Columns, find_columns, flag, value_at
from weighbridge.errors import JsonInvalid, TicketInvalid
from weighbridge.review.exporting.csv_guard import MARK
from weighbridge.schemas.strict_json import loads
from weighbridge.schemas.ticket import Ticket

_SEPARATORS = (",", ";", "\t")


class InputFormat(StrEnum):
    """How a file is to be read."""

    AUTO = "auto"
    TEXT = "text"
    JSONL = "jsonl"
    CSV = "csv"


def read_tickets(
    path: Path,
    form: InputFormat,
    asked: Mapping[str, str] | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[Ticket | TicketInvalid]:
    """The tickets of a file ("-" is standard input), and in their place those that are none.

    Args:
        path: the file.
        form: AUTO goes by the suffix; other files, and standard input, are one ticket of plain
            text unless every line is a JSON object with a `body` or `subject` (or what `asked`
            calls them).
        asked: columns or keys of a ticket's fields; other columns become metadata.
        note: told how columns were found out, where nobody said it.

    Raises:
        TicketInvalid: the file cannot be read at all, or has no such column.
    """
    asked = asked or {}
    where = "standard input" if str(path) == "-" else str(path)
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise TicketInvalid(where, error.strerror or "cannot be read") from None
    text = _decoded(raw)
    match _format_of(path, text, asked) if form is InputFormat.AUTO else form:
        case InputFormat.CSV:
            yield from _csv(text, where, asked, note)
        case InputFormat.JSONL:
            yield from _json_lines(text, where, asked, note)
        case _:
            if asked:
                raise TicketInvalid(
                    where, "plain text has no columns to map; say --format csv or --format jsonl"
                )
            yield Ticket.of(text, where=where)


def _decoded(raw: bytes) -> str:
    # Spreadsheets write UTF-16 as "Unicode text". Mail knows many encodings; a byte that is none of
    # UTF-8 must not cost the ticket.
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if is_utf16 else "utf-8-sig", errors="replace")


def _format_of(path: Path, text: str, asked: Mapping[str, str]) -> InputFormat:
    by_suffix = {
        ".jsonl": InputFormat.JSONL,
        ".ndjson": InputFormat.JSONL,
        ".csv": InputFormat.CSV,
        ".tsv": InputFormat.CSV,
    }
    if path.suffix.lower() in by_suffix:
        return by_suffix[path.suffix.lower()]
    lines = list(_lines(text))
    names = [asked.get(name, name) for name in ("body", "subject")]
    are_tickets = bool(lines) and all(_looks_like_ticket(line, names) for _, line in lines)
    return InputFormat.JSONL if are_tickets else InputFormat.TEXT


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not splitlines(): that also splits at separators that may stand inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _looks_like_ticket(line: str, names: list[str]) -> bool:
    try:
        value = loads(line)
    except JsonInvalid:
        return False
    return isinstance(value, dict) and any(value_at(value, name) is not None for name in names)


def _json_lines(
    text: str, where: str, asked: Mapping[str, str], note: Callable[[str], None]
) -> Iterator[Ticket | TicketInvalid]:
    """Objects with our own keys; with others if they are mapped, or those of a known export."""
    values = [
        (f"{where}:{number}", _json(line, f"{where}:{number}")) for number, line in _lines(text)
    ]
    rows = [value for _, value in values if isinstance(value, dict)]
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = None
    if asked or "body" not in keys:
        columns = _json_columns(where, rows, list(keys), asked)
    if columns is not None and columns.note:
        note(f"{where}: {columns.note}")
    for place, value in values:
        if isinstance(value, TicketInvalid):
            yield value
        elif isinstance(value, dict):
            yield _ticket(_with_flag(value) if columns is None else columns.fields(value), place)
        else:
            yield _ticket(value, place)


def _json_columns(
    where: str, rows: list[dict[str, Any]], keys: list[str], asked: Mapping[str, str]
) -> Columns | None:
    """The keys to read; None if they are to be our own, so that a misspelt one is an error."""
    try:
        return find_columns(
            where, keys, asked, lambda key: any(value_at(row, key) is not None for row in rows)
        )
    except TicketInvalid:
        if asked:
            raise
        return None


def _with_flag(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "local_only": flag(row["local_only"])} if "local_only" in row else row


def _json(line: str, where: str) -> Any:
    try:
        value = loads(line)
    except JsonInvalid as error:
        return TicketInvalid(where, f"not strict JSON: {error}")
    if not isinstance(value, str | dict):
        return TicketInvalid(where, "neither an object nor a text")
    return value


def _ticket(value: Any, where: str) -> Ticket | TicketInvalid:
    try:
        return Ticket.of(value, where=where)
    except TicketInvalid as error:
        return error


def _csv(
    text: str, where: str, asked: Mapping[str, str], note: Callable[[str], None]
) -> Iterator[Ticket | TicketInvalid]:
    """One ticket a row; columns that are none of a ticket's travel along as metadata."""
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True)
    try:
        header = next(rows, [])
        try:
            columns = _csv_columns(where, header, asked)
        except TicketInvalid as error:
            if asked:
                raise
            yield error  # other files may be tickets
            return
        if columns.note:
            note(f"{where}: {columns.note}")
        for cells in rows:
            if not cells:
                continue
            place = f"{where}:{rows.line_num}"
            if len(cells) != len(header):
                yield TicketInvalid(place, "not as many cells as columns")
            else:
                yield _ticket(columns.fields(_row(header, cells)), place)
    except csv.Error as error:
        yield TicketInvalid(f"{where}:{rows.line_num}", f"not valid CSV: {error}")


def _csv_columns(where: str, header: list[str], asked: Mapping[str, str]) -> Columns:
    if MARK in header:
        raise TicketInvalid(
            where,
            "exported for a spreadsheet, with apostrophes in its texts; export it as JSON Lines",
        )
    columns = find_columns(where, header, asked, header.__contains__)
    for column in columns.by_field.values():
        if header.count(column) > 1:
            raise TicketInvalid(where, f"the column {column[:40]!r} is there twice")
    return columns


def _separator(text: str) -> str:
    """What parts the most cells of the first line; a comma where nothing does."""

    def num_cells(separator: str) -> int:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        return len(next(rows, []))

    return max(_SEPARATORS, key=num_cells)


def _row(header: list[str], cells: list[str]) -> dict[str, Any]:
    """A row by column; the cells of a column that is there more than once are a list."""
    row: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if header.count(name) > 1:
            row.setdefault(name, []).append(cell)
        else:
            row[name] = cell
    return row
