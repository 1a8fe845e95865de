"""What the laws of decoding share: what to draw from, and when two answers agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from tiny_model import END_OF_TURN_ID

from weighbridge.errors import EngineError
from weighbridge.local_engine import guides
from weighbridge.local_engine.decoding.generation import Generation
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.schemas.finite import language

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "category": {"enum": ["bug", "bug_report", "billing", "the end."]},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "urgent"],
    "additionalProperties": False,
}
WORDS = language(SCHEMA)
assert WORDS is not None

prompts = st.text("bugil the.\n", min_size=1, max_size=12)

# Every kind of guide, soft and hard, with forced runs and without.
TEXTS = (
    guides.literal("the billing report"),
    guides.choice(["bug", "bug report", "billing", "bill", "hi!"]),
    guides.finite(WORDS),
    guides.regex("[a-c]{1,3}(high|low)"),
    guides.then(guides.literal("the "), guides.choice(["bug", "bill"]), guides.literal(" report")),
    guides.both(guides.choice(["low", "high"]), guides.label_prior({"low": -3.0, "high": -0.1})),
)
HARD = (*TEXTS, guides.then(guides.free("!", max_tokens=4), guides.choice(["low", "high"])))
SOFT = (
    guides.soft(),
    guides.soft(by_text={"bug": 4.0, "the": -2.0}),
    guides.soft(by_id={END_OF_TURN_ID: 6.0}),  # a model that rarely ends would never show how
)
specs = st.sampled_from([*HARD, *SOFT])
hard_specs = st.sampled_from(HARD)

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.none() | st.integers(1, 40),
    top_p=st.sampled_from([0.5, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05]),
    seed=st.integers(0, 1000),
    prefer_long=st.booleans(),
)


def assert_same(found: Generation | EngineError, wanted: Generation | EngineError) -> None:
    """Two answers came out alike: texts, tokens, and every number about each."""
    if isinstance(wanted, EngineError) or isinstance(found, EngineError):
        assert (type(found), str(found)) == (type(wanted), str(wanted))
        return
    assert (found.text, found.finish) == (wanted.text, wanted.finish)
    assert_same_steps(found, wanted)


def assert_same_steps(found: Generation, wanted: Generation, *, sources: bool = True) -> None:
    assert [step.token for step in found.steps] == [step.token for step in wanted.steps]
    if sources:
        assert [s.source for s in found.steps] == [s.source for s in wanted.steps]
    for one, other in zip(found.steps, wanted.steps, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert one.mass == pytest.approx(other.mass, rel=1e-4)
        assert (one.rank, one.allowed_count) == (other.rank, other.allowed_count)


def outcome(engine: Any, *arguments: Any, **settings: Any) -> Generation | EngineError:
    """The answer, or the error instead of one."""
    try:
        answer: Generation = engine.generate(*arguments, **settings)
    except EngineError as error:
        return error
    return answer
