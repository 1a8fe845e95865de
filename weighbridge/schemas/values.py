"""Values: every JSON value that a finite part of a schema permits."""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from weighbridge.decision import Json
from weighbridge.errors import TaskInvalid
from weighbridge.schemas.references import Schema, resolve

MAX_STRINGS = 4096  # spellings of whole objects or arrays in one place
MAX_INTEGERS = 256  # of an integer field that is judged

# All that restrict by themselves: what is not here annotates, or is read by one of these.
KEYWORDS = frozenset(Draft202012Validator.VALIDATORS)

_MAX_CANDIDATES = 4 * MAX_STRINGS  # before the other keywords thin them out
_MAX_ITEMS = 64  # of an array
_MAX_PARTS = 20_000  # visited in one schema, counted anew for each reference to them

# Where values can come from, the most exact first: the first four list what they allow and
# nothing else, the others give at least what they allow.
_SOURCES = ("const", "enum", "$ref", "anyOf", "oneOf", "allOf", "type")
_EXACT = _SOURCES[:4]
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})


def spell(value: Json) -> str:
    """The exact JSON text of a value. It also tells apart what Python takes for equal.

    Raises:
        TaskInvalid: JSON has no text for it (NaN, infinity, half a surrogate pair), or Python
            does not write it (an integer of thousands of digits).

    >>> [spell(value) for value in (1, 1.0, True)]
    ['1', '1.0', 'true']
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:  # UnicodeEncodeError too; its message would quote the value
        raise TaskInvalid("", "holds a value that is no JSON text") from None
    return text


class Values:
    """Lists the valid values of parts of one schema, each spelled once.

    A source of values gives all that could be valid; the other keywords then say which are. So a
    keyword that no source knows is still obeyed.

    Args:
        root: the whole schema; its references have been checked to stay inside.
        scalars_only: leave out objects and arrays, and integers of more than `MAX_INTEGERS`.
    """

    def __init__(self, root: Schema, *, scalars_only: bool = False) -> None:
        self._root, self._scalars_only = root, scalars_only
        self._validator = Draft202012Validator(root)
        self._by_reference: dict[str, list[Json] | None] = {}
        self._num_parts = 0

    def of(self, schema: Schema) -> list[Json] | None:
        """The valid values in the schema's order; None if they cannot be listed."""
        if isinstance(schema, bool):
            return None if schema else []
        for source in _SOURCES:
            if source in schema and (values := self._candidates(source, schema)) is not None:
                break
        else:
            return None
        rules = dict(schema)
        # Asking an enum of n for each of its own values would take n * n comparisons. Only
        # unevaluated* want to know what their neighbours have seen.
        if source in _EXACT and not rules.keys() & _UNEVALUATED:
            del rules[source]
        if rules.keys() & KEYWORDS:
            validator = self._validator.evolve(schema=rules)
            try:
                values = [value for value in values if validator.is_valid(value)]
            except re.error:
                raise TaskInvalid("", "holds a pattern that Python cannot read") from None
        return list({spell(value): value for value in values}.values())

    def object_at(self, schema: Schema, above: Sequence[Schema]) -> Mapping[str, Any] | None:
        """The schema with properties that `schema` is or refers to.

        None if there is none, or if it is one of those above it: it would never end.

        Raises:
            TaskInvalid: references repeat parts many thousands of times.
        """
        while True:
            self._num_parts += 1
            if self._num_parts > _MAX_PARTS:
                raise TaskInvalid("", f"has more than {_MAX_PARTS} parts, references followed")
            if isinstance(schema, bool):
                return None
            if schema.keys() & KEYWORDS != {"$ref"}:
                break
            target = resolve(self._root, schema["$ref"])
            assert target is not None
            schema = target
        is_new = not any(schema is ancestor for ancestor in above)
        return schema if "properties" in schema and is_new else None

    def _candidates(self, source: str, schema: Mapping[str, Any]) -> list[Json] | None:
        match source:
            case "const":
                return [schema["const"]]
            case "enum":
                return list(schema["enum"])
            case "$ref":
                return self._referred(schema["$ref"])
            case "anyOf" | "oneOf":
                return _union(self.of(member) for member in schema[source])
            case "allOf":
                members = map(self.of, schema["allOf"])
                return next((values for values in members if values is not None), None)
            case _:
                types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
                return _union(self._typed(name, schema) for name in types)

    def _referred(self, reference: str) -> list[Json] | None:
        if reference not in self._by_reference:
            self._by_reference[reference] = None  # what contains itself cannot be listed
            target = resolve(self._root, reference)
            assert target is not None
            self._by_reference[reference] = self.of(target)
        return self._by_reference[reference]

    def _typed(self, name: str, schema: Mapping[str, Any]) -> list[Json] | None:
        match name:
            case "null":
                return [None]
            case "boolean":
                return [True, False]
            case "integer":
                return _integers(schema, MAX_INTEGERS if self._scalars_only else MAX_STRINGS)
            case "array" if not self._scalars_only:
                return self._arrays(schema)
            case "object" if not self._scalars_only:
                return self._objects(schema)
            case _:
                return None

    def _arrays(self, schema: Mapping[str, Any]) -> list[Json] | None:
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        shortest = int(schema.get("minItems", 0))
        longest = min(schema.get("maxItems", math.inf), len(first) if rest is False else math.inf)
        if longest > _MAX_ITEMS:
            return None
        num_rest = max(0, int(longest) - len(first))
        columns = [*map(self.of, first[: int(longest)]), *[self.of(rest)] * num_rest]
        lists = [values for values in columns if values is not None]
        sizes = [*itertools.accumulate(map(len, lists), operator.mul, initial=1)]
        if len(lists) < len(columns) or sum(sizes[shortest:]) > _MAX_CANDIDATES:
            return None
        return [
            list(items)
            for length in range(shortest, len(lists) + 1)
            for items in itertools.product(*lists[:length])
        ]

    def _objects(self, schema: Mapping[str, Any]) -> list[Json] | None:
        if schema.get("additionalProperties") is not False or "patternProperties" in schema:
            return None
        required, properties = schema.get("required", ()), schema.get("properties", {})
        columns: list[list[dict[str, Json]]] = []
        for name, part in properties.items():
            values = self.of(part)
            if values is None:
                return None
            absent: list[dict[str, Json]] = [] if name in required else [{}]
            columns.append([{name: value} for value in values] + absent)
        if math.prod(map(len, columns)) > _MAX_CANDIDATES:
            return None
        return [
            {name: value for part in parts for name, value in part.items()}
            for parts in itertools.product(*columns)
        ]


def _union(lists: Iterable[list[Json] | None]) -> list[Json] | None:
    united: list[Json] = []
    for values in lists:
        if values is None:
            return None
        united += values
    return united


def _integers(schema: Mapping[str, Any], limit: int) -> list[Json] | None:
    lows = [math.ceil(schema["minimum"])] if "minimum" in schema else []
    lows += [math.floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    highs = [math.floor(schema["maximum"])] if "maximum" in schema else []
    highs += [math.ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    if not lows or not highs or min(highs) - max(lows) >= limit:
        return None
    return list(range(max(lows), min(highs) + 1))
