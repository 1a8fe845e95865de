"""Flat schemas: all that holds at one place, whichever references and allOf it is spread over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.merging import BOTH, NARROWER, common_types, common_values
from weighbridge.schemas.references import Schema, pointer, resolve
from weighbridge.schemas.validation import AnswerValidator
from weighbridge.schemas.values import spell

# Whatever these say, the same values stay valid. `discriminator` and x-… come from OpenAPI,
# `propertyOrdering` from Gemini; `additionalItems` says nothing where `items` is one schema.
_ANNOTATIONS = (
    frozenset({"title", "description", "default", "examples", "example", "deprecated"})
    | {"readOnly", "writeOnly", "contentEncoding", "contentMediaType", "contentSchema"}
    | {"$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment"}
    | {"$defs", "definitions", "discriminator", "propertyOrdering", "additionalItems"}
)
_UNIONS = ("anyOf", "oneOf")


class Nothing(SchemaRefused):
    """No value is permitted at a place: a refusal, unless the place itself can be left out."""


class Part(NamedTuple):
    """A schema that holds at a place, perhaps beside others.

    Args:
        schema: itself.
        where: JSON pointer to it.
        without: its keywords that are left aside.
    """

    schema: Schema
    where: str
    without: frozenset[str] = frozenset()

    def said(self) -> Iterator[tuple[str, Any]]:
        """Its keywords and their values, but for those left aside."""
        assert not isinstance(self.schema, bool)
        return ((name, value) for name, value in self.schema.items() if name not in self.without)

    @property
    def restricts(self) -> bool:
        """Whether it has any say in what is valid."""
        return self.schema is False or any(not is_annotation(name) for name, _ in self.said())


# All parts hold for every value at the place. Its key is equal for equal places.
Place: TypeAlias = tuple[Part, ...]
Key: TypeAlias = frozenset[tuple[str, frozenset[str]]]


class Said(NamedTuple):
    """The value of a keyword, and the JSON pointer to the schema that says it."""

    value: Any
    where: str


class Union(NamedTuple):
    """An anyOf or oneOf, the rest of its place distributed over its members."""

    keyword: str
    where: str
    members: tuple[Place, ...]


@dataclass(slots=True)
class Flat:
    """What the parts of a place say together. None of them has a reference, allOf or union.

    Args:
        said: keywords with one value.
        sayers: by keyword of `said`, the pointers to all who say it.
        also: what is said a second time and does not fold into the first.
        properties: place by name.
        required: names that must be there, with who says so.
        additional: the place of names that are not in `properties`; None where nobody says.
        items: the place of all items behind the first ones; None where nobody says.
        first_items: places of the first items.
    """

    said: dict[str, Said] = field(default_factory=dict)
    sayers: dict[str, list[str]] = field(default_factory=dict)
    also: list[tuple[str, Said]] = field(default_factory=list)
    properties: dict[str, Place] = field(default_factory=dict)
    required: dict[str, str] = field(default_factory=dict)
    additional: Place | None = None
    items: Place | None = None
    first_items: tuple[Place, ...] = ()


def is_annotation(keyword: str) -> bool:
    """Whether a keyword only tells something about a value, without restricting it."""
    return keyword in _ANNOTATIONS or keyword.startswith("x-")


class Places:
    """Looks up what holds where in one document.

    Args:
        root: the document; its references have been checked to stay inside.
        dialect: whose refusals these are.
    """

    def __init__(self, root: Schema, dialect: str = "") -> None:
        self._root, self._dialect = root, dialect
        self._validator = AnswerValidator(root)

    def whole(self) -> Place:
        """The place of the whole document."""
        return (Part(self._root, ""),)

    def expand(self, place: Place) -> Place:
        """The same with references and allOf followed to the schemas behind them.

        Raises:
            Nothing: one of them is false.
            SchemaRefused: one contains itself with nothing between.
        """
        found: dict[tuple[str, frozenset[str]], Part] = {}
        pending = [(part, frozenset[str]()) for part in reversed(place)]
        while pending:
            part, above = pending.pop()
            if part.where in above:
                self._refuse(part.where, "$ref", "the schema is nothing but itself")
            if part.schema is True or (part.where, part.without) in found:
                continue
            if part.schema is False:
                where, _, keyword = part.where.rpartition("/")
                if keyword != "additionalProperties":
                    where, keyword = part.where, "false"
                raise Nothing(self._dialect, where, keyword, "no value is permitted here")
            above |= {part.where}
            inner: list[Part] = []
            if "$ref" in part.schema and "$ref" not in part.without:
                target = part.schema["$ref"]
                referred = resolve(self._root, target)
                assert referred is not None
                inner.append(Part(referred, unquote(target).removeprefix("#")))
            if "allOf" in part.schema and "allOf" not in part.without:
                inner += [
                    Part(member, part.where + pointer("allOf", index))
                    for index, member in enumerate(part.schema["allOf"])
                ]
            found[part.where, part.without] = part._replace(
                without=part.without | {"$ref", "allOf"}
            )
            pending += [(member, above) for member in reversed(inner)]
        return tuple(found.values())

    def union(self, parts: Place) -> Union | None:
        """The first anyOf or oneOf of expanded parts, if there is one."""
        for index, part in enumerate(parts):
            for keyword, members in part.said():
                if keyword in _UNIONS:
                    rest = part._replace(without=part.without | {keyword})
                    others = [p for p in (*parts[:index], rest, *parts[index + 1 :]) if p.restricts]
                    silent = [_without_annotations(p) for p in others]
                    places = tuple(
                        (*silent, Part(member, part.where + pointer(keyword, number)))
                        for number, member in enumerate(members)
                    )
                    return Union(keyword, part.where, places)
        return None

    def flatten(self, parts: Place) -> Flat:
        """Expanded parts without unions, made one.

        Raises:
            Nothing: together they permit nothing.
            SchemaRefused: what they say cannot be folded into one schema.
        """
        flat = Flat()
        for part in parts:
            for keyword, value in part.said():
                if keyword not in _SHAPES:
                    self._fold(flat, keyword, Said(value, part.where))
        self._objects(flat, parts)
        self._arrays(flat, parts)
        return flat

    def permits(self, place: Place, value: Json) -> bool:
        """Whether a value is valid for every part of a place, as the original has them."""
        return bool(self.permitted(place, [value]))

    def permitted(self, place: Place, values: Sequence[Json]) -> list[Json]:
        """Those of the values that are."""
        schemas = [dict(part.said()) if part.without else part.schema for part in place]
        rules = [self._validator.evolve(schema=schema) for schema in schemas]
        return [value for value in values if all(rule.is_valid(value) for rule in rules)]

    def _fold(self, flat: Flat, keyword: str, said: Said) -> None:
        other = flat.said.setdefault(keyword, said)
        flat.sayers.setdefault(keyword, []).append(said.where)
        if other is said or is_annotation(keyword) or spell(other.value) == spell(said.value):
            return
        if keyword == "type":
            both: Any = common_types(other.value, said.value)
        elif keyword in ("enum", "const"):
            both = common_values(keyword, other.value, said.value)
        elif keyword in NARROWER:
            both = NARROWER[keyword](other.value, said.value)
        elif keyword in BOTH:
            flat.also.append((keyword, said))
            flat.sayers[keyword].pop()
            return
        else:
            self._refuse(said.where, keyword, f"{other.where or '/'} says it too, and differently")
        if both == []:
            raise Nothing(
                self._dialect, said.where, keyword, f"{other.where or '/'} permits nothing of it"
            )
        flat.said[keyword] = Said(both, other.where if both == other.value else said.where)

    def _objects(self, flat: Flat, parts: Place) -> None:
        schemas = [(part, dict(part.said())) for part in parts]
        names = {name: None for _, schema in schemas for name in schema.get("properties", ())}
        for part, schema in schemas:
            flat.required |= {
                name: part.where for name in schema.get("required", ()) if name not in flat.required
            }
            own, rest = schema.get("properties", {}), schema.get("additionalProperties")
            for name in names:
                if name in own:
                    inner = Part(own[name], part.where + pointer("properties", name))
                elif rest is not None and "patternProperties" in schema:
                    self._refuse(part.where, "patternProperties", "another schema adds names")
                elif rest is not None:
                    inner = Part(rest, part.where + pointer("additionalProperties"))
                else:
                    continue
                flat.properties[name] = (*flat.properties.get(name, ()), inner)
            if rest is not None:
                inner = Part(rest, part.where + pointer("additionalProperties"))
                flat.additional = (*(flat.additional or ()), inner)

    def _arrays(self, flat: Flat, parts: Place) -> None:
        for part in parts:
            schema = dict(part.said())
            if "prefixItems" in schema:
                if flat.first_items or flat.items is not None:
                    self._refuse(part.where, "prefixItems", "another schema has items too")
                flat.first_items = tuple(
                    (Part(item, part.where + pointer("prefixItems", index)),)
                    for index, item in enumerate(schema["prefixItems"])
                )
            elif "items" in schema and flat.first_items:
                self._refuse(part.where, "items", "another schema has prefixItems")
            if "items" in schema:
                inner = Part(schema["items"], part.where + pointer("items"))
                flat.items = (*(flat.items or ()), inner)

    def _refuse(self, where: str, keyword: str, problem: str) -> Any:
        raise SchemaRefused(self._dialect, where, keyword, problem)


def key(parts: Place) -> Key:
    """Equal for expanded places that permit the same by the same parts."""
    return frozenset((part.where, part.without) for part in parts if part.restricts)


_SHAPES = frozenset({"properties", "required", "additionalProperties", "items", "prefixItems"})


def _without_annotations(part: Part) -> Part:
    assert not isinstance(part.schema, bool)
    return part._replace(without=part.without | {n for n in part.schema if is_annotation(n)})
