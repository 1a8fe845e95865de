"""Every dialect: what it documents is planned, keeps its meaning, and is written as it demands."""

import json
from dataclasses import astuple, fields

import pytest
import wild_schemas
from documented_subsets import SUBSETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_shapes import SHAPES

from bench.schemas_plans import Laws, sample
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.dialects import DIALECTS, Dialect, Limits
from weighbridge.schemas.plan import plan

# What the vendors' pages let stand in a schema; theirs, not the package's.
_SHAPE = {"type", "description", "enum", "anyOf", "properties", "required", "additionalProperties"}
_SHAPE |= {"items"}
_TEXTS = {"pattern", "format"}
_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_COUNTS = {"minItems", "maxItems"}
_LENGTHS = {"minLength", "maxLength"}
MAY_STAND = {
    "openai": _SHAPE | _TEXTS | _BOUNDS | _COUNTS | {"multipleOf", "$ref", "$defs"},
    "azure": _SHAPE | {"$ref", "$defs"},
    "groq": _SHAPE | {"$ref", "$defs"},
    "deepseek": _SHAPE,
    "gemini": _SHAPE
    | _COUNTS
    | {"format", "minimum", "maximum", "prefixItems"}
    | {"propertyOrdering"},
    "anthropic": _SHAPE | _TEXTS | {"minItems"},
    "llama_cpp": _SHAPE | _TEXTS | _BOUNDS | _COUNTS | _LENGTHS,
    "vllm": _SHAPE
    | _TEXTS
    | _BOUNDS
    | _COUNTS
    | _LENGTHS
    | {"prefixItems", "$ref", "$defs"}
    | {"minProperties", "maxProperties"},
}
MAY_STAND |= {"mistral": MAY_STAND["openai"], "ollama": MAY_STAND["llama_cpp"]}
MAY_STAND |= {"lm_studio": MAY_STAND["llama_cpp"]}
DEMANDS_ALL = {"openai", "azure", "groq", "mistral", "deepseek"}
DEMANDS_CLOSED = DEMANDS_ALL | {"anthropic"}
ENFORCING = sorted(name for name, dialect in DIALECTS.items() if dialect.enforces)
TABLE_DIALECTS = ("openai", "azure", "groq", "deepseek", "gemini", "anthropic", "llama_cpp", "vllm")

