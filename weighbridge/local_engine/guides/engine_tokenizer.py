"""The grammar engine's own view of a vocabulary, built once for each."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from weighbridge.errors import ExtraMissing
from weighbridge.local_engine.vocabulary import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_TOKENIZERS: weakref.WeakKeyDictionary[Vocabulary, LLTokenizer] = weakref.WeakKeyDictionary()


def engine_tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    """The tokenizer object of the grammar engine; kept as long as the vocabulary lives.

    Control and padding tokens are marked as special, so that no text can match them. Building one
    takes a fifth of a second for 49,152 tokens.

    Raises:
        ExtraMissing: the grammar engine is not installed.
    """
    found = _TOKENIZERS.get(vocabulary)
    if found is None:
        try:
            from llguidance import LLTokenizer, TokenizerWrapper
        except ImportError:
            raise ExtraMissing("local", "llguidance") from None
        wrapper = TokenizerWrapper(_Wrapped(vocabulary))
        found = LLTokenizer(wrapper, eos_token=sorted(vocabulary.eos_ids))
        assert found.vocab_size == vocabulary.vocab_size
        _TOKENIZERS[vocabulary] = found
    return found


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
