"""`weighbridge review purge · erase · copy`: what becomes of the data."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import EXIT_FAILED, harmless, print_json, stderr, stdout, usage
from weighbridge.cli.review_common import ReviewerOption, login, moment
from weighbridge.config import open_database
from weighbridge.settings import load_settings


def purge(
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Such as 90d, or a date; by default what [review] retention says.",
            show_default=False,
        ),
    ] = None,
    rewrite: Annotated[
        bool,
        typer.Option(
            "--rewrite", help="Write the whole database anew; nobody can write meanwhile."
        ),
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Remove the texts of items that were settled long ago; answers and numbers stay."""
    from weighbridge.review.retention import Retention

    settings = load_settings(config)
    if older_than is not None:
        before = moment("--older-than", older_than)
    elif settings.review.retention is not None:
        before = datetime.now(UTC) - timedelta(seconds=settings.review.retention)
    else:
        usage('say how old: --older-than 90d, or [review] retention = "90d" in the configuration')
    with closing(open_database(settings)) as database:
        removed = Retention(database).purge(before, rewrite=rewrite)
    if as_json:
        print_json({"items": removed.num_items, "items_kept": removed.num_kept})
        return
    stdout().print(f"Items whose texts are gone: {removed.num_items}.")
    if removed.num_kept:
        stderr().print(
            f"{removed.num_kept} items as old as that wait for a person still, and keep theirs."
        )


def erase(
    ticket_id: Annotated[str, typer.Argument(metavar="TICKET", help="The ticket's own id.")],
    rewrite: Annotated[
        bool,
        typer.Option(help="Write the whole database anew, so that its file holds no trace."),
    ] = True,
    reviewer: ReviewerOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Remove all texts of one ticket, now; what waits for a person is cancelled."""
    from weighbridge.review.retention import Retention

    with closing(open_database(load_settings(config))) as database:
        removed = Retention(database).erase(ticket_id, by=login(reviewer), rewrite=rewrite)
    if as_json:
        print_json({"items": removed.num_items, "items_cancelled": removed.num_cancelled})
    elif removed.num_items:
        stdout().print(
            f"Items whose texts are gone: {removed.num_items};"
            f" of these waited and are cancelled: {removed.num_cancelled}."
        )
    if not removed.num_items:
        stderr().print(harmless(f"the queue has no item about a ticket {ticket_id!r}"))
        raise typer.Exit(EXIT_FAILED)


def copy(
    source: Annotated[str, typer.Argument(help="Such as sqlite:///weighbridge.db")],
    target: Annotated[
        str,
        typer.Argument(help="A new one, such as postgresql+psycopg://ann@db.example.org/review"),
    ],
    as_json: JsonOption = False,
) -> None:
    """Copy a whole database into an empty one, such as from SQLite to PostgreSQL.

    Stop everything that writes first. `$NAME` stands for what that environment variable holds.
    """
    from weighbridge.store.copying import copy_database, open_source
    from weighbridge.store.database import Database

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = stderr()
    with (
        closing(open_source(_named(source))) as from_there,
        closing(Database(_named(target))) as to_here,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task("copy")
        copied = copy_database(
            from_there,
            to_here,
            progress=lambda table, done, total: bar.update(
                task, description=table, completed=done, total=total
            ),
        )
    num = sum(table.num_rows for table in copied)
    if not num:
        stderr().print(harmless(f"{from_there.url} is empty; nothing was copied"))
        raise typer.Exit(EXIT_FAILED)
    if as_json:
        print_json([{"table": t.name, "rows": t.num_rows, "digest": t.digest} for t in copied])
        return
    stdout().print(f"{num} rows of {len(copied)} tables, read back and found equal.")
    stdout().print("Now let [review] database name the new one, for every process.")


def _named(url: str) -> str:
    """A URL, or what a variable holds: whoever lists processes sees a password in an argument."""
    if not url.startswith("$"):
        return url
    if not (value := os.environ.get(url[1:], "")):
        usage(harmless(f"the environment variable {url[1:]!r} is not set"))
    return value
