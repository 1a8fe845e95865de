"""Restrictions: which keywords of a flat schema a dialect sends, and which are lost."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.dialects import Dialect
from weighbridge.schemas.flat import Flat, Nothing, Said, is_annotation
from weighbridge.schemas.losses import LOSABLE, Loss, in_words
from weighbridge.schemas.values import KEYWORDS

_NUMBERS = ("integer", "number")
_TYPES = (
    dict.fromkeys(("minLength", "maxLength", "pattern", "format"), ("string",))
    | dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBERS)
    | {"multipleOf": _NUMBERS}
    | dict.fromkeys(("minItems", "maxItems", "uniqueItems", "contains"), ("array",))
    | dict.fromkeys(("minContains", "maxContains"), ("array",))
    | dict.fromkeys(("minProperties", "maxProperties", "propertyNames"), ("object",))
    | {"dependentRequired": ("object",)}
)
_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
_LEAST = frozenset({"minLength", "minItems", "minProperties"})  # 0 says nothing
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
# The smallest or largest integer that a bound leaves.
_WHOLE: Mapping[str, Callable[[Any], int]] = MappingProxyType(
    {
        "minimum": math.ceil,
        "exclusiveMinimum": lambda bound: math.floor(bound) + 1,
        "maximum": math.floor,
        "exclusiveMaximum": lambda bound: math.ceil(bound) - 1,
    }
)
_REFUSED = dict.fromkeys(
    ("if", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef"),
    "no wire has it",
) | dict.fromkeys(
    ("nullable", "dependencies", "divisibleBy", "disallow", "extends"),
    "draft 2020-12 does not know it, so nobody would check it",
)
_KNOWN = LOSABLE | KEYWORDS | {"then", "else"}
_BY_CASE = {name.casefold(): name for name in KEYWORDS}


class Restrictions:
    """The keywords of one place that restrict values without giving them their shape.

    Args:
        flat: the place.
        types: that its values may have; what restricts no value of these is no loss.
        dialect: decides.
    """

    def __init__(self, flat: Flat, types: Sequence[str], dialect: Dialect) -> None:
        self.losses: list[Loss] = []
        self.words: list[str] = []
        self._dialect, self._types, self._sayers = dialect, types, flat.sayers
        said = {
            name: one
            for name, one in flat.said.items()
            if name in LOSABLE and self._matters(name, one.value)
        }
        if "contains" not in said:  # then nothing is counted
            said = {name: said[name] for name in said if name not in ("minContains", "maxContains")}
        self._counts = {name: said[name].value for name in ("minItems", "maxItems") if name in said}
        self._said = said
        self._sent: dict[str, Json] = {}
        for name, one in said.items():
            self._decide(name, one, said)
        for name, one in flat.also:
            if self._matters(name, one.value):
                self._lose(name, one.value, [one.where])

    @property
    def is_any(self) -> bool:
        """Whether anything is restricted at all."""
        return bool(self._sent or self.losses)

    @property
    def least_items(self) -> int:
        """The minItems of the original, 0 if there is none."""
        return int(self._counts.get("minItems", 0))

    @property
    def most_items(self) -> int | None:
        """The maxItems of the original."""
        most = self._counts.get("maxItems")
        return None if most is None else int(most)

    def possible(self) -> list[str]:
        """The types that bounds and counts leave any value of.

        Raises:
            Nothing: there is none.
        """
        left = [name for name in self._types if not self._is_empty(name)]
        if not left:
            name = next(name for name in _UPPER if name in self._said)
            problem = "no value lies between the bounds"
            raise Nothing(self._dialect.name, self._said[name].where, name, problem)
        return left

    def take_over_counts(self, least: int, most: int | None) -> None:
        """Send these counts and no others: without them the items would mean something else."""
        self.losses = [x for x in self.losses if x.keyword not in ("minItems", "maxItems")]
        self._sent.pop("minItems", None)
        self._sent.pop("maxItems", None)
        self._sent |= {"minItems": least} if least else {}
        self._sent |= {"maxItems": most} if most is not None else {}

    def sent_to(self, types: Sequence[str]) -> dict[str, Json]:
        """The keywords on the wire for values of some of the types."""
        return {n: v for n, v in self._sent.items() if set(_TYPES[n]) & set(types)}

    def _matters(self, name: str, value: Any) -> bool:
        if (name in _LEAST and value == 0) or (name == "uniqueItems" and not value):
            return False
        return bool(set(_TYPES.get(name, self._types)) & set(self._types))

    def _decide(self, keyword: str, one: Said, said: dict[str, Said]) -> None:
        name, value = keyword, one.value
        if name in _COUNTS:
            value = int(value)  # 2.0 is a count too, but not to every server
        if name in _BOUNDS and "number" not in self._types:
            name, value = self._integer_bound(name, value)
        if self._is_sent(name, value, said):
            self._sent[name] = value if name not in self._sent else self._tighter(name, value)
            return
        most = self._dialect.most_items
        if name == "minItems" and name in self._dialect.keywords and most is not None:
            self._sent[name] = most  # the weaker bound still helps
        self._lose(keyword, one.value, self._sayers[keyword])

    def _is_empty(self, type_name: str) -> bool:
        said = {name: one.value for name, one in self._said.items()}
        match type_name:
            case "integer":
                lows = [_WHOLE[n](said[n]) for n in _LOWER[:2] if n in said]
                highs = [_WHOLE[n](said[n]) for n in _UPPER[:2] if n in said]
                return bool(lows and highs) and max(lows) > min(highs)
            case "number":
                low = max(
                    ((said[n], n != "minimum") for n in _LOWER[:2] if n in said), default=None
                )
                high = min(
                    ((said[n], n == "maximum") for n in _UPPER[:2] if n in said), default=None
                )
                if low is None or high is None:
                    return False
                is_point = low[0] == high[0]
                return bool(low[0] > high[0] or (is_point and (low[1] or not high[1])))
            case "string" | "array" | "object":
                noun = {"string": "Length", "array": "Items", "object": "Properties"}[type_name]
                return bool(said.get(f"min{noun}", 0) > said.get(f"max{noun}", math.inf))
            case _:
                return False

    def _integer_bound(self, name: str, value: Any) -> tuple[str, Any]:
        """The same bound of integers, whole, and inclusive where the dialect has no other."""
        if name in self._dialect.keywords and value == int(value):
            return name, int(value)
        inclusive = "minimum" if name in _LOWER else "maximum"
        if inclusive not in self._dialect.keywords:
            return name, value
        return inclusive, _WHOLE[name](value)

    def _tighter(self, name: str, value: Any) -> Json:
        other: Any = self._sent[name]
        best: Json = max(other, value) if name == "minimum" else min(other, value)
        return best

    def _is_sent(self, name: str, value: Any, said: dict[str, Said]) -> bool:
        dialect = self._dialect
        if name not in dialect.keywords:
            return False
        if name in _BOUNDS:
            return dialect.bounds_of_numbers or "number" not in self._types
        match name:
            case "pattern":
                return dialect.sends_pattern(value)
            case "format":
                has_pattern = "pattern" in said and dialect.sends_pattern(said["pattern"].value)
                is_alone = dialect.texts_combine or not has_pattern
                return value in dialect.formats and is_alone
            case "minLength" | "maxLength":
                return dialect.texts_combine or not (
                    ("pattern" in said and dialect.sends_pattern(said["pattern"].value))
                    or ("format" in said and said["format"].value in dialect.formats)
                )
            case "minItems" | "maxItems":
                return dialect.sends_count(name, value)
            case _:
                return True

    def _lose(self, name: str, value: Json, sayers: Sequence[str]) -> None:
        self.losses += [Loss(where, name) for where in sayers]
        self.words.append(in_words(name, value))


def check_known(flat: Flat, dialect: Dialect) -> None:
    """Refuse what could be neither sent nor checked.

    Raises:
        SchemaRefused: a keyword that needs to see what others have seen, that another dialect of
            JSON Schema restricts with, or that is misspelt.
    """
    pairs = [*flat.said.items(), *flat.also]
    for keyword, said in pairs:
        if keyword in _REFUSED:
            raise SchemaRefused(dialect.name, said.where, keyword, _REFUSED[keyword])
        # Any other word annotates; but one that is nearly a keyword was meant as one.
        is_other = keyword not in _KNOWN and not is_annotation(keyword) and keyword.isalpha()
        near = difflib.get_close_matches(keyword.casefold(), _BY_CASE if is_other else (), 1, 0.85)
        if near:
            problem = f"did you mean `{_BY_CASE[near[0]]}`?"
            raise SchemaRefused(dialect.name, said.where, keyword, problem)
        if keyword == "pattern":
            try:
                re.compile(said.value)
            except re.error:
                problem = "no regular expression that Python can check"
                raise SchemaRefused(dialect.name, said.where, keyword, problem) from None
