"""The bands as an image."""

from __future__ import annotations

from collections.abc import Sequence
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
    LEVEL_COLOURS,
    LEVEL_NAMES,
    LEVEL_SPANS,
    Band,
    Cell,
    bands,
    cells,
    heading,
    legend,
    totals,
)
from weighbridge.local_engine.picture.explanation import Explanation

_MAX_CARDS = 600  # about nine thousand pixels; what is left out is said

# All in pixels.
_MARGIN, _GUTTER, _TOP, _BOTTOM = 24, 84, 132, 232
_CARD, _WRITTEN, _BAND, _ROW_GAP = 119, 56, 76, 18
_LINES = (17, 35, 64)  # baselines in a band
_IN_ROW = 9
_WIDTH = 2 * _MARGIN + _GUTTER + _IN_ROW * _CARD
_PAD, _NAME = 9, 58
_DASHES: dict[str, Dash] = {"chosen": "-", "forced": (0, (3, 2)), "given": (0, (1, 1.5))}
_BARS = {"allowed": MASS, "free": BITS}


def draw(explanation: Explanation, path: Path) -> None:
    """Draw an answer into a PNG file; see `Explanation.png`."""
    shown = cells(explanation)
    drawn = shown[:_MAX_CARDS]
    row_height = _card_height(explanation) + _ROW_GAP
    under = _TOP + -(-len(drawn) // _IN_ROW) * row_height
    canvas = Canvas(_WIDTH, under + _BOTTOM)
    _head(canvas, explanation)
    for index, cell in enumerate(drawn):
        row, column = divmod(index, _IN_ROW)
        y = _TOP + row * row_height
        under_token = bands(cell, is_guided=explanation.is_guided)
        if column == 0:
            _labels(canvas, y, under_token)
        _card(canvas, _MARGIN + _GUTTER + column * _CARD, y, cell, under_token)
    _legend(canvas, under, explanation, len(shown) - len(drawn))
    _totals(canvas, under + 110, explanation)
    canvas.save(path)


def _card_height(explanation: Explanation) -> int:
    return _WRITTEN + (2 if explanation.is_guided else 1) * _BAND


def _head(canvas: Canvas, explanation: Explanation) -> None:
    inner = _WIDTH - 2 * _MARGIN
    canvas.text(_MARGIN, 40, "An answer, token by token", size=20, weight="bold")
    canvas.text(_MARGIN, 60, heading(explanation), size=13, colour=DIM, width=inner)
    canvas.box(_MARGIN, 74, inner, 38, CARD, edge=LINE)
    canvas.box(_MARGIN, 74, 4, 38, MASS)
    answer = explanation.generation.text or "Nothing was written."
    canvas.text(_MARGIN + 16, 98, answer, size=15, family="mono", width=inner - 32)


def _labels(canvas: Canvas, y: float, under_token: Sequence[Band]) -> None:
    x = _MARGIN + _GUTTER - 12
    canvas.text(x, y + _LINES[0], "written", size=12, align="right")
    for number, band in enumerate(under_token):
        top = y + _WRITTEN + number * _BAND
        first, *others = zip(band.labels, _LINES, strict=True)
        canvas.text(x, top + first[1], first[0], size=12, align="right")
        for label, line in others:
            canvas.text(x, top + line, label, size=10.5, colour=DIM, align="right")


def _card(canvas: Canvas, x: float, y: float, cell: Cell, under_token: Sequence[Band]) -> None:
    paper, ink = LEVEL_COLOURS[cell.level]
    inner = _CARD - 2 * _PAD
    canvas.box(x, y, _CARD, _WRITTEN + len(under_token) * _BAND, CARD, edge=LINE)
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
    for number, band in enumerate(under_token):
        _band(canvas, x, under + number * _BAND, band)
    canvas.line((x, under), (x + _CARD, under), INK, thickness=1.4, dash=_DASHES[cell.source])


def _band(canvas: Canvas, x: float, y: float, band: Band) -> None:
    left, inner = x + _PAD, _CARD - 2 * _PAD
    (first, second, third), (top, middle, bottom) = band.lines, _LINES
    canvas.line((x, y), (x + _CARD, y), LINE)
    canvas.text(left, y + top, first, size=10.5, colour=DIM, width=inner)
    canvas.text(left, y + middle, second, size=13.5, weight="bold", width=inner)
    canvas.box(left, y + 43, inner, 5, TRACK)
    canvas.box(left, y + 43, max(1.0, band.filled * inner), 5, _BARS[band.name])
    canvas.text(left, y + bottom, third, size=11.5, family="mono", width=inner)


def _legend(canvas: Canvas, y: float, explanation: Explanation, num_left_out: int) -> None:
    if num_left_out:
        more = f"… and {num_left_out:,} more tokens, which are not drawn."
        canvas.text(_MARGIN + _GUTTER, y, more, size=12, weight="bold")
    for number, (band, meaning) in enumerate(legend(explanation)):
        line = y + 24 + 18 * number
        canvas.text(_MARGIN, line, band, size=11.5, weight="bold")
        width = _WIDTH - 2 * _MARGIN - _NAME
        canvas.text(_MARGIN + _NAME, line, meaning, size=11.5, colour=DIM, width=width)
    x: float = _MARGIN
    for (paper, ink), span, name in zip(LEVEL_COLOURS, LEVEL_SPANS, LEVEL_NAMES, strict=True):
        canvas.box(x, y + 72, 172, 22, paper)
        canvas.text(x + 86, y + 87, f"{span}: {name}", size=11.5, colour=ink, align="center")
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
