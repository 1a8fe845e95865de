"""Lowering keeps the meaning of a schema, whatever is combined with whatever."""

from __future__ import annotations

import string
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import guide_laws as laws
import jsonschema
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from schema_strategies import NAMES, schemas, values

from weighbridge.errors import SchemaRefused
from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.grammar_guide import GrammarGuide
from weighbridge.local_engine.guides.lowering.disjoint import are_disjoint, are_distinct_values
from weighbridge.local_engine.guides.lowering.document import Document
from weighbridge.local_engine.guides.lowering.exact import (
    MAX_EXACT,
    is_exact,
    lower_bound,
    upper_bound,
    whole,
)
from weighbridge.local_engine.guides.lowering.keywords import Lowered
from weighbridge.local_engine.guides.lowering.lower import Lowering
from weighbridge.local_engine.guides.lowering.patterns import none_of
from weighbridge.local_engine.vocabulary import TableVocabulary

ENGINE_KEYWORDS = {
    *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "pattern", "items", "prefixItems", "minItems"),
    *("maxItems", "properties", "patternProperties", "additionalProperties", "required"),
    *("minProperties", "maxProperties", "allOf", "anyOf", "$ref", "$defs"),
}
some = settings(
    max_examples=250, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


# Definitions of which each ends only where the next one does.
CHAIN = {
    "$ref": "#/$defs/x",
    "$defs": {
        "x": {"type": "object", "properties": {"a": {"$ref": "#/$defs/y"}}, "required": ["a"]},
        "y": {"type": "object", "properties": {"a": {"$ref": "#/$defs/z"}}, "required": ["a"]},
        "z": {"type": "null"},
    },
}
DIGITS = TableVocabulary([*(char.encode() for char in "0123456789.-"), b""], {12})


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
@example({"anyOf": [{"const": 1}, {"const": True}]}, [1, True])
@example({"oneOf": [{"anyOf": [{"const": 1}, {"const": True}]}, {"const": True}]}, [1, True])
@example({"minimum": 2, "exclusiveMinimum": -(2**60)}, [1, 2])
@example(CHAIN, [{"a": {"a": None}}, {"a": None}])
@example({"properties": {"é": {}}, "propertyNames": {"pattern": r"^\W$"}}, [{"é": 1}])
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


@pytest.mark.parametrize(("value", "twin"), [(1, 1.0), (0, -0.0), (2.0, 2), (-3, -3.0)])
@pytest.mark.parametrize("inside", [lambda v: v, lambda v: [v], lambda v: {"a": [v, None]}])
@pytest.mark.parametrize(
    "listed", [lambda v: {"const": v}, lambda v: {"enum": ["other", v]}, lambda v: {"enum": [v, 9]}]
)
def test_equal_numbers_are_one_value_however_they_are_spelled(
    value: float, twin: float, inside: Any, listed: Any
) -> None:
    """Of alternatives that share 1 and 1.0 no list is disjoint; 1 and true are never shared."""
    one, other = listed(inside(value)), {"enum": [inside(twin), "more"]}
    assert not are_disjoint(one, other, {})
    assert not are_distinct_values([one, other])
    exclusive = lowered({"oneOf": [one, other]})
    for spelled in (inside(value), inside(twin)):
        assert not validity(exclusive)(spelled)
    assert validity(exclusive)("more")
    truth = {"const": inside(True)}
    assert are_disjoint(listed(inside(1)), truth, {})
    assert are_distinct_values([listed(1), {"const": True}])


@given(st.floats(-MAX_EXACT, MAX_EXACT), st.booleans())
@example(0.9999999999999999, False)
@example(5e-324, True)
@example(-(2.0**53), True)
@example(2.0**53 - 1, True)
def test_bounds_are_moved_inwards_to_digits_that_the_engine_reads(
    value: float, is_exclusive: bool
) -> None:
    """By no more than the 15th digit, and not at all where it reads the bound as it is."""
    low_key, low = lower_bound(value, is_exclusive=is_exclusive)
    high_key, high = upper_bound(value, is_exclusive=is_exclusive)
    assert high <= value <= low
    assert max(low - value, value - high) <= max(abs(value) * 1.1e-14, 1e-22)
    assert abs(value) == MAX_EXACT or (is_exact(low) and is_exact(high))
    assert low > value or low_key.startswith("exclusive") == is_exclusive
    assert high < value or high_key.startswith("exclusive") == is_exclusive
    if is_exact(whole(value)) and not is_exclusive:
        assert low == high == value


NEAR = [Fraction(n, 10) for n in (-15, -11, -10, -9, -5, -1, 0, 1, 5, 9, 10, 11, 15)]


@given(
    st.dictionaries(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
        st.sampled_from([*map(float, NEAR), -1, 0, 1]),
        min_size=2,
    ),
    st.booleans(),
)
@example({"exclusiveMinimum": 0, "maximum": 0.1}, False)
@example({"exclusiveMaximum": -1, "minimum": -1.5}, True)
def test_no_bound_is_written_that_is_excluded(bounds: dict[str, float], apart: bool) -> None:
    """Whether they stand together or not; the engine by itself would write 0 in the first case."""
    schema: dict[str, Any] = {"type": "number", **bounds}
    if apart:
        schema = {"allOf": [{"type": "number"}, *({name: v} for name, v in bounds.items())]}
    try:
        guide = guides.json_schema(schema).bind(DIGITS)
    except SchemaRefused:
        assert not any(map(validity(schema), map(float, NEAR)))
        return
    for number in NEAR:
        for text in (f"{float(number):.1f}", f"{float(number):.0f}"):
            if is_written(guide, text):
                assert validity(schema)(float(text))


def is_written(guide: GrammarGuide, text: str) -> bool:
    state = guide.init()
    try:
        for token in DIGITS.encode(text):
            state = guide.advance(state, token)
    except ValueError:
        return False
    return guide.finished(state)


@given(st.floats(-1e16, 1e16))
@example(0.9999999999999999)
@example(0.48785665652414756)
@example(2.0**53 - 1)
@example(5e-324)
def test_number_that_is_written_is_the_one_that_was_meant(value: float) -> None:
    """To the last digit, or the constant is refused: the engine would write its neighbour."""
    try:
        guide = guides.json_schema({"const": value}).bind(DIGITS)
    except SchemaRefused:
        assert not is_exact(whole(value))
        return
    state, text = guide.init(), b""
    while not guide.finished(state):
        token, *_ = laws.allowed_ids(guide, state)
        text += DIGITS.token_bytes[token]
        state = guide.advance(state, token)
    assert float(text) == value


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
