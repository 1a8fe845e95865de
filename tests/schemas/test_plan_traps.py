"""Traps of schema plans: what is spread, shared, hostile or spelled in an unusual way."""

import json

import pytest

from weighbridge.errors import SchemaRefused
from weighbridge.schemas.plan import plan

TEXT = {"type": "string"}


def closed(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def part(schema, dialect, name="a"):
    """What is written for one property of an object."""
    return plan(schema, dialect).wire["properties"][name]


def test_all_of_is_merged_into_what_holds_at_once():
    """Bounds are intersected, types too, and properties of one that another closes go."""
    schema = closed(
        a={
            "allOf": [{"type": ["integer", "string"], "minimum": 1}, {"type": "number"}],
            "minimum": 3,
        }
    )
    assert part(schema, "openai") == {"type": "integer", "minimum": 3}
    both = closed(a={"allOf": [closed(x=TEXT), {"properties": {"x": {"enum": ["u", 1]}, "y": {}}}]})
    wire = part(both, "openai")
    assert wire["properties"]["x"] == {"type": "string", "enum": ["u"]}
    assert wire["properties"]["y"] == {"type": "null"}  # it can only be absent


def test_what_stands_beside_a_union_holds_for_every_member():
    """One requires what the other only names."""
    schema = closed(
        a={
            "type": "object",
            "properties": {"x": TEXT, "y": TEXT},
            "additionalProperties": False,
            "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
        }
    )
    wire = part(schema, "anthropic")
    assert [member["required"] for member in wire["anyOf"]] == [["x"], ["y"]]


def test_enums_keep_their_order_and_the_json_types_of_their_values():
    """1, 1.0, true and "1" are four spellings, and three values."""
    values = ["1", True, 1, None, "a", 2.5]
    for dialect in ("openai", "vllm", "groq"):
        written = part(closed(a={"enum": values}), dialect)["enum"]
        assert json.dumps(written) == json.dumps(values)
    members = part(closed(a={"enum": values}), "gemini")["anyOf"]
    assert members == [
        {"type": "string", "enum": ["1", "a"]},
        {"type": "boolean"},  # Gemini lists strings and numbers only
        {"type": "number", "enum": [1, 2.5]},
        {"type": "null"},
    ]


def test_a_schema_in_itself_is_referred_to_written_out_or_refused():
    """As the dialect has it; what is written out a few times cannot be said any deeper."""
    node = {"type": "object", "properties": {"v": TEXT, "next": {"$ref": "#/$defs/a%20b~1c"}}}
    schema = closed(a={"$ref": "#/$defs/a%20b~1c"}) | {"$defs": {"a b/c": node}}
    kept = plan(schema, "openai")
    assert kept.wire["properties"]["a"] == {"$ref": "#/$defs/a_b_1c"}
    assert [*kept.wire["$defs"]] == ["a_b_1c"]
    unrolled = plan(schema, "gemini")
    assert "$ref" not in json.dumps(unrolled.wire)
    assert "$ref at /$defs/a b~1c/properties/next (narrowed)" in map(str, unrolled.losses)
    with pytest.raises(SchemaRefused, match="contains itself") as caught:
        plan(schema, "anthropic")
    assert caught.value.keyword == "$ref"


def test_a_schema_that_must_contain_itself_is_refused_where_it_is_written_out():
    """There is no end at which it could be left out."""
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    with pytest.raises(SchemaRefused) as caught:
        plan(node, "llama_cpp")
    assert caught.value.keyword == "$ref"


def test_a_description_beside_a_reference_is_not_said_of_the_definition():
    """Other places refer to it too."""
    node = {"type": "object", "properties": {"l": {"$ref": "#/$defs/n", "description": "left"}}}
    schema = closed(a={"$ref": "#/$defs/n", "description": "top"}, b={"$ref": "#/$defs/n"})
    wire = plan(schema | {"$defs": {"n": node}}, "openai").wire
    assert wire["properties"]["a"] == {"description": "top", "anyOf": [{"$ref": "#/$defs/n"}]}
    assert wire["properties"]["b"] == {"$ref": "#/$defs/n"}
    assert "description" not in wire["$defs"]["n"]


def test_words_that_only_look_like_references_are_none():
    """In values, in names of properties, and as anchors that nobody uses."""
    listed = closed(a={"enum": [{"$ref": "x", "$id": "y"}]}, b={**TEXT, "$anchor": "b"})
    assert plan(listed, "vllm").wire["properties"]["a"]["enum"] == [{"$ref": "x", "$id": "y"}]
    named = closed(**{"$ref": TEXT, "$id": TEXT, "const": {"type": "null"}})
    assert [*plan(named, "openai").wire["properties"]] == ["$ref", "$id", "const"]
    with pytest.raises(SchemaRefused):
        plan(closed(const={"$ref": "x"}), "openai")


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "llama_cpp", "vllm"])
@pytest.mark.parametrize(
    "wrap",
    [lambda s: {"type": "array", "items": s}, lambda s: {"anyOf": [s, {"type": "null"}]}],
    ids=["arrays", "unions"],
)
def test_a_schema_of_thousands_of_levels_is_refused(wrap, dialect):
    """With a pointer and a keyword, and no exhausted stack."""
    schema = TEXT
    for _ in range(2000):
        schema = wrap(schema)
    with pytest.raises(SchemaRefused, match="more than"):
        plan(closed(a=schema), dialect)


def test_products_of_unions_end_in_a_refusal():
    """Twelve unions of four that hold at once are sixteen million members written out."""
    unions = [
        {"anyOf": [{"type": "object", "properties": {f"{i}{j}": TEXT}} for j in range(4)]}
        for i in range(12)
    ]
    with pytest.raises(SchemaRefused, match="more than"):
        plan(closed(a={"allOf": unions}), "vllm")


def test_parts_that_are_one_python_object_lose_their_own_keywords_only():
    """A schema built in Python may hold the same dict twice."""
    shared = {"type": "string", "maxLength": 3}
    either = {"oneOf": [closed(k={"const": 1}, t=shared), closed(k={"const": 1.5}, t=shared)]}
    planned = plan(closed(a=either, t=shared), "openai")
    value = {"a": {"k": 1.5, "t": "longer"}, "t": "longer"}
    assert planned.reverse(value) == value


def test_an_answer_of_hundreds_of_levels_is_returned_as_it_is():
    """Validation refuses it later; reversing must not exhaust the stack."""
    schema = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    }
    value = None
    for _ in range(900):
        value = {"next": value}
    assert plan(schema, "openai").reverse(value) == value


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "integer", "minimum": 3, "maximum": 2}, "maximum"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "exclusiveMaximum"),
        ({"type": "string", "minLength": 2, "maxLength": 1}, "maxLength"),
    ],
)
def test_ranges_that_leave_nothing_are_refused_or_left_out(schema, keyword):
    """A grammar engine would refuse them later, and in its own words."""
    with pytest.raises(SchemaRefused) as caught:
        plan(closed(a=schema), "vllm")
    assert (caught.value.pointer, caught.value.keyword) == ("/properties/a", keyword)
    left = part(closed(a={**schema, "type": [schema["type"], "null"]}), "vllm")
    assert left["type"] == "null"
