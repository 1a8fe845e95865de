"""References: how one part of a JSON Schema names another part of the same document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any] | bool

# These give a part of the document an address of its own, or make an address depend on how the
# part was reached. Nothing that people write by hand or pydantic generates needs them.
_ADDRESSES = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"})


def pointer(*tokens: str | int) -> str:
    """A JSON pointer (RFC 6901) to the place that the tokens lead to.

    >>> pointer("properties", "a/b", "anyOf", 0)
    '/properties/a~1b/anyOf/0'
    """
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def resolve(root: Schema, reference: str) -> Schema | None:
    """The schema that a `$ref` into its own document means; None if there is no such place.

    >>> resolve({"$defs": {"a b": {"type": "null"}}}, "#/$defs/a%20b")
    {'type': 'null'}
    """
    place, hash_sign, fragment = reference.partition("#")
    if place or not hash_sign or (fragment and not fragment.startswith("/")):
        return None
    return schema_at(root, unquote(fragment))


def schema_at(root: Schema, where: str) -> Schema | None:
    """The schema that a JSON pointer leads to; None if there is none.

    >>> schema_at({"properties": {"a/b": True}}, "/properties/a~1b")
    True
    """
    target: Any = root
    for token in where.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            return None
    return target if isinstance(target, Mapping | bool) else None


def foreign_references(schema: Schema) -> Iterator[tuple[str, str]]:
    """(pointer, keyword) of everything that makes a schema depend on more than its own pointers.

    >>> list(foreign_references({"items": {"$ref": "https://example.com/item.json"}}))
    [('/items', '$ref')]
    """
    pending: list[tuple[str, Any]] = [("", schema)]
    while pending:
        here, part = pending.pop()
        if isinstance(part, Mapping):
            for keyword, value in part.items():
                # A property may be called "$ref"; only a text is a reference.
                is_address = keyword in _ADDRESSES and not (keyword == "$id" and part is schema)
                is_reference = keyword == "$ref"
                if isinstance(value, str) and (
                    is_address or (is_reference and resolve(schema, value) is None)
                ):
                    yield here, keyword
            pending += [(here + pointer(name), value) for name, value in part.items()]
        elif isinstance(part, list):
            pending += [(here + pointer(index), value) for index, value in enumerate(part)]
