"""`weighbridge providers`: who is configured."""

from __future__ import annotations

import typer
from rich.table import Table

from weighbridge.cli.options import ConfigOption, JsonOption
from weighbridge.cli.output import print_json, stdout
from weighbridge.errors import WeighbridgeError
from weighbridge.settings import LocalSettings, OpenAISettings, load_settings

app = typer.Typer(help="Providers.", no_args_is_help=True)


@app.command("list")
def list_providers(as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show the configured providers in the order in which they are asked. Nobody is called."""
    settings = load_settings(config)
    rows = settings.asked
    if as_json:
        for provider in rows:
            print_json(
                {
                    "name": provider.name,
                    "kind": provider.kind,
                    "model": provider.model,
                    "endpoint": provider.base_url if isinstance(provider, OpenAISettings) else None,
                    "state": _state(provider),
                }
            )
        return
    table = Table(header_style="bold", pad_edge=False)
    for title in ("name", "kind", "model", "endpoint", "state"):
        table.add_column(title)
    for provider in rows:
        endpoint = provider.base_url if isinstance(provider, OpenAISettings) else "this machine"
        table.add_row(provider.name, provider.kind, provider.model, endpoint, _state(provider))
    stdout().print(table)


def _state(chosen: OpenAISettings | LocalSettings) -> str:
    """Whether what the provider needs on this machine is there."""
    from weighbridge.config import build_provider
    from weighbridge.providers.local import LocalProvider

    try:
        provider = build_provider(chosen)
        if isinstance(provider, LocalProvider):
            provider.check()
    except WeighbridgeError as error:
        return f"{error}. {error.hint}".removesuffix(" ")
    return "ready"
