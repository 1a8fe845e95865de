"""How items look in a terminal; hostile text is shown harmlessly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weighbridge.cli.output import harmless, plain_table, print_json, stdout
from weighbridge.decision import Question, label

if TYPE_CHECKING:
    from weighbridge.review.items import Event, Item, Verdict
    from weighbridge.review.overviews import WhyEmpty


def show_item(item: Item, *, as_json: bool) -> None:
    """One item; while it is judged blind, without what the machine and others said."""
    if as_json:
        print_item(item)
        return
    ticket = item.ticket
    heading = f"item {item.id}   ticket {harmless(item.ticket_id, limit=40)}   {item.state}"
    parts: list[Any] = [
        Panel(
            Text(harmless(str(ticket.get("body") or ""))),
            title=Text(harmless(str(ticket.get("subject") or "(no subject)"), limit=80)),
            title_align="left",
        ),
        *_apart(ticket),
        Text.assemble("Why a person: ", (", ".join(item.reasons), "yellow")),
    ]
    if item.erased_at is not None:
        parts.append(Text(f"Its text was removed on {_day(item.erased_at)}.", style="dim"))
    if item.is_blind:
        parts.append(Text("Judged blind: what the machine and others said is hidden.", "dim"))
        parts += [_question(replace(question, machine=None), None) for question in item.questions]
    else:
        parts += [_question(question, item.decision) for question in item.questions]
        parts += [_said(verdict) for verdict in item.verdicts]
    if item.resolved_kind is not None:
        answer = item.resolution or {}
        said = ", ".join(f"{name}={label(value)}" for name, value in answer.items())
        parts.append(Text(harmless(f"Settled: {said or item.resolved_kind}"), style="green"))
    stdout().print(Text(heading, style="bold"), Group(*parts), sep="\n")


def print_item(item: Item) -> None:
    """One item as JSON; while it is judged blind, without what the machine and others said."""
    from weighbridge.review.exporting.plain import item_json

    print_json(item_json(item, is_blind=item.is_blind))


def show_items(items: Iterable[Item], *, as_json: bool, if_none: str) -> None:
    """Items, one a line."""
    found = list(items)
    if as_json:
        for item in found:
            print_item(item)
        return
    table = plain_table("item", "ticket", "state", "subject or first words", "reasons", "for")
    for item in found:
        words = str(item.ticket.get("subject") or item.ticket.get("body") or "")
        table.add_row(
            item.id,
            harmless(item.ticket_id, limit=24),
            item.state.value,
            Text(harmless(words, limit=48)),
            ", ".join(item.reasons),
            harmless(item.assignee or "", limit=16),
        )
    stdout().print(table if found else if_none)


def show_done(item: Item, said: str, *, as_json: bool) -> None:
    """What a command did to an item."""
    if as_json:
        print_item(item)
    else:
        stdout().print(harmless(f"{item.id}: {said}"))


def show_history(events: Iterable[Event], *, as_json: bool) -> None:
    """The lines of a history, the oldest first."""
    from weighbridge.review.exporting.plain import events_json

    if as_json:
        for line in events_json(events):
            print_json(line)
        return
    table = plain_table("at (UTC)", "who", "what", "more")
    for event in events:
        more = ", ".join(f"{name}={label(value)}" for name, value in event.told.items())
        at = f"{event.at:%Y-%m-%d %H:%M:%S}"
        table.add_row(at, harmless(event.actor, limit=24), event.kind, Text(harmless(more)))
    stdout().print(table)


def why_nothing(why: WhyEmpty) -> str:
    """Why nothing is offered, in words."""
    until = "" if why.leased_until is None else f", the first until {why.leased_until:%H:%M} UTC"
    causes = {
        f"others are at them{until}": why.num_leased,
        "you skipped them (weighbridge review unskip brings them back)": why.num_skipped,
        "you judged them or hold them already": why.num_judged,
        "they are kept for others": why.num_assigned,
        "they wait for an adjudicator (--adjudicate)": why.num_adjudications,
        "they are not due yet": why.num_not_yet,
    }
    lines = [f"  {num}: {cause}" for cause, num in causes.items() if num]
    if not lines:
        return f"Nothing waits; {why.num_done} items are done."
    return "\n".join(["Nothing waits for you.", *lines])


def _said(verdict: Verdict) -> Text:
    said = ", ".join(f"{name}={label(value)}" for name, value in verdict.values.items())
    parts = (f"{verdict.reviewer}:", said, f"({verdict.kind})", verdict.note)
    return Text(harmless(" ".join(part for part in parts if part)))


def _apart(ticket: Mapping[str, Any]) -> list[Text]:
    """What came with the message and no model read; items of older versions have none."""
    return [
        Text(f"{name}: {harmless(str(ticket[name]))}", style="dim")
        for name in ("quoted", "signature", "hidden")
        if ticket.get(name)
    ]


def _question(question: Question, decision: Mapping[str, Any] | None) -> Table:
    """The options of one field; with a decision also what the machine thought of each."""
    evidence = ((decision or {}).get("fields") or {}).get(question.field) or {}
    probabilities = evidence.get("options") or {}
    titles = ("option", "means") if decision is None else ("option", "machine", "means")
    table = plain_table(*titles)
    table.title, table.title_justify = Text(harmless(question.field)), "left"
    for option in question.options:
        name = label(option)
        share = probabilities.get(name)
        is_machine = option == question.machine and type(option) is type(question.machine)
        cells: dict[str, Text | str] = {
            "option": Text(("→ " if is_machine and decision else "  ") + harmless(name)),
            "machine": "" if share is None else f"{share:.2f}",
            "means": Text(harmless(question.descriptions.get(name, ""))),
        }
        table.add_row(*(cells[title] for title in titles))
    if not question.options:
        free = "" if question.machine is None else harmless(label(question.machine), limit=200)
        table.add_row(Text(f"→ {free}" if free else "  (any value)"))
    return table


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}"
