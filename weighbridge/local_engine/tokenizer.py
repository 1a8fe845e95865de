"""A tokenizer that knows the bytes of every token and never reads control tokens out of text.

What `encode` returns spells exactly the text it was given, so pieces of a prompt can be encoded one
by one: nothing is put before the first word of a piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.byte_tables import (
    SPACE,
    byte_characters,
    byte_level_bytes,
    byte_tokens,
    sentencepiece_bytes,
)
from weighbridge.local_engine.checks import encoded, unwanted
from weighbridge.local_engine.tokenizer_file import SpacePrefix, take_apart
from weighbridge.local_engine.vocabulary import ByteIndex


class ByteTokenizer:
    """A BPE tokenizer, byte-level or SentencePiece with byte fallback, over a `tokenizers` object.

    Args:
        tokenizer: built without added tokens, so that `<|im_start|>` in a text is plain characters,
            and without spaces of its own.
        special_ids: control tokens; they stand for no bytes.
        eos_ids: the tokens that end an answer.
        vocab_size: width of the model's logits; None where it is that of the tokenizer. Ids beyond
            the tokenizer's are padding and spell nothing.
        added_tokens: tokens by name that only a template may write. Those that are not special
            stand for their name. None: the special ones, by their names in the vocabulary.
        space_prefix: see `TokenizerParts`; `encode` itself never puts a space before a text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        special_ids: frozenset[int],
        eos_ids: frozenset[int],
        *,
        vocab_size: int | None = None,
        added_tokens: Mapping[str, int] | None = None,
        space_prefix: SpacePrefix = "never",
    ) -> None:
        self._tokenizer, self._vocabulary = tokenizer, tokenizer.get_vocab()
        self.special_ids, self.eos_ids = special_ids, eos_ids
        if added_tokens is None:
            named = self._vocabulary.items()
            added_tokens = {name: i for name, i in named if i in special_ids}
        self.added_tokens, self.space_prefix = dict(added_tokens), space_prefix
        known = 1 + max((*self._vocabulary.values(), *self.added_tokens.values()))
        self.vocab_size: int = known if vocab_size is None else vocab_size
        if self.vocab_size < known:
            raise EngineError(f"the tokenizer has {known} tokens, the model only {vocab_size}")

    @classmethod
    def from_json(
        cls, text: str, eos_ids: Iterable[int], *, vocab_size: int | None = None
    ) -> ByteTokenizer:
        """The tokenizer that a `tokenizer.json` describes.

        Args:
            text: the content of the file.
            eos_ids: the tokens that end an answer.
            vocab_size: width of the model's logits.

        Raises:
            EngineError: a kind of tokenizer that is not known to be read exactly.
            Exception: whatever a damaged file leads the library to.
        """
        parts = take_apart(text)
        return cls(
            parts.tokenizer,
            frozenset(parts.special.values()),
            frozenset(eos_ids),
            vocab_size=vocab_size,
            added_tokens={**parts.added, **parts.special},
            space_prefix=parts.space_prefix,
        )

    @classmethod
    def load(
        cls, path: Path, eos_ids: Iterable[int], *, vocab_size: int | None = None
    ) -> ByteTokenizer:
        """Read a `tokenizer.json`; see `from_json`.

        Raises:
            ModelCorrupt: it is missing or damaged.
            EngineError: see `from_json`.
        """
        try:
            return cls.from_json(path.read_text("utf-8"), eos_ids, vocab_size=vocab_size)
        except EngineError:
            raise
        except Exception:  # noqa: BLE001  # the library raises nothing narrower
            raise ModelCorrupt(str(path), "not a readable tokenizer") from None

    @classmethod
    def from_transformers(
        cls,
        tokenizer: Any,
        eos_ids: Iterable[int] = (),
        *,
        vocab_size: int | None = None,
    ) -> ByteTokenizer:
        """The same tokenizer as a fast one of `transformers`.

        Args:
            tokenizer: a `PreTrainedTokenizerFast`.
            eos_ids: tokens that end an answer, besides the tokenizer's own end of text.
            vocab_size: width of the model's logits.

        Raises:
            EngineError: a slow tokenizer, or see `from_json`.
        """
        if tokenizer is None or isinstance(tokenizer, str):
            wanted = "a loaded tokenizer, such as AutoTokenizer.from_pretrained(name)"
            raise unwanted("tokenizer", wanted, tokenizer)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            kind = type(tokenizer).__name__
            raise EngineError(f"{kind} is no fast tokenizer; load it with use_fast=True")
        ends = {tokenizer.eos_token_id, *eos_ids} - {None}
        if not ends:
            raise EngineError("the tokenizer has no end-of-text token; name one in eos_ids")
        return cls.from_json(backend.to_str(), ends, vocab_size=vocab_size)

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text.

        Some byte-level vocabularies lack single bytes, and the BPE model would drop those
        characters without a word; they are replaced by U+FFFD instead.

        Raises:
            TaskInvalid: half a surrogate pair is in the text.
        """
        data = encoded(text, "/text")
        if self._is_sentencepiece:
            # There, a ▁ is a space. One that is in the text is spelled byte by byte.
            first, *rest = text.split(SPACE)
            ids = self._encode(first)
            for piece in rest:
                ids += self._escaped_space
                ids += self._encode(piece)
            return ids
        if not self._missing_bytes.isdisjoint(data):
            text = "".join(
                c if self._missing_bytes.isdisjoint(c.encode()) else "\ufffd" for c in text
            )
        return self._encode(text)

    def decode(self, ids: Iterable[int]) -> bytes:
        """What tokens spell; control tokens and padding spell nothing."""
        table = self.token_bytes
        return b"".join(table[i] for i in ids)

    def control(self, token: str) -> int:
        """Id of a control token such as `<|im_start|>`.

        Raises:
            KeyError: the vocabulary has no such token.
        """
        token_id = self.added_tokens.get(token)
        if token_id is None or token_id not in self.special_ids:
            raise KeyError(token)
        return token_id

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes that each token stands for, by id; empty for control tokens."""
        table = [b""] * self.vocab_size
        spelling = sentencepiece_bytes if self._is_sentencepiece else byte_level_bytes
        for token, token_id in self._vocabulary.items():
            table[token_id] = spelling(token)
        for token, token_id in self.added_tokens.items():
            table[token_id] = b"" if token_id in self.special_ids else token.encode()
        return table

    def starting_with(self, prefix: bytes) -> list[int]:
        """See `Vocabulary.starting_with`."""
        return self._index.starting_with(prefix)

    def consistent_with(self, text: bytes) -> list[int]:
        """See `Vocabulary.consistent_with`."""
        return self._index.consistent_with(text)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _index(self) -> ByteIndex:
        return ByteIndex(self.token_bytes)

    @property
    def _is_sentencepiece(self) -> bool:
        return bool(self._tokenizer.model.byte_fallback)

    @cached_property
    def _escaped_space(self) -> list[int]:
        tokens = byte_tokens(self._vocabulary)
        return [tokens[byte] for byte in SPACE.encode()]

    @cached_property
    def _missing_bytes(self) -> frozenset[int]:
        characters = enumerate(byte_characters())
        return frozenset(byte for byte, c in characters if c not in self._vocabulary)


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`, without its added tokens: it reads no control token out of a text.

    Raises:
        ModelCorrupt: it is missing or damaged.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        content["added_tokens"] = []
        return Tokenizer.from_str(json.dumps(content))
    except Exception:  # noqa: BLE001  # the library raises nothing narrower
        raise ModelCorrupt(str(path), "not a readable tokenizer") from None
