"""The command line: one file a group of commands, errors in one place."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from weighbridge import __version__
from weighbridge.cli import certify, explain, init, learn, model, providers, review, triage
from weighbridge.cli.output import EXIT_INTERRUPTED, report_error, stderr
from weighbridge.errors import WeighbridgeError


class _Commands(TyperGroup):
    """Errors of ours become one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        # Not around `app()`: typer has ways of its own with the last two, and they say nothing.
        try:
            return super().invoke(ctx)
        except WeighbridgeError as error:
            raise typer.Exit(report_error(error)) from None
        except KeyboardInterrupt:
            is_triage = ctx.invoked_subcommand == "triage"
            stderr().print("Stopped. What was decided is kept." if is_triage else "Stopped.")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            # The reader went away, as `head` does. Nothing more can be said, not even at exit.
            sys.stdout = None  # keeps the interpreter from flushing it
            raise typer.Exit from None


app = typer.Typer(
    name="weighbridge",
    cls=_Commands,
    help="Act on language-model answers only when they deserve it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a pretty traceback shows local variables, tickets among them
)
app.command()(triage.triage)
app.command()(init.init)
app.command()(explain.explain)
app.command()(learn.learn)
app.command()(certify.certify)
app.add_typer(providers.app, name="providers")
app.add_typer(model.app, name="model")
app.add_typer(review.app, name="review")


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and end."),
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point."""
    app()
