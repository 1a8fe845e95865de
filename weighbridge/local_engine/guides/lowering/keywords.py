"""Keywords: which restrict, which only annotate, and what each must look like."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from weighbridge.local_engine.guides.lowering.document import Draft, Node

Lowered: TypeAlias = dict[str, Any] | bool

TYPES = ("null", "boolean", "number", "string", "array", "object")

IN_PLACE = frozenset(
    {
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
    }
)

_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_BEFORE_DRAFT4 = frozenset({"extends", "disallow", "divisibleBy"})


def check(node: Node) -> None:
    """See that a schema is well formed.

    Raises:
        SchemaRefused: a keyword of a wrong shape, or one that no draft after 3 knows.
    """
    schema = node.schema
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise node.refusal("", "a schema is an object, true or false")
    for keyword, value in schema.items():
        if keyword in _DYNAMIC:
            raise node.refusal(keyword, "what it means depends on how the place was reached")
        if keyword in _BEFORE_DRAFT4 and not node.declared:
            raise node.refusal(keyword, "it is of a draft before 4")
        shape = _SHAPES.get(keyword)
        if shape is not None and not shape[1](value):
            raise node.refusal(keyword, f"it must be {shape[0]}")


def is_foreign(keyword: str, node: Node) -> bool:
    """Whether a keyword restricts, but not in the declared draft.

    It is enforced all the same: that is what its author meant, and only narrows the answers. It
    must not decide what is *excluded*.
    """
    since, until = _DRAFTS.get(keyword, (Draft.DRAFT4, Draft.DRAFT202012))
    return not (since <= node.draft <= until)


def is_restriction(keyword: str) -> bool:
    """Whether a keyword can make a value invalid, by itself or with others."""
    return keyword in _SHAPES


def all_of(*schemas: Lowered) -> Lowered:
    """What satisfies each of several lowered schemas."""
    parts: list[dict[str, Any]] = []
    for schema in schemas:
        if schema is False:
            return False
        if schema is True or not schema:
            continue
        parts += schema["allOf"] if schema.keys() == {"allOf"} else [schema]
    if not parts:
        return True
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def any_of(*schemas: Lowered) -> Lowered:
    """What satisfies at least one of several lowered schemas."""
    parts: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        if schema is True or schema == {}:
            return True
        if schema is False:
            continue
        for part in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            parts.setdefault(json.dumps(part), part)  # Python would take true for 1
    if not parts:
        return False
    ways = list(parts.values())
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


def types_of(schema: dict[str, Any]) -> tuple[str, ...] | None:
    """The types that the `type` of a schema names; None where it has none."""
    value = schema.get("type")
    return None if value is None else (value,) if isinstance(value, str) else tuple(value)


def allows_type(schema: dict[str, Any], name: str) -> bool:
    """Whether the `type` of a schema leaves room for a type."""
    types = types_of(schema)
    return types is None or name in types


def tuple_of(node: Node) -> tuple[str | None, str | None]:
    """The keywords for the first items of an array, and for the rest, in this draft.

    Raises:
        SchemaRefused: `prefixItems` in a draft that did not have it.
    """
    schema = node.schema
    if isinstance(schema.get("items"), list):
        return "items", "additionalItems" if "additionalItems" in schema else None
    first = "prefixItems" if "prefixItems" in schema else None
    if first and node.draft < Draft.DRAFT202012:
        raise node.refusal("prefixItems", "the declared draft does not know it")
    return first, "items" if "items" in schema else None


# From which draft to which one a keyword is known, where that is not all of them.
_DRAFTS = {
    **dict.fromkeys(("const", "contains", "propertyNames"), (Draft.DRAFT6, Draft.DRAFT202012)),
    **dict.fromkeys(("if", "then", "else"), (Draft.DRAFT7, Draft.DRAFT202012)),
    **dict.fromkeys(
        (
            "dependentRequired",
            "dependentSchemas",
            "unevaluatedProperties",
            "unevaluatedItems",
            "minContains",
            "maxContains",
        ),
        (Draft.DRAFT201909, Draft.DRAFT202012),
    ),
    "prefixItems": (Draft.DRAFT202012, Draft.DRAFT202012),
    "dependencies": (Draft.DRAFT4, Draft.DRAFT7),
    "additionalItems": (Draft.DRAFT4, Draft.DRAFT201909),
}


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_schema, value))


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _is_names(names) and len(names) > 0 and set(names) <= {*TYPES, "integer"}


_SCHEMA = ("a schema", _is_schema)
_LIST = ("a list of one or more schemas", _is_list)
_MAP = ("schemas by name", _is_map)
_COUNT = ("a whole number, 0 or more", _is_count)
_NUMBER = ("a number", _is_number)
_LIMIT = ("a number", lambda v: _is_number(v) or isinstance(v, bool))  # draft 4 has bools here
_TEXT = ("text", lambda v: isinstance(v, str))
_BOOL = ("true or false", lambda v: isinstance(v, bool))

_SHAPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "$ref": _TEXT,
    "type": ("one or more of the seven types", _is_type),
    "enum": ("a list", lambda v: isinstance(v, list)),
    "const": ("a value", lambda v: True),
    "allOf": _LIST,
    "anyOf": _LIST,
    "oneOf": _LIST,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _LIMIT,
    "exclusiveMaximum": _LIMIT,
    "multipleOf": ("a number above 0", lambda v: _is_number(v) and v > 0),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": _TEXT,
    "format": _TEXT,
    "items": (
        "a schema",
        lambda v: _is_schema(v) or (isinstance(v, list) and not v) or _is_list(v),
    ),
    "additionalItems": _SCHEMA,
    "prefixItems": _LIST,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _BOOL,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "unevaluatedItems": _SCHEMA,
    "properties": _MAP,
    "patternProperties": _MAP,
    "additionalProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "required": ("a list of names", _is_names),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (
        "lists of names by name",
        lambda v: isinstance(v, dict) and all(map(_is_names, v.values())),
    ),
    "dependentSchemas": _MAP,
    "dependencies": (
        "schemas or lists of names by name",
        lambda v: isinstance(v, dict) and all(_is_schema(p) or _is_names(p) for p in v.values()),
    ),
}
