"""Finite languages: JSON Schemas whose every answer can be spelled out, for exact scoring."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from weighbridge.decision import Json
from weighbridge.schemas.references import Schema, foreign_references
from weighbridge.schemas.values import KEYWORDS, MAX_STRINGS, Values, spell

Path: TypeAlias = tuple[str, ...]

_PRODUCT_KEYWORDS = frozenset({"type", "properties", "required", "additionalProperties"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteField:
    """A field of the answer with a short list of permitted values.

    Args:
        name: the path joined with dots.
        path: property names from the root.
        options: every permitted value, in the schema's order.
        is_required: whether every valid answer has the field.
    """

    name: str
    path: Path
    options: tuple[Json, ...]
    is_required: bool


@dataclass(frozen=True, slots=True)
class Option:
    """One way to spell one value, and how one can see that it has ended.

    Args:
        value: the JSON value.
        text: its JSON text; without the opening quote where the literal before has it.
        closer: the character that ends it: the last of `text` for strings, objects and arrays.
            A number, true, false or null ends only where the next literal begins, so there it is
            the first character of that literal, or "" where the text ends as well.
    """

    value: Json
    text: str
    closer: str

    @property
    def stem(self) -> str:
        """The text up to its closer."""
        return self.text.removesuffix(self.closer)


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is the same in every string of the language."""

    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A place where the strings of the language differ.

    Args:
        path: property names from the root; () where whole answers are chosen between.
        options: at least one, all spelled differently.
    """

    path: Path
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class FiniteLanguage:
    """Every string that a finite schema permits: literals and independent choices in turn.

    The texts of the literals and of one option for each choice, joined, spell a string exactly.

    >>> words = language({
    ...     "type": "object", "required": ["category", "priority"], "additionalProperties": False,
    ...     "properties": {"category": {"enum": ["bug", "billing"]}, "priority": {"enum": [1, 2]}},
    ... })
    >>> [part.text for part in words.parts if isinstance(part, Literal)]
    ['{"category": "', ', "priority": ', '}']
    >>> [[(option.stem, option.closer) for option in choice.options] for choice in words.choices]
    [[('bug', '"'), ('billing', '"')], [('1', '}'), ('2', '}')]]
    >>> next(words.strings())
    '{"category": "bug", "priority": 1}'
    """

    parts: tuple[Literal | Choice, ...]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The parts where something is chosen."""
        return tuple(part for part in self.parts if isinstance(part, Choice))

    @property
    def turns(self) -> tuple[tuple[Choice, str], ...]:
        """Each choice with the literal behind it, "" where there is none."""
        turns: list[tuple[Choice, str]] = []
        for part in self.parts:
            if isinstance(part, Choice):
                turns.append((part, ""))
            elif turns:
                turns[-1] = (turns[-1][0], part.text)
        return tuple(turns)

    @property
    def count(self) -> int:
        """How many strings there are."""
        return math.prod(len(choice.options) for choice in self.choices)

    def strings(self) -> Iterator[str]:
        """Every string, the last choice varying fastest."""
        texts = (
            [part.text] if isinstance(part, Literal) else [option.text for option in part.options]
            for part in self.parts
        )
        return map("".join, itertools.product(*texts))

    def spell(self, chosen: Mapping[Path, Json]) -> str:
        """The string in which each choice has the given value.

        Raises:
            KeyError: a choice has no value.
            ValueError: a value is none of the options of its choice.
        """
        return "".join(
            part.text if isinstance(part, Literal) else _option(part, chosen[part.path]).text
            for part in self.parts
        )

    def value(self, chosen: Mapping[Path, Json]) -> Json:
        """The JSON value in which each choice has the given value; raises like `spell`."""
        value: Json = json.loads(self.spell(chosen))
        return value


