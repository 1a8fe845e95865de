"""Keys: the one table of what single keys do; script, hints, dialog and settings all come of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Key(NamedTuple):
    """One action.

    Args:
        action: the page marks with `data-key` what does it.
        key: the usual one, as browsers name it.
        does: what it does, for people.
    """

    action: str
    key: str
    does: str


# Nothing here destroys anything: what a key sends off, `undo` takes back.
KEYS: Final = (
    Key("submit", "Enter", "Send the answer and take the next ticket"),
    Key("skip", "s", "Skip this ticket"),
    Key("undo", "u", "Undo the last answer"),
    Key("note", "n", "Write a note"),
    Key("take", "t", "Take the next ticket"),
    Key("search", "/", "Search"),
    Key("help", "?", "Show the keys"),
)


def keys_of(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    """The table as somebody wants it; empty for whoever wants no single keys.

    Args:
        settings: of a person.

    >>> [row["key"] for row in keys_of({"keys": {"skip": "x"}})]
    ['Enter', 'x', 'u', 'n', 't', '/', '?']
    >>> keys_of({"has_keys": False})
    []
    """
    if not settings.get("has_keys", True):
        return []
    chosen = settings.get("keys") or {}
    return [{**row._asdict(), "key": chosen.get(row.action) or row.key} for row in KEYS]


def choose_keys(given: Mapping[str, str], *, has_keys: bool) -> tuple[dict[str, Any], str]:
    """The settings that a person asks for, and what is wrong with them; "" if nothing is.

    Args:
        given: keys by action; empty ones mean the usual key.
        has_keys: whether single keys do anything.
    """
    known = {row.action for row in KEYS}
    chosen = {name: key.lower() for name, key in given.items() if key and name in known}
    settings: dict[str, Any] = {"has_keys": has_keys, "keys": chosen}
    for action, key in chosen.items():
        if len(key) != 1 or not key.isprintable() or key.isspace() or key.isdecimal():
            return settings, f"The key for {action} must be one sign, and no digit."
    used = [row["key"] for row in keys_of({"keys": chosen})]
    return settings, "Two actions have one key." if len(set(used)) < len(used) else ""
