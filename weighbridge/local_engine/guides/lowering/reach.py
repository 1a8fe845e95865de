"""Reach: what can follow from a lowered schema as a whole, definitions followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weighbridge.local_engine.guides.lowering.disjoint import Definitions
from weighbridge.local_engine.guides.lowering.keywords import Lowered, types_of

_LISTS = ("allOf", "anyOf", "prefixItems")
_MAPS = ("properties", "patternProperties")
_SINGLE = ("items", "additionalProperties")


def without_endless(
    schema: Lowered, definitions: Definitions
) -> tuple[Lowered, dict[str, Lowered]]:
    """The same, with `false` for every definition whose values would never end.

    The engine would go on writing one for ever; a list that holds a list that holds a list has no
    end, and so no value.
    """
    ends: set[str] = set()
    while True:
        more = {n for n, part in definitions.items() if n not in ends and _ends(part, ends)}
        if not more:
            break
        ends |= more
    endless = definitions.keys() - ends
    kept = {name: _replaced(definitions[name], endless) for name in definitions if name in ends}
    return _replaced(schema, endless), kept


def can_repeat_names(schema: Lowered, definitions: Definitions) -> bool:
    """Whether a value may hold an object with names that the schema does not list."""
    parts = [schema, *definitions.values()]
    return not all(_is_closed(part, definitions, frozenset()) for part in parts)


def mixed_patterns(combined: Lowered, definitions: Definitions) -> bool:
    """Whether parts of a combination would have to be mixed in a way that the engine gets wrong.

    It does not apply what one part says of further names to those that fit a pattern of another.
    """
    if isinstance(combined, bool):
        return False
    parts = combined.get("allOf", [])
    members = [set(_says_of_names(part, definitions, frozenset())) for part in parts]
    return any(
        "patternProperties" in member and other
        for index, member in enumerate(members)
        for other in members[:index] + members[index + 1 :]
    ) or any(mixed_patterns(part, definitions) for part in _parts(combined))


def _parts(schema: dict[str, Any]) -> Iterator[Lowered]:
    for key in _LISTS:
        yield from schema.get(key, ())
    for key in _MAPS:
        yield from schema.get(key, {}).values()
    for key in _SINGLE:
        if key in schema:
            yield schema[key]


def _ends(schema: Lowered, known: set[str]) -> bool:
    """Whether a value of it can end, given the definitions of which that is known."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and schema["$ref"] not in known:
        return False
    if not all(_ends(part, known) for part in schema.get("allOf", ())):
        return False
    if "anyOf" in schema and not any(_ends(part, known) for part in schema["anyOf"]):
        return False
    match types_of(schema):
        case ("object",):
            parts, more = schema.get("properties", {}), schema.get("additionalProperties", True)
            return all(_ends(parts.get(name, more), known) for name in schema.get("required", ()))
        case ("array",):
            prefix, more = schema.get("prefixItems", []), schema.get("items", True)
            shortest = schema.get("minItems", 0)
            return all(_ends(part, known) for part in prefix[:shortest]) and (
                shortest <= len(prefix) or _ends(more, known)
            )
    return True


def _replaced(schema: Lowered, endless: set[str]) -> Any:
    """The schema with `false` for every reference to one of the names."""
    if not endless or isinstance(schema, bool):
        return schema
    if schema.get("$ref") in endless:
        return False
    out = dict(schema)
    for key in _LISTS:
        if key in out:
            out[key] = [_replaced(part, endless) for part in out[key]]
    for key in _MAPS:
        if key in out:
            out[key] = {name: _replaced(part, endless) for name, part in out[key].items()}
    for key in _SINGLE:
        if key in out:
            out[key] = _replaced(out[key], endless)
    return out


def _is_closed(schema: Lowered, definitions: Definitions, seen: frozenset[str]) -> bool:
    """Whether all names in all objects of its values are listed."""
    if isinstance(schema, bool):
        return not schema
    if "enum" in schema or "const" in schema:
        return True
    if any(_is_closed(part, definitions, seen) for part in schema.get("allOf", ())):
        return True
    if "anyOf" in schema and all(_is_closed(p, definitions, seen) for p in schema["anyOf"]):
        return True
    name = schema.get("$ref")
    if name is not None and (
        name in seen or _is_closed(definitions[name], definitions, seen | {name})
    ):
        return True
    types = types_of(schema)
    if types is None:
        return False
    if "array" in types:
        prefix = schema.get("prefixItems", [])
        rest = [] if schema.get("maxItems") == len(prefix) else [schema.get("items", True)]
        if not all(_is_closed(part, definitions, seen) for part in [*prefix, *rest]):
            return False
    return "object" not in types or (
        schema.get("additionalProperties") is False
        and "patternProperties" not in schema
        and all(_is_closed(p, definitions, seen) for p in schema.get("properties", {}).values())
    )


def _says_of_names(
    schema: Lowered, definitions: Definitions, seen: frozenset[str]
) -> Iterator[str]:
    """Which of the keywords about names that are not listed a part has, in its own place."""
    if isinstance(schema, bool):
        return
    for key in ("patternProperties", "additionalProperties"):
        if schema.get(key, True) is not True:
            yield key
    for key in ("allOf", "anyOf"):
        for part in schema.get(key, ()):
            yield from _says_of_names(part, definitions, seen)
    name = schema.get("$ref")
    if name is not None and name not in seen:
        yield from _says_of_names(definitions.get(name, True), definitions, seen | {name})
