"""Scalars: what a schema says of the type, the value itself, numbers and text."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from weighbridge.local_engine.guides.lowering.document import Node
from weighbridge.local_engine.guides.lowering.formats import FORMATS
from weighbridge.local_engine.guides.lowering.keywords import (
    MAX_EXACT,
    Lowered,
    allows_type,
    bound,
)
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
        for value in schema["enum"]:
            _check_value(node, "enum", value)
        if not schema["enum"]:
            return False
        out["enum"] = schema["enum"]
    if "const" in schema:
        _check_value(node, "const", schema["const"])
        out["const"] = schema["const"]
    return out or True


def numbers(node: Node) -> dict[str, Any]:
    """The bounds and steps of numbers; bounds beyond ±2^53 are drawn in to there.

    Raises:
        SchemaRefused: a bound that leaves only numbers beyond.
    """
    schema, out = node.schema, dict[str, Any]()
    for name, exclusive, sign in (
        ("minimum", "exclusiveMinimum", 1),
        ("maximum", "exclusiveMaximum", -1),
    ):
        if isinstance(schema.get(exclusive), bool):  # draft 4
            keys = {exclusive if schema[exclusive] else name: name}
        else:
            keys = {name: name, exclusive: exclusive}
        for key, source in keys.items():
            if source not in schema:
                continue
            value = bound(schema[source])
            if sign * value > MAX_EXACT:
                raise node.refusal(source, "numbers beyond 2^53 are not told apart")
            if sign * value < -MAX_EXACT:
                out[name] = -sign * MAX_EXACT
            else:
                out[key] = value
    if "multipleOf" in schema:
        out["multipleOf"] = bound(schema["multipleOf"])
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


def _check_value(node: Node, keyword: str, value: Any) -> None:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, int | float) and abs(part) > MAX_EXACT:
            raise node.refusal(keyword, "it has a number beyond 2^53, which is not told apart")
