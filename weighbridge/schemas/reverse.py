"""The way back: from a value that a wire schema permits to one for the original schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from weighbridge.decision import Json
from weighbridge.schemas.flat import flatten
from weighbridge.schemas.losses import LOSABLE, has_lookaround
from weighbridge.schemas.references import Schema


def reverse(value: Json, original: Mapping[str, Json]) -> Json:
    """The value without the nulls that stand for absent optional properties.

    A null at a required property stays: there the original itself permits it.

    Args:
        value: anything; what fits the schema nowhere is returned as it is.
        original: a schema that a dialect has accepted.

    >>> reverse({"note": None}, {"type": "object", "properties": {"note": {"type": "string"}}})
    {}
    """
    return _Reverser(original).of(value, original)


def _ignored(*_: Any) -> Iterator[ValidationError]:
    return iter(())


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Any:
    if has_lookaround(pattern):
        return _ignored()
    return Draft202012Validator.VALIDATORS["pattern"](validator, pattern, value, schema)


# Knows what the wire knows. Where an answer breaks a constraint that the wire lost, this finds the
# member of a union that the model meant. (types-jsonschema leaves `extend` untyped.)
_WireValidator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    dict.fromkeys(LOSABLE, _ignored)
    | {"oneOf": Draft202012Validator.VALIDATORS["anyOf"], "pattern": _pattern},
)


class _Reverser:
    def __init__(self, original: Schema) -> None:
        self._original = original

    def of(self, value: Json, schema: Schema) -> Json:
        if not isinstance(value, dict | list):
            return value
        flat = flatten(self._original, schema, "", above=frozenset(), dialect="")
        for union in ("anyOf", "oneOf"):
            if union in flat:
                return self._member(value, flat[union].value)
        if isinstance(value, list):
            items = flat["items"].value if "items" in flat else True
            return [self.of(item, items) for item in value]
        properties = flat["properties"].value if "properties" in flat else {}
        required = flat["required"].value if "required" in flat else ()
        return {
            name: self.of(item, properties.get(name, True))
            for name, item in value.items()
            if item is not None or name in required or name not in properties
        }

    def _member(self, value: Json, members: list[Schema]) -> Json:
        """The value reversed for the member of a union that it fits."""
        candidates = [(member, self.of(value, member)) for member in members]
        for kind in (Draft202012Validator, _WireValidator):
            validator = kind(self._original)
            for member, candidate in candidates:
                if validator.evolve(schema=member).is_valid(candidate):
                    return candidate
        return value
