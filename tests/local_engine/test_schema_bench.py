"""The measurement of the grammar guide counts right, and the public suites hold no surprise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import schemas as bench
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.vocabulary import TableVocabulary

TOKENS = [bytes([byte]) for byte in [*range(0x20, 0x7F), *"é".encode()]]
VOCABULARY = TableVocabulary([*TOKENS, b""], {len(TOKENS)})

# A schema, valid values, invalid values.
SAMPLE: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [None, {"a": [1]}], []),
    ({}, ["", 1.5], []),
    ({"type": "null"}, [None], [0, ""]),
    ({"type": "boolean"}, [True, False], [0, "true"]),
    ({"type": "integer"}, [0, -12], [1.5, "1"]),
    ({"type": "number"}, [0, -1.5], ["1", None]),
    ({"type": "string"}, ["", 'é"\\'], [1, []]),
    ({"type": ["string", "null"]}, ["a", None], [1]),
    ({"enum": ["a", 1, None]}, ["a", 1, None], ["b", 2, False]),
    ({"enum": [[0], {"a": False}]}, [[0], {"a": False}], [[False], {"a": 0}]),
    ({"const": {"a": 1}}, [{"a": 1}], [{}, {"a": 2}, {"a": 1, "b": 1}]),
    ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.5, "x"], [0, 3]),
    ({"multipleOf": 0.5}, [1.5, 2], [0.25]),
    ({"minLength": 1, "maxLength": 2}, ["a", "éé"], ["", "abc"]),
    ({"pattern": "^a+$"}, ["aa", 1], ["ab", ""]),
    ({"pattern": "b"}, ["abc"], ["ac"]),
    ({"format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-2-9"]),
    ({"format": "ipv4"}, ["127.0.0.1"], ["256.0.0.1"]),
    ({"items": {"type": "integer"}}, [[], [1, 2], {}], [["a"], [1, "a"]]),
    ({"prefixItems": [{"type": "null"}], "items": False}, [[], [None]], [[1], [None, 1]]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
    ({"type": "array", "uniqueItems": True, "maxItems": 1}, [[1]], [[1, 1]]),
    ({"properties": {"a": {"type": "null"}}}, [{"a": None}, {"b": 1}, 1], [{"a": 1}]),
    ({"required": ["a"]}, [{"a": 1}, {"b": 1, "a": 1}, "a"], [{}, {"b": 1}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
    ({"additionalProperties": {"type": "null"}}, [{"x": None}], [{"x": 1}]),
    ({"patternProperties": {"^a": {"type": "null"}}}, [{"ab": None, "b": 1}], [{"ab": 1}]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"b": 1, "a": 1}, {}], [{"a": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"b": 1}], [{"a": 1}]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
    ({"anyOf": [{"type": "null"}, {"minLength": 2}]}, [None, "ab"], ["a"]),
    ({"oneOf": [{"type": "null"}, {"type": "string"}]}, [None, "a"], [1]),
    ({"oneOf": [{"minimum": 2}, {"maximum": 3}]}, [1, 4], [2, 3, "a"]),
    ({"not": {"type": ["string", "null"]}}, [1, []], ["a", None]),
    ({"not": {"required": ["a"]}}, [{}, {"b": 1}], [{"a": 1}]),
    ({"if": {"const": 1}, "then": False, "else": {"type": "integer"}}, [2], [1, "a"]),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, [None], [1]),
    ({"items": {"$ref": "#"}, "type": "array"}, [[], [[], [[]]]], [[1], 1]),
    ({"uniqueItems": True}, [[1]], [[1, 1]]),  # refused
]


def case(schema: Any, valid: list[Any], invalid: list[Any], compiles: bool = True) -> bench.Case:
    tests = [(json.dumps(value), value, True) for value in valid]
    tests += [(json.dumps(value), value, False) for value in invalid]
    return bench.Case(
        name=json.dumps(schema), schema=schema, tests=tests, compiles_there={None: compiles}
    )


def test_sample_is_told_apart_without_a_final_validation() -> None:
    """Every valid value can be written in some order of names, and no invalid one."""
    tally = bench.measure((case(*row) for row in SAMPLE), VOCABULARY)
    assert (tally.schemas, tally.compiled) == (len(SAMPLE), len(SAMPLE) - 1)
    assert tally.refused_by == {"uniqueItems": 1}
    assert tally.invalid_accepted == []
    assert tally.valid_rejected == []
    assert tally.valid == sum(len(valid) for _, valid, _ in SAMPLE[:-1])
    assert tally.invalid == sum(len(invalid) for _, _, invalid in SAMPLE[:-1])


def test_wrong_answers_are_counted_and_named() -> None:
    """A count that cannot go up would say nothing: here values are called what they are not."""
    schema = {"type": "integer"}
    tally = bench.measure([case(schema, ["called valid"], [12], compiles=False)], VOCABULARY)
    assert tally.invalid_accepted == [f"{json.dumps(schema)}: 12"]
    assert tally.valid_rejected == [f'{json.dumps(schema)}: "called valid"']
    assert (tally.compared, tally.compiled_here, tally.compiled_there) == (1, 1, 0)
    summary = bench.summary(tally)
    assert summary["mask_us"]["tokens"] == len(tally.mask_us) > 0
    assert json.loads(json.dumps(summary)) == summary


@pytest.mark.slow
@pytest.mark.models
def test_public_suites_hold_no_invalid_value_that_is_accepted(models: Engine) -> None:
    """And no fewer schemas compile than the engine is expected to compile by itself."""
    data = Path(__file__).parents[2].parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip("the schema suites are not here")
    suite = data / "json-schema-test-suite"
    files = [list(bench.suite_cases(suite, name)) for name in bench.SUITES]
    files.append(list(bench.maskbench_cases(data / "maskbench")))
    for cases in files:
        tally = bench.measure(cases, models.vocabulary)
        assert tally.invalid_accepted == []
        assert tally.compiled_here >= tally.compiled_there
        assert tally.compiled > 0.6 * tally.schemas
