"""`weighbridge triage`: tickets in, decisions out, resumable."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from weighbridge.cli.columns import parse_map
from weighbridge.cli.inputs import InputFormat, read_tickets
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    harmless,
    print_json,
    report_error,
    stderr,
    stdout,
    usage,
)
from weighbridge.cli.trail import print_trails
from weighbridge.decision import Decision, FieldEvidence, Reason, label
from weighbridge.errors import TicketInvalid
from weighbridge.schemas.ticket import Ticket

_UNWEIGHED = frozenset({Reason.UNCALIBRATED, Reason.NO_EVIDENCE})
_FIRST_BYTES = b'{"ticket_id": '  # of every line that we write


def triage(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Text, JSON Lines or CSV; '-' or nothing reads standard input."),
    ] = None,
    form: Annotated[
        InputFormat, typer.Option("--format", help="How the input is to be read.")
    ] = InputFormat.AUTO,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Which column (in JSON: key, or keys joined by dots) is a ticket's id, subject, "
            "body, local_only or content_type, such as body=description. Repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Append JSON Lines to this file; tickets already in it are skipped."),
    ] = None,
    trail: Annotated[bool, typer.Option(help="Also show every attempt, in a table.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Tickets at once.")] = 4,
    config: ConfigOption = None,
) -> None:
    """Triage tickets: accept what deserves it, queue the rest for a person."""
    from weighbridge.router.router import Router

    paths = files or [Path("-")]
    if paths == [Path("-")] and typer.get_text_stream("stdin").isatty():
        usage("weighbridge triage FILE…, or give a ticket on standard input")
    asked = _asked(mapping or [])
    found = [entry for path in paths for entry in read_tickets(path, form, asked, _note)]
    invalid = [entry for entry in found if isinstance(entry, TicketInvalid)]
    tickets = [entry for entry in found if isinstance(entry, Ticket)]
    for error in invalid:
        report_error(error)
    try:
        done = _ids_in(output) if output is not None else Counter()
        sink = _sink(output)
    except OSError as error:
        usage(f"{output} cannot be written: {error.strerror}")
    waiting = _not_done(tickets, done)
    if len(waiting) < len(tickets):
        _note(f"{len(tickets) - len(waiting)} already done in {output}")
    decisions: list[Decision] = []
    with sink as lines, Router.from_config(config) as router:
        for decision in _watched(
            router.triage_many(waiting, concurrency=concurrency), len(waiting)
        ):
            line = decision.to_json()
            if lines is not None:
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                lines.flush()
            if as_json:
                print_json(line)
            decisions.append(decision)
    if not as_json and decisions:
        stdout().print(_table(decisions))
        if trail:
            print_trails(stdout(), decisions)
        _summarise(decisions, config, has_trail=trail)
    if invalid:
        raise typer.Exit(EXIT_FAILED)


def _asked(mapping: list[str]) -> dict[str, str]:
    try:
        return parse_map(mapping)
    except ValueError as error:
        usage(harmless(str(error)))


def _note(text: str) -> None:
    stderr().print(harmless(text))


def _not_done(tickets: list[Ticket], done: Counter[str]) -> list[Ticket]:
    """Those without a line in the output; of several with one id, as many as lines are missing."""
    if num_alike := len(tickets) - len({ticket.id for ticket in tickets}):
        _note(f"{num_alike} have the id of an earlier ticket; each is decided by itself")
    left = done.copy()
    waiting = []
    for ticket in tickets:
        if left[ticket.id] > 0:
            left[ticket.id] -= 1
        else:
            waiting.append(ticket)
    return waiting


def _watched(decisions: Iterator[Decision], total: int) -> Iterator[Decision]:
    """The same, with a progress bar on a terminal."""
    columns = (TextColumn("triage"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = stderr()
    is_off = total < 2 or not console.is_terminal  # elsewhere it would leave an empty line
    with Progress(*columns, console=console, transient=True, disable=is_off) as progress:
        task = progress.add_task("triage", total=total)
        for decision in decisions:
            progress.advance(task)
            yield decision


def _sink(path: Path | None) -> AbstractContextManager[TextIO | None]:
    """The output file, open for appending whole lines; None without a path."""
    return nullcontext() if path is None else path.open("a", encoding="utf-8")


def _ids_in(output: Path) -> Counter[str]:
    """How many lines of an output file are of which ticket; a last one cut short is removed."""
    ids: Counter[str] = Counter()
    if not output.exists():
        return ids
    content = output.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    rest = content[len(whole) :]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            ids[str(json.loads(line)["ticket_id"])] += 1
        except (ValueError, KeyError, TypeError):
            raise TicketInvalid(f"{output}:{number}", "not a decision of ours") from None
    # Only now: a file that is somebody else's stays as it is.
    if rest[: len(_FIRST_BYTES)] != _FIRST_BYTES[: len(rest)]:
        raise TicketInvalid(f"{output}:{ids.total() + 1}", "not a decision of ours")
    if rest:
        os.truncate(output, len(whole))
    return ids


def _table(decisions: list[Decision]) -> Table:
    names = list(dict.fromkeys(name for d in decisions for name in d.fields))
    has_certified = any(d.guarantee is not None for d in decisions)  # else the summary tells
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for title in ("ticket", *names, "prob", "mass", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("reasons", overflow="fold")
    for decision in decisions:
        leading = next((f for f in decision.fields.values() if f.required), None)
        table.add_row(
            harmless(decision.ticket_id, limit=16),
            *(_value(decision.fields.get(name)) for name in names),
            "" if leading is None or leading.probability is None else f"{leading.probability:.2f}",
            "" if leading is None or leading.mass is None else _interval(leading.mass),
            _status(decision, is_told=has_certified),
            ", ".join(decision.reasons),
        )
    return table


def _status(decision: Decision, *, is_told: bool) -> Text:
    """Accepted or not, and what covers an acceptance where that is not the same for all."""
    if decision.status != "accepted":
        return Text(decision.status, style="yellow")
    covered = f", {decision.guarantee or 'uncertified'}" if is_told else ""
    return Text(f"accepted{covered}", style="green")


def _value(evidence: FieldEvidence | None) -> Text:
    """A field's answer; an answer that software may not act on is dimmed and in brackets."""
    if evidence is None:
        return Text("")
    shown = harmless(label(evidence.value), limit=24)
    return Text(shown) if evidence.accepted else Text(f"({shown})", style="dim")


