"""Finite languages: what is enumerated is what the schema permits, spelled as json.dumps spells."""

import itertools
import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from weighbridge.errors import TaskInvalid
from weighbridge.schemas.finite import Choice, FiniteLanguage, Literal, judged_fields, language

AWKWARD = ["bug", "bug report", 'the "bug"', "back\\slash", "été", "🐛", "", " ", "bu", "a\nb"]


def closed(**properties):
    """An object of these properties, all of them required and no others permitted."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def texts(schema):
    return list(language(schema).strings())


def numbers_as_floats(value):
    """JSON has one kind of number; True is none."""
    if isinstance(value, dict):
        return {name: numbers_as_floats(part) for name, part in value.items()}
    if isinstance(value, list):
        return [numbers_as_floats(part) for part in value]
    return float(value) if type(value) is int else value


def as_set(values):
    return {json.dumps(numbers_as_floats(value), sort_keys=True) for value in values}


scalars = st.sampled_from([*AWKWARD, None, True, False, 0, 1, 2, -3, 1.0, 0.5])
leaves = st.one_of(
    st.lists(scalars, min_size=1, max_size=4, unique_by=json.dumps).map(lambda x: {"enum": x}),
    scalars.map(lambda x: {"const": x}),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["null", "boolean"]}]),
    st.tuples(st.integers(-2, 2), st.integers(0, 3)).map(
        lambda x: {"type": "integer", "minimum": x[0], "exclusiveMaximum": x[0] + x[1]}
    ),
)


def composites(inner):
    pairs = st.lists(inner, min_size=1, max_size=2)
    objects = st.builds(
        lambda parts, required, extra: {
            **closed(**parts),
            "required": sorted(required & parts.keys()),
            **extra,
        },
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        st.sets(st.sampled_from("ab")),
        st.sampled_from([{}, {}, {"minProperties": 1}, {"dependentRequired": {"a": ["b"]}}]),
    )
    arrays = st.one_of(
        st.builds(
            lambda items, most, unique: {
                "type": "array",
                "items": items,
                "maxItems": most,
                "uniqueItems": unique,
            },
            inner,
            st.integers(0, 2),
            st.booleans(),
        ),
        pairs.map(lambda x: {"type": "array", "prefixItems": x, "items": False, "minItems": 1}),
    )
    return st.one_of(
        pairs.map(lambda x: {"anyOf": x}), pairs.map(lambda x: {"oneOf": x}), objects, arrays
    )


finite_schemas = st.recursive(leaves, composites, max_leaves=5)


def brute_force(schema):
    """Every value built from the schema's own constants, a few strangers, and small containers."""
    if isinstance(schema, bool):
        return []
    found = [None, True, False, "stranger", *range(-4, 7)]
    found += schema.get("enum", []) + [schema[key] for key in ("const",) if key in schema]
    for keyword in ("anyOf", "oneOf", "prefixItems"):
        found += itertools.chain(*map(brute_force, schema.get(keyword, [])))
    columns = [
        [{name: value} for value in valid(part)] + [{}]
        for name, part in schema.get("properties", {}).items()
    ]
    found += [
        dict(itertools.chain(*(x.items() for x in row))) for row in itertools.product(*columns)
    ]
    places = schema.get("prefixItems") or [schema.get("items", False)] * 2
    rows = [valid(place) for place in places]
    found += [list(row) for n in range(3) for row in itertools.product(*rows[:n])]
    return found


def valid(schema):
    return [x for x in brute_force(schema) if Draft202012Validator(schema).is_valid(x)]


@given(schema=finite_schemas)
def test_language_is_exactly_what_the_validator_accepts(schema):
    """Nothing invalid is enumerated, nothing valid is missing, nothing comes twice."""
    expected = as_set(valid(schema))
    found = language(schema)
    if found is None:
        assert not expected
        return
    strings = list(found.strings())
    assert as_set(map(json.loads, strings)) >= expected
    assert len(strings) == len(set(strings)) == found.count
    for text in strings:
        assert json.dumps(json.loads(text), ensure_ascii=False) == text
        assert Draft202012Validator(schema).is_valid(json.loads(text))


