"""The trail of a decision for people: a table where it fits, a list on a narrow terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from weighbridge.cli.output import harmless
from weighbridge.decision import Attempt, Decision, FailureKind

WORDS: Final[Mapping[FailureKind, str]] = {
    FailureKind.TRANSIENT: "down or overloaded",
    FailureKind.RATE_LIMIT: "rate limited",
    FailureKind.QUOTA: "quota used up",
    FailureKind.CREDENTIAL: "key not accepted",
    FailureKind.MODEL_GONE: "no such model or path",
    FailureKind.CAPABILITY: "lacks a feature",
    FailureKind.CALLER_FAULT: "request not accepted",
    FailureKind.TOO_LONG: "ticket too long for it",
    FailureKind.INVALID: "invalid answer",
    FailureKind.TRUNCATED: "answer cut short",
    FailureKind.REFUSAL: "would not answer",
    FailureKind.FILTERED: "content filter",
    FailureKind.DEADLINE: "out of time",
    FailureKind.COOLING: "not asked: cooling down",
    FailureKind.LIMIT: "not asked: our own limits",
    FailureKind.BUDGET: "not asked: the budget",
    FailureKind.CANCELLED: "another was quicker",
    FailureKind.UNAVAILABLE: "cannot run here",
    FailureKind.UNKNOWN: "failed, nobody knows why",
}

_RIGHT = frozenset({"#", "status", "seconds", "waited", "tokens", "cost"})
_MOST_SHOWN = 40
_ANY_WIDTH = 100_000
_ANY_WAIT_S = 0.005  # what is shorter is no wait, and would be shown as none


def print_trails(console: Console, decisions: Iterable[Decision]) -> None:
    """Every attempt of every decision, each ticket by itself."""
    for decision in decisions:
        reasons = f" ({', '.join(decision.reasons)})" if decision.reasons else ""
        if decision.status == "accepted":
            reasons = f" ({decision.guarantee or 'uncertified'})"
        ticket_id = harmless(decision.ticket_id, limit=_MOST_SHOWN)
        console.print(Text(f"\nticket {ticket_id}: {decision.status}{reasons}", style="bold"))
        if not decision.trail:
            console.print(Text("  nobody was asked"))
            continue
        table = _table(decision.trail)
        options = console.options.update_width(_ANY_WIDTH)
        if Measurement.get(console, options, table).maximum <= console.width:
            console.print(table)
            _print_notes(console, decision.trail)
        else:
            _print_list(console, decision.trail)


def outcome(attempt: Attempt) -> str:
    """How an attempt ended, in words."""
    if attempt.failure is not None:
        return WORDS[attempt.failure]
    # What was not asked for an answer says itself what it is, such as requests that only weigh.
    return _line(attempt.detail) if _is_aside(attempt) else "answered"


def _table(trail: tuple[Attempt, ...]) -> Table:
    """A row for each attempt; columns that are empty in all of them are left out."""
    rows = [_cells(attempt) for attempt in trail]
    titles = [title for title in rows[0] if any(row[title] for row in rows)]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("#", *titles):
        justify: Literal["left", "right"] = "right" if title in _RIGHT else "left"
        table.add_column(title, justify=justify, no_wrap=True)
    for number, row in enumerate(rows, start=1):
        table.add_row(str(number), *(Text(row[title]) for title in titles))
    return table


def _print_notes(console: Console, trail: tuple[Attempt, ...]) -> None:
    """What is too long for a column, by the number of its attempt."""
    for number, attempt in enumerate(trail, start=1):
        for note in _notes(attempt):
            console.print(_indented(f"{number}: {note}", 2))


def _print_list(console: Console, trail: tuple[Attempt, ...]) -> None:
    for number, attempt in enumerate(trail, start=1):
        cells = _cells(attempt)
        who = [cells["provider"], cells["model"], cells["mode"]]
        console.print(Text(f"{number}. {', '.join(filter(None, who))}", overflow="fold"))
        named = {
            "": f"{cells['seconds']} s" if cells["seconds"] else "",
            "status ": cells["status"],
            "waited ": f"{cells['waited']} s" if cells["waited"] else "",
            "tokens ": cells["tokens"],
            "costs ": cells["cost"],
        }
        what = [cells["outcome"], *(f"{name}{told}" for name, told in named.items() if told)]
        for line in (", ".join(what), *_notes(attempt)):
            console.print(_indented(line, 3))


def _cells(attempt: Attempt) -> dict[str, str]:
    """What stands in each column; "" where nothing is known."""
    return {
        "provider": harmless(attempt.provider, limit=_MOST_SHOWN),
        "model": harmless(attempt.model, limit=_MOST_SHOWN),
        "mode": attempt.mode or "",
        "outcome": outcome(attempt),
        "status": "" if attempt.status is None else str(attempt.status),
        "seconds": f"{attempt.seconds:.2f}" if attempt.seconds else "",
        "waited": f"{attempt.waited_s:.2f}" if attempt.waited_s >= _ANY_WAIT_S else "",
        "tokens": _tokens(attempt.prompt_tokens, attempt.completion_tokens),
        "cost": "" if attempt.cost_usd is None else dollars(attempt.cost_usd),
    }


def _notes(attempt: Attempt) -> Iterator[str]:
    if attempt.detail and not _is_aside(attempt):
        yield _line(attempt.detail)
    for title, notes in (
        ("left out, since it lacks them", attempt.dropped),
        ("not enforced by it, checked here", attempt.losses),
    ):
        if notes:
            yield f"{title}: {_line('; '.join(notes))}"


def _is_aside(attempt: Attempt) -> bool:
    return attempt.failure is None and attempt.mode is None and bool(attempt.detail)


def _line(text: str) -> str:
    return harmless(text.replace("\n", " "))


def _indented(text: str, columns: int) -> Padding:
    return Padding(Text(text, overflow="fold"), (0, 0, 0, columns), expand=False)


def _tokens(prompt: int | None, completion: int | None) -> str:
    """Read and written, such as 812+14."""
    if prompt is None and completion is None:
        return ""
    return f"{'?' if prompt is None else prompt}+{'?' if completion is None else completion}"


def dollars(amount: float) -> str:
    """US dollars to a millionth, without zeros that say nothing.

    >>> dollars(0.00025), dollars(1.5), dollars(0.0), dollars(2e-9)
    ('$0.00025', '$1.50', '$0.00', '<$0.000001')
    """
    if 0.0 < amount < 1e-6:
        return "<$0.000001"
    whole, _, cents = f"{amount:.6f}".rstrip("0").partition(".")
    return f"${whole}.{cents:0<2}"
