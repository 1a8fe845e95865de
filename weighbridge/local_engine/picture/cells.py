"""Cells: the three bands of a token in words and numbers, the same for every kind of picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from weighbridge.local_engine.decoding.generation import (
    Candidate,
    Finish,
    Generation,
    Step,
)
from weighbridge.local_engine.picture.explanation import Explanation
from weighbridge.local_engine.picture.visible import spelled, visible

CERTAIN = "100 %"
END = "end"  # of text: the one token that spells nothing
SOURCES = {"model": "chosen", "guide": "forced", "prefill": "given"}

# Surprisal in bits below which a token is of the level; what is above all of them is of the last.
LEVELS = (1.0, 3.0, 6.0, 10.0)
LEVEL_NAMES = ("expected", "likely", "unlikely", "surprising", "astonishing")
LEVEL_SPANS = (
    f"under {LEVELS[0]:g} bit",
    *(f"{low:g} to {high:g}" for low, high in pairwise(LEVELS)),
    f"{LEVELS[-1]:g} and more",
)
LEVEL_MARKS = "▁▃▅▆█"  # colour is never the only sign
# Paper and ink; each pair has a contrast of at least 4.5 to 1.
LEVEL_COLOURS = (
    ("#e9edf1", "#1c232b"),
    ("#fbf0c3", "#1c232b"),
    ("#f9d285", "#1c232b"),
    ("#f0a35e", "#1c232b"),
    ("#bf3b2b", "#ffffff"),
)

FULL_BITS = 16.0  # of a bar; 65,536 tokens, all equally likely, are no more surprising

_FINISHES: dict[Finish, str] = {
    "eos": "the model ended it",
    "guide": "nothing could follow",
    "stop": "a stop string came",
    "length": "the tokens allowed were used up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One token.

    Args:
        number: counted from 1.
        token: visible; "end" for the end of text.
        is_end: whether it is the end of text and no token that spells "end".
        source: "chosen", "forced" or "given".
        allowed: how many tokens the guide allowed.
        mass: step mass, 0 to 1.
        mass_text: the same in words.
        probability: premask, in words.
        rank: among all tokens, such as "#12".
        bits: surprisal, 0 or more.
        bits_text: the same in words.
        level: 0 to 4, of the surprisal.
        best_allowed: the likeliest allowed token after its share; empty without a trace.
        best_free: the likeliest token without the guide after its probability; empty likewise.
        all_allowed: the likeliest allowed tokens, best first.
        all_free: the likeliest tokens without the guide, best first.
    """

    number: int
    token: str
    is_end: bool
    source: str
    allowed: str
    mass: float
    mass_text: str
    probability: str
    rank: str
    bits: float
    bits_text: str
    level: int
    best_allowed: str
    best_free: str
    all_allowed: tuple[str, ...]
    all_free: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What the guide, or the free model, made of a token: three lines, and a bar.

    Args:
        name: "allowed" or "free".
        labels: what each line is.
        lines: how many or how likely; how much or how surprising; the likeliest.
        filled: of the bar, 0 to 1; it measures the second line.
        candidates: the likeliest tokens, best first.
    """

    name: Literal["allowed", "free"]
    labels: tuple[str, str, str]
    lines: tuple[str, str, str]
    filled: float
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """One line about the whole answer: its name, the number, and what the number says."""

    name: str
    value: str
    meaning: str


def cells(explanation: Explanation) -> tuple[Cell, ...]:
    """The cells of an answer, in order."""
    steps = explanation.generation.steps
    tokens = spelled([step.text for step in steps])
    ends = _end_ids(steps, is_guided=explanation.is_guided)
    return tuple(
        _cell(number, token, step, ends)
        for number, (token, step) in enumerate(zip(tokens, steps, strict=True), start=1)
    )


def bands(cell: Cell, *, is_guided: bool) -> tuple[Band, ...]:
    """The bands under a token; without a guide all is allowed, and not worth saying."""
    allowed = Band(
        name="allowed",
        labels=("allowed", "mass", "likeliest"),
        lines=(f"{cell.allowed} allowed", cell.mass_text, cell.best_allowed),
        filled=cell.mass,
        candidates=cell.all_allowed,
    )
    free = Band(
        name="free",
        labels=("free", "surprisal", "likeliest"),
        lines=(f"{cell.probability}, {cell.rank}", cell.bits_text, cell.best_free),
        filled=min(1.0, cell.bits / FULL_BITS),
        candidates=cell.all_free,
    )
    return (allowed, free) if is_guided else (free,)


def totals(explanation: Explanation) -> tuple[Total, ...]:
    """The whole answer in numbers."""
    generation, hardest = explanation.generation, explanation.hardest
    rows = [
        Total(
            name="tokens",
            value=f"{len(generation.written):,}",
            meaning=_sources(generation, is_guided=explanation.is_guided),
        ),
        Total(
            name="free probability",
            value=share(generation.logprob),
            meaning=f"that the free model writes exactly this ({generation.logprob:z.1f} nats)",
        ),
        Total(
            name="mean surprisal",
            value=f"{explanation.mean_surprisal_bits:z.1f} bit",
            meaning="a token, to the free model",
        ),
    ]
    if explanation.is_guided and hardest is not None:
        token, mass = cells(explanation)[hardest].token, share_of(generation.steps[hardest].mass)
        # The token comes last: behind it, a colon or a full stop would look like a part of it.
        pulled = f"where the guide pulled hardest: token {hardest + 1}, {token}"
        rows += [
            Total(
                name="path mass",
                value=share(explanation.log_path_mass),
                meaning="what the guide left at each token, multiplied",
            ),
            Total(
                name="least mass",
                value=mass,
                meaning="the guide pulled nowhere" if mass == CERTAIN else pulled,
            ),
        ]
    finish = generation.finish
    rows.append(Total(name="finish", value=finish, meaning=_FINISHES[finish]))
    return tuple(rows)


def heading(explanation: Explanation) -> str:
    """Who wrote it, under what, after how much."""
    guide = f"guide {visible(explanation.guide, keep=' ')}" if explanation.is_guided else "no guide"
    return (
        f"model {visible(explanation.model, keep=' ')} · {guide} · "
        f"{explanation.prompt_tokens:,} prompt tokens"
    )


def legend(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """The name of each band, and what is in it."""
    dashed = "; dashed where the guide left no choice of text" if explanation.is_guided else ""
    written = f"the token, the redder the more it surprised the free model{dashed}; ␣ is a space"
    allowed = (
        "how many tokens the guide allowed, the mass that the free model had on all of them, and "
        "the likeliest of them with its share of that"
    )
    free = (
        "the token's probability and #rank without a guide, how surprising that made it, and the "
        "likeliest token of all"
    )
    named = ("written", written), ("allowed", allowed), ("free", free)
    return named if explanation.is_guided else (named[0], named[2])


def share_of(probability: float) -> str:
    """A probability in words; see `share`."""
    return share(math.log(probability) if probability > 0 else -math.inf)


def share(logprob: float) -> str:
    """A probability, given by its natural log: percent, below a thousandth of one a power of ten.

    >>> [share(math.log(p)) for p in (1, 0.9996, 0.996, 0.61, 0.042, 0.00021, 8e-8)]
    ['100 %', '100 %', '99.6 %', '61 %', '4.2 %', '0.021 %', '8e-8']
    >>> share(-math.inf), share(-1000.0)
    ('0 %', '5e-435')
    """
    if logprob == -math.inf:
        return "0 %"
    if logprob < math.log(1e-5):  # not through exp(): a whole answer can be smaller than any float
        exponent = math.floor(logprob / math.log(10))
        digit = round(math.exp(logprob - exponent * math.log(10)))
        return f"{digit}e{exponent}" if digit < 10 else f"1e{exponent + 1}"
    percent = 100 * min(math.exp(logprob), 1.0)
    if percent >= 99.95:
        return CERTAIN
    decimals = 1 if percent >= 95 else max(0, 1 - math.floor(math.log10(percent)))
    return f"{percent:.{decimals}f} %"


def level(bits: float) -> int:
    """The level of a surprisal.

    >>> [level(bits) for bits in (0.0, 1.0, 9.9, 10.0)]
    [0, 1, 3, 4]
    """
    return sum(bits >= limit for limit in LEVELS)


def _cell(number: int, token: str, step: Step, ends: frozenset[int]) -> Cell:
    allowed = tuple(_candidate(candidate, ends) for candidate in step.allowed)
    free = tuple(_candidate(candidate, ends) for candidate in step.free)
    return Cell(
        number=number,
        token=token or END,
        is_end=not step.text,
        source=SOURCES[step.source],
        allowed=f"{step.allowed_count:,}",
        mass=min(step.mass, 1.0),
        mass_text=share_of(step.mass),
        probability=share(step.logprob),
        rank=f"#{step.rank:,}",
        bits=max(0.0, step.surprisal_bits),
        bits_text=f"{step.surprisal_bits:z.1f} bit",
        level=level(step.surprisal_bits),
        best_allowed=allowed[0] if allowed else "",
        best_free=free[0] if free else "",
        all_allowed=allowed,
        all_free=free,
    )


def _candidate(candidate: Candidate, ends: frozenset[int]) -> str:
    (token,) = spelled([candidate.text])
    if not token:
        token = END if candidate.token in ends else f"control {candidate.token}"
    return f"{share_of(candidate.probability)} {token}"  # number first: a cut costs none


def _end_ids(steps: Iterable[Step], *, is_guided: bool) -> frozenset[int]:
    """The tokens that end a text, as far as they can be told from other control tokens."""
    ends = {step.token for step in steps if not step.text}
    if is_guided:  # a guide allows no other token that spells nothing
        ends.update(c.token for step in steps for c in step.allowed if not c.text)
    return frozenset(ends)


def _sources(generation: Generation, *, is_guided: bool) -> str:
    counts = Counter(step.source for step in generation.steps)
    parts = [f"{counts['model']:,} chosen by the model"]
    if is_guided:
        forced = share_of(generation.forced_share)
        parts.append(f"{counts['guide']:,} forced by the guide ({forced})")
    if counts["prefill"]:
        parts.append(f"{counts['prefill']:,} given before")
    return ", ".join(parts)
