"""A guide over a language of bytes that can be written down: texts, choices, their products.

Every tokenization of a text is allowed, so a vocabulary that lacks single bytes can lead into a
dead end that the canonical spelling avoids; the tokenizers of language models very rarely do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import torch
from torch import Tensor

from weighbridge.local_engine.guides.byte_language import ByteLanguage, Positions
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.vocabulary import Vocabulary

# States whose allowed tokens are kept, as ids: a row of floats would be a hundred times as large.
_KEPT_STATES = 1_024
# With how many continuations, of how many bytes, the spelling of a forced run is compared.
_MAX_HEADS, _MAX_HEAD_BYTES = 32, 64


class SpelledGuide:
    """Allows what leads to a text of the language, whatever tokens spell it.

    A state is the set of positions in the language; after end of text, its end alone.

    Args:
        language: what may be written.
        vocabulary: must be able to spell it.
    """

    is_hard = True

    def __init__(self, language: ByteLanguage, vocabulary: Vocabulary) -> None:
        self._language, self._vocabulary = language, vocabulary
        self._lexicon = Lexicon.of(vocabulary)
        self._ended: Positions = frozenset({language.end})
        self._ids = lru_cache(_KEPT_STATES)(self._find_ids)
        self._forced = lru_cache(_KEPT_STATES)(self._find_forced)

    def init(self) -> Positions:
        """See `Guide.init`."""
        return self._language.start

    def bias(self, state: Positions) -> Tensor:
        """See `Guide.bias`."""
        return self._lexicon.row(self._ids(state), ends=self._language.is_whole(state))

    def advance(self, state: Positions, token: int) -> Positions:
        """See `Guide.advance`."""
        if token in self._lexicon.eos_ids:
            if not self._language.is_whole(state):
                raise ValueError("end of text is banned here: the answer is not whole")
            return state if self.finished(state) else self._ended
        after = self._language.after(state, self._lexicon.spelled(token))
        if not after:
            raise ValueError(f"token {token} is banned here: it leads to no allowed text")
        return after

    def finished(self, state: Positions) -> bool:
        """See `Guide.finished`."""
        return self._language.is_whole(state) and not len(self._ids(state))

    def forced(self, state: Positions) -> tuple[int, ...]:
        """See `Guide.forced`; only as far as every continuation is spelled alike."""
        return self._forced(state)

    def _find_ids(self, state: Positions) -> Tensor:
        found = self._lexicon.walk(state, self._language.branches)
        return torch.tensor([i for ids, _ in found for i in ids], dtype=torch.int64)

    def _find_forced(self, state: Positions) -> tuple[int, ...]:
        run, behind = self._language.run(state)
        if not run:
            return ()
        # What follows a run can merge with its end, and that can shift the merges before it. So
        # the run is spelled with each thing that may follow, and what all spellings share stays.
        heads, are_complete = self._language.heads(behind, _MAX_HEADS, _MAX_HEAD_BYTES)
        first, *others = [spelling(run + head, self._vocabulary) for head in heads]
        for other in others:
            first = _shared(first, other)
        kept = _within(first, run, self._vocabulary)
        return tuple(kept if are_complete else kept[:-1])


def spelling(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """The canonical tokens of bytes that may end in the middle of a character, as far as they go.

    They stop short where the bytes leave off being text, or where `encode` writes something else
    than it was given, such as a stand-in character.
    """
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        decoded = text[: error.start].decode()
    try:
        return _within(vocabulary.encode(decoded), text, vocabulary)
    except ValueError:  # `TableVocabulary` is greedy, and can miss the only spelling
        return []


def whole_spelling(text: bytes, vocabulary: Vocabulary) -> list[int]:
    """The canonical tokens of all the bytes; none where they stop short."""
    tokens = spelling(text, vocabulary)
    is_whole = b"".join(vocabulary.token_bytes[token] for token in tokens) == text
    return tokens if is_whole else []


def _within(tokens: Iterable[int], text: bytes, vocabulary: Vocabulary) -> list[int]:
    """The first of the tokens that together spell a beginning of a text, and nothing else."""
    kept, end = list[int](), 0
    for token in tokens:
        spelled = vocabulary.token_bytes[token]
        # An end of text spells nothing, whatever its bytes.
        if not spelled or token in vocabulary.eos_ids or not text.startswith(spelled, end):
            break
        kept.append(token)
        end += len(spelled)
    return kept


def _shared(one: list[int], other: list[int]) -> list[int]:
    """What two lists have in common at their beginning."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:place]
    return one[: len(other)]
