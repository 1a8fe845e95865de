from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_entries import CANARY

from weighbridge.decision import Question
from weighbridge.errors import VerdictInvalid
from weighbridge.review.queueing.verdicts import judge

CATEGORY = Question(field="category", options=("billing", "bug"), machine="bug")
PRIORITY = Question(field="priority", options=(1, 2, None), machine=2, required=False)
SUMMARY = Question(field="summary", options=(), machine=None, required=False)
ASKED = (CATEGORY, PRIORITY, SUMMARY)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"category": "bug"}, "correct"),
        ({"category": "bug", "priority": 2, "summary": None}, "correct"),
        ({"category": "billing"}, "corrected"),
        ({"category": "bug", "priority": 1}, "corrected"),
        ({"category": "bug", "priority": None}, "corrected"),
        ({"category": "bug", "summary": {"any": ["thing"]}}, "corrected"),
    ],
)
def test_verdict_is_correct_only_if_every_value_is_the_machines(values, kind):
    assert judge("item", ASKED, values) == kind


@pytest.mark.parametrize(
    ("values", "field", "hint"),
    [
        ({}, "category", ""),
        ({"priority": 1}, "category", "Permitted: 'billing', 'bug'."),
        ({"category": "biling"}, "category", "The nearest permitted label is 'billing'."),
        ({"category": "Bug"}, "category", "The nearest permitted label is 'bug'."),
        ({"category": None}, "category", ""),
        ({"category": ["bug"]}, "category", "The nearest permitted label is 'bug'."),
        ({"category": "bug", "priority": "2"}, "priority", "The nearest permitted label is '2'."),
        ({"category": "bug", "priority": 2.0}, "priority", "The nearest permitted label is '2'."),
        ({"category": "bug", "priority": True}, "priority", ""),
        ({"category": "bug", "summary": float("nan")}, "summary", ""),
        ({"category": "bug", "summary": {1, 2}}, "summary", ""),
        ({"category": "bug", "sumary": "x"}, "(unknown)", "The nearest field is 'summary'."),
    ],
)
def test_verdict_that_does_not_answer_is_refused(values, field, hint):
    """The error names the field and what was probably meant."""
    with pytest.raises(VerdictInvalid) as refused:
        judge("item", ASKED, values)
    assert refused.value.field == field
    assert hint in refused.value.hint


@settings(deadline=None)
@given(json_values)
def test_value_is_permitted_exactly_when_it_is_an_option(value):
    """Equality is that of JSON: no number stands for another type."""
    is_option = any(type(value) is type(option) and value == option for option in (1, 2, None))
    try:
        judge("item", (PRIORITY,), {"priority": value})
    except VerdictInvalid:
        assert not is_option
    else:
        assert is_option


@settings(deadline=None)
@given(json_values)
def test_same_value_is_always_correct(value):
    """Any JSON the machine said can be confirmed, surrogates and all."""
    asked = Question(field="free", options=(), machine=value)
    assert judge("item", (asked,), {"free": value}) == "correct"


@pytest.mark.parametrize(
    "values", [{"category": CANARY}, {CANARY: "bug"}, {"category": {CANARY: CANARY * 10_000}}]
)
def test_refusal_repeats_nothing_that_was_given(values):
    with pytest.raises(VerdictInvalid) as refused:
        judge("item", ASKED, values)
    assert CANARY not in f"{refused.value} {refused.value!r} {refused.value.hint}"
