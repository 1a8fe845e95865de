"""Plans: what one dialect of JSON Schema gets, what it loses, and the way back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weighbridge.decision import Json
from weighbridge.schemas import openai_dialect
from weighbridge.schemas.losses import Loss
from weighbridge.schemas.reverse import reverse

__all__ = ["Loss", "SchemaPlan", "plan_openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """One schema, made ready for one dialect.

    Whatever is valid for `wire` is, reversed, valid for `original`, but for the `losses`.

    Args:
        dialect: whose wire format it is.
        name: what the wire calls the schema: 1 to 64 of a-z, A-Z, 0-9, _ and -.
        original: the schema that answers are checked against in the end.
        wire: the schema that is sent.
        losses: constraints that `wire` lacks; its descriptions tell them in words.
    """

    dialect: str
    name: str
    original: Mapping[str, Json]
    wire: dict[str, Json]
    losses: tuple[Loss, ...]

    def reverse(self, value: Json) -> Json:
        """The value without the nulls that stand for absent optional properties."""
        return reverse(value, self.original)


def plan_openai(schema: Mapping[str, Json], *, name: str = "answer") -> SchemaPlan:
    """The plan for OpenAI's strict mode, and for all who copied it.

    Objects that leave further properties open without a word are closed: what a model may say
    becomes less, never more. Objects that open themselves on purpose are refused.

    Args:
        schema: a valid JSON Schema of draft 2020-12.
        name: of the schema; characters that the wire does not take become "_".

    Raises:
        SchemaRefused: with the pointer and the keyword that strict mode cannot enforce.
        TaskInvalid: an enum holds what JSON cannot spell.

    >>> plan = plan_openai({"type": "object", "properties": {
    ...     "category": {"enum": ["bug", "billing"]},
    ...     "note": {"type": "string", "maxLength": 80}}, "required": ["category"]})
    >>> plan.wire["properties"]["note"]
    {'description': 'at most 80 characters', 'type': ['string', 'null']}
    >>> [str(loss) for loss in plan.losses]
    ['maxLength at /properties/note']
    >>> plan.reverse({"category": "bug", "note": None})
    {'category': 'bug'}
    """
    wire, losses = openai_dialect.write(schema)
    return SchemaPlan(
        dialect=openai_dialect.DIALECT,
        name=re.sub("[^a-zA-Z0-9_-]", "_", name)[:64] or "answer",
        original=schema,
        wire=wire,
        losses=losses,
    )
