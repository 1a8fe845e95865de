"""Plot of labels: error rate by coverage, and what confidences are worth, into one PNG."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weighbridge.local_engine.picture.canvas import BITS, CARD, DIM, LINE, MASS, Canvas

if TYPE_CHECKING:
    from weighbridge.review.statistics.labels import Labels

# All in pixels.
_MARGIN, _SIDE, _GAP, _HEAD = 28, 300, 96, 64
_WIDTH = 2 * _MARGIN + 2 * _SIDE + _GAP + 40
_ROW = _HEAD + _SIDE + 56


def draw(samples: Mapping[str, Labels], thresholds: Mapping[str, float], path: Path) -> None:
    """Draw a row of two plots for each kind of answer.

    Args:
        samples: audited labels, by what the kind is called.
        thresholds: certified, by the same name.
        path: the file; it appears whole or not at all.

    Raises:
        ExtraMissing: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    canvas = Canvas(_WIDTH, _ROW * len(samples) + _MARGIN)
    for number, (name, labels) in enumerate(samples.items()):
        top = _MARGIN + _ROW * number
        canvas.text(_MARGIN, top + 12, name, size=15, weight="bold", width=_WIDTH - 2 * _MARGIN)
        told = f"{len(labels)} audited labels, {labels.num_errors} of them wrong"
        canvas.text(_MARGIN, top + 32, told, size=12, colour=DIM)
        _risk(canvas, _MARGIN + 40, top + _HEAD, labels, thresholds.get(name))
        _reliability(canvas, _MARGIN + 40 + _SIDE + _GAP, top + _HEAD, labels)
    canvas.save(path)


def _risk(canvas: Canvas, left: float, top: float, labels: Labels, certified: float | None) -> None:
    """Observed error rate among the surest, by their share; the certified threshold marked."""
    from weighbridge.review.statistics.selective import risk_coverage

    rows = risk_coverage(labels)
    most = max([0.05, *(row.risk for row in rows)])
    _axes(canvas, left, top, "share accepted", "of which wrong", most)
    points = [(left + _SIDE * row.coverage, top + _SIDE * (1 - row.risk / most)) for row in rows]
    _curve(canvas, points, MASS)
    if certified is not None:
        accepted = [row for row in rows if row.threshold >= certified]
        if accepted:
            x = left + _SIDE * accepted[-1].coverage
            canvas.line((x, top), (x, top + _SIDE), BITS, thickness=1.4, dash=(0, (4, 3)))
            canvas.text(x - 6, top + 14, f"certified from {certified:g}", size=11, align="right")


def _reliability(canvas: Canvas, left: float, top: float, labels: Labels) -> None:
    """Share of right answers by stated confidence, with 95 % intervals; honest ones on the line."""
    from weighbridge.review.statistics.reliability import equal_mass_edges, reliability_table

    _axes(canvas, left, top, "stated confidence", "right", 1.0)
    canvas.line((left, top + _SIDE), (left + _SIDE, top), DIM, dash=(0, (2, 3)))
    points = []
    for row in reliability_table(labels, equal_mass_edges(labels.confidences, 10)):
        if row.accuracy is None or row.mean_confidence is None:
            continue
        x = left + _SIDE * row.mean_confidence
        low, high = (top + _SIDE * (1 - end) for end in row.interval)
        canvas.line((x, low), (x, high), LINE, thickness=3)
        points.append((x, top + _SIDE * (1 - row.accuracy)))
    _curve(canvas, points, MASS)


def _axes(canvas: Canvas, left: float, top: float, across: str, up: str, most: float) -> None:
    canvas.box(left, top, _SIDE, _SIDE, CARD)
    for quarter in range(5):
        y, x = top + _SIDE * (1 - quarter / 4), left + _SIDE * quarter / 4
        canvas.line((left, y), (left + _SIDE, y), LINE)
        tick = f"{most * quarter / 4:.1%}" if most < 1 else f"{quarter / 4:.0%}"
        canvas.text(left - 6, y + 4, tick, size=10.5, colour=DIM, align="right")
        canvas.text(
            x, top + _SIDE + 16, f"{quarter / 4:.0%}", size=10.5, colour=DIM, align="center"
        )
    canvas.text(left + _SIDE / 2, top + _SIDE + 34, across, size=12, align="center")
    canvas.text(left, top - 8, up, size=12)


def _curve(canvas: Canvas, points: Sequence[tuple[float, float]], colour: str) -> None:
    for start, end in itertools.pairwise(points):
        canvas.line(start, end, colour, thickness=2)
    for x, y in points if len(points) <= 12 else ():
        canvas.box(x - 3, y - 3, 6, 6, colour)
