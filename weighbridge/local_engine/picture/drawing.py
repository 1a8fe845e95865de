"""The bands as an image."""

from __future__ import annotations

from pathlib import Path

from weighbridge.local_engine.picture.canvas import (
    BITS,
    CARD,
    DIM,
    INK,
    LINE,
    MASS,
    TRACK,
    Canvas,
    Dash,
)
from weighbridge.local_engine.picture.cells import (
    FULL_BITS,
    LEVEL_COLOURS,
    LEVEL_NAMES,
    LEVEL_SPANS,
    Cell,
    cells,
    heading,
    totals,
)
from weighbridge.local_engine.picture.explanation import Explanation

_MAX_CARDS = 600  # about nine thousand pixels; what is left out is said

# All in pixels.
_MARGIN, _GUTTER, _TOP, _BOTTOM = 24, 84, 132, 196
_CARD, _WRITTEN, _BAND, _ROW_GAP = 119, 56, 76, 18
_ROW = _WRITTEN + 2 * _BAND + _ROW_GAP
_IN_ROW = 9
_WIDTH = 2 * _MARGIN + _GUTTER + _IN_ROW * _CARD
_PAD = 9
_DASHES: dict[str, Dash] = {"chosen": "-", "forced": (0, (3, 2)), "given": (0, (1, 1.5))}


def draw(explanation: Explanation, path: Path) -> None:
    """Draw an answer into a PNG file; see `Explanation.png`."""
    shown = cells(explanation)
    drawn = shown[:_MAX_CARDS]
    num_rows = -(-len(drawn) // _IN_ROW)
    canvas = Canvas(_WIDTH, _TOP + num_rows * _ROW + _BOTTOM)
    _head(canvas, explanation)
    for index, cell in enumerate(drawn):
        row, column = divmod(index, _IN_ROW)
        y = _TOP + row * _ROW
        if column == 0:
            _labels(canvas, y)
        _card(canvas, _MARGIN + _GUTTER + column * _CARD, y, cell)
    y = _TOP + num_rows * _ROW
    _legend(canvas, y, len(shown) - len(drawn))
    _totals(canvas, y + 74, explanation)
    canvas.save(path)


def _head(canvas: Canvas, explanation: Explanation) -> None:
    inner = _WIDTH - 2 * _MARGIN
    canvas.text(_MARGIN, 40, "An answer, token by token", size=20, weight="bold")
    canvas.text(_MARGIN, 60, heading(explanation), size=13, colour=DIM, width=inner)
    canvas.box(_MARGIN, 74, inner, 38, CARD, edge=LINE)
    canvas.box(_MARGIN, 74, 4, 38, MASS)
    answer = explanation.generation.text or "Nothing was written."
    canvas.text(_MARGIN + 16, 98, answer, size=15, family="mono", width=inner - 32)


def _labels(canvas: Canvas, y: float) -> None:
    for name, offset in (("written", 0), ("allowed", _WRITTEN), ("free", _WRITTEN + _BAND)):
        x = _MARGIN + _GUTTER - 12
        canvas.text(x, y + offset + 17, name, size=12, colour=DIM, align="right")


def _card(canvas: Canvas, x: float, y: float, cell: Cell) -> None:
    paper, ink = LEVEL_COLOURS[cell.level]
    inner = _CARD - 2 * _PAD
    canvas.box(x, y, _CARD, _WRITTEN + 2 * _BAND, CARD, edge=LINE)
    canvas.box(x, y, _CARD, _WRITTEN, paper, edge=LINE)
    text = f"{cell.number} {cell.source}"
    canvas.text(x + _PAD, y + 17, text, size=10.5, colour=ink, width=inner)
    canvas.text(
        x + _PAD,
        y + 39,
        cell.token,
        size=15,
        colour=ink,
        weight="bold",
        family="sans" if cell.is_end else "mono",
        width=inner,
    )
    under = y + _WRITTEN
    canvas.line((x, under), (x + _CARD, under), INK, thickness=1.4, dash=_DASHES[cell.source])
    _band(
        canvas,
        x,
        under,
        (f"{cell.allowed} allowed", cell.mass_text, cell.best_allowed),
        (cell.mass, MASS),
    )
    canvas.line((x, under + _BAND), (x + _CARD, under + _BAND), LINE)
    _band(
        canvas,
        x,
        under + _BAND,
        (f"{cell.probability}, {cell.rank}", cell.bits_text, cell.best_free),
        (min(1.0, cell.bits / FULL_BITS), BITS),
    )


def _band(
    canvas: Canvas, x: float, y: float, lines: tuple[str, str, str], bar: tuple[float, str]
) -> None:
    """Three lines of text, and a bar under the second."""
    left, inner = x + _PAD, _CARD - 2 * _PAD
    first, second, third = lines
    filled, colour = bar
    canvas.text(left, y + 17, first, size=10.5, colour=DIM, width=inner)
    canvas.text(left, y + 35, second, size=13.5, weight="bold", width=inner)
    canvas.box(left, y + 43, inner, 5, TRACK)
    canvas.box(left, y + 43, max(1.0, filled * inner), 5, colour)
    canvas.text(left, y + 64, third, size=11.5, family="mono", width=inner)


def _legend(canvas: Canvas, y: float, num_left_out: int) -> None:
    if num_left_out:
        more = f"… and {num_left_out:,} more tokens, which are not drawn."
        canvas.text(_MARGIN + _GUTTER, y, more, size=12, weight="bold")
    explained = (
        "written: the redder, the more it surprised the free model; dashed, the text was "
        "forced.  allowed: their number, their probability, the likeliest."
        "  free: without the guide."
    )
    canvas.text(_MARGIN, y + 24, explained, size=11.5, colour=DIM, width=_WIDTH - 2 * _MARGIN)
    x: float = _MARGIN
    for (paper, ink), span, name in zip(LEVEL_COLOURS, LEVEL_SPANS, LEVEL_NAMES, strict=True):
        canvas.box(x, y + 34, 172, 22, paper)
        canvas.text(x + 86, y + 49, f"{span}: {name}", size=11.5, colour=ink, align="center")
        x += 180


def _totals(canvas: Canvas, y: float, explanation: Explanation) -> None:
    shown = totals(explanation)
    gap = 10
    width = (_WIDTH - 2 * _MARGIN - gap * (len(shown) - 1)) / len(shown)
    for number, total in enumerate(shown):
        x = _MARGIN + number * (width + gap)
        canvas.box(x, y, width, 104, CARD, edge=LINE)
        canvas.text(x + _PAD, y + 18, total.name, size=11, colour=DIM)
        canvas.text(x + _PAD, y + 40, total.value, size=17, weight="bold", width=width - 2 * _PAD)
        canvas.paragraph(x + _PAD, y + 59, total.meaning, size=11, width=width - 2 * _PAD, lines=3)
