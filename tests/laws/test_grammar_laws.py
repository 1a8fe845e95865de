"""Grammar guides keep the laws of every guide, and write nothing that their schema rejects."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import guide_laws as laws
import jsonschema
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schema_strategies import schemas, values
from tiny_model import tiny_tokenizer

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.grammar_guide import GrammarGuide, GrammarState
from weighbridge.local_engine.guides.grammar_tables import tables_of
from weighbridge.local_engine.guides.json_text import JsonText
from weighbridge.local_engine.vocabulary import TableVocabulary, Vocabulary
from weighbridge.schemas.finite import language

# Every character that small JSON needs, tokens that run across its joints, two that spell the
# same, a control token, two ends, and padding.
_CHARACTERS = [*'{}[]", :abc01235-.\\n', "true", "false", "null", "é"]
_JOINTS = ['{"', '": ', '", "', ', "', '"}', '"a"', '"b": ', "]}", "ab", "ab", "12", "\n", "1e99"]
_TOKENS = [token.encode() for token in _CHARACTERS + _JOINTS]
TOY = TableVocabulary([b"", *_TOKENS, b"", b"", b"", b""], {1 + len(_TOKENS), 2 + len(_TOKENS)})
TINY = tiny_tokenizer()

some = settings(
    max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def bound(schema: Any) -> GrammarGuide:
    try:
        return guides.json_schema(schema).bind(TOY)
    except TaskInvalid:
        assume(False)
        raise


def accepts(guide: GrammarGuide, text: str, vocabulary: Vocabulary = TOY) -> bool:
    """Whether the whole text may be written, in the spelling of the longest tokens."""
    state = guide.init()
    try:
        for token in [*vocabulary.encode(text), min(vocabulary.eos_ids)]:
            state = guide.advance(state, token)
    except ValueError:
        return False
    return True


def written(guide: GrammarGuide, choose: Callable[[list[int]], int]) -> Iterator[GrammarState]:
    """The states of one answer; closing tokens are preferred, so that most answers end."""
    state = guide.init()
    yield state
    for step in range(40):
        allowed = laws.allowed_ids(guide, state)
        closing = [i for i in allowed if TOY.token_bytes[i] in {b'"', b"}", b"]"}]
        if not allowed or state.is_ended:
            return
        state = guide.advance(state, choose(closing if closing and step % 3 else allowed))
        yield state


@some
@given(st.data(), schemas)
def test_json_schema_keeps_the_laws(data: st.DataObject, schema: Any) -> None:
    """Whatever the schema, in every state on the way of an answer."""
    laws.check_walk(bound(schema), TOY, lambda ids: data.draw(st.sampled_from(ids)), 6)


@some
@given(schemas, st.integers(0, 2**32))
def test_what_is_written_is_valid(schema: Any, seed: int) -> None:
    """No final validation is needed: an answer that ended satisfies the original schema."""
    guide, choose = bound(schema), random.Random(seed).choice
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    for _ in range(10):
        *_, last = written(guide, choose)
        if last.is_ended:
            assert is_valid(json.loads(last.text, object_pairs_hook=no_repeated_names))


@some
@given(schemas, st.lists(values, max_size=8))
def test_a_value_can_be_written_exactly_if_it_is_valid(schema: Any, instances: list[Any]) -> None:
    """Only the order of names is the guide's own; so a value with several may be rejected."""
    guide = bound(schema)
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    for instance in instances:
        is_accepted = accepts(guide, json.dumps(instance))
        if is_accepted or not has_several_names(instance):
            assert is_accepted == is_valid(instance)


def has_several_names(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) > 1 or any(map(has_several_names, value.values()))
    return isinstance(value, list) and any(map(has_several_names, value))


def no_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), "a name repeats"
    return dict(pairs)


@given(st.data(), st.sampled_from(["(ab?c)*", "[^a]{2}", "a|é|abc", "(?i)b+", r"\d{2}(?:\.\d)?"]))
def test_regex_keeps_the_laws(data: st.DataObject, pattern: str) -> None:
    """Patterns that end, that go on, and that split a character between tokens."""
    guide = guides.regex(pattern).bind(TINY)
    laws.check_walk(guide, TINY, lambda ids: data.draw(st.sampled_from(ids)), 3)


