"""Limits: counts what has been written of a wire schema, and refuses what is too much."""

from __future__ import annotations

from collections.abc import Iterable

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.dialects import Dialect

_MAX_PARTS = 20_000  # ours: references that double must end before memory does
_MAX_LEVELS = 64  # ours: parts in each other, unions too; the writer calls itself
_HOLDERS = frozenset({"properties", "additionalProperties", "items", "anyOf", "oneOf"})


class Budget:
    """What one wire schema has used of its dialect's limits.

    Every method raises SchemaRefused with the pointer and keyword that it is given.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect, self._limits = dialect, dialect.limits
        self._num_parts = self._num_properties = self._num_enum_values = 0
        self._num_chars = self._num_optional = self._num_unions = 0

    def part(self, where: str, level: int) -> None:
        """One more place, at a level that counts unions too."""
        self._num_parts += 1
        self._check(self._num_parts, _MAX_PARTS, where, "$ref", "parts, references written out")
        keywords = [token for token in where.split("/") if token in _HOLDERS]
        keyword = keywords[-1] if keywords else "$ref"
        self._check(level, _MAX_LEVELS, where, keyword, "parts in each other")

    def container(self, depth: int, where: str, keyword: str) -> None:
        """One more object or array, at a depth that counts these alone."""
        self._check(depth, self._limits.depth, where, keyword, "levels of nesting")

    def properties(self, names: Iterable[str], num_optional: int, where: str) -> None:
        """The properties of one more object."""
        names = list(names)
        self._num_properties += len(names)
        self._num_optional += num_optional
        most = self._limits
        self._check(self._num_properties, most.properties, where, "properties", "properties in all")
        self._check(self._num_optional, most.optional, where, "required", "optional properties")
        self.chars(names, where, "properties")

    def enum(self, values: Iterable[Json], where: str, keyword: str) -> None:
        """The values of one more enum."""
        values = list(values)
        texts = [value for value in values if isinstance(value, str)]
        self._num_enum_values += len(values)
        most = self._limits
        self._check(self._num_enum_values, most.enum_values, where, keyword, "values in all enums")
        self.chars(texts, where, keyword)
        if len(values) > 250:
            num_chars = sum(map(len, texts))
            self._check(num_chars, most.long_enum_chars, where, keyword, "characters in one enum")

    def union(self, where: str, keyword: str) -> None:
        """One more place with several types."""
        self._num_unions += 1
        self._check(self._num_unions, self._limits.unions, where, keyword, "unions in all")

    def chars(self, texts: Iterable[str], where: str, keyword: str) -> None:
        """Names or strings that are sent."""
        self._num_chars += sum(map(len, texts))
        self._check(self._num_chars, self._limits.chars, where, keyword, "characters in all names")

    def _check(self, number: int, most: int | None, where: str, keyword: str, what: str) -> None:
        if most is not None and number > most:
            raise SchemaRefused(self._dialect.name, where, keyword, f"more than {most} {what}")
