"""What grammars need of a vocabulary, the engine's own tokenizer above all; made once for each."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weighbridge.errors import ExtraMissing
from weighbridge.local_engine.guides.json_text import Repetitions
from weighbridge.local_engine.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLTokenizer


@dataclass(frozen=True, slots=True)
class Tables:
    """A vocabulary, made ready for grammars.

    Args:
        tokenizer: the engine's own; control and padding tokens are special, so that no text can
            match them.
        spelling: uint8, one bit a token, lowest first: set for tokens that spell something.
        ends: the same, set for end-of-text tokens.
        repetitions: for texts that are JSON.
    """

    tokenizer: LLTokenizer
    spelling: NDArray[np.uint8]
    ends: NDArray[np.uint8]
    repetitions: Repetitions


_TABLES: weakref.WeakKeyDictionary[Vocabulary, Tables] = weakref.WeakKeyDictionary()


def tables_of(vocabulary: Vocabulary) -> Tables:
    """The tables of a vocabulary; kept as long as it lives.

    They take a quarter of a second for 49,152 tokens.

    Raises:
        ExtraMissing: the grammar engine is not installed.
    """
    found = _TABLES.get(vocabulary)
    if found is None:
        found = _TABLES[vocabulary] = _made(vocabulary)
    return found


def _made(vocabulary: Vocabulary) -> Tables:
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError:
        raise ExtraMissing("local", "llguidance") from None
    wrapper = TokenizerWrapper(_Wrapped(vocabulary))
    tokenizer = LLTokenizer(wrapper, eos_token=sorted(vocabulary.eos_ids))
    assert tokenizer.vocab_size == vocabulary.vocab_size
    ends = np.zeros(vocabulary.vocab_size, bool)
    ends[sorted(vocabulary.eos_ids)] = True
    spelling = np.array([bool(token) for token in vocabulary.token_bytes]) & ~ends
    return Tables(
        tokenizer,
        np.packbits(spelling, bitorder="little"),
        np.packbits(ends, bitorder="little"),
        Repetitions(tuple(vocabulary.token_bytes)),
    )


class _Wrapped:
    """A vocabulary with the attributes that the engine asks for."""

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = weakref.ref(vocabulary)  # or the table above would keep it for ever
        tokens = vocabulary.token_bytes
        # 0xFF never occurs in UTF-8: a name that no grammar can spell.
        self.tokens = [token or b"\xff<%d>" % i for i, token in enumerate(tokens)]
        self.eos_token_id = min(vocabulary.eos_ids)
        self.special_token_ids = [
            i for i, token in enumerate(tokens) if not token or i in vocabulary.eos_ids
        ]

    def __call__(self, text: str) -> list[int]:
        """The canonical spelling; empty where a character has no token."""
        if not isinstance(text, str):  # the engine tries bytes first, and takes this for a no
            raise TypeError("text")
        vocabulary = self._vocabulary()
        try:
            return vocabulary.encode(text) if vocabulary is not None else []
        except ValueError:
            return []
