"""A tokenizer that knows the bytes of every token and never reads control tokens out of text."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property, lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from weighbridge.errors import ModelCorrupt


class ByteTokenizer:
    """A byte-level BPE tokenizer over a `tokenizers` object.

    Args:
        tokenizer: built without added tokens, so that `<|im_start|>` in a text is plain characters.
        special_ids: control tokens; they stand for no bytes.
        eos_ids: the tokens that end an answer.
    """

    def __init__(
        self, tokenizer: Tokenizer, special_ids: frozenset[int], eos_ids: frozenset[int]
    ) -> None:
        self._tokenizer = tokenizer
        self.special_ids, self.eos_ids = special_ids, eos_ids
        self.vocab_size = tokenizer.get_vocab_size()

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
        """Ids of all tokens whose bytes begin with `prefix`, sorted."""
        low = bisect_left(self._sorted, (prefix, -1))
        ids = []
        for token, token_id in self._sorted[low:]:
            if not token.startswith(prefix):
                break
            ids.append(token_id)
        return sorted(ids)

    def consistent_with(self, text: bytes) -> list[int]:
        """Ids of all tokens that may come first where `text` has to be spelled, sorted.

        These are the tokens that are a beginning of it, and those that begin with all of it.
        """
        ids = set(self.starting_with(text))
        for end in range(1, len(text)):
            ids.update(self._by_bytes.get(text[:end], ()))
        return sorted(ids)

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        return sorted((token, i) for i, token in enumerate(self.token_bytes) if token)

    @cached_property
    def _by_bytes(self) -> dict[bytes, list[int]]:
        """Ids by bytes; several tokens may spell the same bytes, so their mass adds up."""
        table: dict[bytes, list[int]] = {}
        for token, token_id in self._sorted:
            table.setdefault(token, []).append(token_id)
        return table

    @cached_property
    def _missing_bytes(self) -> frozenset[int]:
        vocabulary = self._tokenizer.get_vocab()
        return frozenset(b for b, char in enumerate(_byte_characters()) if char not in vocabulary)


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`.

    Raises:
        ModelCorrupt: it is missing or damaged.
    """
    try:
        return Tokenizer.from_file(str(path))
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
