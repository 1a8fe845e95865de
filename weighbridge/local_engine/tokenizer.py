"""A tokenizer that knows the bytes of every token and never reads control tokens out of text."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from weighbridge.errors import ModelCorrupt
from weighbridge.local_engine.vocabulary import ByteIndex


class ByteTokenizer:
    """A byte-level BPE tokenizer over a `tokenizers` object.

    Args:
        tokenizer: built without added tokens, so that `<|im_start|>` in a text is plain characters.
        special_ids: control tokens; they stand for no bytes.
        eos_ids: the tokens that end an answer.
        vocab_size: width of the model's logits; None where it is that of the tokenizer. Ids beyond
            the tokenizer's are padding and spell nothing.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        special_ids: frozenset[int],
        eos_ids: frozenset[int],
        *,
        vocab_size: int | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self.special_ids, self.eos_ids = special_ids, eos_ids
        self.vocab_size: int = tokenizer.get_vocab_size() if vocab_size is None else vocab_size

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text.

        Some vocabularies lack single bytes, and the BPE model would drop those characters without
        a word; they are replaced by U+FFFD instead.
        """
        if not self._missing_bytes.isdisjoint(text.encode()):
            text = "".join(
                c if self._missing_bytes.isdisjoint(c.encode()) else "\ufffd" for c in text
            )
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def control(self, token: str) -> int:
        """Id of a control token such as `<|im_start|>`.

        Raises:
            KeyError: the vocabulary has no such token.
        """
        token_id: int | None = self._tokenizer.token_to_id(token)
        if token_id is None or token_id not in self.special_ids:
            raise KeyError(token)
        return token_id

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes that each token stands for, by id; empty for control tokens."""
        table = [b""] * self.vocab_size
        to_byte = {char: byte for byte, char in enumerate(_byte_characters())}
        for token, token_id in self._tokenizer.get_vocab().items():
            if token_id not in self.special_ids:
                table[token_id] = bytes(to_byte[char] for char in token)
        return table

    def starting_with(self, prefix: bytes) -> list[int]:
        """See `Vocabulary.starting_with`."""
        return self._index.starting_with(prefix)

    def consistent_with(self, text: bytes) -> list[int]:
        """See `Vocabulary.consistent_with`."""
        return self._index.consistent_with(text)

    @cached_property
    def _index(self) -> ByteIndex:
        return ByteIndex(self.token_bytes)

    @cached_property
    def _missing_bytes(self) -> frozenset[int]:
        vocabulary = self._tokenizer.get_vocab()
        return frozenset(b for b, char in enumerate(_byte_characters()) if char not in vocabulary)


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


@lru_cache(maxsize=1)
def _byte_characters() -> tuple[str, ...]:
    """The printable character that stands for each byte in a byte-level vocabulary.

    Source: the byte encoder of GPT-2: printable Latin-1 stands for itself, the rest is moved
    above U+0100 in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(moved)) for byte in range(256))
