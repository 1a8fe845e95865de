"""Negation: a schema that every value satisfies which another one rejects, where one exists.

What is given lies inside the true complement; where nothing exact can be said, it is refused.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from weighbridge.local_engine.guides.lowering.document import Document, Draft, Node
from weighbridge.local_engine.guides.lowering.exact import MAX_EXACT, lower_bound, upper_bound
from weighbridge.local_engine.guides.lowering.keywords import (
    TYPES,
    Lowered,
    all_of,
    any_of,
    check,
    is_foreign,
    is_restriction,
)
from weighbridge.local_engine.guides.lowering.objects import Inexpressible, Lower
from weighbridge.local_engine.guides.lowering.patterns import none_of

_MAX_WAYS = 4  # of a `oneOf`; its complement has every pair
_MAX_VALUES = 64  # of an enum, each of a type
_MAX_CHARACTERS = 2_000  # of its texts; their complement is a pattern many times that long

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

# What a count rejects is the type named, with the opposite keyword and the count moved by so much.
_OPPOSITES = {
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
}


class Negation:
    """Negates the parts of one document.

    Args:
        document: for the places of parts and the meaning of references.
        lower: of a part that is to be satisfied.
    """

    def __init__(self, document: Document, lower: Lower) -> None:
        self._document, self._lower = document, lower
        self._open: set[int] = set()
        self._rules: dict[str, Callable[[Node, Any], Lowered]] = {
            "not": lambda node, _: lower(document.child(node, "not")),
            "type": _other_types,
            "enum": _other_values,
            "const": lambda node, value: _other_values(node, [value]),
            "required": lambda _, names: any_of(*map(_without, names)),
            "properties": self._properties,
            "allOf": lambda node, ways: any_of(*self._each(node, "allOf", ways)),
            "anyOf": lambda node, ways: all_of(*self._each(node, "anyOf", ways)),
            "oneOf": self._one_of,
            "if": self._condition,
            "then": lambda *_: False,  # read by `if`
            "else": lambda *_: False,
            "$ref": lambda node, _: self.of(document.target(node)),
            "dependentRequired": _missing,
            **{name: functools.partial(_out_of_bounds, name) for name in _BOUNDS},
            **{name: functools.partial(_miscounted, name) for name in _OPPOSITES},
        }

    def of(self, node: Node) -> Lowered:
        """What satisfies the negation of a schema, or a part of that.

        Raises:
            Inexpressible: no part can be told apart from the rest.
        """
        check(node)
        schema = node.schema
        if isinstance(schema, bool):
            return not schema
        if "$ref" in schema and node.draft <= Draft.DRAFT7:
            schema = {"$ref": schema["$ref"]}
        if id(node.schema) in self._open:
            raise Inexpressible("$ref", "references go round in circles below a negation")
        self._open.add(id(node.schema))
        try:
            return any_of(
                *(
                    self._keyword(node, name, value)
                    for name, value in schema.items()
                    if is_restriction(name) and not _is_trivial(name, value)
                )
            )
        except Inexpressible as reason:
            reason.place = reason.place or node
            raise
        finally:
            self._open.discard(id(node.schema))

    def _keyword(self, node: Node, name: str, value: Any) -> Lowered:
        rule = self._rules.get(name)
        if rule is None or is_foreign(name, node):
            raise Inexpressible(name, "nothing can be said of the values that break it")
        return rule(node, value)

    def _each(self, node: Node, keyword: str, ways: list[Any]) -> list[Lowered]:
        return [self.of(self._document.child(node, keyword, i)) for i in range(len(ways))]

    def _properties(self, node: Node, parts: dict[str, Any]) -> Lowered:
        return any_of(
            *(
                _typed("object", required=[name], properties={name: negated})
                for name in parts
                if (negated := self.of(self._document.child(node, "properties", name))) is not False
            )
        )

    def _one_of(self, node: Node, ways: list[Any]) -> Lowered:
        """None of the ways, or two of them at once."""
        if len(ways) > _MAX_WAYS:
            raise Inexpressible("oneOf", "it has too many ways")
        lowered = [self._lower(self._document.child(node, "oneOf", i)) for i in range(len(ways))]
        both = (all_of(*pair) for pair in itertools.combinations(lowered, 2))
        return any_of(all_of(*self._each(node, "oneOf", ways)), *both)

    def _condition(self, node: Node, _: Any) -> Lowered:
        found: list[Lowered] = []
        if "then" in node.schema:
            is_so = self._lower(self._document.child(node, "if"))
            found.append(all_of(is_so, self.of(self._document.child(node, "then"))))
        if "else" in node.schema:
            is_not = self.of(self._document.child(node, "if"))
            found.append(all_of(is_not, self.of(self._document.child(node, "else"))))
        return any_of(*found)


def _is_trivial(name: str, value: Any) -> bool:
    """Whether a keyword rejects nothing."""
    match name:
        case (
            "items"
            | "additionalItems"
            | "unevaluatedItems"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
        ):
            return value in (True, {})
        case "uniqueItems" | "exclusiveMinimum" | "exclusiveMaximum":
            return value is False
        case "patternProperties" | "dependencies" | "dependentSchemas" | "dependentRequired":
            return not value
        case _:
            return False


def _typed(type_name: str, **rules: Any) -> dict[str, Any]:
    return {"type": type_name, **rules}


def _without(name: str) -> Lowered:
    return _typed("object", properties={name: False})


def _other_types(_: Node, value: Any) -> Lowered:
    names = {value} if isinstance(value, str) else set(value)
    if "integer" in names and "number" not in names:
        raise Inexpressible("type", "numbers that are no integers cannot be told apart")
    left = [name for name in TYPES if name not in names]
    return {"type": left} if left else False


def _missing(_: Node, demands: dict[str, list[str]]) -> Lowered:
    return any_of(
        *(
            _typed("object", required=[name], properties={absent: False})
            for name, names in demands.items()
            for absent in names
        )
    )


def _out_of_bounds(name: str, node: Node, value: Any) -> Lowered:
    if isinstance(value, bool):  # draft 4: it changes what the bound beside it means
        return False
    is_exclusive = name.startswith("exclusive")
    if is_exclusive and node.draft is Draft.DRAFT4:
        raise Inexpressible(name, "in the declared draft it is true or false")
    is_exclusive |= node.schema.get(f"exclusive{name.title()}") is True
    opposite = upper_bound if name.endswith("inimum") else lower_bound
    key, number = opposite(value, is_exclusive=not is_exclusive)
    if abs(number) > MAX_EXACT:
        raise Inexpressible(name, "numbers beyond 2^53 are not told apart")
    return _typed("number", **{key: number})


def _miscounted(name: str, _: Node, value: float) -> Lowered:
    type_name, opposite, step = _OPPOSITES[name]
    count = int(value) + step
    return _typed(type_name, **{opposite: count}) if count >= 0 else False


def _other_values(node: Node, values: list[Any]) -> Lowered:
    """Every value that is none of these, type by type."""
    texts = [value for value in values if isinstance(value, str)]
    truths = [value for value in values if isinstance(value, bool)]
    others: list[Lowered] = [{"type": "null"}] if None not in values else []
    others += [{"const": value} for value in (True, False) if value not in truths]
    others += _other_numbers(
        [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    )
    if len(texts) > _MAX_VALUES or sum(map(len, texts)) > _MAX_CHARACTERS:
        raise Inexpressible("enum", "it has too many texts to say what is none of them")
    others.append(_typed("string", pattern=none_of(texts)) if texts else _typed("string"))
    for kind, name, least in ((list, "array", "minItems"), (dict, "object", "minProperties")):
        listed = [value for value in values if isinstance(value, kind)]
        if any(listed):
            raise Inexpressible("enum", "lists and objects cannot be told from all others")
        others.append(_typed(name, **{least: 1}) if listed else _typed(name))
    return any_of(*others)


def _other_numbers(values: list[int | float]) -> list[Lowered]:
    if not values:
        return [_typed("number")]
    if len(values) > _MAX_VALUES or any(abs(value) > MAX_EXACT for value in values):
        raise Inexpressible("enum", "it has numbers too many or too large to be told apart")
    ends = [None, *sorted(set(values)), None]
    return [
        _typed(
            "number",
            **dict([] if low is None else [lower_bound(low, is_exclusive=True)]),
            **dict([] if high is None else [upper_bound(high, is_exclusive=True)]),
        )
        for low, high in itertools.pairwise(ends)
    ]
