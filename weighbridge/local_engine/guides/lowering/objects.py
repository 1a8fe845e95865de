"""Objects: what a schema says of the names in an object and of the values beside them."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from weighbridge.local_engine.guides.lowering.document import Document, Node
from weighbridge.local_engine.guides.lowering.keywords import (
    IN_PLACE,
    Lowered,
    all_of,
    any_of,
    check,
    is_restriction,
    types_of,
)
from weighbridge.local_engine.guides.lowering.patterns import Untranslatable, translated

Lower: TypeAlias = Callable[[Node], Lowered]

_MAX_DEPTH = 20  # of references followed

# Beside these, which names are evaluated depends on the value; those of `_MORE` evaluate names
# that are not listed.
_DEPENDS = IN_PLACE - {"$ref", "allOf", "not", "dependentRequired"}
_MORE = {"patternProperties", "additionalProperties", "unevaluatedProperties"}


class Inexpressible(Exception):
    """A keyword whose meaning here the engine has no grammar for.

    Args:
        keyword: its name.
        problem: why.
        place: where it stands, if that is not where it was met.
    """

    def __init__(self, keyword: str, problem: str, place: Node | None = None) -> None:
        super().__init__(keyword, problem, place)
        self.keyword, self.problem, self.place = keyword, problem, place


def objects(node: Node, document: Document, lower: Lower) -> dict[str, Any]:
    """The keywords of objects, spelled in what the engine knows.

    Raises:
        Inexpressible, SchemaRefused: it has no grammar, or a part of it has none.
    """
    schema = node.schema
    parts = {
        name: lower(document.child(node, "properties", name))
        for name in schema.get("properties", {})
    }
    patterns = {
        name: lower(document.child(node, "patternProperties", name))
        for name in schema.get("patternProperties", {})
    }
    required = list(dict.fromkeys(schema.get("required", ())))
    more: Lowered = True
    if "additionalProperties" in schema:
        more = lower(document.child(node, "additionalProperties"))
    elif "unevaluatedProperties" in schema:
        parts, more = _unevaluated(node, document, lower, parts)
    if more is True:
        patterns = {name: part for name, part in patterns.items() if part is not True}
    out: dict[str, Any] = {}
    # The engine reads a name in `properties` by that alone; a pattern that fits it holds as well.
    if patterns:
        names = [*parts, *(name for name in required if name not in parts)]
        fitting = {name: _fitting(node, patterns, name) for name in names}
        parts = {
            name: all_of(parts.get(name, True), *fitting[name])
            if name in parts or fitting[name]
            else more
            for name in names
        }
        out["patternProperties"] = {_translated(node, name): p for name, p in patterns.items()}
    if "propertyNames" in schema and schema["propertyNames"] is not True:
        parts, more, out = _named(node, document, parts, more, out, required)
    if parts:
        out["properties"] = parts
    if required:
        out["required"] = required
    if more is not True:
        out["additionalProperties"] = more
    for name in ("minProperties", "maxProperties"):
        if name in schema and (schema[name] > 0 or name == "maxProperties"):
            out.setdefault(name, int(schema[name]))
    return out


def dependencies(node: Node, document: Document, lower: Lower) -> list[Lowered]:
    """What some names demand when they are there, as alternatives each."""
    found: list[Lowered] = []
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, demand in node.schema.get(keyword, {}).items():
            needed: Lowered
            if isinstance(demand, list):
                needed = {"required": demand} if demand else True
            else:
                needed = lower(document.child(node, keyword, name))
            found.append(any_of({"properties": {name: False}}, needed))
    return found


def _unevaluated(
    node: Node, document: Document, lower: Lower, parts: dict[str, Lowered]
) -> tuple[dict[str, Lowered], Lowered]:
    more = lower(document.child(node, "unevaluatedProperties"))
    if more is True:
        return parts, True
    names = sorted(_evaluated_names(node, document) - parts.keys())
    return parts | dict.fromkeys(names, True), more


def _evaluated_names(node: Node, document: Document, depth: int = 0) -> set[str]:
    """The names that a schema and what it refers to evaluate, whatever the value.

    Raises:
        Inexpressible: it depends on the value.
    """
    schema = node.schema
    if isinstance(schema, bool):
        return set()
    if depth > _MAX_DEPTH or (_DEPENDS | (_MORE if depth else set())) & schema.keys():
        raise Inexpressible("unevaluatedProperties", "what is evaluated depends on the value")
    names = set(schema.get("properties", ()))
    for index in range(len(schema.get("allOf", ()))):
        names |= _evaluated_names(document.child(node, "allOf", index), document, depth + 1)
    if "$ref" in schema:
        names |= _evaluated_names(document.target(node), document, depth + 1)
    return names


def _fitting(node: Node, patterns: dict[str, Lowered], name: str) -> list[Lowered]:
    """What the patterns that fit a name demand of its value."""
    return [
        part
        for pattern, part in patterns.items()
        if _fits(node, "patternProperties", pattern, name)
    ]


def _fits(node: Node, keyword: str, pattern: str, name: str) -> bool:
    r"""Whether a pattern fits a name.

    Dialects agree on that where a name has neither line ends nor, beside classes such as `\w`,
    what is not ASCII.
    """
    if name.isprintable() and (name.isascii() or "\\" not in pattern):
        with (
            contextlib.suppress(re.error, OverflowError),
            warnings.catch_warnings(action="ignore", category=FutureWarning),  # `[[`, `&&`
        ):
            return re.search(pattern, name) is not None
    raise node.refusal(keyword, f"it is not known whether {name!r} fits it")


def _translated(node: Node, pattern: str) -> str:
    try:
        return translated(pattern, exact=True)
    except Untranslatable as reason:
        raise node.refusal("patternProperties", str(reason)) from None


def _named(
    node: Node,
    document: Document,
    parts: dict[str, Lowered],
    more: Lowered,
    out: dict[str, Any],
    required: list[str],
) -> tuple[dict[str, Lowered], Lowered, dict[str, Any]]:
    """`propertyNames`, as a pattern beside which no further names are allowed."""
    if out:
        raise Inexpressible("propertyNames", "beside `patternProperties`")
    place = document.child(node, "propertyNames")
    check(place)
    names = [*parts, *(name for name in required if name not in parts)]
    listed = _listed_names(place.schema)
    if listed is not None:
        # Not as a pattern: when each has been used, no name would be left after a comma.
        names += [name for name in listed if name not in names]
    allowed = {name for name in names if _is_name(place, name)}
    parts = {name: parts.get(name, more) if name in allowed else False for name in names}
    pattern = None
    if listed is None:
        pattern = _pattern_of_names(place)
    return parts, False, out if pattern is None else {"patternProperties": {pattern: more}}


def _listed_names(schema: Any) -> list[str] | None:
    """The names that a schema may allow, if it lists them."""
    if isinstance(schema, bool) or {k for k in schema if is_restriction(k)} - {"type"} not in (
        {"enum"},
        {"const"},
    ):
        return None
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    return [value for value in values if isinstance(value, str)]


def _pattern_of_names(names: Node) -> str | None:
    """The pattern of all names that a schema allows; None if it allows none.

    Raises:
        Inexpressible: no single pattern says it.
    """
    schema = names.schema
    if schema is False:
        return None
    types = types_of(schema)
    if types is not None and "string" not in types:
        return None
    rules = {k for k in schema if is_restriction(k) and k != "type"}
    if rules == {"pattern"}:
        try:
            return translated(schema["pattern"])
        except Untranslatable as reason:
            raise names.refusal("pattern", str(reason)) from None
    if rules <= {"minLength", "maxLength"}:
        longest = int(schema["maxLength"]) if "maxLength" in schema else ""
        return f"^(?s:.{{{int(schema.get('minLength', 0))},{longest}}})$"
    raise Inexpressible("propertyNames", "no single pattern says which names it allows")


def _is_name(names: Node, name: str) -> bool:
    schema = names.schema
    if isinstance(schema, bool):
        return schema
    types = types_of(schema)
    if types is not None and "string" not in types:
        return False
    values = (
        schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else [name]
    )
    return (
        name in values
        and schema.get("minLength", 0) <= len(name) <= schema.get("maxLength", len(name))
        and ("pattern" not in schema or _fits(names, "pattern", schema["pattern"], name))
    )
