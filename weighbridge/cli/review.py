"""`weighbridge review`: the queue from a terminal."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weighbridge.cli import review_people, review_serve
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import harmless, print_json, stderr, stdout, usage
from weighbridge.config import open_queue
from weighbridge.decision import Json, Question, label
from weighbridge.settings import load_settings

if TYPE_CHECKING:
    from weighbridge.review.items import Item
    from weighbridge.review.queue import ReviewQueue

app = typer.Typer(help="What waits for a person.", no_args_is_help=True)
app.command("serve")(review_serve.serve)
app.add_typer(review_people.app, name="people")

ReviewerOption = Annotated[
    str | None, typer.Option("--as", help="Who reviews; your login name if left out.")
]


@app.command("next")
def next_item(
    reviewer: ReviewerOption = None, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """Take the item that needs a person most, and show it."""
    with _queue(config) as queue:
        item = queue.claim(reviewer or _login(), may_adjudicate=True)
    if item is None:
        stderr().print("Nothing waits.")
        return
    _show(item, as_json=as_json)
    if not as_json:
        first = item.questions[0]
        example = f"{first.field}={label(first.options[0]) if first.options else '…'}"
        options = {"--as": reviewer, "--config": config}
        same = "".join(f" {name} {shlex.quote(str(v))}" for name, v in options.items() if v)
        command = f"weighbridge review answer {item.id}"
        stderr().print(harmless(f"Answer:  {command} {shlex.quote(example)}{same}"))
        if not item.is_blind:
            stderr().print(harmless(f"     or  {command} --agree{same}"))


@app.command()
def show(
    item_id: Annotated[
        str | None, typer.Argument(help="An item; without one, the list of what waits.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show one item, or what waits, without taking anything."""
    with _queue(config) as queue:
        if item_id is not None:
            _show(queue.get(item_id), as_json=as_json)
            return
        waiting = queue.waiting()
    if as_json:
        for item in waiting:
            print_json(_plain(item))
        return
    table = Table(header_style="bold", pad_edge=False)
    for title in ("item", "ticket", "subject or first words", "reasons"):
        table.add_column(title)
    for item in waiting:
        words = str(item.ticket["subject"] or item.ticket["body"])
        shown = harmless(words, limit=48)
        shown_id = harmless(item.ticket_id, limit=24)
        table.add_row(item.id, shown_id, Text(shown), ", ".join(item.reasons))
    stdout().print(table if waiting else "Nothing waits.")


