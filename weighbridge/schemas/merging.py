"""Merging: one keyword in place of two that hold for the same values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from weighbridge.decision import Json

# Of two bounds, the one that implies the other.
NARROWER: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    dict.fromkeys(
        ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"),
        max,
    )
    | dict.fromkeys(
        ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"),
        min,
    )
    | {"uniqueItems": lambda one, other: one or other}
)

# Two of these are two demands: the wire may carry one, and both are checked.
BOTH = frozenset({"pattern", "format", "multipleOf", "not", "contains", "propertyNames"}) | {
    "dependentRequired"
}


def type_list(types: str | list[str]) -> list[str]:
    """`type` as a list, without integers where all numbers are permitted."""
    names = [types] if isinstance(types, str) else types
    return [name for name in names if name != "integer" or "number" not in names]


def common_types(one: str | list[str], other: str | list[str]) -> list[str]:
    """The types that two `type` keywords permit both.

    >>> common_types(["string", "number"], ["integer", "string", "null"])
    ['string', 'integer']
    """
    others = type_list(other)
    common = []
    for name in type_list(one):
        if name in others or (name == "integer" and "number" in others):
            common.append(name)
        elif name == "number" and "integer" in others:
            common.append("integer")
    return common


def common_values(keyword: str, one: Any, other: Any) -> Any:
    """What two enums, or two consts, permit both, in the first one's order; [] for nothing.

    >>> common_values("enum", [1, "1", True], [True, 1.0])
    [1, True]
    """
    if keyword == "const":
        return one if same(one) == same(other) else []
    others = {same(value) for value in other}
    return [value for value in one if same(value) in others]


def same(value: Json) -> Any:
    """A hashable that is equal for values that JSON Schema takes for equal.

    >>> same(1) == same(1.0), same(1) == same(True), same([0]) == same([False])
    (True, False, False)
    """
    match value:
        case bool() | None | str():
            return type(value).__name__, value
        case list():
            return "array", tuple(map(same, value))
        case dict():
            return "object", frozenset((name, same(item)) for name, item in value.items())
        case _:
            return "number", value
