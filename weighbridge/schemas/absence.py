"""Absence: null in place of optional properties where a wire demands them all, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from jsonschema.protocols import Validator
from jsonschema.validators import extend

from weighbridge.decision import Json
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.flat import Flat, Key, Place, Places, Union, key
from weighbridge.schemas.losses import Loss, without_losses
from weighbridge.schemas.references import schema_at
from weighbridge.schemas.validation import AnswerValidator

# Whether a oneOf has exactly one match is never what tells its members apart.
# (types-jsonschema leaves `extend` untyped.)
_RelaxedValidator = extend(  # type: ignore[no-untyped-call]
    AnswerValidator, {"oneOf": AnswerValidator.VALIDATORS["anyOf"]}
)


def reverse(value: Json, original: Mapping[str, Json], losses: Iterable[Loss] = ()) -> Json:
    """The value without the nulls that stand for absent optional properties.

    A null that the original permits stays.

    Args:
        value: anything; what fits the schema nowhere is returned as it is.
        original: a schema that a dialect has accepted.
        losses: what its wire form lacks. Where an answer breaks one of these, they help to find
            the member of a union that was meant.

    >>> reverse({"note": None}, {"type": "object", "properties": {"note": {"type": "string"}}})
    {}
    """
    return _translated(value, _Reverser(original, losses))


def forward(value: Json, original: Mapping[str, Json]) -> Json:
    """The value with a null for every optional property that it lacks.

    Args:
        value: valid for the original.
        original: a schema that a dialect has accepted.

    >>> forward({}, {"type": "object", "properties": {"note": {"type": "string"}}})
    {'note': None}
    """
    return _translated(value, _Forwarder(original))


def _translated(value: Json, translator: _Translator) -> Json:
    try:
        return translator.of(value, translator.places.whole())
    except RecursionError:  # nested so deeply that no validator can follow: it is refused later
        return value


class _Translator:
    """Walks a value along the places that its parts are at."""

    def __init__(self, original: Mapping[str, Json]) -> None:
        self.places = Places(original)
        self._known: dict[Key, Union | Flat | None] = {}
        self._done: dict[tuple[int, Key], Json] = {}

    def of(self, value: Json, place: Place) -> Json:
        if not isinstance(value, dict | list):
            return value
        try:
            parts = self.places.expand(place)
        except SchemaRefused:  # no value is permitted here
            return value
        # Members of unions ask for the same again and again. The values outlive the walk, so
        # their ids are their own.
        memory = id(value), key(parts)
        if memory not in self._done:
            self._done[memory] = self._of(value, parts)
        return self._done[memory]

    def _of(self, value: dict[str, Json] | list[Json], parts: Place) -> Json:
        known = self._shape(parts)
        if isinstance(known, Union):
            return self._member(value, known)
        if known is None:
            return value
        if isinstance(value, dict):
            return self._object(value, known)
        first = known.first_items
        return [
            self.of(item, first[index] if index < len(first) else known.items or ())
            for index, item in enumerate(value)
        ]

    def _shape(self, parts: Place) -> Union | Flat | None:
        core = key(parts)
        if core not in self._known:
            try:
                self._known[core] = self.places.union(parts) or self.places.flatten(parts)
            except SchemaRefused:
                self._known[core] = None
        return self._known[core]

    def _object(self, value: dict[str, Json], flat: Flat) -> Json:
        raise NotImplementedError

    def _member(self, value: Json, union: Union) -> Json:
        raise NotImplementedError


class _Reverser(_Translator):
    def __init__(self, original: Mapping[str, Json], losses: Iterable[Loss]) -> None:
        super().__init__(original)
        self._original, self._losses = original, losses

    @cached_property
    def _relaxed(self) -> Validator:
        relaxed: Validator = _RelaxedValidator(without_losses(self._original, self._losses))
        return relaxed

    def _nearly_permits(self, place: Place, value: Json) -> bool:
        """Whether a value is valid for a place but for what the wire lacks."""
        root = self._relaxed.schema
        for part in place:
            schema = schema_at(root, part.where)
            if isinstance(schema, Mapping):
                schema = {name: said for name, said in schema.items() if name not in part.without}
            if not self._relaxed.evolve(schema=schema).is_valid(value):
                return False
        return True

    def _object(self, value: dict[str, Json], flat: Flat) -> Json:
        return {
            name: self.of(item, flat.properties.get(name, ()))
            for name, item in value.items()
            if item is not None
            or name in flat.required
            or name not in flat.properties
            or self.places.permits(flat.properties[name], None)
        }

    def _member(self, value: Json, union: Union) -> Json:
        """The value reversed for the member of a union that it fits."""
        candidates = [(place, self.of(value, place)) for place in union.members]
        different: list[Any] = []
        different += [c for _, c in candidates if c not in different]
        if len(different) == 1:
            return candidates[0][1]
        for permits in (self.places.permits, self._nearly_permits):
            for place, candidate in candidates:
                if permits(place, candidate):
                    return candidate
        return value


class _Forwarder(_Translator):
    def _object(self, value: dict[str, Json], flat: Flat) -> Json:
        written = {
            name: self.of(item, flat.properties.get(name, ())) for name, item in value.items()
        }
        for name in flat.properties:
            if name not in written and name not in flat.required:
                written[name] = None
        return written

    def _member(self, value: Json, union: Union) -> Json:
        for place in union.members:
            if self.places.permits(place, value):
                return self.of(value, place)
        return value
