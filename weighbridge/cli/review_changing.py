"""`weighbridge review note · assign · due · reopen · cancel · history`: items, without judging."""

from __future__ import annotations

from typing import Annotated

import typer

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import usage
from weighbridge.cli.review_common import ItemArgument, ReviewerOption, login, moment, named, opened
from weighbridge.cli.review_items import show_done, show_history

ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for the history.")]


def note(
    item_id: ItemArgument,
    text: Annotated[str, typer.Argument(help="What colleagues should know.")],
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Write something beside an item."""
    if not text.strip():
        usage("the note is empty")
    with opened(config) as queue:
        item = queue.note(item_id, by=login(reviewer), text=text)
    show_done(item, "noted", as_json=as_json)


def assign(
    item_id: ItemArgument,
    to: Annotated[str | None, typer.Argument(metavar="NAME", help="Whom it is kept for.")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="Anybody may take it.")] = False,
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Keep an item for one person, or for nobody any more."""
    if (to is None) != nobody:
        usage("say whom it is kept for: NAME, or --nobody")
    if to is not None:
        to = named("NAME", to)
    with opened(config) as queue:
        item = queue.assign(item_id, to=to, by=login(reviewer))
    show_done(item, f"kept for {to}" if to else "kept for nobody", as_json=as_json)


def due(
    item_id: ItemArgument,
    at: Annotated[
        str | None,
        typer.Argument(metavar="TIME", help='Such as "2026-12-01T09:00+01:00", or 4h from now.'),
    ] = None,
    no_time: Annotated[bool, typer.Option("--none", help="There is no such time.")] = False,
    not_before: Annotated[
        str | None, typer.Option("--not-before", help="Do not offer it earlier than that.")
    ] = None,
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Say by when an item should be judged, and from when on it is offered."""
    if (at is None) != no_time:
        usage("say when it is due: TIME, or --none")
    due_at = None if at is None else moment("TIME", at, is_ahead=True)
    earliest = None if not_before is None else moment("--not-before", not_before, is_ahead=True)
    with opened(config) as queue:
        item = queue.set_due(
            item_id,
            due_at=due_at,
            not_before=earliest,
            by=login(reviewer),
        )
    said = "not due at any time" if item.due_at is None else f"due {item.due_at:%Y-%m-%d %H:%M} UTC"
    show_done(item, said, as_json=as_json)


def reopen(
    item_id: ItemArgument,
    reason: ReasonOption = "",
    needed: Annotated[int, typer.Option(min=1, max=10, help="People who judge it anew.")] = 1,
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Have a settled or cancelled item judged anew; what was said before is kept."""
    with opened(config) as queue:
        item = queue.reopen(item_id, by=login(reviewer), reason=reason, needed=needed)
    show_done(item, f"reopened, round {item.round}", as_json=as_json)


def cancel(
    item_id: ItemArgument,
    reason: ReasonOption = "",
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Take an item out of the queue unjudged."""
    with opened(config) as queue:
        item = queue.cancel(item_id, by=login(reviewer), reason=reason)
    show_done(item, "cancelled", as_json=as_json)


def history(
    item_id: ItemArgument, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """Show all that was done with an item."""
    with opened(config) as queue:
        item, events = queue.get(item_id), queue.history(item_id)
    if item.is_blind:
        # What others said of it is none of the business of whoever is to judge it.
        events = tuple(event for event in events if event.kind not in ("answered", "undone"))
    show_history(events, as_json=as_json)
