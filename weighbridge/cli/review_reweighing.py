"""`weighbridge review reweigh`: judged audits count for what is configured now."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import track

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import EXIT_FAILED, print_json, stderr, stdout, usage
from weighbridge.config import build_router, build_task, open_database
from weighbridge.errors import WeighbridgeError
from weighbridge.setting_sections import RemoteSettings
from weighbridge.settings import Settings, load_settings

if TYPE_CHECKING:
    from weighbridge.review.proving.reweighing import Reweighing


def reweigh(
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask, though providers are paid for it.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Weigh all judged audits with what is configured now, so that their labels count for it.

    After `learn`, or a change of model, prompt or provider, `certify` then need not wait for new
    audits. Nobody is asked again, and nothing is decided.
    """
    from weighbridge.review.proving.reweighing import Reweighing

    settings = load_settings(config)
    if settings.redaction.queue:
        usage(
            "the queue keeps redacted texts, and other texts weigh otherwise;"
            " with [redaction] queue = true only new audits count"
        )
    with closing(Reweighing(open_database(settings), build_task(settings).name)) as audits:
        num_audits = _weigh(settings, audits, yes=yes)
    if as_json:
        print_json({"audits": num_audits, "reweighed": audits.num_kept})
    elif not num_audits:
        stderr().print("No audit is judged yet.")
    else:
        stdout().print(f"{audits.num_kept} of {num_audits} judged audits count anew.")
        if audits.num_kept < num_audits:
            stderr().print(
                "The others counted already for what is configured, or nobody answered them now."
            )


def _weigh(settings: Settings, audits: Reweighing, *, yes: bool) -> int:
    """Send all audits through the router; returns how many there are."""
    tickets = [each.ticket for each in audits.tickets()]
    is_paid = any(isinstance(chosen, RemoteSettings) for chosen in settings.asked)
    if tickets and is_paid and not yes:
        if not sys.stdin.isatty():
            usage(f"this asks the providers about {len(tickets)} tickets; say --yes")
        typer.confirm(f"Ask the providers about {len(tickets)} tickets?", abort=True, err=True)
    if not tickets:
        return 0
    with build_router(settings, audits) as router:
        decisions = router.triage_many(tickets)
        try:
            for _ in track(decisions, "Weighing", len(tickets), console=stderr(), transient=True):
                pass
        except WeighbridgeError as error:
            stderr().print(f"error: {error}")
            raise typer.Exit(EXIT_FAILED) from None
    return len(tickets)
