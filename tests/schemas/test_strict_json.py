"""Strict JSON: what the parser takes, what it refuses, and what is unwrapped first."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import JsonInvalid
from weighbridge.schemas.strict_json import MAX_DEPTH, loads, unwrap

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(value=values, is_ascii=st.booleans(), indent=st.sampled_from([None, 0, 2]))
def test_agrees_with_json_loads_on_all_that_dumps_makes(value, is_ascii, indent):
    """Strictness takes nothing away from honest JSON, types included."""
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert repr(loads(text)) == repr(json.loads(text))


@given(text=st.text(st.sampled_from('{}[]":, 01-.eE+\\utrnfalse\ud800é\ufeff\0\n'), max_size=30))
def test_refuses_or_agrees_on_any_text(text):
    """Never another exception, and never another value than the standard library's."""
    try:
        value = loads(text)
    except JsonInvalid:
        return
    assert repr(value) == repr(json.loads(text))
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ('{"a": 1, "b": 1}', '{"a": 1, "a": 1}', "key twice"),
        ('[{"a": 1}, {"a": 1}]', '[{"b": {"a": 1, "\\u0061": 2}}]', "key twice"),
        ("[0]", "[NaN]", "NaN is no JSON number"),
        ("[1]", "[Infinity]", "Infinity is no JSON number"),
        ("[-1]", "[-Infinity]", "-Infinity is no JSON number"),
        ("1e308", "1e999", "too large"),
        ("-1.5e308", "-1.5e309", "too large"),
        ('"\\ud83d\\ude00"', '"\\ud83d"', "surrogate"),
        ('"\U0001f600"', '"\ud83d\ude00"', "surrogate"),
        ('{"\\ud83d\\ude00": 1}', '{"\\ude00\\ud83d": 1}', "surrogate"),
        (" 1\n", "\ufeff1", "byte order mark"),
        ("null", "", "empty"),
        ("null", " \n\t", "empty"),
        ("1", "\u00a01", "not JSON"),
        ('"\\n"', '"\n"', "not JSON"),
        ("[1]", "[1,]", "not JSON"),
        ('{"a": 1}', "{'a': 1}", "not JSON"),
        ("1", "1 1", "not JSON: Extra data"),
        ("10", "01", "not JSON"),
        ("1", "\uff11", "not JSON"),
        ("1.0", "1.", "not JSON"),
        ('"/"', '"\\x"', "not JSON"),
        ("true", "True", "not JSON"),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, "[" * 129 + "]" * 129, "nested deeper"),
        ('{"a":' * 127 + "1" + "}" * 127, "[" * 100_000, "nested deeper"),
        ("9" * 4300, "9" * 4301, "too many digits"),
    ],
    ids=range(26),
)
def test_accepts_the_one_and_refuses_the_other(good, bad, problem):
    """Pairs that differ in the rule alone."""
    assert repr(loads(good)) == repr(json.loads(good))
    with pytest.raises(JsonInvalid, match=problem):
        loads(bad)


def test_integers_are_exact():
    """Beyond the 53 bits of a float."""
    assert loads("9007199254740993") == 9007199254740993
    assert type(loads("1")) is int
    assert type(loads("1.0")) is float
    assert math.copysign(1, loads("-0.0")) == -1


@pytest.mark.parametrize("rest", ["", ",", '"', "NaN", "\\x", '": 1, "canary": 2}', "\ud800", "é}"])
def test_the_text_is_in_no_part_of_the_error(rest):
    """Neither in its message nor in its cause, which a traceback would print."""
    with pytest.raises(JsonInvalid) as caught:
        loads('{"canary' + rest)
    error = caught.value
    assert "canary" not in f"{error} {error!r} {error.args}"
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (' {"a": 1}\n', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('```\r\n{"a": 1}\r\n```\r\n', '{"a": 1}'),
        ('````JSON\n{"a": 1}\n````', '{"a": 1}'),
        ('```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('<think>so</think>{"a": 1}', '{"a": 1}'),
        ('\n<think>\n{"a": 0}\n</think>\n\n```json\n{"a": 1}\n```', '{"a": 1}'),
        ("<think></think>", ""),
        ('so, or {not}?\n</think>\n\n{"a": 1}', '{"a": 1}'),  # the template has opened it
        ('</think>{"a": 1}', '{"a": 1}'),
        ('so</think>```json\n{"a": 1}\n```', '{"a": 1}'),
        ("", ""),
    ],
)
def test_unwraps_a_think_block_and_a_whole_fence(text, rest):
    """Wrappings that leave no doubt what the answer is."""
    assert unwrap(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        'Here it is: {"a": 1}',
        'Here it is:\n```json\n{"a": 1}\n```',
        '```json\n{"a": 1}\n```\nAnything else?',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        '```json\n{"a": 1}',
        '```{"a": 1}```',
        '<think>never closed {"a": 1}',
        '{"a": "<think>x</think>"}',
        '{"a": 1} <think>late</think>',
        'Sure! <think>so</think> {"a": 1}',
        '{"a": "</think>"}',
        '["</think>", 1]',
        '"</think>"',
        '{"a": 0} and so </think>{"a": 1}',
        '```json\n{"a": 0}\n``` so </think>{"a": 1}',
    ],
)
def test_leaves_everything_else_alone(text):
    """Prose around JSON, half a fence, two fences, half a thought."""
    assert unwrap(text) == text


@given(value=values)
def test_unwrapping_never_touches_json_itself(value):
    """Even where a string in it looks like a wrapping."""
    text = json.dumps(value, ensure_ascii=False)
    assert unwrap(text) == text
    assert unwrap(f"<think>{'x'}</think>\n```json\n{text}\n```") == text
