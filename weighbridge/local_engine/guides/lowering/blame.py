"""Blame: which part of a schema, and which keyword of it, the grammar engine does not take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from weighbridge.local_engine.guides.lowering.document import Document, Node
from weighbridge.local_engine.guides.lowering.keywords import check, is_restriction

_MAX_TRIALS = 400  # compilations; a culprit deeper than they reach is named by what is around it

_SINGLE = ("items", "additionalItems", "additionalProperties", "then", "else", "propertyNames")
_LISTS = ("prefixItems", "items", "allOf", "anyOf", "oneOf")
_MAPS = ("properties", "patternProperties", "dependentSchemas")


def blamed(document: Document, fails: Callable[[Node], bool]) -> tuple[Node, str]:
    """The innermost part that fails by itself, and the keyword without which it would not.

    Args:
        document: fails as a whole.
        fails: whether a part, as a schema of its own, fails in the same way.
    """
    node, seen, trials = document.root, {id(document.root.schema)}, iter(range(_MAX_TRIALS))
    inner: Node | None = node
    while inner is not None:
        node = inner
        inner = None
        for part in _parts(node, document):
            if id(part.schema) in seen or next(trials, None) is None:
                continue
            seen.add(id(part.schema))
            if fails(part):
                inner = part
                break
    if isinstance(node.schema, bool):
        return node, "false"
    # Without its type, nearly every schema has some value: it is the last to be blamed.
    keywords = sorted(filter(is_restriction, node.schema), key="type".__eq__)
    for keyword in keywords:
        rest = {name: value for name, value in node.schema.items() if name != keyword}
        if next(trials, None) is not None and not fails(dataclasses.replace(node, schema=rest)):
            return node, keyword
    return node, keywords[0] if keywords else ""


def _parts(node: Node, document: Document) -> Iterator[Node]:
    """The parts that a value, or a part of it, may have to satisfy."""
    check(node)
    schema = node.schema
    if isinstance(schema, bool):
        return
    for keyword in _SINGLE:
        if isinstance(schema.get(keyword), dict | bool):
            yield document.child(node, keyword)
    for keyword in _LISTS:
        if isinstance(schema.get(keyword), list):
            for index in range(len(schema[keyword])):
                yield document.child(node, keyword, index)
    for keyword in _MAPS:
        for name in schema.get(keyword, ()):
            yield document.child(node, keyword, name)
    if isinstance(schema.get("not"), dict) and "not" in schema["not"]:
        yield document.child(node, "not", "not")
    if "$ref" in schema:
        yield document.target(node)
