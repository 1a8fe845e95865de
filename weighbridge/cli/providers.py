"""`weighbridge providers`: who is configured, who can be reached, and what they really do."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeGuard

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from weighbridge.capability import Fact
from weighbridge.cli.capabilities import fact_json, print_matrix, print_probe, probe_json
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    harmless,
    print_json,
    stderr,
    stdout,
    usage,
)
from weighbridge.decision import Json
from weighbridge.errors import WeighbridgeError
from weighbridge.settings import LocalSettings, RemoteSettings, Settings, load_settings

if TYPE_CHECKING:
    from weighbridge.cli.endpoints import ProbeResult

app = typer.Typer(help="Providers.", no_args_is_help=True)

NamesArgument = Annotated[
    list[str] | None, typer.Argument(help="Configured names; without any, all of them.")
]


@app.command("list")
def list_providers(
    capabilities: Annotated[
        bool, typer.Option("--capabilities", help="What is known of each, and who says so.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show the configured providers in the order in which they are asked. Nobody is called."""
    settings = load_settings(config)
    if capabilities:
        _list_capabilities(settings, as_json=as_json)
        return
    if as_json:
        for provider in settings.asked:
            print_json(
                {
                    "name": provider.name,
                    "kind": provider.kind,
                    "model": provider.model,
                    "endpoint": _endpoint(provider),
                    "state": _state(provider),
                }
            )
        return
    table = Table(header_style="bold", pad_edge=False)
    for title in ("name", "kind", "model", "endpoint", "state"):
        table.add_column(title)
    for provider in settings.asked:
        place = _endpoint(provider) or "this machine"
        table.add_row(provider.name, provider.kind, provider.model, place, _state(provider))
    stdout().print(table)


