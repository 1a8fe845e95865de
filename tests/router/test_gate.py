"""The gate: one rule for each kind of evidence."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.decision import FieldEvidence, Reason, Source
from weighbridge.router.gate import Gate

SOURCES: tuple[Source, ...] = typing.get_args(Source)
ENOUGH = {"probability": 0.8, "mass": (0.5, 0.9), "support": 0.5}


def judged(source: Source, gate: Gate | None = None, **numbers: object) -> FieldEvidence:
    return (gate or Gate()).judge(FieldEvidence(value="bug", source=source, **numbers))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "numbers", "reason"),
    [
        ("exact", {}, None),
        ("exact", {"mass": (0.49, 1.0)}, Reason.LOW_MASS),
        ("premask", {"mass": None}, Reason.LOW_MASS),
        ("premask", {"probability": 0.79}, Reason.LOW_PROBABILITY),
        ("premask", {"probability": None}, Reason.LOW_PROBABILITY),
        ("combined", {"mass": (0.0, 0.001)}, None),
        ("combined", {"support": 0.49}, Reason.LOW_SUPPORT),
        ("combined", {"support": None}, Reason.LOW_SUPPORT),
        ("prior", {"probability": 0.79}, Reason.LOW_PROBABILITY),
        ("postmask", {}, Reason.UNCALIBRATED),
        ("unknown_mask", {}, Reason.UNCALIBRATED),
        ("vendor", {}, Reason.UNCALIBRATED),
        ("agreement", {}, Reason.UNCALIBRATED),
        ("none", {}, Reason.NO_EVIDENCE),
    ],
)
def test_gate_accepts_what_weighs_enough(
    source: Source, numbers: dict[str, object], reason: Reason | None
) -> None:
    """Exactly enough is enough; the reason names the first number that is not."""
    evidence = judged(source, **(ENOUGH | numbers))
    assert (evidence.accepted, evidence.reason) == (reason is None, reason)


@pytest.mark.parametrize("source", SOURCES)
def test_missing_numbers_never_pass(source: Source) -> None:
    """Missing evidence is never good evidence."""
    assert not judged(source).accepted


@given(
    source=st.sampled_from(SOURCES),
    probability=st.floats(0, 1),
    low=st.floats(0, 1),
    support=st.floats(0, 1),
)
def test_more_evidence_never_turns_acceptance_into_review(
    source: Source, probability: float, low: float, support: float
) -> None:
    """The gate is monotone in every number."""
    less = judged(source, probability=probability, mass=(low, 1.0), support=support)
    more = judged(source, probability=1.0, mass=(1.0, 1.0), support=1.0)
    assert more.accepted or not less.accepted


@pytest.mark.parametrize("name", ["probability", "mass", "support"])
@pytest.mark.parametrize("source", SOURCES)
def test_number_that_is_none_never_passes(source: Source, name: str) -> None:
    """NaN compares false with everything: the gate asks for enough, not for too little."""
    nan = (math.nan, math.nan) if name == "mass" else math.nan
    missing = judged(source, **(ENOUGH | {name: None}))
    assert judged(source, **(ENOUGH | {name: nan})).reason == missing.reason


@given(
    source=st.sampled_from(SOURCES),
    numbers=st.fixed_dictionaries(
        {
            "probability": st.none() | st.floats(),
            "mass": st.none() | st.tuples(st.floats(), st.floats()),
            "support": st.none() | st.floats(),
        }
    ),
    trust=st.sampled_from(["review", "accept"]),
)
def test_field_is_accepted_or_has_a_reason_and_keeps_its_numbers(
    source: Source, numbers: dict[str, object], trust: Literal["review", "accept"]
) -> None:
    """For every evidence exactly one of the two; the gate judges and changes nothing else."""
    gate = Gate(without_evidence=trust)
    given_ = FieldEvidence(value="bug", source=source, **numbers)  # type: ignore[arg-type]
    evidence = gate.judge(given_)
    assert evidence.accepted is (evidence.reason is None)
    assert evidence == dataclasses.replace(
        given_, accepted=evidence.accepted, reason=evidence.reason
    )


def test_uncalibrated_numbers_pass_only_where_the_owner_says_so() -> None:
    trusting = Gate(without_evidence="accept")
    assert judged("unknown_mask", trusting).accepted
    assert judged("none", trusting).accepted
    assert not judged("exact", trusting, mass=(0.1, 0.2), probability=1.0).accepted
