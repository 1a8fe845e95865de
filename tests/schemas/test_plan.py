"""Plans: what OpenAI's strict mode gets means what the original means, or says what it lost."""

import json
import pickle
from typing import Annotated, Literal
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from weighbridge.errors import SchemaRefused, TaskInvalid
from weighbridge.schemas.plan import plan
from weighbridge.schemas.references import resolve

WIRE_KEYWORDS = {
    *("type", "description", "enum", "anyOf", "properties", "required", "additionalProperties"),
    *("items", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum"),
    *("exclusiveMaximum", "minItems", "maxItems"),
}


def is_valid(schema, value):
    return Draft202012Validator(schema).is_valid(value)


def without_losses(schema, losses):
    """The original with each lost keyword taken off at its pointer; oneOf becomes anyOf."""
    relaxed = json.loads(json.dumps(schema))  # no part is shared
    lost = [loss for loss in losses if loss.kind == "unchecked"]
    # The innermost first: then the pointers of the others still lead somewhere.
    for loss in sorted(lost, key=lambda loss: -len(loss.pointer)):
        part = resolve(relaxed, f"#{quote(loss.pointer)}")
        value = part.pop(loss.keyword)  # a loss that was never there fails here
        if loss.keyword == "oneOf":
            part["anyOf"] = value
    return relaxed


def check_law(plan, value):
    """A value that the wire permits is, reversed, valid for the original but for the losses."""
    assert is_valid(plan.wire, value)
    before = json.dumps(value)
    answer = plan.reverse(value)
    assert json.dumps(value) == before
    assert is_valid(without_losses(plan.original, plan.losses), answer)


def check_strict(wire, depth=1):
    """The form that strict mode demands of every part."""
    assert wire.keys() <= WIRE_KEYWORDS | {"$defs", "$ref"}
    if "$ref" in wire:
        assert wire.keys() == {"$ref"}
        return
    for part in wire.get("$defs", {}).values():
        check_strict(part)
    assert {"type", "anyOf"} & wire.keys()
    types = [wire["type"]] if isinstance(wire.get("type"), str) else wire.get("type", [])
    if "object" in types and "anyOf" not in wire:
        assert wire["required"] == list(wire["properties"])
        assert wire["additionalProperties"] is False
        assert depth <= 10
    parts = [*wire.get("properties", {}).values(), *([wire["items"]] if "items" in wire else [])]
    for part in parts:
        check_strict(part, depth + 1)
    for part in wire.get("anyOf", []):
        check_strict(part, depth)


@st.composite
def wire_values(draw, wire):
    """A value that the wire schema permits."""
    value = draw(_values(wire))
    assume(is_valid(wire, value))
    return value


def _values(wire):
    if "anyOf" in wire:
        return st.one_of(*map(_values, wire["anyOf"]))
    if "enum" in wire:
        return st.sampled_from(wire["enum"])
    types = [wire["type"]] if isinstance(wire["type"], str) else wire["type"]
    return st.one_of(*(_typed(name, wire) for name in types))


def _typed(name, wire):
    match name:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(-2, 6)
        case "number":
            return st.integers(-2, 6) | st.sampled_from([0.5, 1.0, -1.25])
        case "string":
            return st.text("ab", max_size=4)
        case "array":
            return st.lists(_values(wire["items"]), max_size=3)
        case "object":
            return st.fixed_dictionaries(
                {key: _values(part) for key, part in wire["properties"].items()}
            )


def an_object(required=None, **properties):
    """An object that says nothing about further properties."""
    names = properties if required is None else required
    return {"type": "object", "properties": properties, "required": list(names)}


def unchecked(plan):
    """The losses that answers are checked for."""
    return [str(loss) for loss in plan.losses if loss.kind == "unchecked"]


DEFS = {
    "label": {"enum": ["bug", "billing"], "title": "Label"},
    "short": {"type": "string", "maxLength": 2, "description": "a word"},
    "pair": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/short"}, "b": {"type": ["integer", "null"]}},
        "required": ["b"],
    },
    "loose": {"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "boolean"}}},
}
leaves = st.sampled_from(
    [
        {"$ref": "#/$defs/label"},
        {"$ref": "#/$defs/short", "description": "another word"},
        {"$ref": "#/$defs/pair"},
        {"allOf": [{"$ref": "#/$defs/pair"}], "minProperties": 1},
        {"$ref": "#/$defs/loose", "required": ["a"]},
        {"type": "string", "minLength": 1, "pattern": "^a"},
        {"type": "string", "pattern": "^(?!a)", "format": "uri"},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 3, "default": 1},
        {"type": "number", "multipleOf": 0.5},
        {"type": "boolean"},
        {"type": "null"},
        {"const": "x"},
        {"const": 1, "type": "integer"},
        {"enum": ["a", None, 1, True]},
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 2},
    ]
)


