"""A language of bytes that is a row of parts, and what may come next in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeAlias

# Which part; the range of its texts that go on from here, and how many of their bytes are spelled.
Position: TypeAlias = tuple[int, int, int, int]

# Where one may be after some bytes. Often one place; more where a part may end in two ways.
Positions: TypeAlias = frozenset[Position]


class SortedTexts:
    """Texts in order, so that those which begin alike lie side by side: a trie without nodes.

    Args:
        texts: any; equal ones are kept once.

    >>> list(SortedTexts([b"bugfix", b"bill", b"bug"]).branches(0, 3, 1))
    [(105, 0, 1), (117, 1, 3)]
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = tuple(sorted(set(texts)))

    def __len__(self) -> int:
        return len(self.texts)

    def branches(self, start: int, stop: int, depth: int) -> Iterator[tuple[int, int, int]]:
        """The bytes at `depth` of a range of texts, each with the texts that have it.

        Args:
            start: of the range; its texts agree in their first `depth` bytes.
            stop: the first text behind it.
            depth: how many bytes are spelled.
        """
        if start < stop and len(self.texts[start]) == depth:
            start += 1
        while start < stop:
            byte = self.texts[start][depth]
            end = start + 1
            if end < stop:
                end = bisect_right(self.texts, byte, end, stop, key=lambda text: text[depth])
            yield byte, start, end
            start = end


class ByteLanguage:
    """All that can be written by taking one text of each part, in turn.

    States are sets of positions, so the product of the parts is never listed.

    >>> answers = ByteLanguage([[b"bug", b"bugs"], [b"s", b"!"]])
    >>> after_bugs = answers.after(answers.start, b"bugs")
    >>> answers.is_whole(after_bugs), sorted(bytes((b,)) for b, _ in answers.branches(after_bugs))
    (True, [b'!', b's'])
    """

    def __init__(self, parts: Sequence[Sequence[bytes]]) -> None:
        self._parts = [SortedTexts(part) for part in parts]
        self.end: Position = (len(parts), 0, 0, 0)
        self.start: Positions = frozenset(self._places(self._beginning(0)))

    def is_whole(self, state: Positions) -> bool:
        """Whether what has been written is in the language."""
        return self.end in state

    def branches(self, state: Positions) -> Iterator[tuple[int, Positions]]:
        """The bytes that may come next, each with the state after it."""
        found: dict[int, list[Position]] = {}
        for part, start, stop, depth in state:
            if part < len(self._parts):
                for byte, first, last in self._parts[part].branches(start, stop, depth):
                    found.setdefault(byte, []).extend(self._places((part, first, last, depth + 1)))
        return ((byte, frozenset(positions)) for byte, positions in found.items())

    def after(self, state: Positions, text: bytes) -> Positions:
        """The state after some more bytes; empty if they cannot come here."""
        for byte in text:
            state = dict(self.branches(state)).get(byte, frozenset())
        return state

    def run(self, state: Positions) -> tuple[bytes, Positions]:
        """The bytes that must come next, and the state behind them."""
        text = bytearray()
        while not self.is_whole(state):
            ways = list(self.branches(state))
            if len(ways) != 1:
                break
            [(byte, state)] = ways
            text.append(byte)
        return bytes(text), state

    def heads(self, state: Positions, at_most: int, depth: int) -> tuple[list[bytes], bool]:
        """How what is left can begin: enough beginnings to cover all of it.

        Args:
            state: where to start.
            at_most: how many beginnings are wanted.
            depth: how long the longest may be.

        Returns:
            The beginnings, and whether they are all that is left, each to its end.
        """
        whole: list[bytes] = []
        open_heads = [(b"", state)]
        for _ in range(depth):
            whole += [head for head, here in open_heads if self.is_whole(here)]
            longer = [
                (head + bytes((byte,)), after)
                for head, here in open_heads
                for byte, after in self.branches(here)
            ]
            if not longer:
                return whole, True
            if len(whole) + len(longer) > at_most:
                break
            open_heads = longer
        return whole + [head for head, _ in open_heads], False

    def _beginning(self, part: int) -> Position:
        return (part, 0, len(self._parts[part]), 0) if part < len(self._parts) else self.end

    def _places(self, position: Position) -> list[Position]:
        """A position and all that are reached from it without another byte."""
        found: list[Position] = []
        while position != self.end:
            part, start, stop, depth = position
            if len(self._parts[part].texts[start]) > depth:
                break
            if start + 1 < stop:
                found.append((part, start + 1, stop, depth))
            position = self._beginning(part + 1)
        return [*found, position]
