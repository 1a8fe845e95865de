"""OpenAI's dialect: a JSON Schema rewritten for strict mode, or refused.

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas; the limits
are those of August 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NoReturn

from jsonschema import Draft202012Validator

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.flat import Said, flatten, is_annotation
from weighbridge.schemas.losses import LOSABLE, Loss, has_lookaround, in_words
from weighbridge.schemas.references import Schema, foreign_references, pointer
from weighbridge.schemas.values import KEYWORDS, spell

DIALECT = "openai"

MAX_PROPERTIES = 5000
MAX_DEPTH = 10  # of objects and arrays in each other
MAX_ENUM_VALUES = 1000  # in the whole schema
MAX_CHARS = 120_000  # of all property names and enum strings together
MAX_LONG_ENUM_CHARS = 15_000  # of one enum with more than 250 strings

_MAX_PARTS = 20_000  # ours: references that double must end before memory does

_SHAPE = (
    frozenset({"type", "const", "enum", "anyOf", "oneOf"})
    | {"properties", "required", "additionalProperties"}
    | {"items"}
)
_KEPT = (
    frozenset({"pattern", "format"})
    | {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minItems", "maxItems"}
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


def write(schema: Mapping[str, Json]) -> tuple[dict[str, Json], tuple[Loss, ...]]:
    """The schema for the wire, and what it lost.

    Raises:
        SchemaRefused: strict mode cannot enforce the schema, or it is too large.
    """
    for here, keyword in foreign_references(schema):
        _refuse(here, keyword, "only pointers into the schema itself are followed")
    writer = _Writer(schema)
    wire = writer.write(schema, "", above=frozenset(), depth=1)
    if wire.get("type") != "object" or "anyOf" in wire:
        keyword = next((name for name in ("anyOf", "oneOf") if name in schema), "type")
        _refuse("", keyword, "the whole answer must be an object, and no union")
    return wire, tuple(writer.losses)


class _Writer:
    """Writes one schema, and counts what the limits count: every reference anew."""

    def __init__(self, root: Schema) -> None:
        self.losses: dict[Loss, None] = {}  # a set that keeps its order
        self._root = root
        self._num_parts = self._num_properties = self._num_enum_values = self._num_chars = 0

    def write(
        self, schema: Schema, here: str, *, above: AbstractSet[str], depth: int
    ) -> dict[str, Json]:
        """The wire form of one part.

        Args:
            schema: the part.
            here: JSON pointer to it.
            above: pointers to the parts that hold it.
            depth: how many objects and arrays it would be in, itself included.
        """
        self._num_parts += 1
        _limit(self._num_parts, _MAX_PARTS, here, "$ref", "parts, references written out")
        flat = flatten(self._root, schema, here, above=above, dialect=DIALECT)
        _refuse_uncheckable(flat)
        above = {*above, here, *(said.where for said in flat.values())}
        wire: dict[str, Json] = {}
        types = _types(flat)
        if types:
            wire["type"] = types[0] if len(types) == 1 else [*types]
        union = next((keyword for keyword in ("anyOf", "oneOf") if keyword in flat), None)
        if union:
            wire["anyOf"] = self._members(flat, union, above, depth)
        elif "const" in flat or "enum" in flat:
            wire = self._enum(flat) | wire
        elif not types:
            _refuse(here, "type", "nothing says of what type the value is")
        else:
            if "object" in types:
                wire |= self._object(flat, here, above, depth)
            if "array" in types:
                wire |= self._array(flat, here, above, depth)
        lost = [keyword for keyword, said in flat.items() if _is_lost(keyword, said.value)]
        self.losses |= {Loss(flat[keyword].where, keyword): None for keyword in lost}
        wire |= {name: flat[name].value for name in flat if name in _KEPT and name not in lost}
        return _described(wire, flat, lost)

    def _members(
        self, flat: Mapping[str, Said], union: str, above: AbstractSet[str], depth: int
    ) -> list[Json]:
        members, where = flat[union]
        for other in flat:
            # Both would have a say in which nulls stand for absent properties.
            if other not in (union, "type") and not is_annotation(other):
                _refuse(where, union, f"`{other}` stands beside it")
        return [
            self.write(member, where + pointer(union, index), above=above, depth=depth)
            for index, member in enumerate(members)
        ]

    def _enum(self, flat: Mapping[str, Said]) -> dict[str, Json]:
        keyword = "const" if "const" in flat else "enum"
        said, where = flat[keyword]
        values = {spell(value): value for value in ([said] if keyword == "const" else said)}
        if keyword == "const" and "enum" in flat:
            values = {
                text: values[text] for text in map(spell, flat["enum"].value) if text in values
            }
        if not values:
            _refuse(where, keyword, "no value is left")
        if any(isinstance(value, list | dict) for value in values.values()):
            _refuse(where, keyword, "objects and arrays cannot be listed")
        num_chars = sum(len(value) for value in values.values() if isinstance(value, str))
        self._num_chars += num_chars
        self._num_enum_values += len(values)
        _limit(self._num_enum_values, MAX_ENUM_VALUES, where, keyword, "values in all enums")
        _limit(self._num_chars, MAX_CHARS, where, keyword, "characters in all names")
        if len(values) > 250:
            _limit(num_chars, MAX_LONG_ENUM_CHARS, where, keyword, "characters in one enum")
        types = [*dict.fromkeys(map(_type_name, values.values()))]
        return {"type": types[0] if len(types) == 1 else [*types], "enum": [*values.values()]}

    def _object(
        self, flat: Mapping[str, Said], here: str, above: AbstractSet[str], depth: int
    ) -> dict[str, Json]:
        closed = flat.get("additionalProperties")
        if closed and closed.value is not False:
            _refuse(closed.where, "additionalProperties", "unnamed properties may be there")
        named = flat.get("properties", Said({}, here))
        if not named.value and not closed:
            _refuse(here, "properties", "closing an object without any would leave it empty")
        if named.value and closed and closed.where != named.where:
            _refuse(closed.where, "additionalProperties", "the properties are named elsewhere")
        required = flat.get("required", Said([], here))
        for name in required.value:
            if name not in named.value:
                _refuse(required.where, "required", f"{name!r} is no named property")
        self._num_properties += len(named.value)
        self._num_chars += sum(len(name) for name in named.value)
        _limit(depth, MAX_DEPTH, here, "properties", "levels of nesting")
        _limit(self._num_properties, MAX_PROPERTIES, here, "properties", "properties in all")
        _limit(self._num_chars, MAX_CHARS, here, "properties", "characters in all names")
        written: dict[str, Json] = {}
        for name, part in named.value.items():
            place = named.where + pointer("properties", name)
            wire = self.write(part, place, above=above, depth=depth + 1)
            written[name] = wire if name in required.value else _nullable(wire)
        return {"properties": written, "required": [*written], "additionalProperties": False}

    def _array(
        self, flat: Mapping[str, Said], here: str, above: AbstractSet[str], depth: int
    ) -> dict[str, Json]:
        if "items" not in flat:
            _refuse(here, "items", "nothing says what the array holds")
        _limit(depth, MAX_DEPTH, here, "items", "levels of nesting")
        items, where = flat["items"]
        place = where + pointer("items")
        return {"items": self.write(items, place, above=above, depth=depth + 1)}


def _types(flat: Mapping[str, Said]) -> list[str]:
    """The types that are permitted; empty if nothing says so."""
    if "type" in flat:
        said = flat["type"].value
        return [said] if isinstance(said, str) else said
    # Whoever names properties or items means an object or an array. To permit no other types
    # than that is narrower than the schema, so what comes back is still valid.
    return [name for key, name in (("properties", "object"), ("items", "array")) if key in flat]


def _type_name(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def _nullable(wire: dict[str, Json]) -> dict[str, Json]:
    """The same with null, which stands for an absent property."""
    if Draft202012Validator(wire).is_valid(None):
        return wire
    types = wire.get("type")
    names = types if isinstance(types, list) else [types]
    if "anyOf" in wire or "object" in names or "array" in names:
        inner = dict(wire)
        description = {key: inner.pop(key) for key in ("description",) if key in inner}
        members = inner["anyOf"] if inner.keys() == {"anyOf"} else [inner]
        assert isinstance(members, list)
        return {**description, "anyOf": [*members, {"type": "null"}]}
    nullable: dict[str, Json] = {**wire, "type": [*names, "null"]}
    if isinstance(enum := wire.get("enum"), list):
        nullable["enum"] = [*(value for value in enum if value is not None), None]
    return nullable


def _is_lost(keyword: str, value: Json) -> bool:
    match keyword:
        case "uniqueItems":
            return value is True
        case "format":
            return value not in _FORMATS
        case "pattern":
            return has_lookaround(str(value))
        case _:
            return keyword in LOSABLE


def _described(wire: dict[str, Json], flat: Mapping[str, Said], lost: list[str]) -> dict[str, Json]:
    """The wire form with the original's description, and in it what was lost, in words."""
    said = flat["description"].value if "description" in flat else ""
    words = "; ".join(in_words(keyword, flat[keyword].value) for keyword in lost)
    description = f"{said} ({words})" if said and words else said or words
    return {"description": description, **wire} if description else wire


def _refuse_uncheckable(flat: Mapping[str, Said]) -> None:
    for keyword, said in flat.items():
        if keyword in _SHAPE | _KEPT | LOSABLE or is_annotation(keyword):
            continue
        is_known = keyword in KEYWORDS or keyword in ("then", "else", "minContains", "maxContains")
        problem = "strict mode does not have it" if is_known else "no such keyword is known"
        _refuse(said.where, keyword, problem)
    if "pattern" in flat:
        try:
            re.compile(flat["pattern"].value)
        except re.error:
            _refuse(flat["pattern"].where, "pattern", "no regular expression that Python can check")


def _limit(number: int, most: int, where: str, keyword: str, what: str) -> None:
    if number > most:
        _refuse(where, keyword, f"more than {most} {what}")


def _refuse(where: str, keyword: str, problem: str) -> NoReturn:
    raise SchemaRefused(DIALECT, where, keyword, problem)
