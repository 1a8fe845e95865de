"""Real grammar engines read our wire schemas, and permit what the wire schemas permit."""

import json
import random

import pytest
from documented_subsets import SUBSETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic_shapes import SHAPES

from bench.schemas_plans import sample
from weighbridge.errors import SchemaRefused
from weighbridge.schemas.plan import plan

MISSING = "NOT CHECKED AGAINST A GRAMMAR ENGINE: it is not installed"
MEANT_TO_BE_OPEN = {"mapped", "open", "anything"}


@pytest.fixture(scope="module")
def engines():
    """By dialect: a function that says whether a wire schema's grammar accepts a text."""
    xgrammar = pytest.importorskip("xgrammar", reason=MISSING)
    llama = pytest.importorskip("llama_cpp.llama_grammar", reason=MISSING)
    tokens = ["<end>", *(bytes([number]) for number in range(256))]
    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(tokens, stop_token_ids=[0]))

    def accepts(compiled, text):
        matcher = xgrammar.GrammarMatcher(compiled)
        return matcher.accept_string(text) and matcher.accept_token(0)

    def vllm(wire):
        compiled = compiler.compile_json_schema(json.dumps(wire))
        return lambda text: accepts(compiled, text)

    def llama_cpp(wire):
        # Its converter, run by a grammar engine that needs no weights.
        compiled = compiler.compile_grammar(llama.json_schema_to_gbnf(json.dumps(wire)))
        return lambda text: accepts(compiled, text)

    return {"vllm": vllm, "llama_cpp": llama_cpp}


@pytest.mark.parametrize("dialect", ["vllm", "llama_cpp"])
@pytest.mark.parametrize("shape", SHAPES)
def test_engines_accept_the_values_of_pydantic_shapes_and_no_others(engines, shape, dialect):
    """What we plan compiles there, and means the same there."""
    model, values = SHAPES[shape]
    try:
        planned = plan(model.model_json_schema(), dialect)
    except SchemaRefused:
        assert (shape, dialect) == ("pair", "llama_cpp")
        return
    accepts = engines[dialect](planned.wire)
    for value in values:
        assert accepts(spelled(value, planned.wire)), value
        if shape not in MEANT_TO_BE_OPEN:
            assert not accepts(spelled({**value, "zz": 1}, planned.wire))
        for name in planned.wire["required"]:
            assert not accepts(spelled({k: v for k, v in value.items() if k != name}, planned.wire))
    assert not accepts('"text"')
    assert not accepts("[]")


@pytest.mark.parametrize("dialect", ["vllm", "llama_cpp"])
def test_engines_accept_what_the_wire_schema_permits(engines, dialect):
    """For schemas within the documented subset, on values that are nearly right."""
    outcomes = set()

    @settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
    @given(schema=SUBSETS[dialect], seed=st.integers(0, 2**32))
    def check(schema, seed):
        planned = plan(schema, dialect)
        accepts = engines[dialect](planned.wire)
        validator = Draft202012Validator(planned.wire)
        rng = random.Random(seed)
        for _ in range(3):
            value = whole(sample(planned.wire, planned.wire, rng))
            text = json.dumps(value)  # made in the order of the wire schema
            is_right = validator.is_valid(value)
            outcomes.add(is_right)
            if not is_beyond(dialect, json.dumps(planned.wire)):
                assert accepts(text) == is_right, (text, planned.wire)

    check()
    assert outcomes == {True, False}


def is_beyond(dialect, text):
    """Whether one side cannot judge.

    Our validator knows no formats. The converter is a translation of an older state of llama.cpp's:
    it has no bounds, and no comma before properties without a name.
    """
    is_newer = 'imum"' in text or '"additionalProperties": {' in text
    return '"format"' in text or (dialect == "llama_cpp" and is_newer)


def whole(value):
    """The value with whole floats as integers: grammars spell an integer in one way."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return value


def spelled(value, wire):
    """The JSON text, names in the order of the wire schema."""
    names = [*ordered_names(wire)]
    return json.dumps(in_order(value, {name: index for index, name in enumerate(names)}))


def ordered_names(part):
    if isinstance(part, dict):
        if isinstance(part.get("properties"), dict):
            yield from part["properties"]
        for inner in part.values():
            yield from ordered_names(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from ordered_names(inner)


def in_order(value, ranks):
    if isinstance(value, list):
        return [in_order(item, ranks) for item in value]
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: ranks.get(name, len(ranks)))
        return {name: in_order(value[name], ranks) for name in names}
    return value