# What ECMA-262 means by its classes, spelled out for Python.
_SPACES = "\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
ECMA = {
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": "[0-9A-Za-z_]",
    r"\W": "[^0-9A-Za-z_]",
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}]",
    ".": "[^\n\r\u2028\u2029]",
    r"[^\d]": "[^0-9]",
    r"[^\W]": "[0-9A-Za-z_]",
    r"[\Sx]": f"[^{_SPACES}]",
    "a": "a",
    r"\u0661": "\u0661",
}
ODD = "a1_ \u0661é\r\x1c\x85\u2028\ufeff"
ODD_TOKENS = [char.encode() for char in ODD]
ODD_VOCABULARY = TableVocabulary([*ODD_TOKENS, b""], {len(ODD_TOKENS)})


@given(st.lists(st.sampled_from(list(ECMA)), min_size=1, max_size=3), st.text(ODD, max_size=3))
def test_pattern_matches_what_it_means_in_every_dialect(pieces: list[str], text: str) -> None:
    """Python and ECMA-262 differ about digits, spaces and line ends; both must agree."""
    try:
        guide = guides.regex("".join(pieces)).bind(ODD_VOCABULARY)
    except TaskInvalid:
        assume(False)
    in_python = re.fullmatch("".join(pieces), text)
    in_ecma = re.fullmatch("".join(ECMA[piece] for piece in pieces), text)
    assert accepts(guide, text, ODD_VOCABULARY) == bool(in_python and in_ecma)


@given(st.data())
def test_lark_and_gbnf_keep_the_laws(data: st.DataObject) -> None:
    """The same nested language in both notations allows the same tokens everywhere."""
    one = guides.lark('start: "a" | "[" start ("," " " start)* "]"').bind(TOY)
    other = guides.gbnf('root ::= "a" | "[" root ("," " " root)* "]"').bind(TOY)
    choices: list[int] = []

    def choose(ids: list[int]) -> int:
        choices.append(data.draw(st.sampled_from(ids)))
        return choices[-1]

    way = laws.check_walk(one, TOY, choose, 5)
    replayed = iter(choices)
    for (text, state), (same, twin) in zip(
        way, laws.check_walk(other, TOY, lambda _: next(replayed), 5), strict=True
    ):
        assert text == same
        assert laws.allowed_ids(one, state) == laws.allowed_ids(other, twin)


