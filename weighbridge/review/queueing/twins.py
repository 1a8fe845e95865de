"""Twins: tickets that differ in nothing but names, numbers and spelling share one key."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from weighbridge.decision import Json

_MOST_CHARACTERS: Final = 20_000  # of the text; what follows says nothing new
_LINK = re.compile(r"(?:https?://|www\.)\S+")
_ADDRESS = re.compile(r"[^\s@<>()]{1,64}@[^\s@<>()]{1,255}")
_OTHER = re.compile(r"[\W_]+")
_NUMBERS = re.compile(r"\d+(?: \d+)*")  # however they are grouped


def group_key(ticket: Mapping[str, Json]) -> str:
    """A hash of subject and body in which case, spaces, punctuation and numbers play no part.

    E-mail addresses and links are levelled too: each counts as one word.

    Returns:
        32 hexadecimal digits; "" where nothing is left to compare.
    """
    levelled = _levelled(f"{ticket.get('subject') or ''}\n{ticket.get('body') or ''}")
    if not levelled:
        return ""
    return hashlib.sha256(levelled.encode()).hexdigest()[:32]


def _levelled(text: str) -> str:
    # A lone surrogate is a letter to nobody; it falls under "other".
    text = unicodedata.normalize("NFKC", text[:_MOST_CHARACTERS]).casefold()
    text = _ADDRESS.sub(" address ", _LINK.sub(" link ", text))
    return _NUMBERS.sub("0", _OTHER.sub(" ", text)).strip()