@given(schema=finite_schemas)
def test_stems_and_closers_mark_where_every_option_ends(schema):
    """A closer is the text's own last character, or the first of what follows; never ambiguous."""
    found = language(closed(first=schema, last=schema))
    assume(found is not None)
    for part, following in itertools.pairwise([*found.parts, Literal("")]):
        if isinstance(part, Choice):
            for option in part.options:
                own_end = option.text == option.stem + option.closer
                assert own_end or (option.text, option.closer) == (option.stem, following.text[0])
            ends = [option.stem + option.closer for option in part.options]
            assert not any(a != b and b.startswith(a) for a in ends for b in ends)


@given(schema=finite_schemas, data=st.data())
def test_value_rebuilds_what_was_chosen(schema, data):
    """The value of some options is the value that their joined texts spell."""
    found = language(closed(outer=closed(inner=schema), flag={"type": "boolean"}))
    assume(found is not None)
    chosen = {
        choice.path: data.draw(st.sampled_from(choice.options)).value for choice in found.choices
    }
    value = found.value(chosen)
    assert found.spell(chosen) == json.dumps(value, ensure_ascii=False)
    assert found.spell(chosen) in set(found.strings())
    assert value["flag"] is chosen["flag",]


def test_labels_of_any_spelling_survive():
    """Quotes, spaces, emoji, backslashes, shared prefixes, the empty label."""
    schema = closed(category={"enum": AWKWARD})
    assert texts(schema) == [json.dumps({"category": x}, ensure_ascii=False) for x in AWKWARD]


def test_product_costs_the_sum_of_its_options():
    """200 labels by 4 priorities are 204 options for 800 strings, in any nesting."""
    found = language(
        closed(
            category={"$ref": "#/$defs/label"},
            more=closed(priority={"enum": ["low", "normal", "high", "urgent"]}),
        )
        | {"$defs": {"label": {"enum": [f"label {i}" for i in range(200)], "title": "Label"}}}
    )
    assert found.count == 800
    assert sum(len(choice.options) for choice in found.choices) == 204
    assert [choice.path for choice in found.choices] == [("category",), ("more", "priority")]
    assert [part.text for part in found.parts if isinstance(part, Literal)] == [
        '{"category": "',
        ', "more": {"priority": "',
        "}}",
    ]


def test_one_enum_may_be_as_large_as_it_likes():
    """Its length is the schema's own; nothing multiplies, and nothing takes quadratic time."""
    labels = [f"label {i}" for i in range(20_000)]
    nullable = {"anyOf": [{"$ref": "#/$defs/label"}, {"type": "null"}]}
    schema = closed(a=nullable) | {"$defs": {"label": {"type": "string", "enum": labels}}}
    assert language(schema).count == 20_001
    assert len(judged_fields(schema)[0].options) == 20_001


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 4096}, 4096),
        ({"type": "integer", "minimum": 0, "maximum": 4096}, None),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 12, "maxItems": 12}, 4096),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 12}, None),
        ({"type": "array", "items": {"type": "boolean"}}, None),
        ({**closed(a={"type": "boolean"}), "required": []}, 3),
        ({**closed(a={"type": "boolean"}), "additionalProperties": True}, None),
        ({**closed(a={"type": "boolean"}), "patternProperties": {"^x": {}}}, None),
        ({**closed(a={"type": "boolean"}), "type": ["object", "string"]}, None),
        (closed(a={"type": "string"}), None),
        (closed(a={"type": "string", "enum": ["x", 1]}), 1),
        (closed(a={"enum": ["x", "y"], "const": "y"}), 1),
        (closed(a={"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 3}), 4),
        ({"enum": ["x"], "$ref": "https://example.com/x.json"}, None),
        ({"$ref": "#"}, None),
        (closed(), 1),
        ({"const": 1, "enum": [2]}, None),
        (False, None),
        (True, None),
    ],
)
def test_what_is_finite_and_what_is_not(schema, count):
    """Pairs at the edges of the caps and of what counts as closed."""
    found = language(closed(a=schema))
    assert (found and found.count) == count


def test_cross_field_keywords_turn_a_product_into_whole_strings():
    """if/then ties fields together, so they cannot be chosen one by one."""
    schema = closed(kind={"enum": ["x", "y"]}, size={"enum": [1, 2]}) | {
        "if": {"properties": {"kind": {"const": "x"}}},
        "then": {"properties": {"size": {"const": 1}}},
    }
    assert [part.path for part in language(schema).choices] == [()]
    assert texts(schema) == [
        '{"kind": "x", "size": 1}',
        '{"kind": "y", "size": 1}',
        '{"kind": "y", "size": 2}',
    ]


def test_integers_floats_and_booleans_are_never_confused():
    """Equal for Python, three values for JSON."""
    found = language(closed(a={"enum": [1, 1.0, True]}))
    assert [option.text for option in found.choices[0].options] == ["1", "1.0", "true"]
    assert found.value({("a",): True})["a"] is True
    assert type(found.value({("a",): 1.0})["a"]) is float
    with pytest.raises(ValueError, match="not an option of a"):
        language(closed(a={"enum": [1]})).value({("a",): True})


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, "\ud800", 10**5000, {"\udfff": 1}], ids=range(5)
)
def test_what_json_cannot_spell_is_refused(value):
    """And the value is not in the message."""
    with pytest.raises(TaskInvalid, match=r"^/: holds a value that is no JSON text$"):
        language(closed(a={"enum": [value]}))


