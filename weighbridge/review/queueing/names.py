"""Names of people and of calls, kept to a length that every database can look up."""

from __future__ import annotations

import hashlib
from typing import Final

from weighbridge.errors import PersonRefused

# PostgreSQL takes 2.7 kB into an index, for all its columns together.
_MAX_CHARACTERS: Final = 200
_SHOWN: Final = 20


def check_name(name: str) -> None:
    """Let a name pass that can stand in the queue.

    Raises:
        PersonRefused: it is empty or too long.
    """
    if not name.strip():
        raise PersonRefused(name, "this is no name", "Say who it is.")
    if len(name) > _MAX_CHARACTERS:
        raise PersonRefused(
            f"{name[:_SHOWN]}…",
            f"this name has {len(name)} characters",
            f"A name has {_MAX_CHARACTERS} at most.",
        )


def kept_key(key: str | None) -> str | None:
    """The key of a call as it is stored: itself, or the hash of one that is long.

    >>> kept_key("call-1"), len(kept_key("x" * 5000) or "")
    ('call-1', 71)
    """
    if key is None or len(key) <= _MAX_CHARACTERS:
        return key
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