def judged_fields(schema: Mapping[str, Json]) -> tuple[FiniteField, ...]:
    """The fields of an object schema whose values can be listed, nested objects included.

    Raises:
        TaskInvalid: as for `language`.

    >>> fields = judged_fields({"type": "object", "required": ["urgent"], "properties": {
    ...     "urgent": {"type": "boolean"}, "note": {"type": "string"}}})
    >>> [(f.name, f.options, f.is_required) for f in fields]
    [('urgent', (True, False), True)]
    """
    if any(foreign_references(schema)):
        return ()
    return tuple(_fields(Values(schema, scalars_only=True), schema, (), (), is_required=True))


def language(schema: Mapping[str, Json]) -> FiniteLanguage | None:
    """The language of a schema; None if it is not finite, too large to list, or empty.

    An object whose properties are all required and finite is a product of independent choices,
    so 200 labels by 4 priorities take 204 options; its size is not limited. What else is finite
    (optional properties, unions, tuples, keywords that tie fields together) is one choice between
    whole values, of which there may be `MAX_STRINGS`.

    Raises:
        TaskInvalid: an option is no JSON text (NaN, infinity, half a surrogate pair, a number of
            thousands of digits), or references repeat parts many thousands of times.
    """
    if any(foreign_references(schema)):
        return None
    parts = _parts(Values(schema), schema, (), (), after="")
    return None if parts is None else FiniteLanguage(tuple(_merged(parts)))


def _fields(
    values: Values, schema: Schema, path: Path, above: tuple[Schema, ...], *, is_required: bool
) -> Iterator[FiniteField]:
    target = values.object_at(schema, above)
    if target is None:
        options = values.of(schema)
        if path and options:
            name = ".".join(path)
            yield FiniteField(name=name, path=path, options=tuple(options), is_required=is_required)
        return
    required = target.get("required", ()) if target.get("type") == "object" else ()
    for name, part in target["properties"].items():
        needed = is_required and name in required
        yield from _fields(values, part, (*path, name), (*above, target), is_required=needed)


def _parts(
    values: Values, schema: Schema, path: Path, above: tuple[Schema, ...], *, after: str
) -> list[Literal | Choice] | None:
    """The parts of the language of `schema`, with `after` as the first character behind it."""
    target = values.object_at(schema, above)
    if target is None or not _is_product(target):
        options = values.of(schema)
        return None if not options else _choice(path, options, after)
    parts: list[Literal | Choice] = []
    for name, part in target["properties"].items():
        is_last = name == next(reversed(target["properties"]))
        inner = _parts(values, part, (*path, name), (*above, target), after="}" if is_last else ",")
        if inner is None:
            return None
        parts += [Literal(f"{', ' if parts else ''}{spell(name)}: "), *inner]
    return [Literal("{"), *parts, Literal("}")]


def _choice(path: Path, values: list[Json], after: str) -> list[Literal | Choice] | None:
    if len(values) > MAX_STRINGS and any(isinstance(value, list | dict) for value in values):
        return None
    texts = [spell(value) for value in values]
    # An opening quote that all options share is no part of the choice.
    quote = '"' if all(isinstance(value, str) for value in values) else ""
    closers = [text[-1] if text[-1] in '"]}' else after for text in texts]
    options = zip(values, (text.removeprefix(quote) for text in texts), closers, strict=True)
    return [Literal(quote), Choice(path, tuple(itertools.starmap(Option, options)))]


def _merged(parts: list[Literal | Choice]) -> Iterator[Literal | Choice]:
    """The parts with every run of literals made one, and empty ones left out."""
    for is_literal, run in itertools.groupby(parts, key=lambda part: isinstance(part, Literal)):
        if not is_literal:
            yield from run
        elif text := "".join(part.text for part in run if isinstance(part, Literal)):
            yield Literal(text)


def _option(choice: Choice, value: Json) -> Option:
    text = spell(value)
    for option in choice.options:
        if spell(option.value) == text:
            return option
    raise ValueError(f"not an option of {'.'.join(choice.path) or 'the answer'}")


def _is_product(schema: Mapping[str, Any]) -> bool:
    """Whether the properties of an object can be chosen independently of each other."""
    return (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and set(schema.get("required", ())) == set(schema["properties"])
        and KEYWORDS & schema.keys() <= _PRODUCT_KEYWORDS
    )