FINITE = [
    {"enum": ["bug", "bugfix", "é", 1, 12, None]},
    {
        "type": "object",
        "properties": {"a": {"enum": ["b", "ab"]}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "uniqueItems": True},
    {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False},
]


@pytest.mark.parametrize("schema", FINITE)
@given(data=st.data())
def test_masks_are_byte_complete(schema: Any, data: st.DataObject) -> None:
    """A token is allowed exactly if a member of the language goes on with its bytes."""
    found = language(schema)
    assert found is not None
    members = {text.encode() for text in found.strings()}
    guide = guides.json_schema(schema).bind(TINY)
    for text, state in laws.check_walk(guide, TINY, lambda i: data.draw(st.sampled_from(i)), 4):
        if state.is_ended:
            assert text in members
            continue
        laws.check_bytes(
            guide,
            state,
            text,
            TINY,
            may_begin=lambda text: any(member.startswith(text) for member in members),
            is_member=members.__contains__,
        )


@pytest.mark.parametrize("schema", FINITE)
def test_every_string_of_a_finite_language_is_accepted(schema: Any) -> None:
    """What is scored without a grammar is what the grammar allows, and what the schema means."""
    found = language(schema)
    assert found is not None
    guide = guides.json_schema(schema).bind(TINY)
    for text in found.strings():
        state = guide.init()
        for token in TINY.encode(text):
            state = guide.advance(state, token)
        assert torch.isfinite(guide.bias(state)[min(TINY.eos_ids)])
        assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


@some
@given(schemas, st.integers(0, 2**32))
def test_masks_agree_with_the_engine_token_by_token(schema: Any, seed: int) -> None:
    """The engine's mask is what it would take; ours has nothing besides, but names that repeat."""
    guide, choose = bound(schema), random.Random(seed).choice
    for state in written(guide, choose):
        if state.is_ended:
            break
        allowed = set(laws.allowed_ids(guide, state)) - TOY.eos_ids
        taken = {
            token
            for token, spelled in enumerate(TOY.token_bytes)
            if spelled and state.matcher.validate_tokens([token])
        }
        assert allowed <= taken
        assert state.place is not None
        for token in taken - allowed:
            assert state.place.advance(TOY.token_bytes[token]) is None


@some
@given(schemas, st.integers(0, 2**32))
def test_forced_tokens_hold_all_that_the_engine_forces(schema: Any, seed: int) -> None:
    """Never fewer than the engine's own forced run."""
    guide, choose = bound(schema), random.Random(seed).choice
    for state in written(guide, choose):
        if not state.is_ended:
            engine = state.matcher.deep_copy().compute_ff_tokens()
            assert list(guide.forced(state))[: len(engine)] == engine


limits = st.sampled_from([0, 1, -1, 12, 0.1, -3.25, 1e-7, 123.456, 99.9, 2**53, 1e15])


@some
@given(
    st.dictionaries(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), limits
    ),
    st.sampled_from(["number", "integer"]),
    st.sampled_from([None, 1, 3, 0.5, 0.01, 1e-8]),
    st.integers(0, 2**32),
)
def test_numbers_keep_to_their_bounds_to_the_last_digit(
    bounds: dict[str, Any], kind: str, step: float | None, seed: int
) -> None:
    """In exact arithmetic: 1.565 is a multiple of 0.0001, whatever floats say."""
    schema = bounds | {"type": kind} | ({} if step is None else {"multipleOf": step})
    guide, choose = bound(schema), random.Random(seed).choice
    exact = {name: Fraction(repr(value)) for name, value in bounds.items()}
    for _ in range(5):
        *_, last = written(guide, choose)
        if last.is_ended:
            number = Fraction(last.text.decode())
            assert exact.get("minimum", number) <= number <= exact.get("maximum", number)
            assert number > exact.get("exclusiveMinimum", number - 1)
            assert number < exact.get("exclusiveMaximum", number + 1)
            assert kind == "number" or number.denominator == 1
            if step is not None:
                assert (number / Fraction(repr(step))).denominator == 1


json_texts = st.recursive(
    st.sampled_from(
        ["null", '"a"', '"\\\\"', '"\\""', "1", "-0.5e3", "1e309", "1e-999", '"1e999"']
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(st.sampled_from(["a", "b", '\\"', "\\\\"]), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
        )
    ),
    max_leaves=6,
)


@given(json_texts, st.data())
def test_place_in_a_text_sees_each_repeated_name_and_huge_number(
    text: str, data: st.DataObject
) -> None:
    """However the text is cut into tokens; what only looks like one, inside of a text, is none."""
    place: JsonText | None = JsonText()
    rest = text.encode()
    while rest and place is not None:
        length = data.draw(st.integers(1, len(rest)))
        place, rest = place.advance(rest[:length]), rest[length:]
    assert (place is not None) == is_plain(text)
    assert place is None or not (place.open or place.partial.strip(b"0123456789.e-"))


def is_plain(text: str) -> bool:
    def finite(number: str) -> float:
        if math.isinf(value := float(number)):
            raise ValueError
        return value

    try:
        json.loads(text, object_pairs_hook=no_repeated_names, parse_float=finite)
    except (AssertionError, ValueError):
        return False
    return True


def test_one_tokenizer_is_made_for_a_vocabulary() -> None:
    """It takes a quarter of a second for a real one; and it goes with its vocabulary."""
    vocabulary = TableVocabulary([b"a", b""], {1})
    assert tables_of(vocabulary) is tables_of(vocabulary)
    assert tables_of(vocabulary) is not tables_of(TableVocabulary([b"a", b""], {1}))