def test_references_cannot_blow_up_the_walk():
    """Doubling definitions are refused, endless ones are not finite, neither hangs."""
    doubling = {
        f"d{i}": closed(a={"$ref": f"#/$defs/d{i + 1}"}, b={"$ref": f"#/$defs/d{i + 1}"})
        for i in range(40)
    }
    doubling["d40"] = {"type": "boolean"}
    with pytest.raises(TaskInvalid, match="references followed"):
        language({"$ref": "#/$defs/d0", "$defs": doubling})
    endless = closed(next={"$ref": "#"}, ok={"type": "boolean"})
    assert language(endless) is None
    assert [field.name for field in judged_fields(endless)] == ["ok"]
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    with pytest.raises(TaskInvalid, match="references followed"):
        language(loop)


def test_judged_fields_are_found_wherever_they_are():
    """References, nesting, unions and nullability; long integers and free text are no fields."""
    schema = {
        "type": "object",
        "$defs": {"Level": {"enum": ["low", "high"], "title": "Level"}},
        "properties": {
            "category": {"$ref": "#/$defs/Level", "description": "how bad"},
            "refund": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "kind": {"const": "ticket"},
            "stars": {"type": "integer", "minimum": 1, "maximum": 3},
            "wide": {"type": "integer", "minimum": 0, "maximum": 256},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {"enum": ["x"]}, "maxItems": 1},
            "customer": closed(plan={"enum": ["free", "paid"]}),
            "agent": {
                "type": ["object", "null"],
                "properties": {"seen": {"type": "boolean"}},
                "required": ["seen"],
            },
        },
        "required": ["category", "customer", "agent"],
    }
    assert [(f.name, f.path, f.options, f.is_required) for f in judged_fields(schema)] == [
        ("category", ("category",), ("low", "high"), True),
        ("refund", ("refund",), (True, False, None), False),
        ("kind", ("kind",), ("ticket",), False),
        ("stars", ("stars",), (1, 2, 3), False),
        ("customer.plan", ("customer", "plan"), ("free", "paid"), True),
        ("agent.seen", ("agent", "seen"), (True, False), False),
    ]


def test_scalar_languages_end_with_the_text():
    """Without anything behind it, a number is closed by nothing at all."""
    found = language({"enum": ["a", 1]})
    assert isinstance(found, FiniteLanguage)
    assert [(o.stem, o.closer) for o in found.choices[0].options] == [('"a', '"'), ("1", "")]
    assert texts({"enum": ["a", "b"]}) == ['"a"', '"b"']


def test_the_public_suite_agrees(suite):
    """An instance is in the language exactly when the suite calls it valid."""
    num_finite = 0
    for group in suite:
        found = language(group["schema"])
        if found is not None:
            num_finite += 1
            strings = as_set(json.loads(text) for text in found.strings())
            for test in group["tests"]:
                is_in = bool(as_set([test["data"]]) & strings)
                assert is_in == test["valid"], (group["description"], test["description"])
    assert num_finite >= 36  # only ever more
