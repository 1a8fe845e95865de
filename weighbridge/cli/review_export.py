"""`weighbridge review export`: the queue as a file, for machines, for people, or for training."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from weighbridge.cli.options import ConfigOption
from weighbridge.cli.output import harmless, print_json, stderr, usage
from weighbridge.cli.review_common import (
    AuditsOption,
    ReasonOption,
    SinceOption,
    StateOption,
    TaskOption,
    TextOption,
    TicketOption,
    UntilOption,
    opened,
    search_for,
)

if TYPE_CHECKING:
    from weighbridge.review.overviews import Search
    from weighbridge.review.queue import ReviewQueue


class ExportFormat(StrEnum):
    """How the queue is written."""

    JSONL = "jsonl"
    CSV = "csv"
    DATASET = "dataset"


def export(
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="jsonl: all there is, a line for each item. csv: for a spreadsheet. "
            "dataset: labelled texts, audits apart, in a new folder.",
        ),
    ] = ExportFormat.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(help="File or folder; a file is replaced when the new one is whole."),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="jsonl: with the history of each item.")
    ] = False,
    guard: Annotated[
        bool, typer.Option(help="csv: keep cells from being taken for formulas.")
    ] = True,
    state: StateOption = None,
    reason: ReasonOption = None,
    task: TaskOption = None,
    text: TextOption = "",
    ticket: TicketOption = None,
    audits: AuditsOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="What was written, as JSON; needs --output.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write items and what people said; without --output to standard output."""
    if output is None and (form is ExportFormat.DATASET or as_json):
        usage("say where to: --output PATH")
    wanted = search_for(
        states=state,
        reason=reason,
        task=task,
        text=text,
        ticket=ticket,
        audits=audits,
        since=since,
        until=until,
    )
    with opened(config) as queue, _progress() as progress:
        try:
            if form is ExportFormat.DATASET:
                assert output is not None
                said = _dataset(queue, wanted, output, progress)
            else:
                with _sink(output) as out:
                    said = _file(queue, wanted, out, form, progress, events=events, guard=guard)
        except OSError as error:
            if output is None:
                raise
            usage(harmless(f"{output}: {error.strerror or 'holds something; take a new folder'}"))
    if as_json:
        print_json({"path": str(output), **said})
    elif output is not None:
        counts = ", ".join(f"{num} {name.replace('_', ' ')}" for name, num in said.items())
        stderr().print(harmless(f"{output}: {counts}"))


def _file(
    queue: ReviewQueue,
    wanted: Search,
    out: TextIO,
    form: ExportFormat,
    progress: Callable[[int], None],
    *,
    events: bool,
    guard: bool,
) -> dict[str, int]:
    from weighbridge.review.exporting.export import write_csv, write_jsonl

    if form is ExportFormat.CSV:
        num = write_csv(queue, wanted, out, is_guarded=guard, progress=progress)
    else:
        num = write_jsonl(queue, wanted, out, with_events=events, progress=progress)
    return {"items": num}


def _dataset(
    queue: ReviewQueue, wanted: Search, folder: Path, progress: Callable[[int], None]
) -> dict[str, int]:
    from weighbridge.review.exporting.dataset import write_dataset

    contents = write_dataset(queue, wanted, folder, progress=progress)
    return {
        "rows": contents.num_train,
        "audited_rows": contents.num_audits,
        "items_left_out": contents.left_out.total(),
    }


@contextmanager
def _sink(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file beside `path` that takes its place when all is written."""
    if path is None:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False) as out:
            yield out
        return
    # Made for its owner alone: it holds what customers wrote.
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as out:
            yield out
            out.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Counts items on a terminal; how many there will be is not known."""
    columns = (SpinnerColumn(), TextColumn("{task.completed} items"), TimeElapsedColumn())
    console = stderr()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("export", total=None)
        yield lambda num: bar.update(task, completed=num)
