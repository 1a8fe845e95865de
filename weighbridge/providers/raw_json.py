"""Raw JSON: a value inside a body, in the very characters in which it was sent.

Some vendors send a tool's arguments as an object. Read and written again, a number such as
0.10000000000000000001 or a key that stands twice would come out as something that nobody sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")


def as_sent(body: bytes, path: Sequence[str | int]) -> str | None:
    r"""The text of the value under a path of keys and indices; None where there is none.

    Of a key that stands twice the last counts, as for `json.loads`.

    >>> as_sent(b'{"input": [{"ids": [1.10, 1e400]}]}', ("input", 0, "ids"))
    '[1.10, 1e400]'
    """
    try:
        text = body.decode("utf-8-sig")
    except ValueError:
        return None
    place = span(text, path)
    return None if place is None else text[place[0] : place[1]]


def span(text: str, path: Sequence[str | int], *, is_sole: bool = False) -> tuple[int, int] | None:
    """First character and end of the value under a path; None where there is none.

    Args:
        text: JSON.
        path: keys and indices.
        is_sole: whether a key that stands twice leads nowhere; otherwise the last counts.
    """
    try:
        at = _skip_blanks(text, 0)
        _, end = _DECODER.raw_decode(text, at)  # from here on every bracket is in its place
        for step in path:
            found = [span for key, span in _children(text, at) if key == step]
            if not found or (is_sole and len(found) > 1):
                return None
            at, end = found[-1]
    except (ValueError, RecursionError):
        return None
    return at, end


def _children(text: str, at: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
    """Key or index, and the place, of all that is inside the object or array at `at`."""
    opener = text[at]
    if opener not in "{[":
        return
    index = 0
    at = _skip_blanks(text, at + 1)
    while text[at] not in "}]":
        key: str | int = index
        if opener == "{":
            key, colon = _DECODER.raw_decode(text, at)
            at = _skip_blanks(text, _skip_blanks(text, colon) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield key, (at, end)
        index += 1
        at = _skip_blanks(text, end)
        if text[at] == ",":
            at = _skip_blanks(text, at + 1)


def _skip_blanks(text: str, at: int) -> int:
    blanks = _BLANK.match(text, at)
    assert blanks is not None  # it matches nothing as well
    return blanks.end()
