"""Arrays: what a schema says of the items of an array."""

from __future__ import annotations

from typing import Any

from weighbridge.local_engine.guides.lowering.disjoint import Definitions, are_disjoint
from weighbridge.local_engine.guides.lowering.document import Document, Draft, Node
from weighbridge.local_engine.guides.lowering.keywords import IN_PLACE, Lowered, tuple_of
from weighbridge.local_engine.guides.lowering.objects import Inexpressible, Lower


def arrays(
    node: Node, document: Document, lower: Lower, definitions: Definitions
) -> dict[str, Any]:
    """The keywords of arrays, in the spelling of the newest draft.

    Raises:
        Inexpressible, SchemaRefused: it has no grammar, or a part of it has none.
    """
    schema, out = node.schema, dict[str, Any]()
    first, rest = tuple_of(node)
    prefix = (
        [lower(document.child(node, first, index)) for index in range(len(schema[first]))]
        if first
        else []
    )
    more: Lowered = lower(document.child(node, rest)) if rest else True
    if rest is None and "unevaluatedItems" in schema and schema["unevaluatedItems"] is not True:
        if (IN_PLACE | {"contains"}) & schema.keys() - {"not", "dependentRequired"}:
            raise Inexpressible("unevaluatedItems", "what is evaluated depends on the value")
        more = lower(document.child(node, "unevaluatedItems"))
    shortest = int(schema.get("minItems", 0))
    longest = int(schema["maxItems"]) if "maxItems" in schema else None
    shortest = max(shortest, _needed(node))
    if schema.get("uniqueItems"):
        most = len(prefix) if more is False else longest
        if not (most is not None and most <= 1) and not _all_differ(
            prefix, more, longest, definitions
        ):
            raise Inexpressible("uniqueItems", "nothing can compare the items of a list")
    if prefix:
        out["prefixItems"] = prefix
    if more is not True:
        out["items"] = more
    if shortest:
        out["minItems"] = shortest
    if longest is not None:
        out["maxItems"] = longest
    return out


def _needed(node: Node) -> int:
    """How many items `contains` and its companions demand, where that is all they demand."""
    schema = node.schema
    if "contains" not in schema or (node.declared and node.draft < Draft.DRAFT6):
        return 0
    counted = not node.declared or node.draft >= Draft.DRAFT201909
    least = int(schema.get("minContains", 1)) if counted else 1
    if counted and "maxContains" in schema:
        raise Inexpressible("maxContains", "nothing can count the items of a list")
    if least == 0:
        return 0
    if schema["contains"] is True or schema["contains"] == {}:
        return least
    raise Inexpressible("contains", "it may be any of the items")


def _all_differ(
    prefix: list[Lowered], more: Lowered, longest: int | None, definitions: Definitions
) -> bool:
    """Whether the items differ anyway, since no two of them could be the same."""
    if more is not False and (longest is None or longest > len(prefix)):
        if longest is None or longest > len(prefix) + 1:
            return False
        prefix = [*prefix, more]
    return all(
        are_disjoint(one, other, definitions)
        for index, one in enumerate(prefix)
        for other in prefix[:index]
    )
