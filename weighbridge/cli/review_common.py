"""What the review commands share: the queue, who reviews, answers as FIELD=VALUE, and filters."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weighbridge.cli.login import login_name
from weighbridge.cli.output import harmless, usage
from weighbridge.config import open_queue
from weighbridge.decision import Json, Question, label
from weighbridge.setting_types import seconds
from weighbridge.settings import load_settings

if TYPE_CHECKING:
    from weighbridge.review.overviews import Search
    from weighbridge.review.queue import ReviewQueue

STATES = ("open", "needs_adjudication", "done", "cancelled")
OPEN_STATES = ("open", "needs_adjudication")

ItemArgument = Annotated[str, typer.Argument(metavar="ITEM", help="The item's id.")]
ReviewerOption = Annotated[
    str | None,
    typer.Option("--as", help="Who you are; your login name if left out.", show_default=False),
]
AdjudicateOption = Annotated[
    bool, typer.Option("--adjudicate", help="Also items on which others disagree.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="A name for this call: sent twice, it counts once."),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", help=f"Only in this state ({', '.join(STATES)}). Repeatable."),
]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Only with this reason.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only of this task.")]
TextOption = Annotated[str, typer.Option("--text", help="Only where the ticket contains this.")]
TicketOption = Annotated[str | None, typer.Option("--ticket", help="Only of this ticket id.")]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help='Only what came since then: "2026-11-30", or an age such as 7d.'),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="Only what came before then; as for --since.")
]
AuditsOption = Annotated[
    bool | None,
    typer.Option("--audits/--no-audits", help="Only audits, or none.", show_default=False),
]


def opened(config: Path | None) -> closing[ReviewQueue]:
    """The queue of a configuration, for a `with` block."""
    return closing(open_queue(load_settings(config)))


def login(given: str | None) -> str:
    """Who reviews: the name that was given, or that of the login."""
    if given is not None:
        return named("--as", given)
    name = login_name()
    if name is None:
        usage("nobody knows your login name; say who reviews: --as NAME")
    return name


def named(option: str, given: str) -> str:
    """A name that can be read; an empty one mostly is a variable that nobody has set."""
    if not given.strip():
        usage(f"{option}: the name is empty")
    if not given.isprintable():
        usage(f"{option} {harmless(given, limit=40)!r}: a name is one line of characters")
    return given


def parsed(pairs: Iterable[str], questions: Mapping[str, Question]) -> dict[str, Json]:
    """FIELD=VALUE texts as values; an option is given by its label."""
    values: dict[str, Json] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            usage(f"{harmless(pair)!r} is not FIELD=VALUE")
        if name in values:
            usage(f"{harmless(name)!r} is given twice")
        options = questions[name].options if name in questions else ()
        values[name] = next((option for option in options if label(option) == text), text)
    return values


def same_options(reviewer: str | None, config: Path | None) -> str:
    """What a suggested command needs so that it means the same person and the same queue."""
    options = {"--as": reviewer, "--config": config}
    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in options.items() if value)


def search_for(
    *,
    states: Iterable[str] | None = None,
    reason: str | None = None,
    task: str | None = None,
    text: str = "",
    ticket: str | None = None,
    reviewer: str | None = None,
    assignee: str | None = None,
    audits: bool | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Search:
    """The conditions that options name."""
    from weighbridge.review.items import State
    from weighbridge.review.overviews import Search

    chosen = list(states or ())
    for state in chosen:
        if state not in STATES:
            usage(f"--state {harmless(state, limit=40)!r}: there are {', '.join(STATES)}")
    return Search(
        text=text,
        states=frozenset(map(State, chosen)),
        reason=reason,
        task=task,
        ticket_id=ticket,
        assignee=assignee,
        reviewer=reviewer,
        is_audit=audits,
        since=None if since is None else moment("--since", since),
        until=None if until is None else moment("--until", until),
    )


def moment(option: str, text: str, *, is_ahead: bool = False) -> datetime:
    """A time from a date, a date with a time, or a duration such as "7d"; without a zone it is UTC.

    Args:
        option: what the text was given for.
        text: as it was given.
        is_ahead: whether a duration counts from now on, and not back.
    """
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError:  # in UTC it is before the year 1 or after 9999
        usage(f"{option} {harmless(text, limit=40)!r} is out of range")
    except ValueError:
        pass
    else:
        return time
    try:
        duration = timedelta(seconds=seconds(text))
        return datetime.now(UTC) + (duration if is_ahead else -duration)
    except (ValueError, OverflowError):
        what = "a time from now on" if is_ahead else "an age"
        usage(f'{option} {harmless(text, limit=40)!r} is neither a date nor {what} such as "7d"')
