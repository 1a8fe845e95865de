"""Soft guides: an opinion on single tokens, added to their logits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral

from torch import Tensor

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.checks import encoded, pairs
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.spelled import whole_spelling
from weighbridge.local_engine.vocabulary import Vocabulary

_LARGEST = 1e30  # of a bias; anything may be subtracted, down to a ban


def soft(
    by_id: Mapping[int, float] | None = None, by_text: Mapping[str, float] | None = None
) -> LogitBias:
    """Make single tokens likelier or less likely, or ban them; every other stays as it is.

    Args:
        by_id: added to the logit of a token; -inf bans it. As OpenAI's `logit_bias`.
        by_text: the same for each token of the canonical spelling of a text, so `" refund"` and
            `"refund"` mean different tokens, and a text of several tokens favours each of them
            wherever it stands.

    Values for the same token add up.

    Raises:
        TaskInvalid: a value that is NaN, +inf or above 1e30, or an empty text.

    >>> soft(by_id={7: -100.0}).by_id
    ((7, -100.0),)
    """
    return LogitBias(
        pairs(by_id, "by_id", Integral, "token ids (texts go into by_text)"),
        pairs(by_text, "by_text", str, "texts"),
    )


@dataclass(frozen=True, slots=True)
class LogitBias:
    """See `soft`."""

    by_id: tuple[tuple[int, float], ...]
    by_text: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        for token, value in self.by_id:
            check_value(value, f"/by_id/{token}")
        for place, (text, value) in enumerate(self.by_text):
            check_value(value, f"/by_text/{place}")
            if not encoded(text, f"/by_text/{place}"):
                raise TaskInvalid(f"/by_text/{place}", "an empty text names no token")

    def bind(self, vocabulary: Vocabulary) -> SoftGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: an id that is no token or a control token, or a text without a spelling.
        """
        lexicon = Lexicon.of(vocabulary)
        row = lexicon.open_row()
        for token, value in self.by_id:
            if not 0 <= token < lexicon.vocab_size:
                problem = f"no token of this vocabulary; there are {lexicon.vocab_size}"
                raise TaskInvalid(f"/by_id/{token}", problem)
            if lexicon.is_control(token):
                raise TaskInvalid(f"/by_id/{token}", "a control or padding token is always banned")
            row[token] += value
        for place, (text, value) in enumerate(self.by_text):
            for token in _spelled(text, vocabulary, f"/by_text/{place}"):
                row[token] += value
        return SoftGuide(row, lexicon)


class SoftGuide:
    """Adds one row to the logits everywhere; a state is whether the text has been ended."""

    is_hard = False

    def __init__(self, row: Tensor, lexicon: Lexicon) -> None:
        self._row, self._lexicon = row, lexicon

    def init(self) -> bool:
        """See `Guide.init`."""
        return False

    def bias(self, state: bool) -> Tensor:
        """See `Guide.bias`."""
        return self._lexicon.row([], ends=True) if state else self._row

    def advance(self, state: bool, token: int) -> bool:
        """See `Guide.advance`."""
        if not 0 <= token < len(self._row) or self.bias(state)[token] == -math.inf:
            raise ValueError(f"token {token} is banned here")
        return state or token in self._lexicon.eos_ids

    def finished(self, state: bool) -> bool:
        """See `Guide.finished`; never by itself, only behind an end of text."""
        return state

    def forced(self, state: bool) -> tuple[int, ...]:
        """See `Guide.forced`; an opinion forces nothing."""
        return ()


def check_value(value: float, pointer: str) -> None:
    """See that a bias is a number that can be added to a logit, or -inf.

    Raises:
        TaskInvalid: it is NaN, or so large that single precision could take a sum of such numbers
            for +inf, which would ban all other tokens.
    """
    if not value <= _LARGEST:  # NaN is not
        raise TaskInvalid(pointer, f"a bias must be finite, {_LARGEST:g} at most, or -inf to ban")


def _spelled(text: str, vocabulary: Vocabulary, pointer: str) -> set[int]:
    """The tokens of the canonical spelling of a text."""
    tokens = whole_spelling(text.encode(), vocabulary)
    if not tokens:
        raise TaskInvalid(pointer, "the vocabulary of the model has no tokens that spell this text")
    return set(tokens)
