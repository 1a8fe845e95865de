"""Token healing: the last token of a prompt is taken back, so that the boundary falls naturally.

A prompt that ends in `{"category": "` ends in a token of its own; the model has rarely seen that
token followed by a label, because its tokenizer would have merged the two. So the token is taken
back, and the first tokens written must spell it again, whatever else they spell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from weighbridge.local_engine.guides.protocol import Guide, State
from weighbridge.local_engine.guides.spelled import whole_spelling
from weighbridge.local_engine.vocabulary import Vocabulary

_KEPT_OWED = 16  # ends of prompts whose continuations are kept; half a vocabulary begins with " "


class _State(NamedTuple):
    """Bytes that must still be spelled again, and the state of the guide behind them."""

    owed: bytes
    inner: State


class Healed:
    """A guide behind some bytes of the prompt that must be spelled again.

    Args:
        guide: what must come after the bytes.
        owed: the bytes; not empty.
        vocabulary: of the model.
    """

    def __init__(self, guide: Guide, owed: bytes, vocabulary: Vocabulary) -> None:
        self._guide, self._owed, self._vocabulary = guide, owed, vocabulary
        self._row = cache(self._find_row)  # while bytes are owed, the guide has not moved

    @property
    def is_hard(self) -> bool:
        """See `Guide.is_hard`; the bytes alone demand no shape of the answer."""
        return self._guide.is_hard

    def init(self) -> _State:
        """See `Guide.init`."""
        return _State(self._owed, self._guide.init())

    def bias(self, state: _State) -> Tensor:
        """See `Guide.bias`."""
        return self._row(state.owed) if state.owed else self._guide.bias(state.inner)

    def advance(self, state: _State, token: int) -> _State:
        """See `Guide.advance`."""
        if not state.owed:
            return _State(b"", self._guide.advance(state.inner, token))
        if not 0 <= token < self._vocabulary.vocab_size or self.bias(state)[token] == -torch.inf:
            raise ValueError(f"token {token} is banned here")
        text = self._vocabulary.token_bytes[token]
        if state.owed.startswith(text):
            return _State(state.owed[len(text) :], state.inner)
        inner = state.inner
        for piece in whole_spelling(text[len(state.owed) :], self._vocabulary):
            inner = self._guide.advance(inner, piece)
        return _State(b"", inner)

    def finished(self, state: _State) -> bool:
        """See `Guide.finished`."""
        return not state.owed and self._guide.finished(state.inner)

    def forced(self, state: _State) -> tuple[int, ...]:
        """See `Guide.forced`."""
        return () if state.owed else self._guide.forced(state.inner)

    def _find_row(self, owed: bytes) -> Tensor:
        again, beyond = _continuations(self._vocabulary, owed)
        ids, values = [*again], [0.0] * len(again)
        waiting = [(beyond, self._guide.init(), 0.0)]
        while waiting:
            ways, inner, before = waiting.pop()
            allowed = self._guide.bias(inner)[ways.pieces].add(before).tolist()
            ids += ways.tokens
            values += allowed[: len(ways.tokens)]
            behind = zip(ways.longer.items(), allowed[len(ways.tokens) :], strict=True)
            for (piece, below), value in behind:
                if value > -torch.inf:
                    waiting.append((below, self._guide.advance(inner, piece), value))
        row = torch.full((self._vocabulary.vocab_size,), -torch.inf)
        row[ids] = torch.tensor(values)
        return row


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
    if not owed or ids[-1] in vocabulary.eos_ids or len(vocabulary.starting_with(owed)) <= 1:
        return list(ids), guide, b""
    return list(ids[:-1]), Healed(guide, owed, vocabulary), owed


class _Ways:
    """Tokens that spell what is owed and more: a tree by the pieces of what they spell beyond it.

    Attributes:
        tokens: those of which one more piece is left.
        longer: the others, by their next piece.
    """

    def __init__(self) -> None:
        self.tokens, self.longer = list[int](), dict[int, _Ways]()
        self._last = list[int]()

    @cached_property
    def pieces(self) -> Tensor:
        """int64: the last piece of each of `tokens`, then the next pieces of `longer`."""
        return torch.tensor([*self._last, *self.longer], dtype=torch.int64)

    def add(self, token: int, pieces: Sequence[int]) -> None:
        """Add a token by what it spells beyond; before `pieces` is asked for."""
        ways = self
        for piece in pieces[:-1]:
            ways = ways.longer.setdefault(piece, _Ways())
        ways.tokens.append(token)
        ways._last.append(pieces[-1])


_KNOWN: WeakKeyDictionary[Vocabulary, dict[bytes, tuple[list[int], _Ways]]] = WeakKeyDictionary()


def _continuations(vocabulary: Vocabulary, owed: bytes) -> tuple[list[int], _Ways]:
    """The tokens that may come first where some bytes are owed.

    Returns:
        Those that spell a part of the bytes or all of them, and nothing else; and those that spell
        more than the bytes.
    """
    known = _KNOWN.setdefault(vocabulary, {})
    found = known.get(owed)
    if found is None:
        # Engines of several threads may share a vocabulary, so no entry is sure to stay.
        for oldest in [*known][: 1 + len(known) - _KEPT_OWED]:
            known.pop(oldest, None)
        found = known[owed] = _find_continuations(vocabulary, owed)
    return found


def _find_continuations(vocabulary: Vocabulary, owed: bytes) -> tuple[list[int], _Ways]:
    again, beyond = list[int](), _Ways()
    ends = _ways_on(vocabulary, owed)
    for token in vocabulary.consistent_with(owed):
        text = vocabulary.token_bytes[token]
        if token in vocabulary.eos_ids:
            continue
        if len(text) <= len(owed):
            if len(text) in ends:
                again.append(token)
        elif pieces := whole_spelling(text[len(owed) :], vocabulary):
            beyond.add(token, pieces)
    return again, beyond


def _ways_on(vocabulary: Vocabulary, owed: bytes) -> set[int]:
    """After how many of the bytes the rest can still be spelled; all of them included.

    A vocabulary may lack single bytes: behind some beginnings there would be a dead end.
    """
    ends = {len(owed)}
    for start in range(len(owed) - 1, 0, -1):
        rest = owed[start:]
        steps = {
            len(vocabulary.token_bytes[token])
            for token in vocabulary.consistent_with(rest)
            if token not in vocabulary.eos_ids
        }
        if any(start + step in ends for step in steps):
            ends.add(start)
    return ends
