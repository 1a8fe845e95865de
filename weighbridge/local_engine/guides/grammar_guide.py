"""The guide of a compiled grammar: llguidance's matcher as a value."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weighbridge.errors import EngineError
from weighbridge.local_engine.guides.engine_grammar import NO_WAY_ON, problem_of
from weighbridge.local_engine.guides.grammar_tables import tables_of
from weighbridge.local_engine.guides.json_text import JsonText
from weighbridge.local_engine.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher

_MAX_ROWS = 64  # of one guide, some 200 kB each for 49,152 tokens; masks recur


class GrammarState:
    """What has been written so far. States of one guide are equal where their texts are.

    Args:
        matcher: llguidance's own state; copied to advance, never changed.
        text: the bytes written.
        is_ended: an end-of-text token has come.
        place: where the text is, if it is JSON.
    """

    __slots__ = ("is_ended", "mask", "matcher", "place", "text")

    def __init__(
        self, matcher: LLMatcher, text: bytes, place: JsonText | None, *, is_ended: bool = False
    ) -> None:
        self.matcher, self.text, self.place, self.is_ended = matcher, text, place, is_ended
        self.mask: bytes | None = None  # the packed mask, once it has been asked for

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GrammarState):
            return NotImplemented
        return self.text == other.text and self.is_ended == other.is_ended

    def __hash__(self) -> int:
        return hash((self.text, self.is_ended))


class GrammarGuide:
    """Allows what a grammar allows.

    Args:
        matcher: of the grammar, without an error, before the first token.
        vocabulary: the one that the matcher was made for.
        name: for messages.
        is_json: texts are JSON, in which no name may repeat and no number be infinite.
    """

    is_hard = True

    def __init__(
        self, matcher: LLMatcher, vocabulary: Vocabulary, name: str, *, is_json: bool = False
    ) -> None:
        self._vocabulary, self._name, self._tables = vocabulary, name, tables_of(vocabulary)
        self._start = GrammarState(matcher, b"", JsonText() if is_json else None)
        self._only_ends = self._tables.ends.tobytes()
        self._row = lru_cache(_MAX_ROWS)(self._unpacked)

    def __repr__(self) -> str:
        return f"<guide {self._name}>"

    def init(self) -> GrammarState:
        """See `Guide.init`."""
        return self._start

    def bias(self, state: GrammarState) -> Tensor:
        """See `Guide.bias`."""
        return self._row(self._mask(state))

    def advance(self, state: GrammarState, token: int) -> GrammarState:
        """See `Guide.advance`."""
        if token in self._vocabulary.eos_ids:
            if self.finished(state):
                return state
            if self._mask_has(state, token):
                return GrammarState(state.matcher, state.text, state.place, is_ended=True)
            raise ValueError("the text may not end here")
        if not self._mask_has(state, token):
            raise ValueError(f"token {token} is banned here")
        matcher = state.matcher.deep_copy()
        if not matcher.consume_token(token):
            raise self._failure(matcher)
        data = self._vocabulary.token_bytes[token]
        place = state.place.advance(data) if state.place is not None else None
        return GrammarState(matcher, state.text + data, place)

    def finished(self, state: GrammarState) -> bool:
        """See `Guide.finished`."""
        return self._mask(state) == self._only_ends

    def forced(self, state: GrammarState) -> tuple[int, ...]:
        """See `Guide.forced`.

        Where more may follow, the tokens that a longer text could still change are left out: a
        forced token that the model would not have chosen moves it away from its own language.
        """
        if state.is_ended:
            return ()
        matcher = state.matcher.deep_copy()
        data = matcher.compute_ff_bytes()
        if self._is_stuck(matcher) or not data:
            return ()
        whole = self._tables.tokenizer.tokenize_bytes(data)
        end = matcher.deep_copy()
        if not (end.consume_tokens(whole) and end.is_stopped() and not end.is_error()):
            whole = self._tables.tokenizer.tokenize_partial(data)[0]
        allowed = whole[: matcher.validate_tokens(whole)]
        if state.place is not None:
            text = b"".join(self._vocabulary.token_bytes[token] for token in allowed)
            if state.place.advance(text) is None:
                return ()
        return tuple(allowed)

    def _mask_has(self, state: GrammarState, token: int) -> bool:
        if not 0 <= token < self._vocabulary.vocab_size:
            return False
        return bool(self._mask(state)[token >> 3] >> (token & 7) & 1)

    def _mask(self, state: GrammarState) -> bytes:
        """One bit a token, lowest first; set where it is allowed."""
        if state.mask is None:
            state.mask = self._only_ends if state.is_ended else self._computed(state)
        return state.mask

    def _computed(self, state: GrammarState) -> bytes:
        matcher = state.matcher
        # It may be a word longer than the vocabulary.
        raw = np.frombuffer(matcher.compute_bitmask(), np.uint8)[: len(self._tables.spelling)]
        if self._is_stuck(matcher):
            return bytes(len(self._only_ends))
        packed = raw & self._tables.spelling
        if matcher.is_accepting():
            packed |= self._tables.ends
        if state.place is not None:
            for token in self._tables.repetitions.banned(state.place, packed):
                packed[token >> 3] &= ~np.uint8(1 << (token & 7))
        return packed.tobytes()

    def _is_stuck(self, matcher: LLMatcher) -> bool:
        """Whether no token fits: a dead end, which is for others to report.

        Raises:
            EngineError: the engine has failed.
        """
        if not matcher.is_error():
            return False
        if not problem_of(matcher).startswith(NO_WAY_ON):
            raise self._failure(matcher)
        return True

    def _unpacked(self, mask: bytes) -> Tensor:
        bits: NDArray[np.uint8] = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
        allowed = bits[: self._vocabulary.vocab_size]
        return torch.from_numpy(np.where(allowed, np.float32(0), np.float32("-inf")))

    def _failure(self, matcher: LLMatcher) -> EngineError:
        return EngineError(f"{self._name}: the grammar engine gave up: {problem_of(matcher)}")
