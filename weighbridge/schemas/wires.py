"""Wire forms: how dialects write types, enums, objects and null."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from weighbridge.decision import Json
from weighbridge.schemas.dialects import Dialect

Wire: TypeAlias = dict[str, Json]

ALL_TYPES = ["string", "number", "boolean", "null", "array", "object"]


def groups(types: Sequence[str], dialect: Dialect) -> list[list[str]]:
    """The types, those that one schema can hold together.

    >>> from weighbridge.schemas.dialects import DIALECTS
    >>> groups(["array", "string", "null"], DIALECTS["openai"])
    [['string', 'null'], ['array']]
    """
    scalars = [name for name in types if name not in ("array", "object")]
    together = [scalars] if dialect.type_lists and scalars else [[name] for name in scalars]
    return together + [[name] for name in types if name in ("array", "object")]


def one_or_all(types: Sequence[str]) -> Json:
    """The value of `type`."""
    return types[0] if len(types) == 1 else [*types]


def enum(values: Sequence[Json], dialect: Dialect) -> tuple[list[Wire] | None, bool]:
    """The wire forms of an enum, and whether they permit more; no forms if there can be none."""
    by_type: dict[str, list[Json]] = {}
    has_fraction = any(isinstance(value, float) for value in values)
    for value in values:
        name = _type_name(value)
        if name == "integer" and has_fraction and not dialect.type_lists:
            name = "number"
        by_type.setdefault(name, []).append(value)
    if {"array", "object"} & by_type.keys() - dialect.enum_types:
        return None, False
    if dialect.type_lists:
        return [{"type": one_or_all([*by_type]), "enum": [*values]}], False
    wires: list[Wire] = []
    for name, listed in by_type.items():
        is_bare = name == "null" or name not in dialect.enum_types
        wires.append({"type": name} if is_bare else {"type": name, "enum": listed})
    booleans = by_type.get("boolean", [])
    return wires, len(booleans) == 1 and "boolean" not in dialect.enum_types


def object_of(
    properties: Mapping[str, Json], required: Sequence[str], further: Json, dialect: Dialect
) -> Wire:
    """An object; `further` says what properties without a name may be."""
    wire: Wire = {"type": "object", "properties": {**properties}, "required": [*required]}
    if further and not properties:
        del wire["properties"], wire["required"]
    if further == {}:
        further = True
    if dialect.order == "property_ordering" and len(properties) > 1:
        wire["propertyOrdering"] = [*properties]
    return {**wire, "additionalProperties": further}


def anything(dialect: Dialect) -> Json:
    """What permits every value."""
    if dialect.any_value != "spelled":
        return True
    return {"anyOf": [{"type": name} for name in ALL_TYPES]}


def nullable(wire: Wire, dialect: Dialect) -> Wire:
    """The same with null, which stands for an absent property.

    >>> from weighbridge.schemas.dialects import DIALECTS
    >>> nullable({"type": "string", "enum": ["a"]}, DIALECTS["openai"])
    {'type': ['string', 'null'], 'enum': ['a', None]}
    """
    if _has_null(wire):
        return wire
    types = wire.get("type")
    names = types if isinstance(types, list) else [types]
    if dialect.type_lists and types is not None and not {"object", "array"} & {*map(str, names)}:
        longer: Wire = {**wire, "type": [*names, "null"]}
        if isinstance(listed := wire.get("enum"), list):
            longer["enum"] = [*listed, None]
        return longer
    inner = dict(wire)
    description = {key: inner.pop(key) for key in ("description",) if key in inner}
    members = inner["anyOf"] if inner.keys() == {"anyOf"} else [inner]
    assert isinstance(members, list)
    return {**description, "anyOf": [*members, {"type": "null"}]}


def described(wire: Wire, said: str, words: Sequence[str]) -> Wire:
    """The wire form with the original's description, and in it what was lost, in words."""
    lost = "; ".join(words)
    description = f"{said} ({lost})" if said and lost else said or lost
    if not description:
        return wire
    if "$ref" in wire:  # nothing may stand beside a reference
        return {"description": description, "anyOf": [wire]}
    # A union of one brings the description of its member along; the outer one says more.
    return (
        {**wire, "description": description}
        if "description" in wire
        else {
            "description": description,
            **wire,
        }
    )


def plain_name(text: str) -> str:
    """The text in the characters that names of schemas and definitions may have.

    >>> plain_name("my task/1")
    'my_task_1'
    """
    return re.sub("[^a-zA-Z0-9_-]", "_", text)[:64]


def _has_null(wire: Wire) -> bool:
    types, members = wire.get("type"), wire.get("anyOf", [])
    is_named = types == "null" or (isinstance(types, list) and "null" in types)
    is_listed = "enum" not in wire or None in (wire["enum"] or [])  # type: ignore[operator]
    assert isinstance(members, list)
    return (is_named and is_listed) or any(isinstance(m, dict) and _has_null(m) for m in members)


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
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
