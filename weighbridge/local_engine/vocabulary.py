"""What guides, scoring and decoding need to know of a tokenizer: bytes by token, and how to spell.

`ByteTokenizer` is one; `TableVocabulary` makes one out of a list, for a model of your own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.checks import check_whole, encoded, listed_values, unwanted


class Vocabulary(Protocol):
    """The tokens of a model, in the width of its logits."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits; ids beyond the tokenizer's are padding and spell nothing."""
        ...

    @property
    def eos_ids(self) -> frozenset[int]:
        """The tokens that end an answer; at least one."""
        ...

    @property
    def token_bytes(self) -> Sequence[bytes]:
        """The bytes of each token, by id, `vocab_size` of them; empty for control and padding."""
        ...

    def encode(self, text: str) -> list[int]:
        """The canonical spelling of plain text; never a control token.

        Raises:
            TaskInvalid: half a surrogate pair is in the text.
        """
        ...

    def starting_with(self, prefix: bytes) -> list[int]:
        """Ids of all tokens whose bytes begin with `prefix`, sorted."""
        ...

    def consistent_with(self, text: bytes) -> list[int]:
        """Ids of all tokens that may come first where `text` has to be spelled, sorted.

        These are the tokens that are a beginning of it, and those that begin with all of it.
        """
        ...


class ByteIndex:
    """The tokens of a vocabulary by their bytes.

    Several tokens may spell the same bytes, so bytes never name one token.

    Args:
        token_bytes: by id; empty ones are left out.

    >>> index = ByteIndex([b"a", b"ab", b"b", b""])
    >>> index.starting_with(b"a"), index.consistent_with(b"abb")
    ([0, 1], [0, 1])
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._sorted = sorted((token, i) for i, token in enumerate(token_bytes) if token)
        self._longest = max((len(token) for token, _ in self._sorted), default=0)

    def starting_with(self, prefix: bytes) -> list[int]:
        """See `Vocabulary.starting_with`."""
        ids = []
        for at in range(bisect_left(self._sorted, (prefix, -1)), len(self._sorted)):
            token, token_id = self._sorted[at]
            if not token.startswith(prefix):
                break
            ids.append(token_id)
        return sorted(ids)

    def consistent_with(self, text: bytes) -> list[int]:
        """See `Vocabulary.consistent_with`."""
        ids = set(self.starting_with(text))
        for end in range(1, min(len(text), self._longest + 1)):
            ids.update(self._by_bytes.get(text[:end], ()))
        return sorted(ids)

    def longest_at(self, text: bytes, start: int) -> int | None:
        """The longest token that is there in a text, the first of those of equal bytes."""
        for end in range(min(len(text), start + self._longest), start, -1):
            if found := self._by_bytes.get(text[start:end]):
                return found[0]
        return None

    @cached_property
    def _by_bytes(self) -> dict[bytes, list[int]]:
        table: dict[bytes, list[int]] = {}
        for token, token_id in self._sorted:
            table.setdefault(token, []).append(token_id)
        return table


class TableVocabulary:
    """A vocabulary that is a list; spells by the longest token that fits.

    Args:
        tokens: the bytes of each token by id; empty for control tokens and padding.
        eos_ids: the tokens that end an answer.

    Raises:
        ValueError: no end-of-text token, or one that is no id.
        TypeError: tokens that are no bytes: a text would not say how it is encoded.

    >>> words = TableVocabulary([b"bug", b"b", b"u", b"g", b""], eos_ids={4})
    >>> words.encode("bugbu")
    [0, 1, 2]
    """

    def __init__(self, tokens: Sequence[bytes], eos_ids: set[int] | frozenset[int]) -> None:
        for place, token in enumerate(listed_values(tokens, "tokens", "bytes")):
            if not isinstance(token, bytes):
                raise unwanted(f"token {place}", "bytes (b'…')", token)
        for end in listed_values(eos_ids, "eos_ids", "token ids"):
            check_whole(end, "an id in eos_ids")
        if not eos_ids or not all(0 <= i < len(tokens) for i in eos_ids):
            raise ValueError("eos_ids must name at least one of the tokens")
        self.token_bytes, self.eos_ids = tuple(tokens), frozenset(eos_ids)
        self.vocab_size = len(self.token_bytes)
        index = ByteIndex(self.token_bytes)
        self.starting_with, self.consistent_with = index.starting_with, index.consistent_with
        # What ends an answer may have bytes in the list, but no text may become it.
        ends = self.eos_ids
        self._words = ByteIndex([b"" if i in ends else t for i, t in enumerate(self.token_bytes)])

    def encode(self, text: str) -> list[int]:
        """Longest token first, from the left.

        Raises:
            TaskInvalid: no token fits somewhere, or half a surrogate pair is in the text.
        """
        data, at, ids = encoded(text, "/text"), 0, list[int]()
        while at < len(data):
            best = self._words.longest_at(data, at)
            if best is None:
                raise TaskInvalid("/text", "the vocabulary cannot spell it")
            ids.append(best)
            at += len(self.token_bytes[best])
        return ids
