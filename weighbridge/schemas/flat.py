"""Flat schemas: references and single-member allOf folded into the schema that holds them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple
from urllib.parse import unquote

from weighbridge.errors import SchemaRefused
from weighbridge.schemas.references import Schema, resolve
from weighbridge.schemas.values import spell

# Whatever these say, the same values stay valid. `discriminator` and x-… come from OpenAPI.
_ANNOTATIONS = (
    frozenset({"title", "description", "default", "examples", "deprecated", "discriminator"})
    | {"readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema"}
    | {"$schema", "$id", "$vocabulary", "$comment", "$defs", "definitions"}
)


class Said(NamedTuple):
    """The value of a keyword, and the JSON pointer to the schema that says it."""

    value: Any
    where: str


def is_annotation(keyword: str) -> bool:
    """Whether a keyword only tells something about a value, without restricting it."""
    return keyword in _ANNOTATIONS or keyword.startswith("x-")


def flatten(
    root: Schema, schema: Schema, here: str, *, above: AbstractSet[str], dialect: str
) -> dict[str, Said]:
    """All keywords that apply to the values of one schema.

    Args:
        root: the whole document; its references have been checked to stay inside.
        schema: the part of it to flatten.
        here: JSON pointer to that part.
        above: pointers to the schemas that this one is a part of.
        dialect: whose refusal it is.

    Raises:
        SchemaRefused: the schema contains itself, permits nothing, has an allOf of several
            members, or says one thing in two ways.

    >>> root = {"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {"type": "integer"}}}
    >>> flatten(root, root, "", above=set(), dialect="openai")["type"]
    Said(value='integer', where='/$defs/a')
    """
    if schema is True:
        return {}
    if schema is False:
        raise SchemaRefused(dialect, here, "false", "no value is permitted here")
    flat = {name: Said(value, here) for name, value in schema.items()}
    above = {*above, here}
    members: list[tuple[str, Schema, str]] = []
    if "$ref" in flat:
        reference = flat.pop("$ref").value
        target = unquote(reference).removeprefix("#")
        if target in above:
            raise SchemaRefused(dialect, here, "$ref", "the schema contains itself")
        referred = resolve(root, reference)
        assert referred is not None
        members.append(("$ref", referred, target))
    if "allOf" in flat:
        several = flat.pop("allOf").value
        if len(several) != 1:
            raise SchemaRefused(dialect, here, "allOf", "several schemas cannot be made one")
        members.append(("allOf", several[0], f"{here}/allOf/0"))
    for keyword, member, place in members:
        inner = flatten(root, member, place, above=above, dialect=dialect)
        for name, said in inner.items():
            other = flat.setdefault(name, said)
            if not is_annotation(name) and spell(other.value) != spell(said.value):
                raise SchemaRefused(dialect, here, keyword, f"both it and its place say `{name}`")
    return flat
