"""What the grammar guide cannot enforce is refused when it is bound: by pointer, by keyword."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from weighbridge.errors import SchemaRefused, TaskInvalid
from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.grammar import JsonSchema
from weighbridge.local_engine.vocabulary import TableVocabulary

TOKENS = [bytes([byte]) for byte in range(0x20, 0x7F)]
VOCABULARY = TableVocabulary([*TOKENS, b""], {len(TOKENS)})

ITEM = {"type": "object"}  # of which there is no end of values
ANY_LIST = {"type": "array", "items": ITEM}
TO_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFT6 = {"$schema": "http://json-schema.org/draft-06/schema#"}
OTHERS = {"$id": 0, "id": 0, "$anchor": 0, "$schema": 0, "$defs": 0, "definitions": 0, "then": 0}
CIRCLE = {"definitions": {"a": {"$ref": "#/definitions/a"}}}
DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


def refusal(schema: Any) -> SchemaRefused:
    with pytest.raises(SchemaRefused) as caught:
        JsonSchema(schema).bind(VOCABULARY)  # `json_schema` takes nothing but objects and bools
    return caught.value


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"$ref": "https://example.com/elsewhere"}, "$ref"),
        ({"$ref": "#/$defs/missing"}, "$ref"),
        ({"$ref": "#nowhere"}, "$ref"),
        ({"$dynamicRef": "#node"}, "$dynamicRef"),
        ({"$recursiveRef": "#"}, "$recursiveRef"),
        ({"extends": {"type": "string"}}, "extends"),
        (ANY_LIST | {"contains": {"required": ["a"]}}, "contains"),
        (ANY_LIST | {"contains": True, "maxContains": 2}, "maxContains"),
        (ANY_LIST | {"uniqueItems": True}, "uniqueItems"),
        ({"anyOf": [{"prefixItems": [ITEM]}], "unevaluatedItems": False}, "unevaluatedItems"),
        (
            {"anyOf": [{"properties": {"a": ITEM}}], "unevaluatedProperties": False},
            "unevaluatedProperties",
        ),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, "oneOf"),
        ({"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "oneOf"),
        ({"propertyNames": {"pattern": "^a", "minLength": 2}}, "propertyNames"),
        ({"patternProperties": {"a": ITEM}, "propertyNames": {"maxLength": 2}}, "propertyNames"),
        ({"patternProperties": {"a*": ITEM, "aa": {"type": "null"}}}, "patternProperties"),
        ({"patternProperties": {"(?=a)": ITEM}}, "patternProperties"),
        (
            {"allOf": [{"patternProperties": {"^a": ITEM}}, {"additionalProperties": False}]},
            "patternProperties",
        ),
        ({"properties": {"a": {}}, "minProperties": 2}, "properties"),
        ({"type": "string", "format": "regex"}, "format"),
        ({"type": "string", "format": "unheard-of"}, "format"),
        ({"format": "unknown"}, "format"),
        ({"pattern": "^(?!a)"}, "pattern"),
        ({"pattern": r"(a)\1"}, "pattern"),
        ({"pattern": r"\bword"}, "pattern"),
        ({"pattern": r"\Aword"}, "pattern"),
        ({"pattern": "(?i)word"}, "pattern"),
        ({"pattern": "a++"}, "pattern"),
        ({"pattern": "[z-a]"}, "pattern"),
        ({"pattern": "("}, "pattern"),
        ({"pattern": "^a{,3}$"}, "pattern"),  # of Python a quantifier, of ECMA-262 none
        ({"pattern": "^[^]]$"}, "pattern"),  # the other way round, of a class
        ({"properties": {"é": {}}, "propertyNames": {"pattern": r"^\W$"}}, "pattern"),
        ({"properties": {"a": {}}, "propertyNames": {"pattern": r"^\p{L}$"}}, "pattern"),
        ({"properties": {"a\n": {}}, "propertyNames": {"pattern": "^a$"}}, "pattern"),
        ({"required": ["\r"], "patternProperties": {"^.$": ITEM}}, "patternProperties"),
        ({"const": 2**53 + 1}, "const"),
        ({"enum": [1, {"a": [2**53 + 1]}]}, "enum"),
        ({"const": 0.48785665652414756}, "const"),
        ({"type": "integer", "minimum": 2**53 + 1}, "minimum"),
        ({"exclusiveMaximum": -(2**53) - 1}, "exclusiveMaximum"),
        ({"type": "number", "multipleOf": 0.123456789}, "multipleOf"),
        ({"allOf": [{"multipleOf": 65_537}, {"multipleOf": 65_539}]}, "multipleOf"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "minLength"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "exclusiveMinimum"),
        ({"type": "string", "pattern": "^a$", "minLength": 2}, "pattern"),
        ({"enum": []}, "enum"),
        ({"not": {}}, "not"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "allOf"),
        (False, "false"),
        (TO_2020 | {"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "$schema"),
        (DRAFT6 | {"prefixItems": [ITEM]}, "prefixItems"),
        (DRAFT4 | {"oneOf": [{"const": 1}, {"const": 2}]}, "oneOf"),  # no draft 4 keyword
    ],
)
def test_keyword_without_a_grammar_is_named(schema: Any, keyword: str) -> None:
    """Each with a schema in which it is what makes the difference."""
    refused = refusal(schema)
    assert (refused.dialect, refused.keyword) == ("the local engine", keyword)


@pytest.mark.parametrize(
    ("place", "pointer"),
    [
        (lambda bad: {"properties": {"a/b": bad}}, "/properties/a~1b"),
        (lambda bad: {"type": "array", "items": bad}, "/items"),
        (lambda bad: {"prefixItems": [True, bad]}, "/prefixItems/1"),
        (lambda bad: {"anyOf": [{"type": "null"}, bad]}, "/anyOf/1"),
        (lambda bad: {"allOf": [{"properties": {"a": {"items": bad}}}]}, None),
        (lambda bad: {"additionalProperties": bad}, "/additionalProperties"),
        (lambda bad: {"patternProperties": {"^a": bad}}, "/patternProperties/^a"),
        (lambda bad: {"$ref": "#/$defs/x", "$defs": {"x": bad}}, "/$defs/x"),
        (lambda bad: {"if": {"type": "string"}, "then": bad}, "/then"),
        (lambda bad: {"dependentSchemas": {"a": bad}}, "/dependentSchemas/a"),
        (lambda bad: {"not": {"not": bad}}, "/not/not"),
        (
            lambda bad: {"type": "object", "properties": {"a": bad}, "required": ["a"]},
            "/properties/a",
        ),
    ],
)
@pytest.mark.parametrize(
    ("bad", "keyword"),
    [
        ({"type": "string", "format": "url"}, "format"),
        ({"title": "x", "type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"description": "x", "multipleOf": 0.123456789, "minimum": 1}, "multipleOf"),
    ],
)
def test_pointer_leads_to_the_part_to_blame(
    place: Any, pointer: str | None, bad: Any, keyword: str
) -> None:
    """Wherever the part stands, whether the lowering or the engine itself refuses it."""
    refused = refusal(place(bad))
    assert refused.keyword == keyword
    assert refused.pointer == (pointer or "/allOf/0/properties/a/items")
    assert f"`{keyword}` at {refused.pointer}" in str(refused)


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"not": {"items": ITEM}}, "/not", "items"),
        ({"not": {"pattern": "^a"}}, "/not", "pattern"),
        ({"not": {"properties": {"a": {"multipleOf": 2}}}}, "/not/properties/a", "multipleOf"),
        ({"not": {"type": "integer"}}, "/not", "type"),
        ({"not": {"maximum": 2**60}}, "/not", "maximum"),
        ({"not": {"enum": [[1]]}}, "/not", "enum"),
        ({"not": {"$ref": "#"}}, "", "$ref"),
        ({"if": {"format": "date"}, "then": {"minLength": 1}}, "/if", "format"),
        (DRAFT4 | {"not": {"const": 1}}, "/not", "const"),
        (DRAFT4 | {"not": {"exclusiveMinimum": 1}}, "/not", "exclusiveMinimum"),
        (DRAFT6 | {"not": {"$ref": "#/definitions/a"}} | CIRCLE, "/definitions/a", "$ref"),
    ],
)
def test_what_cannot_be_negated_is_named_where_it_stands(
    schema: Any, pointer: str, keyword: str
) -> None:
    """Below `not` and `if`, the keyword whose breaking cannot be described."""
    refused = refusal(schema)
    assert (refused.pointer, refused.keyword) == (pointer, keyword)


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"properties": {"a": {"type": "text"}}}, "/properties/a", "type"),
        ({"properties": {"a": {"required": True}}}, "/properties/a", "required"),
        ({"minLength": "3"}, "", "minLength"),
        ({"minLength": -1}, "", "minLength"),
        ({"minLength": True}, "", "minLength"),
        ({"anyOf": []}, "", "anyOf"),
        ({"anyOf": {"type": "null"}}, "", "anyOf"),
        ({"properties": ["a"]}, "", "properties"),
        ({"properties": {"a": "string"}}, "", "properties"),
        ({"enum": "a"}, "", "enum"),
        ({"multipleOf": 0}, "", "multipleOf"),
        ({"items": "string"}, "", "items"),
        ({"$id": 5}, "", "$id"),
        (DRAFT4 | {"id": {}}, "", "id"),
        ({"$ref": "#/$defs/x/y", "$defs": {"x": 5}}, "", "$ref"),
        ({"$ref": "#there", "$defs": []}, "", "$ref"),
        ({"maximum": -(10**400)}, "", "maximum"),
        ({"maxLength": 10**400}, "", "maxLength"),
        ([], "", ""),
        ("string", "", ""),
    ],
)
def test_malformed_schema_is_refused(schema: Any, pointer: str, keyword: str) -> None:
    """A keyword of the wrong shape must not be taken for absent."""
    refused = refusal(schema)
    assert (refused.pointer, refused.keyword) == (pointer, keyword)


@pytest.mark.parametrize("keyword", sorted(Draft202012Validator.VALIDATORS | OTHERS))
@pytest.mark.parametrize(
    "value", [None, True, -1, 10**400, 1e300, "", "[", "\0", [], [None], [{}], {}, {"a": None}]
)
def test_keyword_of_any_shape_is_enforced_or_refused(keyword: str, value: Any) -> None:
    """Nothing but a refusal comes out, wherever the keyword stands and whatever leads there."""
    part = {keyword: value}
    leads = {"$ref": "#/$defs/x", "$defs": {"x": part}}
    for schema in (part, {"not": part}, {"oneOf": [part, {"type": "null"}]}, leads):
        with contextlib.suppress(TaskInvalid):
            guides.json_schema(schema).bind(VOCABULARY)


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "x", "deprecated": True, "x-order": 1, "contentMediaType": "text/plain"},
        {"format": "url", "type": "integer"},  # of no text
        {"uniqueItems": False, "minProperties": 0, "required": [], "dependentRequired": {}},
        {"if": {"pattern": "^(?!a)"}},  # asks for nothing
        {"then": {"minLength": 1}},
        {"not": False},
        {"items": True, "additionalItems": False},  # read beside a list of items alone
        {"propertyNames": True, "patternProperties": {"a*": True, "b*": True}},
        {"contains": {"const": 1}, "minContains": 0},
        {"$schema": "https://example.com/own", "type": "string"},
        {"uniqueItems": True, "items": {"enum": [1, 2, 3]}, "type": "array", "maxItems": 3},
        {"uniqueItems": True, "prefixItems": [{"type": "null"}, {"type": "string"}], "maxItems": 2},
        {"oneOf": [{"type": "string", "pattern": "a"}, {"type": "array", "items": {}}]},
    ],
)
def test_what_restricts_nothing_is_not_refused(schema: Any) -> None:
    """Annotations, and keywords that cannot make a difference here."""
    guides.json_schema(schema).bind(VOCABULARY)