def composites(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda members: {"anyOf": members}),
        several.map(lambda members: {"oneOf": members}),
        inner.map(lambda items: {"type": "array", "items": items, "minItems": 1}),
        objects(inner),
    )


def objects(inner):
    return st.builds(
        lambda properties, required, extra: (
            an_object([name for name in properties if name in required], **properties) | extra
        ),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3),
        st.sets(st.sampled_from("abc")),
        st.sampled_from([{}, {"additionalProperties": False}, {"maxProperties": 1}]),
    )


schemas = objects(st.recursive(leaves, composites, max_leaves=6)).map(lambda x: x | {"$defs": DEFS})


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(schema=schemas, data=st.data())
def test_what_the_wire_permits_is_reversed_into_what_the_original_permits(schema, data):
    """Or breaks a listed loss, and then the answer is refused locally."""
    before = json.dumps(schema)
    planned = plan(schema, "openai")
    assert json.dumps(schema) == before
    check_strict(planned.wire)
    check_law(planned, data.draw(wire_values(planned.wire)))


@given(schema=schemas)
def test_a_plan_can_be_sent_and_stored(schema):
    """Plain data: JSON on the wire, and a value like any other at home."""
    planned = plan(schema, "openai")
    assert json.loads(json.dumps(planned.wire)) == planned.wire
    assert pickle.loads(pickle.dumps(planned)) == planned == plan(schema, "openai")


def test_a_triage_task_is_sent_as_one_would_write_it():
    """Optional becomes nullable, bounds become words, titles and defaults go."""
    schema = {
        "title": "Triage",
        "type": "object",
        "$defs": {"Level": {"enum": ["low", "high"], "type": "string", "title": "Level"}},
        "properties": {
            "category": {"const": "bug", "title": "Category"},
            "level": {"$ref": "#/$defs/Level", "description": "How bad it is."},
            "refund": {"type": "boolean", "default": False},
            "note": {"type": "string", "maxLength": 80, "description": "In one line."},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        },
        "required": ["category", "level"],
    }
    planned = plan(schema, "openai")
    assert planned.wire == {
        "type": "object",
        "properties": {
            "category": {"type": "string", "enum": ["bug"]},
            "level": {"type": "string", "enum": ["low", "high"], "description": "How bad it is."},
            "refund": {"type": ["boolean", "null"]},
            "note": {
                "type": ["string", "null"],
                "description": "In one line. (at most 80 characters)",
            },
            "tags": {
                "description": "no item twice",
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
            },
        },
        "required": ["category", "level", "refund", "note", "tags"],
        "additionalProperties": False,
    }
    assert unchecked(planned) == [
        "maxLength at /properties/note",
        "uniqueItems at /properties/tags",
    ]


def test_nulls_for_absent_properties_go_and_nulls_of_the_original_stay():
    """Only the property's owner knows which of the two a null is."""
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    inner = an_object(["kept"], kept=nullable, gone={"type": "integer"})
    planned = plan(an_object(["kept", "inner"], kept=nullable, inner=inner, gone=inner), "openai")
    value = {"kept": None, "inner": {"kept": None, "gone": None}, "gone": None}
    check_law(planned, value)
    assert planned.reverse(value) == {"kept": None, "inner": {"kept": None}}
    assert value["gone"] is None


def test_the_member_of_a_union_decides_about_its_nulls():
    """The same key is required in one member and optional in the other."""
    either = {
        "oneOf": [
            an_object(["kind"], kind={"const": "a"}, note={"type": "string"}),
            an_object(kind={"const": "b"}, note={"type": ["string", "null"], "maxLength": 1}),
            an_object(["kind"], kind={"enum": ["a", "c"]}, other={"type": "string"}),
        ]
    }
    planned = plan(an_object(it=either), "openai")
    assert planned.reverse({"it": {"kind": "a", "note": None}}) == {"it": {"kind": "a"}}
    assert planned.reverse({"it": {"kind": "b", "note": None}}) == {
        "it": {"kind": "b", "note": None}
    }
    assert unchecked(planned) == [
        "oneOf at /properties/it",
        "maxLength at /properties/it/oneOf/1/properties/note",
    ]


def test_reversing_rubbish_returns_rubbish():
    """What a server without a grammar may answer must not raise; the original refuses it later."""
    planned = plan(
        an_object([], a=an_object(b={"anyOf": [an_object(c={"type": "null"})]})), "openai"
    )
    for value in (None, 1, "x", [], [{"a": None}], {"z": None}, {"a": [1]}, {"a": {"b": [None]}}):
        assert planned.reverse(value) == value


