"""Marks: characters that nobody sees, shown for what they are; the text itself is not changed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

_HIDDEN: Final = (
    "\\0-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # format characters and tags
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d"  # drawn as nothing
    "\ud800-\udfff\ue000-\uf8ff\U000f0000-\U0010ffff"  # surrogates, private use
)
# Joiners belong to Persian, to Hindi and to emoji; after a Latin letter they only hide.
_JOINER: Final = "(?<![\u0250-\u200a\u2010-\u2027\u2030-\U000dffff])[\u200c\u200d]"
_MOST_MARKS: Final = 2000  # a page with a hundred thousand of them would stall its reader's browser
_PATTERN: Final = re.compile(f"[{_HIDDEN}]|{_JOINER}")


class Piece(NamedTuple):
    """A stretch of text, or one mark.

    Args:
        text: to be shown; of a mark, the code point.
        name: of the character that the mark stands for; "" for plain text.
    """

    text: str
    name: str = ""


def marked(text: str) -> Iterator[Piece]:
    r"""The text in pieces, each hidden character as a mark of its own.

    A right-to-left override thereby loses its power, and a zero-width space its disguise. Of very
    many, those that come late are replaced by U+FFFD instead.

    >>> [piece.text for piece in marked("a\u202eb")]
    ['a', 'U+202E', 'b']
    """
    text, start = text.replace("\r\n", "\n"), 0
    for match in islice(_PATTERN.finditer(text), _MOST_MARKS):
        if match.start() > start:
            yield Piece(text[start : match.start()])
        # Control characters and surrogates have no names, only code points.
        name = unicodedata.name(match[0], "unnamed character").lower()
        yield Piece(f"U+{ord(match[0]):04X}", name)
        start = match.end()
    if start < len(text):
        yield Piece(_PATTERN.sub("\ufffd", text[start:]))


def legible(text: str, limit: int = 200) -> str:
    r"""One line of plain text with every hidden character spelled out, for titles and lists.

    >>> legible("pay\u200bpal\n"), legible("tomorrow", 4)
    ('pay<U+200B>pal ', 'tom…')
    """
    one_line = text[: limit + 1].replace("\n", " ").replace("\t", " ")
    cut = one_line if len(one_line) <= limit else one_line[: limit - 1] + "…"
    return _PATTERN.sub(lambda match: f"<U+{ord(match[0]):04X}>", cut)
