"""Text of which every character can be seen: nothing in it acts on a terminal, a page or an eye."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Sequence

_STAND_INS = {" ": "␣", "\n": "↵", "\t": "⇥"}
# Control, format (direction marks, joiners), surrogate, private, unassigned, separators.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_MAX_MARKS = 3  # on one character
# Blank by design, though Unicode files them under letters, marks and symbols.
_BLANK = frozenset(
    map(
        chr,
        itertools.chain(
            (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            range(0x180B, 0x1810),
            range(0xFE00, 0xFE10),
            range(0xE0100, 0xE01F0),
        ),
    )
)


def visible(text: str, *, keep: str = "") -> str:
    r"""The text on one line, with stand-ins for what would act, hide or lean on its neighbour.

    Args:
        text: anything, halves of surrogate pairs included.
        keep: characters that are to stay as they are, such as " \n".

    >>> visible("a b\n\x1b[31m\u202e")
    'a␣b↵⟨U+001B⟩[31m⟨U+202E⟩'
    """
    shown = list[str]()
    room = 0  # for marks on the character before: more would climb into the lines above
    for c in text:
        category = unicodedata.category(c)
        if c in keep:
            shown.append(c)
            room = 0
        elif category in _HIDDEN_CATEGORIES or c in _BLANK:
            shown.append(_STAND_INS.get(c) or named(c))
            room = 0
        elif category.startswith("M"):
            shown.append(c if room else f"◌{c}")
            room = room - 1 if room else _MAX_MARKS - 1
        else:
            shown.append(c)
            room = _MAX_MARKS
    return "".join(shown)


def named(character: str) -> str:
    """The stand-in that says which character it is for."""
    return f"⟨U+{ord(character):04X}⟩"


def spelled(tokens: Sequence[bytes]) -> list[str]:
    r"""The bytes of successive tokens, visible; bytes that are no whole character as hex.

    A character whose bytes lie in several tokens is named in the one that completes it.

    >>> spelled([b" caf", b"\xc3", b"\xa9!", b"\xff"])
    ['␣caf', '⟨C3⟩', '⟨A9⟩=é!', '⟨FF⟩']
    """
    joined = b"".join(tokens)
    spans = _spans(joined)
    shown, start = list[str](), 0
    for token in tokens:
        shown.append(_spelled(joined, spans, start, start + len(token)))
        start += len(token)
    return shown


def _spelled(joined: bytes, spans: Sequence[tuple[int, int]], start: int, end: int) -> str:
    """The bytes from `start` to `end`; characters that lie over an end as hex."""

    def kind(position: int) -> object:
        first, after = spans[position]
        if after - first == 1 and joined[position] > 0x7F:
            return "invalid"
        return "whole" if start <= first and after <= end else first

    shown = ""
    for of_kind, run in itertools.groupby(range(start, end), kind):
        positions = list(run)
        piece = joined[positions[0] : positions[-1] + 1]
        if of_kind == "whole":
            shown += visible(piece.decode())
            continue
        shown += f"⟨{piece.hex(' ').upper()}⟩"
        first, after = spans[positions[-1]]
        if of_kind != "invalid" and after == positions[-1] + 1:
            shown += f"={visible(joined[first:after].decode())}"
    return shown


def _spans(data: bytes) -> list[tuple[int, int]]:
    """For each byte the span of its character; a byte that belongs to none is alone."""
    spans = list[tuple[int, int]]()
    while (start := len(spans)) < len(data):
        size = next((n for n in range(1, 5) if _is_character(data[start : start + n])), 1)
        spans += [(start, start + size)] * size
    return spans


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False
