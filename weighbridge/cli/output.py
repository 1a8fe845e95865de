"""What the commands print: consoles, errors, and text that cannot take over a terminal."""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weighbridge.decision import Json
from weighbridge.errors import ConfigError, TicketInvalid, WeighbridgeError

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def stdout() -> Console:
    """Where results go; honours NO_COLOR and shows square brackets and colons as they are."""
    return Console(markup=False, emoji=False, highlight=False)


def stderr() -> Console:
    """Where progress, notes and errors go."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


def plain_table(*titles: str) -> Table:
    """A table as all commands draw it: a line below the titles, nothing around."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def number_table(*titles: str) -> Table:
    """The same, with numbers in all columns but the first."""
    table = plain_table(*titles)
    for column in table.columns[1:]:
        column.justify = "right"
        column.no_wrap = True
    return table


def print_json(value: Json) -> None:
    """One JSON value on one line of standard output, in ASCII: safe for any terminal and locale."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()  # whoever reads along need not wait for a full buffer


def harmless(text: str, *, limit: int | None = None) -> str:
    r"""Hostile text for a terminal: control and direction characters become visible stand-ins.

    With a limit, it is also one line.

    >>> harmless("a\x1b[31mb\u202ec")
    'a\ufffd[31mb\ufffdc'
    """
    if limit is not None:
        text = text.replace("\n", " ")
    shown = "".join(
        c if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co") else "\ufffd"
        for c in text
    )
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def report_error(error: WeighbridgeError) -> int:
    """Print an error with its hint; returns the exit status that fits it."""
    console = stderr()
    console.print(Text.assemble(("error: ", "bold red"), harmless(str(error))))
    if error.hint:
        console.print(Text.assemble(("hint:  ", "bold"), harmless(error.hint)))
    return EXIT_USAGE if isinstance(error, ConfigError | TicketInvalid) else EXIT_FAILED


def usage(message: str) -> NoReturn:
    """End with a message about how the command was called."""
    stderr().print(Text.assemble(("usage: ", "bold red"), message))
    raise typer.Exit(EXIT_USAGE)
