"""Disjointness: whether two lowered schemas provably have no value in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weighbridge.local_engine.guides.lowering.keywords import TYPES, Lowered, types_of

_MAX_DEPTH = 12  # of references and combinations followed; beyond, nothing is proved

Definitions = Mapping[str, Lowered]


def are_disjoint(left: Lowered, right: Lowered, definitions: Definitions, depth: int = 0) -> bool:
    """Whether no value satisfies both; False where that is not proved.

    >>> are_disjoint({"type": "string"}, {"enum": [1, None]}, {})
    True
    """
    lefts, rights = list(_conjuncts(left, definitions)), list(_conjuncts(right, definitions))
    if False in lefts or False in rights:
        return True
    if depth > _MAX_DEPTH:
        return False
    for parts, other in ((lefts, right), (rights, left)):
        for part in parts:
            ways = part["anyOf"] if isinstance(part, dict) and "anyOf" in part else None
            if ways and all(are_disjoint(way, other, definitions, depth + 1) for way in ways):
                return True
    own, others = ([p for p in parts if isinstance(p, dict)] for parts in (lefts, rights))
    kinds = set(TYPES).intersection(*map(_kinds, own + others))
    if not kinds:
        return True
    listed, listed_others = (
        [values for part in parts if (values := _listed(part)) is not None]
        for parts in (own, others)
    )
    if listed and listed_others:
        return not any(_same(a, b) for a in listed[0] for b in listed_others[0])
    if kinds != {"object"}:
        return False
    # A value in both has each of these names, and what is there would have to suit both.
    return any(
        are_disjoint(_property(one, name), _property(other, name), definitions, depth + 1)
        for name in {n for part in own + others for n in part.get("required", ())}
        for one in own
        for other in others
    )


def are_distinct_values(schemas: Sequence[Lowered]) -> bool:
    """Whether each of the schemas is a list of scalars, and no scalar is in two; in linear time.

    >>> are_distinct_values([{"const": 1}, {"enum": [True, "1"]}])
    True
    """
    seen: set[tuple[str, Any]] = set()
    for schema in schemas:
        values = _listed(schema) if isinstance(schema, dict) else None
        if values is None or any(isinstance(value, list | dict) for value in values):
            return False
        keys = {(_kind(value), value) for value in values}
        if keys & seen:
            return False
        seen |= keys
    return True


def _conjuncts(schema: Lowered, definitions: Definitions, depth: int = 0) -> Iterator[Lowered]:
    """The schema and all that it demands besides, references followed."""
    yield schema
    if isinstance(schema, dict) and depth <= _MAX_DEPTH:
        for part in schema.get("allOf", ()):
            yield from _conjuncts(part, definitions, depth + 1)
        if "$ref" in schema:
            yield from _conjuncts(definitions.get(schema["$ref"], True), definitions, depth + 1)


def _kinds(schema: dict[str, Any]) -> set[str]:
    """The types of the values, a number being one type."""
    kinds = set(TYPES)
    types = types_of(schema)
    if types is not None:
        kinds &= {"number" if name == "integer" else name for name in types}
    listed = _listed(schema)
    if listed is not None:
        kinds &= {_kind(value) for value in listed}
    return kinds


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _listed(schema: dict[str, Any]) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _same(left: Any, right: Any) -> bool:
    """Whether JSON takes two values for equal; Python would take 1 for True."""
    if _kind(left) != _kind(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    return bool(left == right)


def _property(schema: dict[str, Any], name: str) -> Lowered:
    if name in schema.get("properties", {}):
        found: Lowered = schema["properties"][name]
        return found
    more: Lowered = schema.get("additionalProperties", True)
    return True if "patternProperties" in schema else more
