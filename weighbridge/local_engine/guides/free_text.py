"""Free text up to a stop string: room to reason before the answer that counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.checks import check_whole, encoded
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.spelled import spelling
from weighbridge.local_engine.guides.texts import refuse_unspellable
from weighbridge.local_engine.vocabulary import Vocabulary

_KEPT_STATES = 256


def free(stop: str, max_tokens: int | None = None) -> FreeText:
    r"""Whatever the model likes, until it has written the stop string; it cannot end before.

    `then(free(stop="\nAnswer: ", max_tokens=60), choice(labels))` reasons first. The stop string is
    part of the text, and nothing can follow it in the same token, so that what comes next starts
    clean.

    Args:
        stop: where the free text ends.
        max_tokens: after so many tokens nothing but the rest of the stop string may come, so what
            follows is always reached; the cut can fall within a character. 0: the stop string
            alone. None: no limit.

    Raises:
        TaskInvalid: an empty stop string, or a negative limit.
    """
    return FreeText(stop, max_tokens)


@dataclass(frozen=True, slots=True)
class FreeText:
    """See `free`."""

    stop: str
    max_tokens: int | None

    def __post_init__(self) -> None:
        if not encoded(self.stop, "/stop"):
            raise TaskInvalid("/stop", "an empty stop string stops nothing")
        if self.max_tokens is None:
            return
        check_whole(self.max_tokens, "max_tokens")
        if self.max_tokens < 0:
            raise TaskInvalid("/max_tokens", "must be 0 or more")

    def bind(self, vocabulary: Vocabulary) -> FreeTextGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: the vocabulary cannot spell the stop string.
        """
        stop = self.stop.encode()
        refuse_unspellable([[stop]], Lexicon.of(vocabulary), lambda *_: "/stop")
        return FreeTextGuide(stop, self.max_tokens, vocabulary)


class Progress(NamedTuple):
    """How far a free text has come.

    Args:
        matched: how many bytes of the stop string the text ends with; all of them: it is over.
        num_tokens: written so far; 0 where nobody counts.
    """

    matched: int
    num_tokens: int


class FreeTextGuide:
    """Bans end of text before the stop string, and tokens that would write on behind it."""

    is_hard = True

    def __init__(self, stop: bytes, max_tokens: int | None, vocabulary: Vocabulary) -> None:
        self._stop, self._max_tokens, self._vocabulary = stop, max_tokens, vocabulary
        self._lexicon = Lexicon.of(vocabulary)
        self._borders = _borders(stop)
        self._too_long = [
            token
            for token, text in enumerate(vocabulary.token_bytes)
            if 0 <= text.find(stop) < len(text) - len(stop)
        ]
        self._banned = lru_cache(_KEPT_STATES)(self._find_banned)

    def init(self) -> Progress:
        """See `Guide.init`."""
        return Progress(0, 0)

    def bias(self, state: Progress) -> Tensor:
        """See `Guide.bias`."""
        if self.finished(state):
            return self._lexicon.row([], ends=True)
        if self._is_closing(state):
            found = self._lexicon.walk(state.matched, self._rest)
            return self._lexicon.row([i for ids, _ in found for i in ids], ends=False)
        return self._lexicon.open_row().index_fill_(0, self._banned(state.matched), -torch.inf)

    def advance(self, state: Progress, token: int) -> Progress:
        """See `Guide.advance`."""
        if token in self._lexicon.eos_ids and self.finished(state):
            return state
        text, matched = self._lexicon.spelled(token), state.matched
        is_closing = self._is_closing(state)
        for byte in text:
            if matched == len(self._stop):
                raise ValueError(f"token {token} is banned here: it goes on behind the stop string")
            if is_closing and byte != self._stop[matched]:
                raise ValueError(f"token {token} is banned here: only the stop string may come")
            matched = self._step(matched, byte)
        return Progress(matched, state.num_tokens + (self._max_tokens is not None))

    def finished(self, state: Progress) -> bool:
        """See `Guide.finished`."""
        return state.matched == len(self._stop)

    def forced(self, state: Progress) -> tuple[int, ...]:
        """See `Guide.forced`: the rest of the stop string, where the tokens have run out."""
        if self.finished(state) or not self._is_closing(state):
            return ()
        rest = self._stop[state.matched :]
        return tuple(spelling(rest, self._vocabulary))

    def _is_closing(self, state: Progress) -> bool:
        return self._max_tokens is not None and state.num_tokens >= self._max_tokens

    def _rest(self, matched: int) -> Iterator[tuple[int, int]]:
        if matched < len(self._stop):
            yield self._stop[matched], matched + 1

    def _step(self, matched: int, byte: int) -> int:
        """How much of the stop string the text ends with after one more byte."""
        while matched and self._stop[matched] != byte:
            matched = self._borders[matched]
        return matched + (self._stop[matched] == byte)

    def _find_banned(self, matched: int) -> Tensor:
        """The tokens that would end the text, or write on behind the stop string."""
        banned = [*self._lexicon.eos_ids, *self._too_long]
        while matched:
            rest = self._stop[matched:]
            tokens = self._vocabulary.starting_with(rest)
            banned += [i for i in tokens if len(self._vocabulary.token_bytes[i]) > len(rest)]
            matched = self._borders[matched]
        return torch.tensor(banned)


def _borders(text: bytes) -> list[int]:
    """For each number of bytes matched, the next smaller number that the same end matches.

    Source: the failure function of Knuth, Morris and Pratt (1977).
    """
    borders, border = [0, 0], 0
    for byte in text[1:]:
        while border and text[border] != byte:
            border = borders[border]
        border += text[border] == byte
        borders.append(border)
    return borders
