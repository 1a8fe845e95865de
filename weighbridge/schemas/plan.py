"""Plans: what one dialect of JSON Schema gets, what it loses, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weighbridge.decision import Json
from weighbridge.schemas.absence import forward, reverse
from weighbridge.schemas.dialects import Dialect, dialect_named
from weighbridge.schemas.losses import Loss
from weighbridge.schemas.wires import plain_name
from weighbridge.schemas.writer import Written, write

__all__ = ["Loss", "SchemaPlan", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """One schema, made ready for one dialect.

    Whatever is valid for `wire` is, reversed, valid for `original`, but for the unchecked
    `losses`. Whatever is valid for `original` can be said on the wire, but for the narrowed ones.

    Args:
        dialect: whose wire format it is.
        name: what the wire calls the schema: 1 to 64 of a-z, A-Z, 0-9, _ and -.
        original: the schema that answers are checked against in the end.
        wire: the schema that is sent.
        losses: where the two part ways; the descriptions of `wire` tell what it lacks in words.
        null_is_absent: whether null stands for optional properties that are left out; False where
            there are none, so that nothing is searched for them.
    """

    dialect: str
    name: str
    original: Mapping[str, Json]
    wire: dict[str, Json]
    losses: tuple[Loss, ...]
    null_is_absent: bool = False

    def reverse(self, value: Json) -> Json:
        """The value without the nulls that stand for absent optional properties.

        A null that the original permits stays, whoever meant to leave something out by it.
        """
        return reverse(value, self.original, self.losses) if self.null_is_absent else value

    def forward(self, value: Json) -> Json:
        """How a value that is valid for the original is said on the wire: for examples in prompts.

        What the wire cannot express (the narrowed losses) comes out as something else.
        """
        return forward(value, self.original) if self.null_is_absent else value


def plan(schema: Mapping[str, Json], dialect: str | Dialect, *, name: str = "answer") -> SchemaPlan:
    """The plan for one dialect.

    Objects that leave further properties open without a word are closed: what a model may say
    becomes less, never more, and the loss says so. For the dialect `prompt` any schema is planned
    as it is, with no losses: nothing is enforced there, and local validation does everything.

    Args:
        schema: a valid JSON Schema of draft 2020-12. What its patterns may cost on hostile answers
            is said at `validation.matches`.
        dialect: a name of `dialects.DIALECTS`, or a dialect of your own.
        name: of the schema; characters that the wire does not take become "_".

    Raises:
        SchemaRefused: with the pointer and the keyword that the dialect cannot enforce.
        TaskInvalid: an enum holds what JSON cannot spell.
        ValueError: no dialect is called so.

    >>> planned = plan({"type": "object", "properties": {
    ...     "category": {"enum": ["bug", "billing"]},
    ...     "note": {"type": "string", "maxLength": 80}}, "required": ["category"],
    ...     "additionalProperties": False}, "openai")
    >>> planned.wire["properties"]["note"]
    {'description': 'at most 80 characters', 'type': ['string', 'null']}
    >>> [str(loss) for loss in planned.losses]
    ['maxLength at /properties/note']
    >>> planned.reverse({"category": "bug", "note": None})
    {'category': 'bug'}
    """
    chosen = dialect_named(dialect) if isinstance(dialect, str) else dialect
    unchanged = Written(dict(schema), (), null_is_absent=False)
    written = write(schema, chosen) if chosen.enforces else unchanged
    return SchemaPlan(
        dialect=chosen.name,
        name=plain_name(name) or "answer",
        original=schema,
        wire=written.wire,
        losses=written.losses,
        null_is_absent=written.null_is_absent,
    )