REF, REST, FIRST = "$ref", "additionalProperties", "prefixItems"
ALL = (None,) * 8
# In the order of TABLE_DIALECTS: None where the shape is planned, else the keyword refused.
TABLE = {
    **dict.fromkeys(("optional", "default", "nested", "lists", "choices", "union"), ALL),
    **dict.fromkeys(("discriminated", "numbers", "texts", "counted", "dates", "aliased"), ALL),
    **dict.fromkeys(("closed", "money", "identified", "generic"), ALL),
    **dict.fromkeys(
        ("tree", "chain", "strict tree"), (None, None, None, REF, None, REF, None, None)
    ),
    **dict.fromkeys(("mapped", "open"), (REST, REST, REST, REST, None, REST, None, None)),
    "pair": (FIRST, FIRST, FIRST, FIRST, None, FIRST, FIRST, None),
    "twins": (None, FIRST, FIRST, FIRST, None, FIRST, None, None),
    "anything": ("type",) * 6 + (None, None),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_pydantic_shapes_are_planned_wherever_the_dialect_can(shape):
    """Planned, or refused for the keyword that the table names, before any call."""
    schema = SHAPES[shape][0].model_json_schema()
    outcome = []
    for dialect in TABLE_DIALECTS:
        try:
            plan(schema, dialect)
        except SchemaRefused as refusal:
            outcome.append(refusal.keyword)
        else:
            outcome.append(None)
    assert tuple(outcome) == TABLE[shape]


@pytest.mark.parametrize("dialect", ENFORCING)
def test_values_of_pydantic_shapes_can_be_said_and_come_back(dialect):
    """Both laws, and the model itself takes what comes back."""
    num_said = 0
    for model, values in SHAPES.values():
        try:
            planned = plan(model.model_json_schema(), dialect)
        except SchemaRefused:
            continue
        check_form(planned.wire, dialect)
        laws = Laws(planned)
        for value in values:
            said = planned.forward(value)
            outcome = laws.holds_for_instance(value)
            assert outcome is not False, (value, planned.losses)
            if outcome:
                num_said += 1
                assert laws.holds_for_answer(said)
                model.model_validate_json(json.dumps(planned.reverse(said)))
    assert num_said >= 25


@pytest.mark.parametrize("dialect", SUBSETS)
def test_what_a_dialect_documents_is_planned_without_an_unchecked_loss(dialect):
    """Refusing is no way out, and nor is losing what the vendor says it enforces."""

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(schema=SUBSETS[dialect], data=st.data())
    def check(schema, data):
        before = json.dumps(schema)
        try:
            planned = plan(schema, dialect)
        except SchemaRefused as refusal:
            is_small = any(value is not None for value in astuple(DIALECTS[dialect].limits))
            if "more than" in refusal.problem and is_small:
                return
            raise
        assert json.dumps(schema) == before
        lost = {loss.keyword for loss in planned.losses if loss.kind == "unchecked"}
        assert lost <= UNENFORCED.get(dialect, set())
        check_form(planned.wire, dialect)
        laws = Laws(planned)
        rng = data.draw(st.randoms(use_true_random=False))
        for _ in range(4):
            value = sample(planned.wire, planned.wire, rng)
            assert laws.holds_for_answer(value) is not False, value
            assert laws.holds_for_instance(planned.reverse(value)) is not False, value

    check()


# Documented, and yet taken for anyOf, which is the same unless the members overlap.
UNENFORCED = {name: {"oneOf"} for name in ("gemini", "llama_cpp", "vllm")}


@pytest.mark.parametrize("dialect", TABLE_DIALECTS)
def test_both_laws_hold_for_schemas_that_nobody_documents(dialect):
    """Refused, or planned so that what is said means what the original means, both ways."""

    @settings(max_examples=100, suppress_health_check=list(HealthCheck))
    @given(schema=wild_schemas.schemas, values=st.lists(wild_schemas.values), data=st.data())
    def check(schema, values, data):
        try:
            planned = plan(schema, dialect)
        except SchemaRefused:
            return
        check_form(planned.wire, dialect)
        laws = Laws(planned)
        rng = data.draw(st.randoms(use_true_random=False))
        made = [sample(planned.wire, planned.wire, rng) for _ in range(3)]
        instances = [*({name: value} for value in values for name in "ab"), *values]
        for value in [*made, *map(planned.forward, instances), *instances]:
            assert laws.holds_for_answer(value) is not False, value
        for value in [*map(planned.reverse, made), *instances]:
            assert laws.holds_for_instance(value) is not False, value

    check()


@pytest.mark.parametrize("dialect", ENFORCING)
def test_every_suite_schema_that_is_planned_is_written_as_the_dialect_demands(suite, dialect):
    """Form only; both laws over the suites are the business of bench.schemas_plans."""
    num_planned = 0
    for group in suite:
        schema = {"type": "object", "properties": {"it": group["schema"]}, "required": ["it"]}
        if "$ref" in json.dumps(schema):
            continue  # a reference would start at the wrong root
        try:
            planned = plan(schema, dialect)
        except SchemaRefused:
            continue
        num_planned += 1
        check_form(planned.wire, dialect)
    assert num_planned >= 40


def check_form(wire, dialect):
    """The form that a dialect demands of every part."""
    stands = wire.keys() - MAY_STAND[dialect]
    assert not stands, stands
    if "$ref" in wire:
        assert wire.keys() == {"$ref"}
        return
    for part in wire.get("$defs", {}).values():
        check_form(part, dialect)
    if wire.get("type") == "object" or "properties" in wire:
        rest = wire.get("additionalProperties")
        if dialect in DEMANDS_CLOSED:
            assert rest is False
        if dialect in DEMANDS_ALL:
            assert wire["required"] == [*wire["properties"]]
        assert {*wire.get("required", ())} <= wire.get("properties", {}).keys()
        if isinstance(rest, dict):
            check_form(rest, dialect)
    if dialect in ("gemini", "anthropic", "deepseek", "llama_cpp"):
        assert not isinstance(wire.get("type"), list)
    if dialect == "gemini" and "enum" in wire:
        assert all(isinstance(v, str | int | float) and v is not True for v in wire["enum"])
    for part in wire.get("properties", {}).values():
        check_form(part, dialect)
    for part in [*wire.get("anyOf", ()), *wire.get("prefixItems", ())]:
        check_form(part, dialect)
    if isinstance(wire.get("items"), dict):
        check_form(wire["items"], dialect)


def test_a_prompt_shows_the_schema_as_it_is_and_loses_nothing():
    """Nothing is enforced there, so nothing need be refused: local validation does everything."""
    schema = {"if": {"type": "string"}, "then": {"minLength": 2}, "x": 1, "$ref": "#/nowhere"}
    planned = plan(schema, "prompt")
    assert (planned.wire, planned.losses) == (schema, ())
    assert planned.reverse({"a": None}) == planned.forward({"a": None}) == {"a": None}


def test_unknown_dialects_are_named_with_the_nearest_one():
    """A misspelt setting must not become another dialect."""
    with pytest.raises(ValueError, match=r"no dialect is called 'opneai'; did you mean 'openai'\?"):
        plan({}, "opneai")


def test_a_dialect_of_your_own_is_planned_for():
    """Dialects are data: whoever runs a server can describe it."""
    mine = Dialect(name="mine", source="my server", keywords=frozenset({"maxLength"}))
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}
    planned = plan({**schema, "additionalProperties": False}, mine)
    assert planned.dialect == "mine"
    assert planned.wire["properties"]["a"] == {"type": "string", "maxLength": 3}
    assert planned.losses == ()


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_says_where_its_facts_stand(name):
    """A fact without a source cannot be checked."""
    dialect = DIALECTS[name]
    assert dialect.name == name
    assert len(dialect.source) > 20
    assert {"azure", "mistral"} <= {n for n, d in DIALECTS.items() if not d.is_confirmed}


