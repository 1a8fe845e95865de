"""Losses: what a wire schema cannot carry, and what it cannot express, of the original."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from weighbridge.decision import Json
from weighbridge.schemas.references import schema_at
from weighbridge.schemas.values import spell

# Keywords that any wire may lose: they restrict values without giving them their shape.
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "pattern": "matching the regular expression {}",
        "format": "in the format {}",
        "minimum": "at least {}",
        "maximum": "at most {}",
        "exclusiveMinimum": "more than {}",
        "exclusiveMaximum": "less than {}",
        "multipleOf": "a multiple of {}",
        "minItems": "at least {} items",
        "maxItems": "at most {} items",
        "items": "no items at all",  # lost only where nothing is permitted
        "uniqueItems": "no item twice",
        "contains": "with items that are valid under {}",
        "minContains": "at least {} of them",
        "maxContains": "at most {} of them",
        "minProperties": "at least {} properties",
        "maxProperties": "at most {} properties",
        "propertyNames": "with names that are valid under {}",
        "patternProperties": "with names and values as in {}",
        "dependentRequired": "with all the properties that others need: {}",
        "not": "nothing that is valid under {}",
        "const": "exactly {}",
        "enum": "one of {}",
        "oneOf": "exactly one of the alternatives",
    }
)

LOSABLE = frozenset(_WORDS) - {"items", "patternProperties", "const", "enum", "oneOf"}


@dataclass(frozen=True, slots=True)
class Loss:
    """Where a wire schema and its original part ways.

    `unchecked`: the wire permits what the keyword forbids. Every answer is checked against the
    original, so an answer that makes use of it is refused; descriptions tell it in words.
    `narrowed`: the wire cannot express all that the original permits. The keyword says what: with
    `additionalProperties`, properties without a name; with `required`, leaving this property out,
    because null is one of its values; with `type`, `items` or `$ref`, values of other types,
    further items, deeper nesting.

    Args:
        pointer: JSON pointer to the schema that is meant, in the original document.
        keyword: its name.
        kind: see above.
    """

    pointer: str
    keyword: str
    kind: Literal["unchecked", "narrowed"] = "unchecked"

    def __str__(self) -> str:
        where = f"{self.keyword} at {self.pointer or '/'}"
        return where if self.kind == "unchecked" else f"{where} ({self.kind})"


def in_words(keyword: str, value: Json) -> str:
    """A lost keyword as a phrase for the description, so that a model may still obey it.

    >>> in_words("maxLength", 80)
    'at most 80 characters'
    """
    return _WORDS[keyword].format(value if isinstance(value, str) else spell(value))


def without_losses(schema: Mapping[str, Json], losses: Iterable[Loss]) -> Mapping[str, Json]:
    """A copy of the schema without the keywords that are unchecked; a oneOf stays one.

    >>> without_losses({"items": {"maxLength": 3}}, [Loss("/items", "maxLength")])
    {'items': {}}
    """
    relaxed: dict[str, Json] = json.loads(json.dumps(schema))  # parts may be shared; here none is
    for loss in losses:
        part = schema_at(relaxed, loss.pointer)
        if loss.kind == "unchecked" and loss.keyword != "oneOf" and isinstance(part, dict):
            part.pop(loss.keyword, None)
    return relaxed