@app.command()
def answer(
    item_id: Annotated[str, typer.Argument(help="The item.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="FIELD=VALUE", help="Your answer, by field.")
    ] = None,
    agree: Annotated[
        bool, typer.Option("--agree", help="Take the machine's answer for the other fields.")
    ] = False,
    note: Annotated[str, typer.Option(help="For your colleagues.")] = "",
    reviewer: ReviewerOption = None,
    config: ConfigOption = None,
) -> None:
    """Answer an item."""
    name = reviewer or _login()
    with _queue(config) as queue:
        shown = queue.get(item_id)
        if agree and shown.is_blind:
            usage("this item is judged without knowing what the machine said; answer every field")
        questions = {question.field: question for question in shown.questions}
        given = _parsed(values or [], questions)
        if agree:
            machine = {n: q.machine for n, q in questions.items() if q.machine is not None}
            given = {**machine, **given}
        item = queue.claim(name, item_id=item_id, may_adjudicate=True)
        assert item is not None  # claiming a named item raises or succeeds
        assert item.lease_token is not None
        done = queue.answer(item.id, reviewer=name, token=item.lease_token, values=given, note=note)
    verdict = done.verdicts[-1]
    stdout().print(f"{done.id}: {verdict.kind}")


@app.command()
def stats(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show the queue in numbers."""
    with _queue(config) as queue:
        numbers = queue.stats()
    rows: dict[str, Json] = {
        "waiting": numbers.num_waiting,
        "leased": numbers.num_leased,
        **{f"items {state}": count for state, count in numbers.num_by_state.items()},
        "verdicts": numbers.num_verdicts,
        "agreement": numbers.agreement,
        "oldest_waiting_s": numbers.oldest_waiting_s,
        **{f"reason {reason}": count for reason, count in numbers.num_by_reason.items()},
    }
    if as_json:
        print_json(rows)
        return
    table = Table(show_header=False, pad_edge=False)
    for name, value in rows.items():
        table.add_row(
            name,
            "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value),
        )
    stdout().print(table)


def _queue(config: Path | None) -> closing[ReviewQueue]:
    return closing(open_queue(load_settings(config)))


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        usage("nobody knows your login name; say who reviews: --as NAME")


def _parsed(pairs: list[str], questions: Mapping[str, Question]) -> dict[str, Json]:
    """FIELD=VALUE texts as values; an option is given by its label."""
    parsed: dict[str, Json] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            usage(f"{harmless(pair)!r} is not FIELD=VALUE")
        if name in parsed:
            usage(f"{harmless(name)!r} is given twice")
        options = questions[name].options if name in questions else ()
        parsed[name] = next((option for option in options if label(option) == text), text)
    return parsed


def _show(item: Item, *, as_json: bool) -> None:
    if as_json:
        print_json(_plain(item))
        return
    ticket = item.ticket
    heading = f"item {item.id}   ticket {harmless(item.ticket_id, limit=40)}   {item.state}"
    parts: list[Any] = [
        Panel(
            Text(harmless(str(ticket["body"]))),
            title=Text(harmless(str(ticket["subject"]) or "(no subject)", limit=80)),
            title_align="left",
        ),
        *_apart(ticket),
        Text.assemble("Why a person: ", (", ".join(item.reasons), "yellow")),
    ]
    evidence = {} if item.is_blind else item.decision
    parts += [_question(_as_shown(question, item), evidence) for question in item.questions]
    for verdict in () if item.is_blind else item.verdicts:
        said = ", ".join(f"{name}={label(value)}" for name, value in verdict.values.items())
        parts.append(Text(harmless(f"{verdict.reviewer}: {said} ({verdict.kind}) {verdict.note}")))
    stdout().print(Text(heading, style="bold"), Group(*parts), sep="\n")


def _apart(ticket: Mapping[str, Any]) -> list[Text]:
    """What came with the message and no model read; items of older versions have none."""
    return [
        Text(f"{name}: {harmless(str(ticket[name]))}", style="dim")
        for name in ("quoted", "signature", "hidden")
        if ticket.get(name)
    ]


def _as_shown(question: Question, item: Item) -> Question:
    """Without what the machine said, where that must sway nobody."""
    return replace(question, machine=None) if item.is_blind else question


def _question(question: Question, decision: Mapping[str, Any]) -> Table:
    """The options of one field with what the machine thought of each."""
    evidence = (decision.get("fields") or {}).get(question.field) or {}
    probabilities = evidence.get("options") or {}
    table = Table(title=Text(harmless(question.field)), title_justify="left", pad_edge=False)
    for title in ("option", "machine", "means"):
        table.add_column(title)
    for option in question.options:
        name = label(option)
        share = probabilities.get(name)
        is_machine = option == question.machine and type(option) is type(question.machine)
        mark = "→ " if is_machine and decision else "  "
        table.add_row(
            Text(mark + harmless(name)),
            "" if share is None else f"{share:.2f}",
            Text(harmless(question.descriptions.get(name, ""))),
        )
    return table


def _plain(item: Item) -> dict[str, Json]:
    """The item as JSON; while it is judged blind, without what machine and others said."""
    shown = [_as_shown(question, item) for question in item.questions]
    return {
        "id": item.id,
        "ticket_id": item.ticket_id,
        "task": item.task,
        "state": item.state.value,
        "reasons": list(item.reasons),
        "ticket": dict(item.ticket),
        "is_blind": item.is_blind,
        "decision": None if item.is_blind else dict(item.decision),
        "questions": [
            {
                "field": q.field,
                "options": list(q.options),
                "machine": q.machine,
                "required": q.required,
            }
            for q in shown
        ],
        "verdicts": [
            {"reviewer": v.reviewer, "kind": v.kind, "values": dict(v.values), "note": v.note}
            for v in (() if item.is_blind else item.verdicts)
        ],
    }
