"""Plots of probabilities: the options of a field, and what temperature does under a mask."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch

from weighbridge.local_engine.decoding.sampling import Sampling, distribution
from weighbridge.local_engine.picture.canvas import CARD, DIM, LINE, MASS, TRACK, Canvas, Weight
from weighbridge.local_engine.picture.cells import share_of

_MAX_OPTIONS = 30
_MAX_TOKENS = 12

# All in pixels.
_MARGIN, _WIDTH, _NAME, _VALUE = 24, 760, 190, 86
_BAR = _WIDTH - 2 * _MARGIN - _NAME - _VALUE
_COLOURS = ("#1f7a8c", "#e0a33a", "#7a5195", "#bf3b2b", "#5b8c3e", "#4a5a6a")
_HATCHES = (None, "///", "...", "\\\\\\", "xx", "---")  # colour is never the only sign


def plot_options(
    probabilities: Mapping[str, float],
    path: str | Path,
    *,
    mass: tuple[float, float] | None = None,
) -> None:
    """Draw the options of a field as bars, the likeliest first, into a PNG.

    Args:
        probabilities: of each option, 0 to 1; beyond the first thirty they are drawn as one.
        path: the file; it appears whole or not at all.
        mass: bounds of what the free model put on all options together; None where nobody knows.

    Raises:
        ValueError: no option, or a number that is no probability.
        ExtraMissing: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    if not probabilities:
        raise ValueError("there are no options to draw")
    for value in (*probabilities.values(), *(mass or ())):
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{value} is no probability")
    ordered = sorted(probabilities.items(), key=lambda item: -item[1])
    shown, rest = ordered[:_MAX_OPTIONS], ordered[_MAX_OPTIONS:]
    if rest:
        shown.append((f"{len(rest):,} others", sum(value for _, value in rest)))
    top, row = 82, 30
    canvas = Canvas(_WIDTH, top + row * len(shown) + 20)
    canvas.text(_MARGIN, 38, "Probability of each option", size=18, weight="bold")
    canvas.text(_MARGIN, 60, _mass(mass), size=12.5, colour=DIM, width=_WIDTH - 2 * _MARGIN)
    for number, (name, value) in enumerate(shown):
        y = top + row * number
        weight: Weight = "bold" if number == 0 else "normal"
        left = _MARGIN + _NAME
        canvas.text(
            left - 12, y + 15, name, size=13, weight=weight, align="right", width=_NAME - 12
        )
        canvas.box(left, y + 2, _BAR, 18, TRACK)
        canvas.box(left, y + 2, max(1.0, _BAR * value), 18, MASS)
        canvas.text(left + _BAR + 12, y + 16, share_of(value), size=13, weight=weight)
    canvas.save(Path(path))


def temperatures_under_mask(
    logits: Mapping[str, float], allowed: Collection[str], temperatures: Sequence[float]
) -> list[dict[str, float]]:
    """The probabilities that a token is drawn from, one mapping for each temperature.

    Args:
        logits: raw, of every token there is.
        allowed: the tokens that the guide leaves.
        temperatures: 0 is greedy.

    Raises:
        ValueError: no allowed token, one without a finite logit, a temperature below 0.

    >>> temperatures_under_mask({"a": 2.0, "b": 1.0, "c": 9.0}, {"a", "b"}, [0.0])
    [{'a': 1.0, 'b': 0.0, 'c': 0.0}]
    """
    if not allowed:
        raise ValueError("no token is allowed")
    for name in allowed:
        if name not in logits:
            near = difflib.get_close_matches(name, logits, 1, cutoff=0)
            nearest = f"; the nearest is {near[0]!r}" if near else ""
            raise ValueError(f"no logit is given for {name!r}{nearest}")
        if not math.isfinite(logits[name]):
            raise ValueError(f"the logit of {name!r} is {logits[name]}")
    masked = torch.tensor([v if n in allowed else -torch.inf for n, v in logits.items()])
    return [
        dict(zip(logits, distribution(masked, Sampling(temperature=t)).tolist(), strict=True))
        for t in temperatures
    ]


def plot_temperature(
    logits: Mapping[str, float],
    allowed: Collection[str],
    temperatures: Sequence[float],
    path: str | Path,
) -> None:
    """Draw what temperature does under a mask as grouped bars into a PNG.

    Args:
        logits: raw, of at most twelve tokens.
        allowed: the tokens that the guide leaves; the others are drawn as banned.
        temperatures: one to six, each a bar in every group.
        path: the file; it appears whole or not at all.

    Raises:
        ValueError: as `temperatures_under_mask`; too many tokens or temperatures, or none.
        ExtraMissing: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    if len(logits) > _MAX_TOKENS:
        raise ValueError(f"{len(logits)} tokens cannot be drawn side by side, {_MAX_TOKENS} can")
    if not 1 <= len(temperatures) <= len(_COLOURS):
        raise ValueError(f"give 1 to {len(_COLOURS)} temperatures, not {len(temperatures)}")
    series = temperatures_under_mask(logits, allowed, temperatures)
    bar, gap, left, top, height = 26, 24, _MARGIN + 48, 116, 250
    group = max(bar * len(temperatures), 64) + gap
    width = max(left + group * len(logits) + _MARGIN, 520)
    canvas = Canvas(width, top + height + 62)
    _temperature_head(canvas, temperatures)
    canvas.box(left, top, width - left - _MARGIN, height, CARD)
    for percent in (0, 25, 50, 75, 100):
        y = top + height * (1 - percent / 100)
        canvas.line((left, y), (width - _MARGIN, y), LINE)
        canvas.text(left - 8, y + 4, f"{percent} %", size=11, colour=DIM, align="right")
    for number, name in enumerate(logits):
        middle = left + group * (number + 0.5)
        is_allowed = name in allowed
        bottom = top + height + 20
        canvas.text(middle, bottom, name, size=13, family="mono", align="center", width=group - 8)
        if not is_allowed:
            canvas.text(middle, bottom + 17, "banned", size=11, colour=DIM, align="center")
            continue
        for index, drawn in enumerate(series):
            x = middle + bar * (index - len(series) / 2)
            tall = height * drawn[name]
            fill, hatch = _COLOURS[index], _HATCHES[index]
            canvas.box(x + 1, top + height - tall, bar - 2, tall, fill, edge=CARD, hatch=hatch)
            shown = f"{100 * drawn[name]:.0f}"
            canvas.text(x + bar / 2, top + height - tall - 5, shown, size=10, align="center")
    canvas.save(Path(path))


def _mass(mass: tuple[float, float] | None) -> str:
    if mass is None:
        return "How much the free model put on all options together is not known."
    low, high = map(share_of, mass)
    stated = low if low == high else f"{low} to {high}"
    return f"Among the options. The free model put {stated} of its probability on all of them."


def _temperature_head(canvas: Canvas, temperatures: Sequence[float]) -> None:
    canvas.text(_MARGIN, 38, "Temperature under a mask", size=18, weight="bold")
    explained = "Chance of each allowed token; banned ones stay at 0 at any temperature."
    canvas.text(_MARGIN, 60, explained, size=12.5, colour=DIM, width=canvas.width - 2 * _MARGIN)
    x: float = _MARGIN
    for number, temperature in enumerate(temperatures):
        canvas.box(x, 76, 22, 16, _COLOURS[number], edge=CARD, hatch=_HATCHES[number])
        name = "greedy" if temperature == 0 else f"T = {temperature:g}"
        canvas.text(x + 28, 89, name, size=12.5)
        x += 96
