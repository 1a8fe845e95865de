"""`weighbridge providers`: who is configured, who can be reached, and what they really do."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, TypeGuard
from urllib.parse import urlsplit

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from weighbridge.capability import Fact
from weighbridge.cli.capabilities import fact_json, print_matrix, print_probe, probe_json
from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    harmless,
    plain_table,
    print_json,
    stderr,
    stdout,
    usage,
)
from weighbridge.decision import Json
from weighbridge.errors import WeighbridgeError
from weighbridge.setting_sections import LocalSettings, RemoteSettings
from weighbridge.settings import Settings, load_settings

if TYPE_CHECKING:
    from weighbridge.cli.endpoints import ProbeResult

app = typer.Typer(help="Providers.", no_args_is_help=True)

NOT_READY: Final = "not_ready"  # not asked: a key, a package or a model is missing here

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
    table = plain_table("name", "kind", "model", "endpoint", "state")
    for provider in settings.asked:
        place, state = _endpoint(provider), _state(provider, settings)
        if as_json:
            print_json(
                {
                    "name": provider.name,
                    "kind": provider.kind,
                    "model": provider.model,
                    "endpoint": place,
                    "state": state,
                }
            )
        if place is None:
            place = "this machine" if isinstance(provider, LocalSettings) else ""
        table.add_row(provider.name, provider.kind, harmless(provider.model), place, state)
    if not as_json:
        stdout().print(table)


@app.command()
def check(
    names: NamesArgument = None, as_json: JsonOption = False, config: ConfigOption = None
) -> None:
    """See whether providers can be reached with their keys, by requests that cost nothing.

    `not ready`: something is missing on this side, and nobody was asked. Ends with 1 if none can.
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
    is_shared = settings.router.share_health
    titles = "name", "reach", "seconds", *(["left alone"] if is_shared else []), "detail"
    table = plain_table(*titles)
    for one in found:
        reach = NOT_READY if one.reach is None else one.reach.value
        waiting = left_alone.get(one.name)
        if as_json:
            print_json(
                {
                    "name": one.name,
                    "reach": reach,
                    "seconds": round(one.seconds, 3),
                    "left_alone": waiting,
                    "detail": one.detail,
                }
            )
        cells = [one.name, reach.replace("_", " "), f"{one.seconds:.2f}"]
        table.add_row(*cells, *([waiting or ""] if is_shared else []), harmless(one.detail))
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
    """Who is left alone by the routers that share their health.

    Who was disabled and is reached now is asked again: a person has seen to it. A wait that it
    asked for stays, for what was asked here was for free, and says nothing of a limit.
    """
    from weighbridge.config import open_health
    from weighbridge.provider_config import build_provider
    from weighbridge.providers.ledger import MemoryLedger
    from weighbridge.router.actions import DISABLING

    if not settings.router.share_health:
        return {}
    found = {}
    with open_health(settings) as health:
        for one in chosen:
            try:
                identity = build_provider(one, MemoryLedger()).identity
            except WeighbridgeError:
                continue
            entries = [entry for entry in health.entries() if entry.identity == identity]
            if one.name in reached and any(entry.kind in DISABLING for entry in entries):
                health.recovered(identity, began)
            elif entries:
                longest = max(entries, key=lambda entry: entry.left_s)
                why = longest.kind.value.replace("_", " ")
                found[one.name] = f"{why}, {longest.left_s:.0f} s left"
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


def _state(chosen: RemoteSettings | LocalSettings, settings: Settings) -> str:
    """Whether what the provider needs on this machine is there."""
    from weighbridge.cli.endpoints import trouble
    from weighbridge.provider_config import build_provider
    from weighbridge.providers.ledger import MemoryLedger
    from weighbridge.providers.local import LocalProvider

    try:
        provider = build_provider(chosen, MemoryLedger())
        if isinstance(provider, LocalProvider):
            provider.check()
    except WeighbridgeError as error:
        return trouble(error)
    if isinstance(chosen, LocalSettings):
        return "ready"
    budget = settings.budget
    caps = {budget.usd_per_day, budget.usd_per_ticket, chosen.usd_per_day}
    if caps != {None} and provider.cost_usd(1, 1) is None:
        return "not asked: no price is known, and a budget is set"
    if chosen.api_key_env is None and chosen.api_key_file is None and _is_hosted(chosen):
        return "ready, but names no key: api_key_env is missing"
    return "ready"


def _is_hosted(chosen: RemoteSettings) -> bool:
    """Whether it is found at a vendor's own address, where nobody is served without a key."""
    from weighbridge.provider_config import endpoint

    profile, base_url = endpoint(chosen)
    vendor, here = urlsplit(profile.base_url), urlsplit(base_url)
    return vendor.scheme == "https" and vendor.hostname == here.hostname
