"""Token healing: the last token of a prompt is taken back, so that the boundary falls naturally.

A prompt that ends in `{"category": "` ends in a token of its own; the model has rarely seen that
token followed by a label, because its tokenizer would have merged the two. So the token is taken
back, and the first tokens written must spell it again, whatever else they spell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from weighbridge.local_engine.guides.protocol import Guide, State
from weighbridge.local_engine.vocabulary import Vocabulary


class _State(NamedTuple):
    """Bytes that must still be spelled again, and the state of the guide behind them."""

    owed: bytes
    inner: State


@dataclass(frozen=True, slots=True)
class Healed:
    """A guide behind some bytes of the prompt that must be spelled again.

    Args:
        guide: what must come after the bytes.
        owed: the bytes; not empty.
        vocabulary: of the model.
    """

    guide: Guide
    owed: bytes
    vocabulary: Vocabulary

    @property
    def is_hard(self) -> bool:
        """See `Guide.is_hard`; the bytes alone demand no shape of the answer."""
        return self.guide.is_hard

    def init(self) -> _State:
        """See `Guide.init`."""
        return _State(self.owed, self.guide.init())

    def bias(self, state: _State) -> Tensor:
        """See `Guide.bias`."""
        if not state.owed:
            return self.guide.bias(state.inner)
        row = torch.full((self.vocabulary.vocab_size,), -torch.inf)
        for token in self.vocabulary.consistent_with(state.owed):
            after = self._behind(state, token)
            if after is not None:
                row[token] = after[1]
        return row

    def advance(self, state: _State, token: int) -> _State:
        """See `Guide.advance`."""
        if not state.owed:
            return _State(b"", self.guide.advance(state.inner, token))
        after = self._behind(state, token)
        if after is None:
            raise ValueError(f"token {token} is banned here")
        return after[0]

    def finished(self, state: _State) -> bool:
        """See `Guide.finished`."""
        return not state.owed and self.guide.finished(state.inner)

    def forced(self, state: _State) -> tuple[int, ...]:
        """See `Guide.forced`."""
        return () if state.owed else self.guide.forced(state.inner)

    def _behind(self, state: _State, token: int) -> tuple[_State, float] | None:
        """The state behind a token and the bias on the way there; None if it is banned."""
        text = self.vocabulary.token_bytes[token]
        if not text or token in self.vocabulary.eos_ids:
            return None
        if state.owed.startswith(text):
            return _State(state.owed[len(text) :], state.inner), 0.0
        if not text.startswith(state.owed):
            return None
        walked = self._walked(state.inner, text[len(state.owed) :])
        return None if walked is None else (_State(b"", walked[0]), walked[1])

    def _walked(self, inner: State, rest: bytes) -> tuple[State, float] | None:
        """The guide's own state behind some bytes, by the tokens that the tokenizer would use."""
        total = 0.0
        try:
            tokens = self.vocabulary.encode(rest.decode())
        except ValueError:  # the bytes end within a character, or have no spelling
            return None
        if b"".join(self.vocabulary.token_bytes[i] for i in tokens) != rest:
            return None
        for token in tokens:
            bias = float(self.guide.bias(inner)[token])
            if bias == -torch.inf:
                return None
            inner, total = self.guide.advance(inner, token), total + bias
        return inner, total


def taken_back(
    ids: Sequence[int], guide: Guide, vocabulary: Vocabulary
) -> tuple[list[int], Guide, bytes]:
    """A prompt less its last token, the guide that spells it again, and its bytes.

    Unchanged, with no bytes, where the last token is a control token, is the whole prompt, or
    begins no longer token.

    Args:
        ids: the prompt.
        guide: of what comes after it.
        vocabulary: of the model.
    """
    owed = vocabulary.token_bytes[ids[-1]] if len(ids) > 1 else b""
    if not owed or len(vocabulary.starting_with(owed)) <= 1:
        return list(ids), guide, b""
    return list(ids[:-1]), Healed(guide, owed, vocabulary), owed
