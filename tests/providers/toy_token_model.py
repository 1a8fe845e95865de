"""A toy language model over token sequences, small enough to be summed up in full.

It is a table: whole texts, each cut into tokens, each with a weight. Every probability that a
provider would report, and every one that the evidence claims to bound, is a sum over the table.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from weighbridge.providers.protocol import TokenLogprob

KEY = '{"category":'
CLOSERS = " \n,}"

Tokens = tuple[bytes, ...]

_words = st.text(st.sampled_from('abé"\\/'), max_size=3)
_scalars = st.one_of(_words, _words, st.sampled_from([1, 12, 120, True, None, 1.5]))
# None of them begins another: a number can always go on.
_closed = st.one_of(_words, st.sampled_from([True, None]))


@dataclass(frozen=True)
class ToyModel:
    """A distribution over token sequences, one that was emitted, and how much of it is told.

    Args:
        table: weight of each sequence.
        emitted: one of them; its text is JSON with one of the options.
        options: the permitted values.
        num_listed: alternatives that are told at each token; 0: none.
    """

    table: dict[Tokens, float]
    emitted: Tokens
    options: tuple[Any, ...]
    num_listed: int

    @property
    def value(self) -> Any:
        return value_in(self.emitted)

    @property
    def told(self) -> list[TokenLogprob]:
        """What a provider reports of the emitted sequence."""
        return [self._told(self.emitted[:place], token) for place, token in enumerate(self.emitted)]

    @property
    def first(self) -> int:
        """The token that has the first byte in which options differ."""
        quoted = all(isinstance(option, str) for option in self.options)
        text = b"".join(self.emitted).decode()
        start = len(KEY) + len(text[len(KEY) :]) - len(text[len(KEY) :].lstrip()) + quoted
        num_bytes = len(text[:start].encode())
        return next(
            place
            for place in range(len(self.emitted))
            if len(b"".join(self.emitted[: place + 1])) > num_bytes
        )

    def weight(self, beginning: Tokens) -> float:
        """Of all sequences that begin like this."""
        return math.fsum(w for tokens, w in self.table.items() if _begins(tokens, beginning))

    def share(self, wanted: list[Any]) -> float:
        """True probability that the field gets one of these values, when its first token is due."""
        beginning = self.emitted[: self.first]
        weights = [
            w
            for tokens, w in self.table.items()
            if _begins(tokens, beginning) and any(_same(value_in(tokens), v) for v in wanted)
        ]
        return math.fsum(weights) / self.weight(beginning)

    def following(self, beginning: Tokens) -> dict[bytes, float]:
        """The next token's distribution."""
        place, total = len(beginning), self.weight(beginning)
        found: dict[bytes, float] = {}
        for tokens, w in self.table.items():
            if _begins(tokens, beginning) and len(tokens) > place:
                found[tokens[place]] = found.get(tokens[place], 0.0) + w / total
        return found

    def _told(self, beginning: Tokens, token: bytes) -> TokenLogprob:
        following = self.following(beginning)
        ranked = sorted(following.items(), key=lambda pair: (-pair[1], pair[0]))[: self.num_listed]
        top = tuple((t, _log(p)) for t, p in ranked)
        return TokenLogprob(token=token, logprob=_log(following[token]), top=top)


def value_in(tokens: Tokens) -> Any:
    """The field's value in a text; a mark of nothing where the text is no such JSON."""
    try:
        return json.loads(b"".join(tokens))["category"]
    except (ValueError, KeyError):
        return _NOTHING


_NOTHING = object()


@st.composite
def toy_models(draw: st.DrawFn, *, whole_options: bool = False) -> ToyModel:
    """Any such model; with `whole_options`, every value is one token."""
    kinds = _closed if whole_options else _scalars
    values = draw(st.lists(kinds, min_size=2, max_size=6, unique_by=repr))
    table: dict[Tokens, float] = {}
    for value in values:
        for _ in range(draw(st.integers(1, 2))):
            tokens = _whole(draw, value) if whole_options else _cut(draw, _written(draw, value))
            table[tokens] = table.get(tokens, 0.0) + draw(st.floats(0.01, 1))
    if draw(st.booleans()):
        prose = _cut(draw, draw(st.sampled_from([f"{KEY}oh", "No.", '{"categories":"a"}'])))
        table[prose] = draw(st.floats(0.01, 1))
    options = tuple(draw(st.lists(st.sampled_from(values), min_size=1, unique_by=repr)))
    answers = [t for t in table if any(_same(value_in(t), option) for option in options)]
    num_listed = draw(st.integers(0, 8))
    return ToyModel(table, draw(st.sampled_from(sorted(answers))), options, num_listed)


def _written(draw: st.DrawFn, value: Any) -> str:
    """A whole answer with the value, in one of the ways in which JSON can be written."""
    spelled = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        spelled = spelled.replace("/", "\\/")
    blank, end = draw(st.sampled_from(["", " "])), draw(st.sampled_from(["}", ' , "x":1}', "\n}"]))
    return f"{KEY}{blank}{spelled}{end}"


def _whole(draw: st.DrawFn, value: Any) -> Tokens:
    spelled = json.dumps(value, ensure_ascii=False)
    return (KEY.encode(), spelled.encode(), b"}")


def _cut(draw: st.DrawFn, text: str) -> Tokens:
    raw = text.encode()
    near = st.integers(max(1, min(len(KEY) - 2, len(raw) - 1)), max(1, len(raw) - 1))
    cuts = sorted(draw(st.sets(near, max_size=8))) if len(raw) > 1 else []
    edges = [0, *cuts, len(raw)]
    return tuple(raw[a:b] for a, b in itertools.pairwise(edges))


def _begins(tokens: Tokens, beginning: Tokens) -> bool:
    return tokens[: len(beginning)] == beginning


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _log(probability: float) -> float:
    return min(0.0, math.log(probability))
