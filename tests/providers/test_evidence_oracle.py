"""Evidence against an oracle: a toy model whose every probability is summed up by brute force."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy_token_model import CLOSERS, KEY, ToyModel, toy_models

from weighbridge.decision import FieldEvidence, label
from weighbridge.providers.evidence import Alignment

SLACK = 1e-9


def found(model: ToyModel, *, source: str = "premask") -> FieldEvidence:
    text = b"".join(model.emitted).decode()
    alignment = Alignment.of(text, model.told)
    assert alignment is not None
    evidence = alignment.evidence(
        ("category",),
        model.options,
        model.value,
        source=source,  # type: ignore[arg-type]
    )
    assert evidence is not None
    return evidence


def spelled(model: ToyModel) -> set[str]:
    """Every way in which JSON can write an answer with one of the options, up to what closes it."""
    return {
        f"{KEY}{blank}{text}{'' if isinstance(option, str) else closer}"
        for option in model.options
        for is_ascii in (True, False)
        for plain in [json.dumps(option, ensure_ascii=is_ascii)]
        for text in (plain, plain.replace("/", "\\/"))
        for blank in ("", " ")
        for closer in CLOSERS
    }


def documented_mass(model: ToyModel) -> float:
    """What `mass` is said to be: the emitted option, and all tokens that go some option's way."""
    texts = [text.encode() for text in spelled(model)]
    total = model.weight(model.emitted[: model.first])
    last = next(
        place
        for place in range(len(model.emitted))
        if any(b"".join(model.emitted[: place + 1]).startswith(text) for text in texts)
    )
    mass = model.weight(model.emitted[: last + 1])
    for place in range(model.first, last + 1):
        beginning = model.emitted[:place]
        for token in model.following(beginning):
            if token != model.emitted[place]:
                raw = b"".join((*beginning, token))
                if any(raw.startswith(text) or text.startswith(raw) for text in texts):
                    mass += model.weight((*beginning, token))
    return mass / total


@settings(max_examples=150, deadline=None)
@given(toy_models())
def test_the_mass_interval_holds_what_it_is_said_to_hold(model: ToyModel) -> None:
    """However the tokens are cut and however many are listed, for numbers before any mask."""
    assume(model.num_listed)
    low, high = found(model).mass or (math.nan, math.nan)
    assert low - SLACK <= documented_mass(model) <= high + SLACK


@settings(max_examples=150, deadline=None)
@given(toy_models())
def test_no_option_has_more_than_the_evidence_leaves_it(model: ToyModel) -> None:
    """True mass is at most `high`; without lists this holds as well."""
    assume(model.num_listed or model.value != "")  # an empty text has no token that tells of it
    low, high = found(model).mass or (math.nan, math.nan)
    assert 0 <= low <= high <= 1
    assert model.share([*model.options]) <= high + SLACK


@settings(max_examples=150, deadline=None)
@given(toy_models())
def test_the_chosen_option_is_never_flattered(model: ToyModel) -> None:
    """Its true share among the options is at least what is told, where anything is listed."""
    assume(model.num_listed)
    told = found(model).probability
    assert told is not None
    assert told <= model.share([model.value]) / model.share([*model.options]) + SLACK


@settings(max_examples=100, deadline=None)
@given(toy_models(whole_options=True))
def test_options_of_one_token_have_exactly_their_probability(model: ToyModel) -> None:
    """Where every value is one token and all are listed, nothing is left to bounds."""
    model = ToyModel(model.table, model.emitted, model.options, 100)
    evidence, mass = found(model), model.share([*model.options])
    assert evidence.mass == pytest.approx((mass, mass))
    assert evidence.probability == pytest.approx(model.share([model.value]) / mass)
    if any(len(step.top) > 1 for step in model.told):
        expected = {label(option): model.share([option]) / mass for option in model.options}
        assert evidence.options == pytest.approx(expected)


@given(toy_models(), st.sampled_from(["postmask", "unknown_mask"]))
def test_numbers_after_a_mask_have_no_mass(model: ToyModel, source: str) -> None:
    assume(model.num_listed)
    assert (found(model, source=source).mass is None) == (source == "postmask")
