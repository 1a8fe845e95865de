"""Checks of what callers hand over: each error says what was wanted, and what kind of thing came.

A value of another type is a `TypeError`, one outside its range a `ValueError`; neither message
holds the value of a text. What is wrong with a text itself is a `TaskInvalid` with its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from weighbridge.errors import TaskInvalid


def check_text(value: object, name: str) -> None:
    """See that a value is a text.

    >>> check_text(None, "prefill")
    Traceback (most recent call last):
    TypeError: prefill must be a text, not None
    """
    if not isinstance(value, str):
        raise unwanted(name, "a text", value)


def check_whole(value: object, name: str, least: int | None = None) -> None:
    """See that a value is a whole number, and not below the least.

    >>> check_whole(0, "threads", 1)
    Traceback (most recent call last):
    ValueError: threads must be 1 or more, not 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise unwanted(name, "a whole number", value)
    if least is not None and value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")


def check_number(value: object, name: str) -> None:
    """See that a value is a number; infinite ones and NaN are numbers too."""
    if not _is_number(value):
        raise unwanted(name, "a number", value)


def check_kind(value: object, kind: type | tuple[type, ...], name: str, wanted: str) -> None:
    """See that a value is of a kind; `wanted` says which, and how to come by one."""
    if not isinstance(value, kind):
        raise unwanted(name, wanted, value)


def listed_values(values: Any, name: str, of: str) -> tuple[Any, ...]:
    """The values of a list, or of anything else that can be gone through.

    Args:
        values: neither one text, whose letters would be taken, nor a mapping, whose keys would.
        name: of the argument.
        of: what it is a list of.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        kind = "one text" if isinstance(values, str) else _kind(values)
        if isinstance(values, Mapping):
            kind += " (list(…) has its keys)"
        raise TypeError(f"{name} must be a list of {of}, not {kind}")
    return tuple(values)


def listed_texts(values: Iterable[str], name: str) -> tuple[str, ...]:
    """The texts of a list; every one is looked at.

    >>> listed_texts(["bug", 1], "options")
    Traceback (most recent call last):
    TypeError: options must be a list of texts; number 1 is an int
    """
    texts = listed_values(values, name, "texts")
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a list of texts; number {place} is {_kind(text)}")
    return texts


def distinct_texts(values: Iterable[str], name: str) -> tuple[str, ...]:
    """The texts of a list, all different.

    Raises:
        TaskInvalid: one that was there before.
    """
    texts = listed_texts(values, name)
    places: dict[str, int] = {}
    for place, text in enumerate(texts):
        if places.setdefault(text, place) != place:
            raise TaskInvalid(f"/{place}", f"is the same option as /{places[text]}")
    return texts


def pairs(mapping: Mapping[Any, float] | None, name: str, key: type, keys: str) -> Any:
    """The entries of a mapping from keys of one type to numbers, as pairs; of None, none.

    >>> pairs({"refund": 2.0}, "by_id", Integral, "token ids")
    Traceback (most recent call last):
    TypeError: by_id must be a mapping from token ids to numbers; a key is a str
    """
    wanted = f"a mapping from {keys} to numbers"
    if mapping is None:
        return ()
    if not isinstance(mapping, Mapping):
        raise unwanted(name, wanted, mapping)
    for found, value in mapping.items():
        if isinstance(found, bool) or not isinstance(found, key):
            raise TypeError(f"{name} must be {wanted}; a key is {_kind(found)}")
        if not _is_number(value):
            raise TypeError(f"{name} must be {wanted}; a value is {_kind(value)}")
    return tuple(mapping.items())


def encoded(text: str, pointer: str) -> bytes:
    """The bytes of a text.

    Args:
        text: anything, checked to be a text.
        pointer: where it stands, such as `/stop`.

    Raises:
        TypeError: no text.
        TaskInvalid: half a surrogate pair is in it. The error of Python would carry the text.
    """
    check_text(text, pointer.strip("/").replace("/", " ") or "it")
    with contextlib.suppress(UnicodeEncodeError):
        return text.encode()
    # Here, not where that was caught: it would hang on to that error, and so to the text.
    raise TaskInvalid(
        pointer,
        "holds half a surrogate pair, which is no text",
        'Replace it: text.encode(errors="replace").decode()',
    )


def unwanted(name: str, wanted: str, found: object) -> TypeError:
    """The error of an argument of another type, to be raised."""
    return TypeError(f"{name} must be {wanted}, not {_kind(found)}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _kind(found: object) -> str:
    """What kind of thing a value is, without anything of the value."""
    if found is None:
        return "None"
    if isinstance(found, type):
        return f"the class {found.__name__}"
    name = type(found).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