class Refund(BaseModel):
    kind: Literal["refund"]
    amount: Annotated[float, Field(gt=0)]


class Reset(BaseModel):
    kind: Literal["reset"]
    email: str | None = None


class Answer(BaseModel):
    """An answer with what pydantic makes of nesting, defaults and tagged unions."""

    action: Annotated[Refund | Reset, Field(discriminator="kind")]
    tags: Annotated[list[Literal["vip", "angry"]], Field(max_length=2)] = []
    reply: Annotated[str, Field(max_length=500, description="What to say.")] = ""


def test_a_pydantic_model_goes_out_and_comes_back():
    """Its own schema is planned, and what is reversed validates as the model."""
    planned = plan(Answer.model_json_schema(), "openai")
    check_strict(planned.wire)
    value = {"action": {"kind": "reset", "email": None}, "tags": None, "reply": None}
    check_law(planned, value)
    assert Answer.model_validate(planned.reverse(value)) == Answer(action=Reset(kind="reset"))


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        (STRING, "", "type"),
        ({"anyOf": [an_object(a=STRING), an_object(b=STRING)]}, "", "anyOf"),
        ({"oneOf": [an_object(a=STRING), an_object(b=STRING)]}, "", "oneOf"),
        ({**an_object(a=STRING), "type": ["object", "null"]}, "", "type"),
        ({"type": "object"}, "", "properties"),
        ({**an_object(a=STRING), "additionalProperties": True}, "", "additionalProperties"),
        (an_object(a={"type": "object", "additionalProperties": STRING}), "/properties/a", ...),
        ({**an_object(a=STRING), "patternProperties": {"^x": STRING}}, "", "patternProperties"),
        (an_object(["a", "b"], a=STRING), "", "required"),
        ({**an_object(a=STRING), "if": {}, "then": {}}, "", "if"),
        ({**an_object(a=STRING), "dependentSchemas": {"a": {}}}, "", "dependentSchemas"),
        ({**an_object(a=STRING), "unevaluatedProperties": False}, "", "unevaluatedProperties"),
        (an_object(a={"type": "array"}), "/properties/a", "items"),
        (an_object(a={"type": "array", "items": {}}), "/properties/a/items", "type"),
        (
            an_object(a={"type": "array", "prefixItems": [STRING, {"type": "null"}]}),
            "/properties/a",
            "prefixItems",
        ),
        (an_object(a=True), "/properties/a", "type"),
        (an_object(a=False), "/properties/a", "false"),
        (an_object(a={"$ref": "#/$defs/x"}) | {"$defs": {"x": {}}}, "/properties/a", "type"),
        (an_object(a={"description": "?"}), "/properties/a", "type"),
        (an_object(a={**STRING, "pattern": r"\p{L}"}), "/properties/a", "pattern"),
        (an_object(a={"const": 1, "allOf": [{"const": True}]}), "/properties/a/allOf/0", "const"),
        (an_object(a={**STRING, "nullable": True}), "/properties/a", "nullable"),
        (an_object(a={**STRING, "maxlength": 3}), "/properties/a", "maxlength"),
        (an_object(a={"enum": [["x"]]}), "/properties/a", "enum"),
        (an_object(a={"enum": []}), "/properties/a", "enum"),
        (an_object(a={"const": {"x": 1}}), "/properties/a", "const"),
        (an_object(a={"const": "x", "enum": ["y"]}), "/properties/a", "const"),
        (an_object(a={"allOf": [STRING, {"type": "null"}]}), "/properties/a/allOf/1", "type"),
        (
            an_object(a={**an_object(b=STRING), "allOf": [{"additionalProperties": False}]}),
            "/properties/a/allOf/0",
            "additionalProperties",
        ),
        (
            an_object([], a={"anyOf": [{"$ref": "#/properties/a"}, STRING]}),
            "/properties/a/anyOf/0",
            "$ref",
        ),
        (an_object(a={"$ref": "https://example.com/a.json"}), "/properties/a", "$ref"),
        (an_object(a={"$ref": "#/nowhere"}), "/properties/a", "$ref"),
        (an_object(**{"a/b~": an_object(c={})}), "/properties/a~1b~0/properties/c", "type"),
        (
            an_object([], a={"$ref": "#/$defs/a"})
            | {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
            "/$defs/a",
            "$ref",
        ),
    ],
)
def test_refusals_name_the_pointer_and_the_keyword(schema, pointer, keyword):
    """One refusal for everything that strict mode cannot say."""
    with pytest.raises(SchemaRefused) as caught:
        plan(schema, "openai")
    expected = "additionalProperties" if keyword is ... else keyword
    assert (caught.value.dialect, caught.value.pointer) == ("openai", pointer)
    assert caught.value.keyword == expected
    assert f"`{expected}` at {pointer or '/'}" in str(caught.value)


