"""The command line: one file a group of commands, errors in one place."""

from __future__ import annotations

import sys

import typer

from weighbridge import __version__
from weighbridge.cli import init, model, providers, review, triage
from weighbridge.cli.output import EXIT_INTERRUPTED, report_error, stderr
from weighbridge.errors import WeighbridgeError

app = typer.Typer(
    name="weighbridge",
    help="Act on language-model answers only when they deserve it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a pretty traceback shows local variables, tickets among them
)
app.command()(triage.triage)
app.command()(init.init)
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
    """Entry point: errors of ours become one line and an exit status."""
    try:
        app()
    except WeighbridgeError as error:
        sys.exit(report_error(error))
    except KeyboardInterrupt:
        stderr().print("Stopped. What was decided is kept.")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away, as `head` does. Nothing more can be said, not even at exit.
        sys.stdout = None  # keeps the interpreter from flushing it
        sys.exit(0)
