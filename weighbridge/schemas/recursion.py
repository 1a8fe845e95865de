"""Recursion: what becomes of a place that is met again inside itself."""

from __future__ import annotations

from typing import TypeAlias

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.dialects import Dialect
from weighbridge.schemas.flat import Key, Nothing
from weighbridge.schemas.limits import Budget
from weighbridge.schemas.losses import Loss
from weighbridge.schemas.wires import Wire, plain_name

_MAX_UNROLLED = 3  # times that a schema is written out inside itself

# The places that hold the one that is written, each with the depth at which it began.
Above: TypeAlias = tuple[tuple[Key, int], ...]


class Recursion:
    """Refers to what is being written, cuts it off, or refuses it, as the dialect has it.

    Args:
        dialect: decides.
        budget: counts the names of definitions.
    """

    def __init__(self, dialect: Dialect, budget: Budget) -> None:
        self.cuts: dict[Loss, None] = {}
        self.definitions: dict[str, Json] = {}
        self._dialect, self._budget = dialect, budget
        self._references: dict[Key, str] = {}

    def met(self, core: Key, here: str, above: Above, depth: int) -> Wire | None:
        """What to write for a place instead of itself; None if it is to be written.

        Raises:
            Nothing: it has been written out often enough.
            SchemaRefused: the dialect has no recursion, or there is nothing to write.
        """
        depths = [begun for other, begun in above if other == core]
        if depth in depths:
            self._refuse(here, "the schema is nothing but itself")
        if self._dialect.recursion == "kept":
            if depths and core not in self._references:
                is_whole = core == above[0][0]
                self._references[core] = "#" if is_whole else f"#/$defs/{self._name(core)}"
            return {"$ref": self._references[core]} if core in self._references else None
        if depths and self._dialect.recursion == "refused":
            self._refuse(here, "the schema contains itself")
        if len(depths) > _MAX_UNROLLED:
            self.cuts[Loss(here, "$ref", "narrowed")] = None
            problem = f"it contains itself, and is written out {_MAX_UNROLLED} times"
            raise Nothing(self._dialect.name, here, "$ref", problem)
        return None

    def is_referred_to(self, core: Key) -> bool:
        """Whether anything that has been written refers to the place."""
        return core in self._references

    def define(self, core: Key, wire: Wire) -> Wire:
        """A reference to a place that is referred to, with its wire form put by."""
        self.definitions[self._references[core].removeprefix("#/$defs/")] = wire
        return {"$ref": self._references[core]}

    def _name(self, core: Key) -> str:
        """A name for a definition, free of what must be escaped in a pointer."""
        where = max(where for where, _ in core)
        stem = plain_name(where.rpartition("/")[2]) or "part"
        taken = {reference.removeprefix("#/$defs/") for reference in self._references.values()}
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        self._budget.chars([name], where, "$ref")
        return name

    def _refuse(self, where: str, problem: str) -> None:
        raise SchemaRefused(self._dialect.name, where, "$ref", problem)
