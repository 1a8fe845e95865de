"""Losses: what a schema demands and the wire cannot carry; it is checked locally instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

from weighbridge.decision import Json

_WORDS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching the regular expression {}",
    "format": "in the format {}",
    "uniqueItems": "no item twice",
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
    "oneOf": "exactly one of the alternatives",
}

LOSABLE = frozenset(_WORDS)


@dataclass(frozen=True, slots=True)
class Loss:
    """A keyword that was taken off the wire schema.

    Args:
        pointer: JSON pointer to the schema that has the keyword, in the original document.
        keyword: its name.
    """

    pointer: str
    keyword: str

    def __str__(self) -> str:
        return f"{self.keyword} at {self.pointer or '/'}"


def in_words(keyword: str, value: Json) -> str:
    """A lost keyword as a phrase for the description, so that a model may still obey it.

    >>> in_words("maxLength", 80)
    'at most 80 characters'
    """
    return _WORDS[keyword].format(value)


def has_lookaround(pattern: str) -> bool:
    """Whether a regular expression looks ahead or behind, which automata cannot do.

    >>> has_lookaround("^(?!x)"), has_lookaround("^(?:x)")
    (True, False)
    """
    return re.search(r"\(\?<?[=!]", pattern) is not None
