"""`weighbridge review show · list · stats`: the queue, without taking anything."""

from __future__ import annotations

from typing import Annotated

import typer

from weighbridge.cli.measures import print_metrics
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import print_json, stdout
from weighbridge.cli.review_common import (
    AuditsOption,
    ReasonOption,
    SinceOption,
    StateOption,
    TaskOption,
    TextOption,
    TicketOption,
    UntilOption,
    opened,
    search_for,
)
from weighbridge.cli.review_items import show_item, show_items
from weighbridge.config import measured
from weighbridge.decision import Json
from weighbridge.settings import load_settings


def show(
    item_id: Annotated[
        str | None, typer.Argument(metavar="ITEM", help="Without one, the list of what waits.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show one item, or what waits, without taking anything."""
    with opened(config) as queue:
        if item_id is not None:
            show_item(queue.get(item_id), as_json=as_json)
            return
        waiting = queue.waiting()
    show_items(waiting, as_json=as_json, if_none="Nothing waits.")


def list_items(
    state: StateOption = None,
    reason: ReasonOption = None,
    task: TaskOption = None,
    text: TextOption = "",
    ticket: TicketOption = None,
    assignee: Annotated[
        str | None, typer.Option("--assignee", help="Only what is kept for this person.")
    ] = None,
    judged_by: Annotated[
        str | None, typer.Option("--judged-by", help="Only what this person has judged.")
    ] = None,
    audits: AuditsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Items at most.")] = 50,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List items that meet all filters, the newest first."""
    wanted = search_for(
        states=state,
        reason=reason,
        task=task,
        text=text,
        ticket=ticket,
        assignee=assignee,
        reviewer=judged_by,
        audits=audits,
        since=since,
        until=until,
    )
    with opened(config) as queue:
        found = queue.search(wanted, limit=limit)
    show_items(found, as_json=as_json, if_none="No item is like that.")


def stats(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show the queue in numbers."""
    from weighbridge.review.proving.metrics import plain

    with opened(config) as queue:
        numbers = queue.stats()
    metrics = measured(load_settings(config))
    states: dict[str, Json] = {state.value: num for state, num in numbers.num_by_state.items()}
    if as_json:
        counts = {
            "waiting": numbers.num_waiting,
            "leased": numbers.num_leased,
            **{f"items {state}": num for state, num in states.items()},
            "verdicts": numbers.num_verdicts,
            "agreement": numbers.agreement,
            "oldest_waiting_s": numbers.oldest_waiting_s,
            **{f"reason {reason}": num for reason, num in numbers.num_by_reason.items()},
        }
        print_json({**counts, "metrics": plain(metrics)})
        return
    counts = {**states, "being judged": numbers.num_leased, "verdicts": numbers.num_verdicts}
    told = ", ".join(f"{num} {name.replace('_', ' ')}" for name, num in counts.items())
    stdout().print(f"items: {told}", soft_wrap=True)
    print_metrics(stdout(), metrics)
