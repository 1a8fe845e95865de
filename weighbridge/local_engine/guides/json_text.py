"""Where in a JSON text one is, and what a grammar cannot see there: repeated names, huge numbers.

A name that an object already has would silently replace its value, and `1e999` is infinite to most
readers. Grammars allow both, so tokens that would write them are banned here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weighbridge.local_engine.vocabulary import ByteIndex

_Names = frozenset[bytes]

_QUOTE, _BACKSLASH, _COMMA, _BRACE = b'"\\,{'
_DIGITS = frozenset(b"0123456789")
_FIRST_OF_NUMBER = _DIGITS | {*b"-"}
_NUMBER = _FIRST_OF_NUMBER | {*b"+.eE"}

_MAX_DIGITS = 200  # a number of fewer, and no exponent, is not infinite after `e99` either
_HUGE = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{10}")  # what can make even such a number infinite


@dataclass(frozen=True, slots=True)
class JsonText:
    """A place in a JSON text that has been well formed so far.

    Args:
        open: for each list or object around the place the names that it has; None for a list.
        inside: a name, a text, a number, or none of them.
        partial: what there is of the name or number.
        is_escaped: whether a backslash was the last character of a text or name.
        expects_name: whether a text here is a name.
    """

    open: tuple[_Names | None, ...] = ()
    inside: Literal["", "name", "text", "number"] = ""
    partial: bytes = b""
    is_escaped: bool = False
    expects_name: bool = False

    def advance(self, data: bytes) -> JsonText | None:
        """The place after more bytes; None if they repeat a name or make a number infinite."""
        reader = _Reader(self)
        return reader.place() if all(map(reader.read, data)) else None


class _Reader:
    """A place that moves, byte by byte."""

    def __init__(self, place: JsonText) -> None:
        self._open, self._inside = list(place.open), place.inside
        self._partial = bytearray(place.partial)
        self._is_escaped, self._expects_name = place.is_escaped, place.expects_name

    def place(self) -> JsonText:
        return JsonText(
            tuple(self._open),
            self._inside,
            bytes(self._partial),
            self._is_escaped,
            self._expects_name,
        )

    def read(self, byte: int) -> bool:
        """Go on by one byte; whether it may stand there."""
        if self._inside in {"name", "text"}:
            return self._read_text(byte)
        if byte in _NUMBER and (self._inside == "number" or byte in _FIRST_OF_NUMBER):
            self._inside = "number"
            self._partial.append(byte)
            # It grows at its end only, so one check at each digit sees every number.
            return byte not in _DIGITS or not math.isinf(float(self._partial))
        if self._inside == "number":
            self._inside = ""
            self._partial.clear()
        if byte == _QUOTE:
            self._inside = "name" if self._expects_name else "text"
        elif byte in b"{[":
            self._open.append(frozenset() if byte == _BRACE else None)
            self._expects_name = byte == _BRACE
        elif byte in b"}]":
            self._open.pop()
            self._expects_name = False
        elif byte == _COMMA:
            self._expects_name = self._open[-1] is not None
        return True

    def _read_text(self, byte: int) -> bool:
        if byte == _QUOTE and not self._is_escaped:
            is_name, name = self._inside == "name", bytes(self._partial)
            self._inside = ""
            self._partial.clear()
            if is_name:
                names = self._open[-1]
                assert names is not None
                self._open[-1] = names | {name}
                self._expects_name = False
                return name not in names
            return True
        if self._inside == "name":
            self._partial.append(byte)
        self._is_escaped = byte == _BACKSLASH and not self._is_escaped
        return True


class Repetitions:
    """Finds the tokens of a vocabulary that must not come next in a JSON text.

    Args:
        tokens: their bytes, by id.
    """

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self._tokens, self._index = tokens, ByteIndex(tokens)
        # These can write a whole name, or run into infinity, wherever they stand.
        self._whole_names = [i for i, token in enumerate(tokens) if token.count(_QUOTE) > 1]
        self._huge = [i for i, token in enumerate(tokens) if _HUGE.search(token)]
        self._digits = [i for i, token in enumerate(tokens) if token and token[0] in _NUMBER]

    def banned(self, place: JsonText, mask: NDArray[np.uint8]) -> list[int]:
        """Ids of tokens that the grammar allows here, but that must not come.

        Args:
            place: where the text is.
            mask: what the grammar allows, a bit a token, lowest first.
        """
        suspects = {*self._whole_names, *self._huge}
        names = place.open[-1] if place.open else None
        if names and place.inside == "name":
            for name in names:
                if name.startswith(place.partial):
                    rest = name[len(place.partial) :] + b'"'
                    suspects.update(self._index.starting_with(rest))
        if place.inside == "number" and _is_long(place.partial):
            suspects.update(self._digits)
        return [
            i
            for i in suspects
            if mask[i >> 3] >> (i & 7) & 1 and place.advance(self._tokens[i]) is None
        ]


def _is_long(number: bytes) -> bool:
    return len(number) > _MAX_DIGITS or b"e" in number or b"E" in number