def nested(levels):
    return an_object(a=nested(levels - 1)) if levels > 1 else an_object(a=STRING)


@pytest.mark.parametrize(
    ("fits", "too_large", "keyword"),
    [
        (nested(10), nested(11), "properties"),
        (
            an_object(**{f"p{i}": STRING for i in range(5000)}),
            an_object(**{f"p{i}": STRING for i in range(5001)}),
            "properties",
        ),
        (
            an_object(a={"enum": list(range(999))}, b={"const": 1}),
            an_object(a={"enum": list(range(1000))}, b={"const": 1}),
            "const",
        ),
        (
            an_object(a={"enum": [f"{i:060}" for i in range(250)]}),
            an_object(a={"enum": [f"{i:060}" for i in range(251)]}),
            "enum",
        ),
        (
            an_object(a={"enum": ["x" * 119_999]}),
            an_object(a={"enum": ["x" * 120_000]}),
            "enum",
        ),
    ],
    ids=["depth", "properties", "enum values", "long enum", "characters"],
)
def test_limits_hold_to_the_last_unit(fits, too_large, keyword):
    """One more of anything is refused here, not by a 400 after the request."""
    assert unchecked(plan(fits, "openai")) == []
    with pytest.raises(SchemaRefused, match="more than") as caught:
        plan(too_large, "openai")
    assert caught.value.keyword == keyword


def test_doubling_references_end_in_a_refusal():
    """Forty short definitions that would be a trillion parts written out."""
    defs = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
    with pytest.raises(SchemaRefused, match="references written out"):
        plan(an_object(a={"$ref": "#/$defs/d0"}) | {"$defs": {**defs, "d40": STRING}}, "openai")


def test_what_json_cannot_spell_is_no_option():
    """Before it reaches the encoder of a request."""
    with pytest.raises(TaskInvalid):
        plan(an_object(a={"enum": ["\ud800"]}), "openai")


@pytest.mark.parametrize(
    ("name", "sent"), [("triage", "triage"), ("my task/1", "my_task_1"), ("", "answer")]
)
def test_names_fit_the_wire(name, sent):
    """At most 64 characters of a small alphabet."""
    assert plan(an_object(a=STRING), "openai", name=name).name == sent
    assert len(plan(an_object(a=STRING), "openai", name="x" * 99).name) == 64


@given(schema=schemas, data=st.data())
def test_a_null_is_enough_to_leave_a_property_out(schema, data):
    """Every optional property can be left out on the wire."""
    planned = plan(schema, "openai")
    optional = [name for name in schema["properties"] if name not in schema["required"]]
    assume(optional)
    assert all(is_valid(planned.wire["properties"][name], None) for name in optional)


@pytest.mark.parametrize("place", ["root", "required", "optional"])
def test_the_public_suite_is_refused_or_obeyed(suite, place):
    """For the suite's own instances, with each schema at the root and as a property."""
    num_planned = num_checked = 0
    for group in suite:
        schema, instances = group["schema"], [test["data"] for test in group["tests"]] + [None]
        if place != "root":
            if "$ref" in json.dumps(schema):
                continue  # a reference would start at the wrong root
            schema = an_object(["it"] if place == "required" else [], it=schema)
            instances = [{"it": value} for value in instances]
        try:
            planned = plan(schema, "openai")
        except SchemaRefused:
            continue
        num_planned += 1
        check_strict(planned.wire)
        for value in instances:
            if is_valid(planned.wire, value):
                num_checked += 1
                check_law(planned, value)
    # Only ever more: a change that plans less, or checks less, must say so here.
    least = {"root": (17, 15), "required": (44, 66), "optional": (44, 109)}[place]
    assert num_planned >= least[0]
    assert num_checked >= least[1]


@pytest.mark.parametrize(
    ("dialect", "required", "expected"),
    [
        ("openai", ["a", "b"], False),
        ("openai", ["a"], True),
        ("anthropic", ["a"], False),  # optional properties can be left out there
        ("prompt", ["a"], False),
    ],
)
def test_null_is_looked_for_only_where_it_may_stand_for_absence(dialect, required, expected):
    """Where nothing is optional an answer needs no way back."""
    inner = {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]}
    properties = {"a": {"type": "string"}, "b": {**inner, "additionalProperties": False}}
    schema = {"type": "object", "properties": properties, "required": required}
    planned = plan({**schema, "additionalProperties": False}, dialect)
    assert planned.null_is_absent is expected
