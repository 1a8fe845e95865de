"""Validation of answers: the same verdicts as the library's, in bounded time."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from weighbridge.schemas.task import Task
from weighbridge.schemas.validation import MAX_VIOLATIONS, AnswerValidator, matches

# Each takes minutes or hours with Python's own engine.
HOSTILE = [
    (r"^(\w+\s?)*$", "a" * 100_000 + "!"),
    (r"^(a+)+$", "a" * 100_000 + "!"),
    (r"^(a|a)*$", "a" * 100_000 + "!"),
    (r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}[a-z]{2,3}$", "a" * 99_999),
    (r"[a-z]+\d", "a" * 200_000),
    (r"(.*)(.*)(.*)(.*)(.*)x$", "a" * 20_000),
]


@pytest.mark.parametrize(("pattern", "text"), HOSTILE)
def test_hostile_text_is_told_from_a_match_at_once(pattern: str, text: str) -> None:
    """A customer can make a model write it."""
    assert not matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"^[A-Z]{2}-\d{4}$", "AB-1234", True),
        (r"^[A-Z]{2}-\d{4}$", "AB-123", False),
        ("b", "abc", True),  # found anywhere
        ("^b", "abc", False),
        ("^a$", "a\n", False),  # as in ECMAScript
        (r"^\w$", "é", True),
        ("^.$", "\U0001f600", True),
        # What only Python reads, or reads otherwise than Rust.
        (r"^(?!no)\w+$", "yes", True),
        (r"^(?!no)\w+$", "no", False),
        (r"^(\w)\1$", "aa", True),
        (r"^(\w)\1$", "ab", False),
        ("^a--b$", "a--b", True),
        ("^[a[b]$", "[", True),
        ("^a++a$", "aa", False),
        (r"^\<$", "<", True),
        ("^a{,2}$", "aa", True),
        ("^a{,2}$", "aaa", False),
    ],
)
def test_patterns_are_read_as_written(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


atoms = st.sampled_from(
    ["a", "b", ".", r"\d", r"\w", r"\s", "[ab]", "[^a]", r"\.", "[&]", "é", "^"]
)
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "*?"])
patterns = st.recursive(
    st.tuples(atoms, repeats).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, repeats).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@given(pattern=patterns, text=st.text(st.sampled_from("ab1 é&.\n"), max_size=8))
def test_both_engines_find_the_same(pattern: str, text: str) -> None:
    assume(not re.search(r"\^[*+?{]", pattern))  # Rust repeats no anchor, and is not asked
    assert matches(pattern, text) is (re.search(pattern, text) is not None)


values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, "", "a", "b1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab1"), inner),
    max_leaves=6,
)
schemas: list[dict[str, Any]] = [
    {"uniqueItems": True},
    {"items": {"uniqueItems": True}, "uniqueItems": False},
    {"patternProperties": {"^a": {"type": "integer"}, r"\d": {"type": "null"}}},
    {"patternProperties": {"^a": True}, "additionalProperties": False},
    {"properties": {"b": True}, "patternProperties": {"a": True}, "additionalProperties": False},
    {"properties": {"b": True}, "additionalProperties": {"type": "string"}},
    {"items": {"pattern": "^a"}},
]


@given(schema=st.sampled_from(schemas), value=values)
def test_verdicts_and_places_are_those_of_the_library(schema: dict[str, Any], value: Any) -> None:
    ours = [(e.validator, [*e.absolute_path]) for e in AnswerValidator(schema).iter_errors(value)]
    theirs = Draft202012Validator(schema).iter_errors(value)
    assert ours == [(error.validator, [*error.absolute_path]) for error in theirs]


def test_verdicts_of_the_official_suite_are_those_of_the_library(suite: list[Any]) -> None:
    """Of every schema that stays inside its own document."""
    num_cases = 0
    for group in suite:
        schema = group["schema"]
        if re.search(r'"\$(?:ref|dynamicRef|id|schema|vocabulary)"', json.dumps(schema)):
            continue
        ours, theirs = AnswerValidator(schema), Draft202012Validator(schema)
        for test in group["tests"]:
            assert ours.is_valid(test["data"]) == theirs.is_valid(test["data"]), group
            num_cases += 1
    assert num_cases


def test_only_some_violations_are_told() -> None:
    task = Task.from_schema({"type": "array", "items": {"type": "string"}}, instructions="List.")
    assert task.violations([1] * 50_000) == [f"type at /{i}" for i in range(MAX_VIOLATIONS)]


@given(key=st.text(min_size=1), other=st.text(min_size=1))
def test_violation_is_the_same_whatever_key_an_answer_makes_up(key: str, other: str) -> None:
    """Holds at any depth; what the schema names itself is told."""
    inner = {"type": "object", "additionalProperties": {"type": "integer"}}
    notes = {"type": "object", "additionalProperties": inner}
    task = Task.from_schema({"properties": {"notes": notes}}, instructions="Note.")
    told = [task.violations({"notes": {name: {name: "x"}}}) for name in (f"?{key}", f"?{other}")]
    assert told == [["type at /notes/*/*"]] * 2


closed: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"enum": ["x", 1, True]}, "b": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
members = st.one_of(st.sampled_from(["x", "X", 1, 1.0, 0, True, False, None]), st.text())
judged = Task.from_schema(closed, instructions="Choose.")


@given(st.lists(st.dictionaries(st.sampled_from("abc"), members), max_size=8))
def test_verdict_is_the_same_however_often_an_answer_comes(answers: list[Any]) -> None:
    """Valid answers are remembered; one that is only equal for Python is another answer."""
    plain = Draft202012Validator(closed)
    for answer in [*answers, *answers]:
        assert (judged.violations(answer) == []) == plain.is_valid(answer)


def test_no_answer_with_text_of_its_own_is_remembered() -> None:
    """It may be a customer's; and what is remembered has an end."""
    free = {**closed, "properties": {**closed["properties"], "note": {"type": "string"}}}
    open_ended = {**closed, "additionalProperties": True}
    for schema in (free, open_ended):
        task = Task.from_schema(schema, instructions="Choose.")
        assert task.violations({"a": "x", "note": "my card is 4111"}) == []
        assert task._check._valid == set()
    judged.violations({"a": "x"})
    assert judged._check._valid


def test_unlike_objects_are_not_compared_in_pairs() -> None:
    assert AnswerValidator({"uniqueItems": True}).is_valid([{"a": i} for i in range(20_000)])


NESTED: dict[str, Any] = {
    "anyOf": [{"$ref": "#/$defs/n"}],
    "$defs": {
        "n": {"allOf": [{"anyOf": [{"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/list"}]}]}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/n"}},
    },
}


def test_what_is_nested_too_deeply_to_be_checked_is_refused() -> None:
    """Python's stack is shorter than the way down; without it there would be an exception."""
    task = Task.from_schema(NESTED, instructions="Nest.")
    value: Any = 1
    for _ in range(20):
        value = [value]
    assert task.violations(value) == []
    for _ in range(100):
        value = [value]
    assert task.violations(value) == ["depth at /"]