def _interval(mass: tuple[float, float]) -> str:
    return f"{_share(mass[0])}\N{EN DASH}{_share(mass[1])}"


def _share(value: float) -> str:
    """One digit, without the zeros that nobody reads: .02, 6e-5."""
    if value >= 0.001:
        return f"{value:.1g}".removeprefix("0")
    return f"{value:.0e}".replace("e-0", "e-")


def _summarise(decisions: list[Decision], config: Path | None, *, has_trail: bool) -> None:
    waiting = [d for d in decisions if d.status == "review"]
    console = stderr()
    num_certified = sum(d.guarantee is not None for d in decisions)
    num_accepted = len(decisions) - len(waiting)
    certified = f"{num_certified} of them certified" if num_certified else "uncertified"
    console.print(
        f"{num_accepted} accepted ({certified}), "
        f"{len(waiting)} wait for a person; what stands in brackets is not to be acted on.",
    )
    unanswered = sum(Reason.NO_ANSWER in d.reasons for d in waiting)
    unweighed = sum(not _UNWEIGHED.isdisjoint(d.reasons) for d in waiting)
    if unanswered and not has_trail:
        console.print(f"{unanswered} without an answer: --trail shows why.")
    if unweighed:
        console.print(
            f"{unweighed} with an answer that has no numbers to weigh it by: "
            "[gate] without_evidence says what becomes of such answers.",
        )
    if waiting:
        option = f" --config {shlex.quote(str(config))}" if config is not None else ""
        console.print(f"Review them:  weighbridge review next{option}")
