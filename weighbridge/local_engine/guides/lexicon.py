"""A vocabulary as guides see it: its tokens by their beginnings, and rows of bias over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from weighbridge.local_engine.vocabulary import Vocabulary

S = TypeVar("S")


class Lexicon:
    """The tokens that spell something, by their bytes; and the rows that guides answer with.

    Take `Lexicon.of(vocabulary)`: one is made for each vocabulary. An end-of-text token spells
    nothing here, whatever its bytes.

    >>> from weighbridge.local_engine.vocabulary import TableVocabulary
    >>> lexicon = Lexicon.of(TableVocabulary([b"bug", b"b", b"s", b""], eos_ids={3}))
    >>> lexicon.row([0], ends=True)
    tensor([0., -inf, -inf, 0.])
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocab_size, self.eos_ids = vocabulary.vocab_size, sorted(vocabulary.eos_ids)
        self._texts = list(vocabulary.token_bytes)
        for token in self.eos_ids:
            self._texts[token] = b""
        # Every beginning of a token, with the tokens that are exactly it: () for mere beginnings.
        self._ids: dict[bytes, tuple[int, ...]] = {}
        for token, text in enumerate(self._texts):
            for end in range(1, len(text)):
                self._ids.setdefault(text[:end], ())
            if text:
                self._ids[text] = (*self._ids.get(text, ()), token)
        spelling = [i for i, text in enumerate(self._texts) if text]
        self._eos = torch.tensor(self.eos_ids)
        self._banned = torch.full((self.vocab_size,), -torch.inf)
        self._ends = self._banned.index_fill(0, self._eos, 0.0)
        self._open = self._ends.index_fill(0, torch.tensor(spelling, dtype=torch.int64), 0.0)

    @staticmethod
    def of(vocabulary: Vocabulary) -> Lexicon:
        """The lexicon of a vocabulary; made once, and kept as long as the vocabulary is."""
        known = _LEXICONS.get(vocabulary)
        if known is None:
            known = _LEXICONS[vocabulary] = Lexicon(vocabulary)
        return known

    def row(self, ids: Sequence[int] | Tensor, *, ends: bool) -> Tensor:
        """float32 [vocab_size]: 0 for `ids`, and for end of text if `ends`; -inf for the rest."""
        row = self._ends if ends else self._banned
        return row.index_fill(0, torch.as_tensor(ids, dtype=torch.int64), 0.0)

    def open_row(self) -> Tensor:
        """0 for all tokens but control and padding; a new tensor each time."""
        return self._open.clone()

    def ends_only(self, row: Tensor) -> bool:
        """Whether a row allows end of text, and nothing else."""
        num_ends = int((row[self._eos] > -torch.inf).sum())
        return num_ends > 0 and num_ends == int((row > -torch.inf).sum())

    def ends_at(self, row: Tensor) -> float:
        """The bias of the end-of-text token that a row likes best; -inf where all are banned."""
        return float(row[self._eos].max())

    def is_control(self, token: int) -> bool:
        """Whether a token spells nothing and ends nothing, so that no guide ever allows it."""
        return not self._texts[token] and token not in self.eos_ids

    def spelled(self, token: int) -> bytes:
        """The bytes of a token.

        Raises:
            ValueError: it spells nothing, or is no token.
        """
        text = self._texts[token] if 0 <= token < self.vocab_size else b""
        if not text:
            raise ValueError(f"token {token} spells nothing, so it is banned here")
        return text

    def single_bytes(self, wanted: Iterable[int]) -> frozenset[int]:
        """Those of the byte values that are a token by themselves."""
        return frozenset(value for value in wanted if self._ids.get(bytes((value,))))

    def walk(
        self, state: S, branches: Callable[[S], Iterable[tuple[int, S]]]
    ) -> Iterator[tuple[tuple[int, ...], S]]:
        """The tokens that a byte automaton can read from a state, with the states they lead to.

        Args:
            state: where to start; left as it is.
            branches: the bytes that may come next in a state, each once, with the states after.
        """
        waiting = [(b"", state)]
        while waiting:
            text, here = waiting.pop()
            for byte, after in branches(here):
                longer = text + bytes((byte,))
                ids = self._ids.get(longer)
                if ids is not None:
                    waiting.append((longer, after))
                    if ids:
                        yield ids, after


# A lexicon holds nothing of its vocabulary but the table of bytes, so both can go together.
_LEXICONS: WeakKeyDictionary[Vocabulary, Lexicon] = WeakKeyDictionary()
