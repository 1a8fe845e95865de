"""Other engines behind the guide protocol keep its laws, and mean what our own guides mean."""

from __future__ import annotations

from typing import Any

import guide_laws as laws
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import tiny_tokenizer

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.backends import OutlinesRegex, XgrammarSchema
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.vocabulary import Vocabulary

TINY = tiny_tokenizer()
MISSING = "the [engines] extra is not installed"

SCHEMAS: list[dict[str, Any]] = [
    {"enum": ["bug", "bugfix", "billing"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
    {"type": "array", "items": {"type": "array", "items": {"enum": [1, 12]}}},
    {
        "type": "object",
        "properties": {"report": {"type": "null"}, "p": {"enum": ["low", "high"]}},
        "required": ["p"],
        "additionalProperties": False,
    },
]


def check_same(data: st.DataObject, one: Spec, other: Spec, vocabulary: Vocabulary) -> None:
    """Both allow the same tokens in every state on the way of one answer, and keep the laws."""
    left, right = one.bind(vocabulary), other.bind(vocabulary)
    state, twin = left.init(), right.init()
    for _ in range(6):
        allowed = laws.allowed_ids(left, state)
        assert laws.allowed_ids(right, twin) == allowed
        assert left.finished(state) == right.finished(twin)
        laws.check_state(right, twin, vocabulary)
        token = data.draw(st.sampled_from(allowed))
        state, twin = left.advance(state, token), right.advance(twin, token)


@pytest.mark.parametrize("schema", SCHEMAS)
@settings(max_examples=15)
@given(data=st.data())
def test_xgrammar_allows_the_same_tokens(schema: dict[str, Any], data: st.DataObject) -> None:
    """Byte-complete masks of both engines are equal on what both support."""
    pytest.importorskip("xgrammar", reason=MISSING)
    check_same(data, guides.json_schema(schema), XgrammarSchema(schema), TINY)


@pytest.mark.parametrize("pattern", ["bugs*", "[a-c]{2,4}", "(é|the )+low", r"[0-9]{3}-?x"])
@settings(max_examples=15)
@given(data=st.data())
def test_outlines_core_allows_the_same_tokens(pattern: str, data: st.DataObject) -> None:
    """An automaton built first and one walked lazily describe the same texts."""
    pytest.importorskip("outlines_core", reason=MISSING)
    check_same(data, guides.regex(pattern), OutlinesRegex(pattern), TINY)


def test_useless_grammars_are_refused_when_bound() -> None:
    """Unlike our own guide, xgrammar takes what it cannot enforce; not what has no value."""
    pytest.importorskip("xgrammar", reason=MISSING)
    pytest.importorskip("outlines_core", reason=MISSING)
    with pytest.raises(TaskInvalid):
        XgrammarSchema({"type": "integer", "minimum": 3, "maximum": 1}).bind(TINY)
    with pytest.raises(TaskInvalid):
        OutlinesRegex("a(").bind(TINY)
