"""`weighbridge review deliver · outbox`: webhooks are told, and what they have not heard yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    harmless,
    plain_table,
    print_json,
    stderr,
    stdout,
    usage,
)
from weighbridge.config import open_database
from weighbridge.decision import Json
from weighbridge.settings import load_settings
from weighbridge.webhook_config import build_webhooks

if TYPE_CHECKING:
    from weighbridge.review.telling.outbox import OutboxEvent


def deliver(
    once: Annotated[bool, typer.Option("--once", help="What is due now, and then end.")] = False,
    poll: Annotated[
        float, typer.Option(min=0.1, max=3600.0, help="Seconds between two looks.")
    ] = 2.0,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Requests at once.")] = 4,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Tell the configured webhooks what happens, until stopped; several may run."""
    from weighbridge.review.telling.delivery import Delivered, Deliverer
    from weighbridge.review.telling.outbox import Outbox

    settings = load_settings(config)
    webhooks = build_webhooks(settings)
    if not webhooks:
        usage("no webhook is configured; see [[review.webhook]] in docs/review.md")

    def say(done: Delivered) -> None:
        if as_json:
            counts = {
                "delivered": done.num_delivered,
                "failed": done.num_failed,
                "parked": done.num_parked,
            }
            print_json({**counts})
        else:
            stdout().print(
                f"{done.num_delivered} delivered, {done.num_failed} failed and tried again later,"
                f" {done.num_parked} given up"
            )

    with closing(open_database(settings)) as database:
        deliverer = Deliverer(Outbox(database), webhooks)
        if not once:
            asyncio.run(deliverer.run(poll_s=poll, concurrency=concurrency, watch=say))
        done = asyncio.run(deliverer.deliver_due(concurrency=concurrency))
    say(done)
    if done.num_failed or done.num_parked:
        raise typer.Exit(EXIT_FAILED)


def outbox(
    retry: Annotated[
        bool, typer.Option("--retry", help="Try anew what was given up; see also EVENT.")
    ] = False,
    event_ids: Annotated[
        list[str] | None, typer.Argument(metavar="EVENT", help="With --retry, only these.")
    ] = None,
    target: Annotated[str | None, typer.Option("--webhook", help="Only of this webhook.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Events at most.")] = 50,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show what webhooks have not heard yet, and what was given up."""
    from weighbridge.review.telling.outbox import Outbox

    if event_ids and not retry:
        usage("events are named together with --retry")
    settings = load_settings(config)
    configured = {webhook.name for webhook in settings.review.webhook}
    with closing(open_database(settings)) as database:
        box = Outbox(database)
        if retry:
            num = box.retry(target=target, event_ids=event_ids or ())
            if as_json:
                print_json({"retried": num})
            else:
                stdout().print(f"{num} events will be tried again.")
            return
        events, backlog = box.events(target=target, limit=limit), box.backlog()
    if as_json:
        for event in events:
            print_json(_plain(event))
        return
    stdout().print(_table(events) if events else "Nothing is left to tell.")
    for name, part in backlog.items():
        unknown = "" if name in configured else "; no webhook of that name is configured any more"
        stderr().print(
            harmless(
                f"{name}: {part.num_pending} to tell, {part.num_parked} given up,"
                f" {part.num_done} told{unknown}"
            )
        )


def _plain(event: OutboxEvent) -> dict[str, Json]:
    return {
        "event_id": event.event_id,
        "webhook": event.target,
        "kind": event.kind.value,
        "item_id": event.item_id,
        "created_at": event.created_at.isoformat(),
        "attempts": event.attempts,
        "next_at": event.next_at.isoformat(),
        "is_parked": event.parked_at is not None,
        "last_error": event.last_error,
    }


def _table(events: Sequence[OutboxEvent]) -> Table:
    table = plain_table("event", "webhook", "what", "item", "attempts", "last error")
    for event in events:
        given_up = " (given up)" if event.parked_at is not None else ""
        table.add_row(
            event.event_id,
            harmless(event.target, limit=24),
            event.kind.value,
            event.item_id,
            str(event.attempts),
            harmless(event.last_error) + given_up,
        )
    return table
