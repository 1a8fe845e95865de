"""The bands on a terminal: columns of tokens, wrapped to its width."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from weighbridge.local_engine.picture.cells import (
    LEVEL_COLOURS,
    LEVEL_MARKS,
    Cell,
    cells,
    heading,
    totals,
)
from weighbridge.local_engine.picture.explanation import Explanation
from weighbridge.local_engine.picture.visible import visible

_GAP = 2
_MAX_COLUMN = 24  # wider tokens are cut
_BANDS = (
    "",
    "written",
    "allowed",
    "  mass",
    "  likeliest",
    "free",
    "  rank",
    "  bits",
    "  likeliest",
)
_TRACED = (4, 8)  # bands that only a trace can fill
_GUIDED = (2, 3, 4)  # bands that say nothing where there is no guide


class Bands:
    """A rich renderable: heading, answer, bands, totals."""

    def __init__(self, explanation: Explanation) -> None:
        self._explanation = explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        explanation, width = self._explanation, options.max_width
        yield Text(heading(explanation), style="dim")
        yield Text(visible(explanation.generation.text, keep=" "), style="bold")
        yield Text()
        columns = [_column(cell) for cell in cells(explanation)]
        bands = [
            i
            for i in range(len(_BANDS))
            if (i not in _TRACED or any(column[i] for column in columns))
            and (i not in _GUIDED or explanation.is_guided)
        ]
        labels = [Text(_BANDS[i], style="dim") for i in bands]
        for block in _blocks([[column[i] for i in bands] for column in columns], labels, width):
            yield from _lines(block, width)
            yield Text()
        for total in totals(explanation):
            yield Text.assemble(
                (f"{total.name}: ", "dim"), (total.value, "bold"), f"  {total.meaning}"
            )


def plain(explanation: Explanation, width: int) -> str:
    """The bands as text alone, whatever the environment says about colour."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    segments = console.render(Bands(explanation))
    lines = "".join(segment.text for segment in segments if not segment.control).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _column(cell: Cell) -> list[Text]:
    paper, ink = LEVEL_COLOURS[cell.level]
    heat = f"bold {ink} on {paper}"
    return [
        Text(f"{cell.number} {cell.source}", style="dim"),
        Text(cell.token, style=f"{heat} italic" if cell.is_end else heat),
        Text(cell.allowed),
        Text(cell.mass_text, style="bold"),
        Text(cell.best_allowed),
        Text(cell.probability),
        Text(cell.rank),
        Text(f"{LEVEL_MARKS[cell.level]} {cell.bits_text}", style="bold"),
        Text(cell.best_free),
    ]


def _blocks(
    columns: Sequence[list[Text]], labels: list[Text], width: int
) -> Iterator[list[list[Text]]]:
    """Columns in groups that fit into a line each, the labels in front of every group."""
    block, used = [labels], _width(labels)
    for column in columns:
        needed = _GAP + _width(column)
        if len(block) > 1 and used + needed > width:
            yield block
            block, used = [labels], _width(labels)
        block.append(column)
        used += needed
    if len(block) > 1:
        yield block


def _lines(block: Sequence[list[Text]], width: int) -> Iterator[Text]:
    widths = [_width(column) for column in block]
    for row in zip(*block, strict=True):
        line = Text(no_wrap=True, overflow="crop")
        for cell, column_width in zip(row, widths, strict=True):
            shown = cell.copy()
            shown.truncate(column_width, overflow="ellipsis")
            line.append_text(shown)
            line.append(" " * (column_width - shown.cell_len + _GAP))
        line.rstrip()
        line.truncate(width)
        yield line


def _width(column: Iterable[Text]) -> int:
    return min(_MAX_COLUMN, max(chain((cell_len(cell.plain) for cell in column), (1,))))
