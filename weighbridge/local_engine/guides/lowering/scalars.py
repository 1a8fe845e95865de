"""Scalars: what a schema says of the type, the value itself, numbers and text."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from weighbridge.local_engine.guides.lowering.document import Node
from weighbridge.local_engine.guides.lowering.exact import (
    MAX_EXACT,
    is_exact,
    lower_bound,
    upper_bound,
    whole,
)
from weighbridge.local_engine.guides.lowering.formats import FORMATS
from weighbridge.local_engine.guides.lowering.keywords import Lowered, allows_type
from weighbridge.local_engine.guides.lowering.patterns import Untranslatable, translated

_ENGINE_LIMIT = 2**32


def values(node: Node) -> Lowered:
    """The `type`, `enum` and `const` of a schema.

    Raises:
        SchemaRefused: a value that the engine would write as another.
    """
    schema, out = node.schema, dict[str, Any]()
    if "type" in schema:
        out["type"] = schema["type"]
    if "enum" in schema:
        if not schema["enum"]:
            return False
        out["enum"] = _exact(node, "enum", schema["enum"])
    if "const" in schema:
        out["const"] = _exact(node, "const", schema["const"])
    return out or True


def numbers(node: Node) -> dict[str, Any]:
    """The bounds and steps of numbers; bounds beyond ±2^53 are drawn in to there.

    Raises:
        SchemaRefused: a bound that leaves only numbers beyond.
    """
    schema, out = node.schema, dict[str, Any]()
    for name, exclusive, bound, sign in (
        ("minimum", "exclusiveMinimum", lower_bound, 1),
        ("maximum", "exclusiveMaximum", upper_bound, -1),
    ):
        if isinstance(schema.get(exclusive), bool):  # draft 4
            sources = {name: schema[exclusive]}
        else:
            sources = {name: False, exclusive: True}
        for source, is_exclusive in sources.items():
            if source not in schema:
                continue
            key, value = bound(schema[source], is_exclusive=is_exclusive)
            if sign * value > MAX_EXACT:
                raise node.refusal(source, "numbers beyond 2^53 are not told apart")
            if sign * value < -MAX_EXACT:
                key, value = name, -sign * MAX_EXACT
            out[key] = sign * max(sign * value, sign * out.get(key, value))
    if "multipleOf" in schema:
        out["multipleOf"] = whole(schema["multipleOf"])
    return out


def texts(node: Node) -> tuple[dict[str, Any], list[Lowered]]:
    """The lengths and patterns of text: one schema, and further ones to be met as well.

    Raises:
        SchemaRefused: a format that nothing here checks, a pattern that the engine cannot read.
    """
    schema, out = node.schema, dict[str, Any]()
    if not allows_type(schema, "string"):
        return {}, []
    for name in ("minLength", "maxLength"):
        if name in schema and (schema[name] > 0 or name == "maxLength"):
            out[name] = int(schema[name])
    patterns = []
    if "pattern" in schema:
        patterns.append(_pattern(node))
    if "format" in schema:
        if schema["format"] not in FORMATS:
            raise node.refusal(
                "format",
                "nothing here checks this format",
                f"Formats that are enforced: {', '.join(FORMATS)}. Or give a `pattern`.",
            )
        patterns += FORMATS[schema["format"]]
    if patterns:
        out["pattern"] = patterns[0]
    return out, [{"pattern": pattern} for pattern in patterns[1:]]


def common_steps(nodes_and_steps: list[tuple[Node, int | float]]) -> None:
    """See that the engine can combine all `multipleOf` of a document with each other.

    It multiplies them in 32 bits without a look at the overflow.

    Raises:
        SchemaRefused: it cannot.
    """
    steps = {Decimal(repr(step)) for _, step in nodes_and_steps}
    decimals = max((-int(step.as_tuple().exponent) for step in steps), default=0)
    product = math.prod(step.scaleb(max(decimals, 0)) for step in steps)
    if len(steps) > 1 and product >= _ENGINE_LIMIT:
        node = nodes_and_steps[-1][0]
        raise node.refusal("multipleOf", "together with the others it is too fine or too large")


def _pattern(node: Node) -> str:
    try:
        return translated(node.schema["pattern"])
    except Untranslatable as reason:
        raise node.refusal("pattern", str(reason)) from None


def _exact(node: Node, keyword: str, value: Any) -> Any:
    """A value with its numbers as the engine is to read them."""
    match value:
        case list():
            return [_exact(node, keyword, part) for part in value]
        case dict():
            return {name: _exact(node, keyword, part) for name, part in value.items()}
        case int() | float() if not isinstance(value, bool):
            number = whole(value)
            if not is_exact(number):
                problem = "it has a number of so many digits that its neighbours are not told apart"
                raise node.refusal(keyword, problem)
            return number
    return value
