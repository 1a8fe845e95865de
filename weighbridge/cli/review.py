"""`weighbridge review`: the queue from a terminal."""

from __future__ import annotations

import typer

from weighbridge.cli import (
    review_bulk,
    review_changing,
    review_export,
    review_judging,
    review_listing,
    review_outbox,
    review_people,
    review_retention,
    review_reweighing,
    review_serve,
)

app = typer.Typer(help="What waits for a person.", no_args_is_help=True)
app.command("next")(review_judging.next_item)
app.command()(review_listing.show)
app.command("list")(review_listing.list_items)
app.command()(review_judging.answer)
app.command()(review_judging.skip)
app.command()(review_judging.unskip)
app.command()(review_judging.undo)
app.command()(review_bulk.bulk)
app.command()(review_changing.note)
app.command()(review_changing.assign)
app.command()(review_changing.due)
app.command()(review_changing.reopen)
app.command()(review_changing.cancel)
app.command()(review_changing.history)
app.command()(review_listing.stats)
app.command()(review_reweighing.reweigh)
app.command()(review_export.export)
app.command()(review_retention.purge)
app.command()(review_retention.erase)
app.command()(review_retention.copy)
app.command()(review_outbox.deliver)
app.command()(review_outbox.outbox)
app.command()(review_serve.serve)
app.add_typer(review_people.app, name="people")
