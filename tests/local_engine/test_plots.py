"""Plots: the bars are as long as the numbers, and the numbers are those that are drawn from."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from png_pixels import read_png

from weighbridge.errors import ExtraMissing
from weighbridge.local_engine.decoding.sampling import Sampling, distribution
from weighbridge.local_engine.picture.plots import (
    plot_options,
    plot_temperature,
    temperatures_under_mask,
)

TEAL, AMBER = (0x1F, 0x7A, 0x8C), (0xE0, 0xA3, 0x3A)
HOSTILE = {"$x^2$": 0.5, "\x1b[31m\u202e": 0.3, "日本語": 0.15, "x" * 500: 0.04, "": 0.01}

named_logits = st.dictionaries(st.text(max_size=3), st.floats(-50, 50), min_size=1, max_size=6)


def bars(path: Path, colour: tuple[int, int, int]) -> list[int]:
    """Lengths of the horizontal runs of a colour, one for each band of rows that has it."""
    near = (read_png(path).int() - torch.tensor(colour)).abs().amax(-1) <= 6  # it has a palette
    lengths, before = list[int](), 0
    for length in near.sum(-1).tolist():
        if length and not before:
            lengths.append(length)
        elif length:
            lengths[-1] = max(lengths[-1], length)
        before = length
    return lengths


@given(logits=named_logits, temperature=st.just(0.0) | st.floats(0.01, 5), data=st.data())
def test_temperature_never_revives_a_banned_token(
    logits: dict[str, float], temperature: float, data: st.DataObject
) -> None:
    """The numbers are a distribution over the allowed tokens: that of the sampler."""
    allowed = data.draw(st.sets(st.sampled_from(sorted(logits)), min_size=1))
    (drawn,) = temperatures_under_mask(logits, allowed, [temperature])
    assert list(drawn) == list(logits)
    assert all(drawn[name] == 0 for name in logits if name not in allowed)
    assert sum(drawn.values()) == pytest.approx(1, abs=1e-5)
    row = torch.tensor([v if n in allowed else -math.inf for n, v in logits.items()])
    assert list(drawn.values()) == distribution(row, Sampling(temperature=temperature)).tolist()


def test_heat_flattens_and_cold_sharpens() -> None:
    cold, warm, hot = temperatures_under_mask({"a": 2.0, "b": 1.0, "c": 9.0}, "ab", [0, 1, 9])
    assert cold == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert warm["a"] == pytest.approx(1 / (1 + math.exp(-1)))
    assert 0.5 < hot["a"] < warm["a"] < cold["a"]


@pytest.mark.parametrize(
    ("logits", "allowed", "temperature", "said"),
    [
        ({"bug": 1.0}, [], 1.0, "no token is allowed"),
        ({"bug": 1.0, "how_to": 2.0}, ["bgu"], 1.0, "'bgu'; the nearest is 'bug'"),
        ({}, ["bug"], 1.0, "no logit is given for 'bug'"),
        ({"bug": math.nan}, ["bug"], 1.0, "logit of 'bug' is nan"),
        ({"bug": -math.inf}, ["bug"], 1.0, "logit of 'bug' is -inf"),
        ({"bug": 1.0}, ["bug"], -1.0, "temperature"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    logits: dict[str, float], allowed: list[str], temperature: float, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        temperatures_under_mask(logits, allowed, [temperature])


def test_infinite_logit_of_a_banned_token_does_not_matter() -> None:
    assert temperatures_under_mask({"a": 1.0, "b": math.inf}, "a", [1.0]) == [{"a": 1.0, "b": 0.0}]


def test_bars_are_as_long_as_the_probabilities(tmp_path: Path) -> None:
    """Likeliest first, whatever the order that they were given in."""
    plot_options({"c": 0.1, "a": 0.6, "b": 0.3}, tmp_path / "a.png")
    lengths = bars(tmp_path / "a.png", TEAL)
    assert [length / lengths[0] for length in lengths] == pytest.approx([1, 1 / 2, 1 / 6], rel=0.03)


def test_options_beyond_the_thirtieth_are_drawn_as_one(tmp_path: Path) -> None:
    """Nothing of the probability is left out."""
    plot_options({f"label {n}": 0.01 for n in range(100)}, tmp_path / "a.png")
    lengths = bars(tmp_path / "a.png", TEAL)
    assert len(lengths) == 31
    assert lengths[-1] / lengths[0] == pytest.approx(70, rel=0.15)


def test_stated_mass_changes_the_picture(tmp_path: Path) -> None:
    """Known or unknown, one number or two bounds."""
    for name, mass in (("a", None), ("b", (0.1, 0.1)), ("c", (0.1, 0.2)), ("d", (0.1, 0.2))):
        plot_options({"a": 1.0}, tmp_path / name, mass=mass)
    a, b, c, d = ((tmp_path / name).read_bytes() for name in "abcd")
    assert len({a, b, c}) == 3
    assert c == d


@pytest.mark.parametrize(
    ("probabilities", "mass"),
    [
        ({}, None),
        ({"a": 1.1}, None),
        ({"a": -0.1}, None),
        ({"a": math.nan}, None),
        ({"a": 0.5}, (0.1, 1.5)),
    ],
)
def test_what_is_no_probability_is_not_drawn(
    tmp_path: Path, probabilities: dict[str, float], mass: tuple[float, float] | None
) -> None:
    with pytest.raises(ValueError, match=r"no option|no probability"):
        plot_options(probabilities, tmp_path / "a.png", mass=mass)
    assert list(tmp_path.iterdir()) == []


def test_names_can_neither_warn_nor_be_formulae(tmp_path: Path) -> None:
    """Hostile names in both plots."""
    plot_options(HOSTILE, tmp_path / "a.png", mass=(0.0, 1.0))
    plot_temperature(HOSTILE, set(HOSTILE), [0, 1], tmp_path / "b.png")
    assert len(bars(tmp_path / "a.png", TEAL)) == len(HOSTILE)
    assert bars(tmp_path / "b.png", AMBER)


def test_banned_tokens_have_no_bar(tmp_path: Path) -> None:
    """However likely they were."""
    plot_temperature({"a": 1.0, "b": 1.0}, ["a"], [1.0], tmp_path / "one.png")
    plot_temperature({"a": 1.0, "b": 1.0}, ["a", "b"], [1.0], tmp_path / "two.png")
    one, two = (max(bars(tmp_path / f"{name}.png", TEAL)) for name in ("one", "two"))
    assert two == pytest.approx(2 * one, abs=2)


@pytest.mark.parametrize(
    ("count", "temperatures", "said"),
    [(13, [1.0], "13 tokens"), (2, [], "1 to 6"), (2, [1.0] * 7, "1 to 6")],
)
def test_more_than_can_be_seen_is_refused(
    tmp_path: Path, count: int, temperatures: list[float], said: str
) -> None:
    logits = {str(n): float(n) for n in range(count)}
    with pytest.raises(ValueError, match=said):
        plot_temperature(logits, set(logits), temperatures, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_plots_without_matplotlib_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ExtraMissing, match="plot"):
        plot_options({"a": 1.0}, tmp_path / "a.png")
    with pytest.raises(ExtraMissing, match="plot"):
        plot_temperature({"a": 1.0}, "a", [1.0], tmp_path / "a.png")