def closed(required=None, **properties):
    names = properties if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": [*names],
        "additionalProperties": False,
    }


TEXT = {"type": "string"}


def nested(levels):
    return closed(a=nested(levels - 1)) if levels > 1 else closed(a=TEXT)


@pytest.mark.parametrize(
    ("dialect", "fits", "too_much", "keyword"),
    [
        ("azure", nested(5), nested(6), "properties"),
        (
            "azure",
            closed(**{f"p{i}": TEXT for i in range(100)}),
            closed(**{f"p{i}": TEXT for i in range(101)}),
            "properties",
        ),
        (
            "azure",
            closed(a={"enum": [*range(500)]}),
            closed(a={"enum": [*range(501)]}),
            "enum",
        ),
        (
            "anthropic",
            closed([], **{f"p{i}": TEXT for i in range(24)}),
            closed([], **{f"p{i}": TEXT for i in range(25)}),
            "required",
        ),
        (
            "anthropic",
            closed(**{f"p{i}": {"type": ["string", "null"]} for i in range(16)}),
            closed(**{f"p{i}": {"type": ["string", "null"]} for i in range(17)}),
            "type",
        ),
    ],
    ids=["depth", "properties", "enum values", "optional properties", "unions"],
)
def test_limits_of_a_dialect_hold_to_the_last_unit(dialect, fits, too_much, keyword):
    """One more is refused here, and not by a 400 after the request."""
    assert plan(fits, dialect).losses == ()
    with pytest.raises(SchemaRefused, match="more than") as caught:
        plan(too_much, dialect)
    assert caught.value.keyword == keyword
    assert plan(too_much, "vllm").losses == ()


def test_every_limit_is_tested_somewhere():
    """A new limit needs a pair above, or in the tests of OpenAI's."""
    assert {f.name for f in fields(Limits)} == {
        *("depth", "properties", "enum_values", "chars", "long_enum_chars", "optional", "unions")
    }
