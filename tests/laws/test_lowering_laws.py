"""Lowering keeps the meaning of a schema, whatever is combined with whatever."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from schema_strategies import NAMES, schemas, values

from weighbridge.errors import SchemaRefused
from weighbridge.local_engine.guides.lowering.disjoint import are_disjoint
from weighbridge.local_engine.guides.lowering.document import Document
from weighbridge.local_engine.guides.lowering.keywords import Lowered
from weighbridge.local_engine.guides.lowering.lower import Lowering
from weighbridge.local_engine.guides.lowering.patterns import none_of

ENGINE_KEYWORDS = {
    *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "pattern", "items", "prefixItems", "minItems"),
    *("maxItems", "properties", "patternProperties", "additionalProperties", "required"),
    *("minProperties", "maxProperties", "allOf", "anyOf", "$ref", "$defs"),
}
some = settings(
    max_examples=250, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def lowered(schema: Any) -> Lowered:
    document = Document(schema)
    return Lowering(document).whole(document.root).schema


def validity(schema: Any, cls: Any = jsonschema.Draft202012Validator) -> Callable[[Any], bool]:
    is_valid: Callable[[Any], bool] = cls(schema).is_valid
    return is_valid


def check_keywords(schema: Any) -> None:
    """The engine is given what it knows, and nothing else."""
    if isinstance(schema, bool):
        return
    assert schema.keys() <= ENGINE_KEYWORDS
    for keyword in ("properties", "patternProperties", "$defs"):
        for part in schema.get(keyword, {}).values():
            check_keywords(part)
    for keyword in ("allOf", "anyOf", "prefixItems"):
        for part in schema.get(keyword, ()):
            check_keywords(part)
    for keyword in ("items", "additionalProperties"):
        check_keywords(schema.get(keyword, True))


@some
@given(schemas, st.lists(values, min_size=1, max_size=12))
@example({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1, "b": 1}, {}, {"b": 0}])
@example({"not": {"enum": ["a", 1, None, True]}}, ["", "ab", 1.0, 2, None, True, False, []])
@example({"not": {"oneOf": [{"minimum": 1}, {"maximum": 2}]}}, [0, 1, 2, 3, "a"])
@example({"if": {"type": "string"}, "then": {"minLength": 1}, "else": False}, ["", "a", 1])
@example({"items": {"enum": [1, 2]}, "type": "array", "uniqueItems": True}, [[1, 1], [2, 1]])
def test_lowered_schema_takes_the_same_values(schema: Any, instances: list[Any]) -> None:
    """What is lowered at all means exactly what it meant."""
    try:
        after = lowered(schema)
    except SchemaRefused:
        assume(False)
    check_keywords(after)
    was_valid, is_valid = validity(schema), validity(after)
    for instance in instances:
        assert was_valid(instance) == is_valid(instance)


@some
@given(schemas, values)
def test_double_negation_is_affirmation(schema: Any, instance: Any) -> None:
    """Whatever can be lowered can also be lowered below two negations."""
    try:
        lowered(schema)
    except SchemaRefused:
        assume(False)
    assert validity(lowered({"not": {"not": schema}}))(instance) == validity(schema)(instance)


@some
@given(schemas, schemas, values)
def test_disjoint_schemas_share_no_value(left: Any, right: Any, instance: Any) -> None:
    """What is called disjoint has no common value; the other way round nothing is promised."""
    try:
        one, other = lowered(left), lowered(right)
    except SchemaRefused:
        assume(False)
    assume(are_disjoint(one, other, {}))
    assert not (validity(left)(instance) and validity(right)(instance))


DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT4 = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "cls"),
    [
        ({"$schema": DRAFT7, "items": [{"const": 1}], "additionalItems": False}, "7"),
        ({"$schema": DRAFT7, "items": [{"const": 1}]}, "7"),
        ({"$schema": DRAFT7, "items": {"type": "null"}, "additionalItems": False}, "7"),
        ({"$schema": DRAFT7, "dependencies": {"a": ["b"], "c": {"required": ["a"]}}}, "7"),
        (
            {
                "$schema": DRAFT7,
                "definitions": {"n": {"type": "integer"}},
                "properties": {"a": {"$ref": "#/definitions/n", "minimum": 2}},
            },
            "7",
        ),
        ({"$schema": DRAFT4, "minimum": 1, "exclusiveMinimum": True}, "4"),
        ({"$schema": DRAFT4, "not": {"maximum": 1, "exclusiveMaximum": True}}, "4"),
        ({"$schema": DRAFT4, "maximum": 1, "exclusiveMaximum": False}, "4"),
    ],
)
@given(instance=values)
def test_older_drafts_keep_their_own_rules(schema: Any, cls: str, instance: Any) -> None:
    """Lists under `items`, what stands beside `$ref`, bounds that a bool makes exclusive."""
    older = {"7": jsonschema.Draft7Validator, "4": jsonschema.Draft4Validator}[cls]
    assert validity(lowered(schema))(instance) == validity(schema, older)(instance)


@given(
    st.lists(st.text("ab", max_size=3), min_size=1, max_size=5),
    st.text(string.ascii_letters[:3], max_size=4),
)
def test_pattern_of_other_texts_matches_all_but_these(texts: list[str], text: str) -> None:
    """The complement of a list of texts, as a pattern."""
    assert validity({"pattern": none_of(texts)})(text) == (text not in texts)


@given(st.sampled_from(NAMES), values)
def test_references_are_followed_wherever_they_lead(name: str, instance: Any) -> None:
    """Pointers, anchors, embedded documents and recursion come out as plain definitions."""
    schema = {
        "$id": "https://example.com/root",
        "properties": {
            "a": {"$ref": "#there"},
            "b": {"$ref": "inner"},
            "c": {"$ref": "#/$defs/list"},
        },
        "$defs": {
            "anchored": {"$anchor": "there", "type": "string"},
            "inner": {"$id": "inner", "$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}},
            "list": {"type": "array", "items": {"$ref": "#/$defs/list"}},
        },
    }
    value = {name: instance}
    assert validity(lowered(schema))(value) == validity(schema)(value)
