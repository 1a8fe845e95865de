"""Exclusion: whether no value can be valid for two members of a oneOf."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from weighbridge.errors import SchemaRefused
from weighbridge.schemas.flat import Flat, Place, Places
from weighbridge.schemas.merging import common_types, same, type_list


class _Traits(NamedTuple):
    """What tells members apart: their types, and the values that required properties list."""

    types: list[str]
    tags: dict[str, set[object]]


def exclude_each_other(places: Places, members: Sequence[Place]) -> bool:
    """Whether the members differ in type or in a tag. False says only that nobody can see it."""
    try:
        traits = [_traits(places, member) for member in members]
    except SchemaRefused:  # one of them permits nothing, or cannot be read
        return False
    return all(
        one and other and _exclude(one, other) for one, other in itertools.combinations(traits, 2)
    )


def _exclude(one: _Traits, other: _Traits) -> bool:
    common = common_types(one.types, other.types)
    names = one.tags.keys() & other.tags.keys()
    has_tag = any(one.tags[name].isdisjoint(other.tags[name]) for name in names)
    return not common or (common == ["object"] and has_tag)


def _traits(places: Places, place: Place) -> _Traits | None:
    flat = _flat(places, place)
    if flat is None or "type" not in flat.said:
        return None
    tags = {}
    for name in flat.required:
        inner = _flat(places, flat.properties.get(name, ()))
        said = inner.said if inner else {}
        values = [said["const"].value] if "const" in said else None
        values = said["enum"].value if "enum" in said and values is None else values
        if values is not None:
            tags[name] = {same(value) for value in values}
    return _Traits(type_list(flat.said["type"].value), tags)


def _flat(places: Places, place: Place) -> Flat | None:
    parts = places.expand(place)
    return None if places.union(parts) else places.flatten(parts)
