r"""Validation: JSON Schema (draft 2020-12) asked about answers, whose size and wit are not ours.

Whoever writes a ticket can have a say in the answer. With Python's own regular expressions, 30
characters against `^(\w+\s?)*$` take minutes; and two thousand objects are compared in pairs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema

from weighbridge.decision import Json
from weighbridge.schemas.merging import same

MAX_VIOLATIONS = 8

_MOST_VALID = 1000  # answers that are remembered

_Errors: TypeAlias = Iterator[ValidationError]

# What Rust's syntax means otherwise: sets in sets, their operations, possessive repetitions, marks
# of words, a comma without a least number.
_PYTHON_ALONE = re.compile(r"\[[^\]]*\[|&&|--|~~|[*+?}]\+|\\[<>]|\\b\{")


def property_names(schema: Any) -> frozenset[str]:
    """Every name that a schema gives to a property, wherever in it.

    >>> sorted(property_names({"properties": {"a": {"items": {"properties": {"b": {}}}}}}))
    ['a', 'b']
    """
    names: set[str] = set()
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            properties = part.get("properties")
            names.update(properties if isinstance(properties, Mapping) else ())
            left += part.values()
        elif isinstance(part, list):
            left += part
    return frozenset(names)


def pointer(path: Iterable[str | int], names: Collection[str]) -> str:
    """A place in an answer that can be shown: keys that are no names of the schema's are `*`.

    Those an answer has made up itself, perhaps from what stands in the ticket.

    >>> pointer(["notes", "ann@example.org", 2, "text"], {"notes", "text"})
    '/notes/*/2/text'
    """
    steps = (step if isinstance(step, int) or step in names else "*" for step in path)
    return f"/{'/'.join(map(str, steps))}"


def matches(pattern: str, text: str) -> bool:
    r"""Whether a pattern is found in a text, in time that grows with the text alone.

    Patterns with lookaround or back references, and few others, are run by Python's `re`, which
    knows no such limit: those must come from an author who has thought of hostile texts. As in
    ECMAScript `$` is the very end; Python's would let a line break follow.

    Args:
        pattern: that Python can read as well.
        text: anything.

    >>> matches(r"^(\w+\s?)*$", "a" * 50_000 + "!")
    False
    """
    return _finder(pattern)(text)


@lru_cache(maxsize=512)
def _finder(pattern: str) -> Callable[[str], bool]:
    if not _PYTHON_ALONE.search(pattern):
        try:
            # Rust's `regex`, which pydantic brings along.
            linear = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
            return SchemaValidator(linear).isinstance_python
        except SchemaError:  # what it cannot do in linear time it does not read
            pass
    search = re.compile(pattern).search
    return lambda text: search(text) is not None


def _pattern(validator: Validator, pattern: str, value: Any, schema: Any) -> _Errors:
    if validator.is_type(value, "string") and not matches(pattern, value):
        yield ValidationError("no match")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], value: Any, schema: Any
) -> _Errors:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in patterns.items():
        for name, item in value.items():
            if matches(pattern, name):
                yield from validator.descend(item, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, further: Any, value: Any, schema: Any) -> _Errors:
    if not validator.is_type(value, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    rest = {
        name: item
        for name, item in value.items()
        if name not in named and not any(matches(pattern, name) for pattern in patterns)
    }
    yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, further, rest, {})


def _unique_items(validator: Validator, is_asked: bool, value: Any, schema: Any) -> _Errors:
    if is_asked and validator.is_type(value, "array") and len(set(map(same, value))) < len(value):
        yield ValidationError("an item stands there twice")


# (types-jsonschema leaves `extend` untyped.)
AnswerValidator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    },
)


class AnswerCheck:
    """The schema that answers to one question must keep.

    Args:
        schema: draft 2020-12.
        remembers: whether answers that were valid are known again: the same few come again and
            again, and checking takes long. Not where they may hold text of a customer's.
    """

    def __init__(self, schema: Mapping[str, Json], *, remembers: bool) -> None:
        checker = Draft202012Validator.FORMAT_CHECKER
        self._validator: Validator = AnswerValidator(schema, format_checker=checker)
        self._names = property_names(schema)
        self._remembers = remembers
        self._valid: set[str] = set()  # as JSON, where True is not 1

    def violations(self, value: Json) -> list[str]:
        """Where a value breaks the schema: "keyword at /pointer", without its own words.

        At most `MAX_VIOLATIONS`: nobody reads more, and an answer could break it everywhere.
        """
        try:
            if not self._remembers:
                return self._found(value)
            text = json.dumps(value)
            found = [] if text in self._valid else self._found(value)
        except RecursionError:
            return ["depth at /"]  # nobody could say whether it is valid
        if not found and len(self._valid) < _MOST_VALID:
            self._valid.add(text)
        return found

    def pointer(self, path: Iterable[str | int]) -> str:
        """A place in an answer, without keys that the schema does not name."""
        return pointer(path, self._names)

    def _found(self, value: Json) -> list[str]:
        return [
            f"{error.validator} at {self.pointer(error.absolute_path)}"
            for error in islice(self._validator.iter_errors(value), MAX_VIOLATIONS)
        ]
