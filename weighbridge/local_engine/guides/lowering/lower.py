"""Lowering proper: one pass over a schema, from the root, references followed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from weighbridge.errors import SchemaRefused, TaskInvalid
from weighbridge.local_engine.guides.lowering.arrays import arrays
from weighbridge.local_engine.guides.lowering.disjoint import are_disjoint, are_distinct_values
from weighbridge.local_engine.guides.lowering.document import Document, Draft, Node
from weighbridge.local_engine.guides.lowering.keywords import (
    Lowered,
    all_of,
    allows_type,
    any_of,
    check,
    is_foreign,
)
from weighbridge.local_engine.guides.lowering.negation import Negation
from weighbridge.local_engine.guides.lowering.objects import Inexpressible, dependencies, objects
from weighbridge.local_engine.guides.lowering.reach import (
    can_repeat_names,
    mixed_patterns,
    without_endless,
)
from weighbridge.local_engine.guides.lowering.scalars import common_steps, numbers, texts, values
from weighbridge.schemas.finite import language

_MAX_LISTED = 4096  # values of a part that has no grammar, but a list

# A part is listed only where Python and the suite agree on what it means: formats, patterns and
# the spellings of old drafts are left out.
_UNLISTED = frozenset(
    {"format", "pattern", "patternProperties", "dependencies", "additionalItems", "$id", "id"}
)


@dataclass(frozen=True, slots=True)
class LoweredSchema:
    """What the grammar engine is given.

    Args:
        schema: JSON Schema that the engine enforces exactly, definitions included.
        can_repeat_names: whether an object may have names that are not listed, so that it takes
            more than the grammar to write each only once.
    """

    schema: Lowered
    can_repeat_names: bool


class Lowering:
    """The lowering of one document.

    Args:
        document: the schema and its references.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[tuple[int, Draft], str] = {}
        self._definitions: dict[str, Lowered] = {}
        self._negation = Negation(document, self.of)
        self._steps: list[tuple[Node, int | float]] = []
        self._combined: list[tuple[Node, Lowered]] = []

    def whole(self, node: Node) -> LoweredSchema:
        """A part of the document as a schema of its own.

        Raises:
            SchemaRefused: it cannot be enforced; pointer and keyword say where.
        """
        lowered = self.of(node)
        common_steps(self._steps)
        for place, combined in self._combined:  # inner ones come first
            if mixed_patterns(combined, self._definitions):
                raise place.refusal(
                    "patternProperties", "together with what another part says of further names"
                )
        lowered, definitions = without_endless(lowered, self._definitions)
        repeats = can_repeat_names(lowered, definitions)
        if isinstance(lowered, dict) and definitions:
            named = {name.removeprefix("#/$defs/"): part for name, part in definitions.items()}
            lowered = {**lowered, "$defs": named}
        return LoweredSchema(lowered, repeats)

    def listed(self, node: Node) -> LoweredSchema | None:
        """The values of a part of the document; None where they cannot be listed."""
        values_of_it = self._listed(node)
        if values_of_it is None:
            return None
        return LoweredSchema(values_of_it, can_repeat_names=False)

    def of(self, node: Node) -> Lowered:
        """One part, without the definitions that it refers to.

        Raises:
            SchemaRefused: as for `whole`.
        """
        check(node)
        try:
            return self._part(node)
        except Inexpressible as reason:
            listed = self._listed(node)
            if listed is None:
                place = reason.place or node
                raise place.refusal(reason.keyword, reason.problem) from None
            return listed

    def _part(self, node: Node) -> Lowered:
        schema = node.schema
        if isinstance(schema, bool):
            return schema
        if "$ref" in schema and node.draft <= Draft.DRAFT7:
            return self._reference(node)  # what stands beside it is not read
        own, parts = self._own(node)
        if "$ref" in schema:
            parts.append(self._reference(node))
        for index in range(len(schema.get("allOf", ()))):
            parts.append(self.of(self._document.child(node, "allOf", index)))
        if "anyOf" in schema:
            parts.append(any_of(*self._each(node, "anyOf")))
        if "not" in schema:
            parts.append(self._negation.of(self._document.child(node, "not")))
        if "if" in schema and {"then", "else"} & schema.keys():
            parts.append(self._condition(node))
        if allows_type(schema, "object"):
            parts += dependencies(node, self._document, self.of)
        if "oneOf" in schema:
            parts.append(self._one_of(node, all_of(own, *parts)))
        combined = all_of(own, *parts)
        if parts:
            self._combined.append((node, combined))
        return combined

    def _own(self, node: Node) -> tuple[Lowered, list[Lowered]]:
        """What the schema says itself, and what more of it has to stand apart."""
        schema = node.schema
        named = values(node)
        if isinstance(named, bool) and not named:
            return False, []
        own = dict(named) if isinstance(named, dict) else {}
        parts: list[Lowered] = []
        if allows_type(schema, "number") or allows_type(schema, "integer"):
            own |= numbers(node)
            if "multipleOf" in own:
                self._steps.append((node, own["multipleOf"]))
        text, more = texts(node)
        own |= text
        parts += more
        if allows_type(schema, "array"):
            own |= arrays(node, self._document, self.of, self._definitions)
        if allows_type(schema, "object"):
            own |= objects(node, self._document, self.of)
        return own or True, parts

    def _each(self, node: Node, keyword: str) -> list[Lowered]:
        return [
            self.of(self._document.child(node, keyword, index))
            for index in range(len(node.schema[keyword]))
        ]

    def _reference(self, node: Node) -> Lowered:
        target = self._document.target(node)
        check(target)
        if isinstance(target.schema, bool):
            return target.schema
        key = (id(target.schema), target.draft)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"#/$defs/d{len(self._names)}"
            self._definitions[name] = self.of(target)
        return {"$ref": name}

    def _condition(self, node: Node) -> Lowered:
        """`if`, `then`, `else` as two alternatives."""
        schema, child = node.schema, self._document.child
        negated = self._negation.of(child(node, "if"))
        then = self.of(child(node, "then")) if "then" in schema else True
        otherwise = self.of(child(node, "else")) if "else" in schema else True
        return any_of(all_of(self.of(child(node, "if")), then), all_of(negated, otherwise))

    def _one_of(self, node: Node, beside: Lowered) -> Lowered:
        """Alternatives of which each excludes the others."""
        ways = self._each(node, "oneOf")
        keywords = _keywords_in(node.schema["oneOf"])
        if "$ref" in keywords:
            keywords += _keywords_in(self._document.root.schema)
        for keyword in keywords:
            if is_foreign(keyword, node):
                raise Inexpressible("oneOf", f"in it is `{keyword}`, of another draft")
        if are_distinct_values(ways):
            return any_of(*ways)
        found = []
        for index, way in enumerate(ways):
            others: list[Lowered] = []
            for other_index, other in enumerate(ways):
                if other_index != index and not are_disjoint(
                    all_of(beside, way), all_of(beside, other), self._definitions
                ):
                    place = self._document.child(node, "oneOf", other_index)
                    others.append(self._excluded(place))
            found.append(all_of(way, *others))
        return any_of(*found)

    def _excluded(self, way: Node) -> Lowered:
        try:
            return self._negation.of(way)
        except Inexpressible as reason:
            raise Inexpressible(
                "oneOf",
                f"its alternatives overlap, and of one ({reason.keyword}) "
                "it cannot be said what breaks it",
            ) from None

    def _listed(self, node: Node) -> Lowered | None:
        """The values of a part, if they can be listed."""
        if not isinstance(node.schema, dict):
            return None
        root = self._document.root.schema
        definitions = {
            name: root[name]
            for name in ("$defs", "definitions")
            if isinstance(root, Mapping) and name in root
        }
        if _UNLISTED & {*_keywords_in(node.schema), *_keywords_in(definitions)}:
            return None
        if node.schema is not root and not all(
            target.startswith(("#/$defs/", "#/definitions/"))
            for target in _references_in(node.schema)
        ):
            return None
        if (
            node.declared
            and node.draft < Draft.DRAFT202012
            and any(is_foreign(k, node) or k == "$ref" for k in _keywords_in(node.schema))
        ):
            return None
        rest = {k: v for k, v in node.schema.items() if k not in {"$schema", *definitions}}
        try:
            Draft202012Validator.check_schema(rest | definitions)
            found = language(rest | definitions)
        except (SchemaError, TaskInvalid, RecursionError):
            return None
        if found is None or found.count > _MAX_LISTED:
            return None
        listed = {"enum": [json.loads(text) for text in found.strings()]}
        try:
            return values(dataclasses.replace(node, schema=listed))
        except SchemaRefused:
            return None


def _keywords_in(schema: Any) -> list[str]:
    """Every key of a schema, its names of properties among them."""
    return [key for part in _mappings_in(schema) for key in part]


def _references_in(schema: Any) -> list[str]:
    targets = (part.get("$ref") for part in _mappings_in(schema))
    return [target for target in targets if isinstance(target, str)]


def _mappings_in(schema: Any) -> Iterator[dict[str, Any]]:
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending += part.values()
        elif isinstance(part, list):
            pending += part