@app.command()
def check(
    names: NamesArgument = None, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """See whether providers can be reached with their keys, by requests that cost nothing.

    Ends with 1 if none can.
    """
    from weighbridge.cli.endpoints import check_all
    from weighbridge.providers.checking import Reach

    settings = load_settings(config)
    chosen = _named(settings, names)
    began = time.monotonic()
    with stderr().status("asking"):
        found = asyncio.run(check_all(chosen))
    reached = {one.name for one in found if one.reach is Reach.REACHABLE}
    left_alone = _left_alone(settings, chosen, reached, began)
    table = Table(header_style="bold", pad_edge=False)
    for title in ("name", "reach", "seconds", "left alone", "detail"):
        table.add_column(title, overflow="fold")
    for one in found:
        if as_json:
            print_json(
                {
                    "name": one.name,
                    "reach": one.reach.value,
                    "seconds": round(one.seconds, 3),
                    "left_alone": left_alone.get(one.name),
                    "detail": one.detail,
                }
            )
        waiting = left_alone.get(one.name, "")
        table.add_row(
            one.name, one.reach.value, f"{one.seconds:.2f}", waiting, harmless(one.detail)
        )
    if not as_json:
        stdout().print(table)
    if not reached:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def probe(
    names: NamesArgument = None, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """Find out what providers really do, in about a dozen tiny calls each, and remember it.

    Nothing of your tickets is sent. A probe costs about as much as a few tickets; what it finds is
    believed for 30 days. Ends with 1 if a provider could not be probed to the end.
    """
    settings = load_settings(config)
    chosen = [one for one in _named(settings, names) if _can_be_probed(one)]
    if not chosen:
        usage("there is nobody to probe: none of these writes text behind HTTP")
    found: list[ProbeResult] = []
    try:
        _probe(settings, chosen, found)
        is_stopped = False
    except KeyboardInterrupt:
        is_stopped = True
    for one in found:
        if as_json:
            print_json(probe_json(one))
        else:
            print_probe(one)
    if is_stopped:
        stderr().print("Stopped. What was found is kept.")
        raise typer.Exit(EXIT_INTERRUPTED)
    if any(one.failure for one in found):
        raise typer.Exit(EXIT_FAILED)


def _left_alone(
    settings: Settings,
    chosen: list[RemoteSettings | LocalSettings],
    reached: set[str],
    began: float,
) -> dict[str, str]:
    """Who is left alone by the routers that share their health; whoever was reached no more."""
    from weighbridge.config import open_health
    from weighbridge.provider_config import build_provider
    from weighbridge.providers.ledger import MemoryLedger

    if not settings.router.share_health:
        return {}
    found = {}
    with open_health(settings) as health:
        for one in chosen:
            try:
                identity = build_provider(one, MemoryLedger()).identity
            except WeighbridgeError:
                continue
            if one.name in reached:
                health.recovered(identity, began)
            entries = [entry for entry in health.entries() if entry.identity == identity]
            if entries:
                longest = max(entries, key=lambda entry: entry.left_s)
                found[one.name] = f"{longest.kind}, {longest.left_s:.0f} s left"
    return found


def _list_capabilities(settings: Settings, *, as_json: bool) -> None:
    from weighbridge.config import open_ledger
    from weighbridge.provider_config import endpoint

    with open_ledger(settings) as ledger:
        facts: dict[str, Mapping[str, Fact]] = {}
        for one in settings.asked:
            if isinstance(one, RemoteSettings):
                profile, base_url = endpoint(one)
                known = ledger.facts(base_url.rstrip("/"), one.model)
                facts[one.name] = {**profile.declared(one.model), **known}
    if not as_json:
        if facts:
            print_matrix(stdout(), facts)
        else:
            stderr().print("No provider behind HTTP is configured.")
        return
    for name, known in facts.items():
        told: dict[str, Json] = {feature: fact_json(fact) for feature, fact in known.items()}
        print_json({"name": name, "capabilities": told})


def _probe(settings: Settings, chosen: list[RemoteSettings], found: list[ProbeResult]) -> None:
    from weighbridge.cli.endpoints import NUM_STEPS, probe_all
    from weighbridge.config import open_ledger

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        open_ledger(settings) as ledger,
        Progress(*columns, console=stderr(), transient=True) as progress,
    ):
        task = progress.add_task("probing", total=NUM_STEPS * len(chosen))

        def started(result: ProbeResult) -> None:
            progress.update(task, completed=NUM_STEPS * len(found), description=result.name)
            found.append(result)

        def progressed(step: str) -> None:
            progress.update(task, advance=1, description=f"{found[-1].name}: {step}")

        asyncio.run(probe_all(chosen, ledger, started=started, progressed=progressed))


def _named(settings: Settings, names: list[str] | None) -> list[RemoteSettings | LocalSettings]:
    """The providers of these names, in the order in which they are asked; all of them without."""
    known = [one.name for one in settings.provider]
    for name in names or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, cutoff=0)[0]
            usage(f"no provider is called {harmless(name)!r}; the nearest is {near!r}")
    if not names:
        return list(settings.asked)
    return [one for one in settings.provider if one.name in names]


def _can_be_probed(chosen: RemoteSettings | LocalSettings) -> TypeGuard[RemoteSettings]:
    return isinstance(chosen, RemoteSettings) and chosen.kind != "systemone"


def _endpoint(chosen: RemoteSettings | LocalSettings) -> str | None:
    """Where a provider is; None on this machine."""
    from weighbridge.provider_config import endpoint

    if isinstance(chosen, LocalSettings):
        return None
    try:
        return endpoint(chosen)[1]
    except WeighbridgeError:
        return chosen.base_url


def _state(chosen: RemoteSettings | LocalSettings) -> str:
    """Whether what the provider needs on this machine is there."""
    from weighbridge.provider_config import build_provider
    from weighbridge.providers.ledger import MemoryLedger
    from weighbridge.providers.local import LocalProvider

    try:
        provider = build_provider(chosen, MemoryLedger())
        if isinstance(provider, LocalProvider):
            provider.check()
    except WeighbridgeError as error:
        return f"{error}. {error.hint}".removesuffix(" ")
    return "ready"
