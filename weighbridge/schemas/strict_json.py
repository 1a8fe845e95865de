"""Strict JSON: RFC 8259 to the letter, and nothing that two parsers would read differently."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from weighbridge.decision import Json
from weighbridge.errors import JsonInvalid

MAX_DEPTH = 128  # of arrays and objects in each other

_SURROGATE = re.compile("[\ud800-\udfff]")
# Chat templates that open the block themselves leave the model only to close it. What begins like
# JSON or a fence is no thought, and what opens a block in its middle is prose around one.
_THINK = re.compile(r"<think>.*?</think>|(?![{\[\"`])(?:(?!<think>).)*?</think>", re.DOTALL)
_FENCE = re.compile(r"(?P<fence>`{3,})[^`\n]*\n(?P<inside>.*)\n[ \t]*(?P=fence)", re.DOTALL)


def loads(text: str) -> Json:
    """The JSON value that a text spells; integers are exact at any size that Python reads.

    Stricter than `json.loads`: no key twice, no NaN or infinity (nor a number that becomes one),
    no half of a surrogate pair, no byte order mark, at most `MAX_DEPTH` levels.

    Raises:
        JsonInvalid: with what is wrong and, where it is known, at which character.

    >>> loads('{"category": "bug", "category": "billing"}')
    Traceback (most recent call last):
    weighbridge.errors.JsonInvalid: an object has a key twice
    """
    if text.startswith("\ufeff"):
        raise JsonInvalid("a byte order mark before the JSON", 0)
    if not text.strip(" \t\r\n"):
        raise JsonInvalid("no JSON at all: the text is empty")
    try:
        value: Json = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        # Not chained: the cause holds the whole text.
        raise JsonInvalid(f"not JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise JsonInvalid(f"nested deeper than {MAX_DEPTH} levels") from None
    _check(value)
    return value


def unwrap(text: str) -> str:
    r"""The text without a leading think block, and without a code fence around all the rest.

    A block may lack its opening mark, but not its closing one. JSON in the middle of prose is never
    cut out: nobody could say which part was the answer.

    >>> unwrap('<think>Money, so billing.</think>```json\n{"category": "billing"}\n```')
    '{"category": "billing"}'
    """
    rest = text.strip()
    if think := _THINK.match(rest):
        rest = rest[think.end() :].strip()
    fenced = _FENCE.fullmatch(rest)
    # A line that opens or closes another fence inside: this is no single block.
    if fenced and not re.search(r"^[ \t]*```", fenced["inside"], re.MULTILINE):
        rest = fenced["inside"].strip()
    return rest


def _check(value: Json) -> None:
    """Raise unless every text is whole and nothing is nested too deeply."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(part, str) and _SURROGATE.search(part) for part in level):
            raise JsonInvalid("a string holds half of a surrogate pair")
        containers = [part for part in level if isinstance(part, dict | list)]
        if not containers:
            return
        level = [inner for part in containers for inner in part]
        level += [inner for part in containers if isinstance(part, dict) for inner in part.values()]
    raise JsonInvalid(f"nested deeper than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise JsonInvalid("an object has a key twice")
    return members


def _constant(name: str) -> NoReturn:
    raise JsonInvalid(f"{name} is no JSON number")


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise JsonInvalid("a number is too large for a float")
    return number


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python's own limit on digits, 4,300 unless set otherwise
        raise JsonInvalid("an integer has too many digits") from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
)
