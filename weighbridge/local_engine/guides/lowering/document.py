"""A document: one JSON Schema, its draft, and what its references mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from jsonschema_specifications import REGISTRY
from referencing import Registry, jsonschema
from referencing.exceptions import CannotDetermineSpecification, Unresolvable

from weighbridge.errors import SchemaRefused, TaskInvalid

DIALECT = "the local engine"


class Draft(IntEnum):
    """A version of JSON Schema; later ones are greater."""

    DRAFT4 = 4
    DRAFT6 = 6
    DRAFT7 = 7
    DRAFT201909 = 2019
    DRAFT202012 = 2020


_DRAFTS = {
    "http://json-schema.org/draft-04/schema": Draft.DRAFT4,
    "http://json-schema.org/draft-06/schema": Draft.DRAFT6,
    "http://json-schema.org/draft-07/schema": Draft.DRAFT7,
    "https://json-schema.org/draft/2019-09/schema": Draft.DRAFT201909,
    "https://json-schema.org/draft/2020-12/schema": Draft.DRAFT202012,
}
_SPECIFICATIONS = {
    Draft.DRAFT4: jsonschema.DRAFT4,
    Draft.DRAFT6: jsonschema.DRAFT6,
    Draft.DRAFT7: jsonschema.DRAFT7,
    Draft.DRAFT201909: jsonschema.DRAFT201909,
    Draft.DRAFT202012: jsonschema.DRAFT202012,
}


# What a reference that leads nowhere raises; the last two, as whatever lies on its way is taken for
# a schema.
_UNFOUND = (Unresolvable, CannotDetermineSpecification, ValueError, AttributeError, TypeError)


@dataclass(frozen=True, slots=True)
class Node:
    """A subschema in its place.

    Args:
        schema: plain JSON.
        pointer: from the root of the document; of the reference that leads out of it.
        draft: whose rules hold here.
        declared: whether the document said so; if not, old spellings are read as what they meant.
        resolver: what relative references start from.
    """

    schema: Any
    pointer: str
    draft: Draft
    declared: bool
    resolver: Any

    def refusal(self, keyword: str, problem: str, hint: str = "") -> SchemaRefused:
        """The error that says this place cannot be enforced."""
        return SchemaRefused(DIALECT, self.pointer, keyword, problem, hint)


class Document:
    """One JSON Schema.

    Args:
        schema: any mapping or bool that is JSON.

    Raises:
        TaskInvalid: it is no JSON.
        SchemaRefused: it is neither an object nor a bool, or its name is no text.
    """

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        root = _plain_json(schema)
        draft, declared = _draft_of(root)
        own_name = "id" if draft is Draft.DRAFT4 else "$id"
        if isinstance(root, dict) and not isinstance(root.get(own_name, ""), str):
            raise SchemaRefused(DIALECT, "", own_name, "it must be text")
        resource = _SPECIFICATIONS[draft].create_resource(root)
        registry: Registry[Any] = REGISTRY
        resolver = registry.resolver_with_root(resource)
        self.root = Node(root, "", draft, declared, resolver)
        self._pointers = {id(part): pointer for part, pointer in _parts(root, "")}

    def child(self, node: Node, *path: str | int) -> Node:
        """The subschema that lies at a path below another."""
        schema = node.schema
        for step in path:
            schema = schema[step]
        pointer = node.pointer + "".join(map(_token, path))
        resolver = node.resolver
        if isinstance(schema, dict) and any(isinstance(schema.get(k), str) for k in ("$id", "id")):
            resolver = resolver.in_subresource(_SPECIFICATIONS[node.draft].create_resource(schema))
        if isinstance(schema, dict) and "$schema" in schema:
            draft, declared = _draft_of(schema)
            if declared and draft is not node.draft:
                raise Node(schema, pointer, draft, declared, resolver).refusal(
                    "$schema", "a part is written in another draft than the whole"
                )
        return Node(schema, pointer, node.draft, node.declared, resolver)

    def target(self, node: Node) -> Node:
        """What the `$ref` of a node means.

        Raises:
            SchemaRefused: nothing that lies in the document, or is a published meta-schema.
        """
        try:
            found = node.resolver.lookup(node.schema["$ref"])
        except _UNFOUND:
            raise node.refusal(
                "$ref",
                "it leads to nothing in this document",
                "Copy what it means into `$defs`; nothing is fetched.",
            ) from None
        contents = found.contents
        pointer = self._pointers.get(id(contents), node.pointer)
        draft, declared = node.draft, node.declared
        if isinstance(contents, dict) and "$schema" in contents:
            draft, declared = _draft_of(contents)
        return Node(contents, pointer, draft, declared, found.resolver)


def _draft_of(schema: Any) -> tuple[Draft, bool]:
    """The draft, and whether it is declared; what is declared but unknown may be any."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    draft = _DRAFTS.get(uri.removesuffix("#")) if isinstance(uri, str) else None
    return (Draft.DRAFT202012, False) if draft is None else (draft, True)


def _plain_json(schema: Any) -> Any:
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False, default=_as_dict)
        text.encode()
        root = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise TaskInvalid("", "the schema is no JSON (NaN, half a surrogate, a cycle)") from None
    if not isinstance(root, dict | bool):
        raise SchemaRefused(DIALECT, "", "", "a schema is an object, true or false")
    return root


def _as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _parts(value: Any, pointer: str) -> Iterator[tuple[Any, str]]:
    pending = [(value, pointer)]
    while pending:
        value, pointer = pending.pop()
        if isinstance(value, dict):
            yield value, pointer
            pending += [(part, pointer + _token(name)) for name, part in value.items()]
        elif isinstance(value, list):
            pending += [(part, pointer + _token(index)) for index, part in enumerate(value)]


def _token(step: str | int) -> str:
    return "/" + str(step).replace("~", "~0").replace("/", "~1")
