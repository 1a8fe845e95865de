"""References: how one part of a JSON Schema names another part of the same document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any] | bool

# These give a part of the document an address of its own, or make an address depend on how the
# part was reached. An anchor alone does not: who refers to it is found.
_ADDRESSES = frozenset({"$id", "$dynamicRef", "$recursiveRef"})
_DATA = frozenset({"const", "enum", "default", "examples"})  # hold values, not schemas
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions"})


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
    # The third says whether the keys of a mapping are names that somebody gave.
    pending: list[tuple[str, Any, bool]] = [("", schema, False)]
    while pending:
        here, part, is_named = pending.pop()
        if isinstance(part, Mapping):
            for name, value in part.items():
                if not is_named and name in _DATA:
                    continue
                is_root_id = name == "$id" and part is schema
                is_lost = (
                    name == "$ref" and isinstance(value, str) and resolve(schema, value) is None
                )
                # A property may be called "$ref"; only a text is a reference.
                if isinstance(value, str) and not is_root_id and (name in _ADDRESSES or is_lost):
                    yield here, name
                names_follow = not is_named and (name in _BY_NAME or name == "dependentSchemas")
                pending.append((here + pointer(name), value, names_follow))
        elif isinstance(part, list):
            pending += [(here + pointer(index), inner, False) for index, inner in enumerate(part)]
