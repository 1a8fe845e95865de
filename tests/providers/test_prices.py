from __future__ import annotations

import tomllib
from datetime import date
from importlib import resources
from typing import Any

import pytest

from weighbridge.providers import prices
from weighbridge.providers.profiles import named

TABLE: list[dict[str, Any]] = tomllib.loads(
    resources.files("weighbridge.providers").joinpath("prices.toml").read_text("utf-8")
)["price"]
KEYS = {"profile", "models", "prompt", "completion", "published", "source"}


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["models"][0])
def test_price_says_who_published_it_and_when(entry):
    assert entry.keys() == KEYS
    assert type(entry["published"]) is date
    assert entry["published"] < date(2026, 11, 30)
    assert "." in entry["source"]
    assert 0 < entry["prompt"] <= entry["completion"] < 200
    for model in entry["models"]:
        assert prices.of(named(entry["profile"]), model) is not None


def test_no_model_has_two_prices():
    models = [(entry["profile"], model) for entry in TABLE for model in entry["models"]]
    assert len(models) == len(set(models))
    assert all(model == model.lower() for _, model in models)


@pytest.mark.parametrize(
    ("profile", "model"),
    [
        ("azure_openai", "gpt-4o"),
        ("openai", "gpt-4o-audio-preview"),
        ("openai", "gpt-9"),
        ("vllm", "gpt-4o"),
    ],
)
def test_price_is_never_guessed(profile, model):
    """Neither from another seller's nor from a similar name."""
    assert prices.of(named(profile), model) is None


def test_letter_case_of_a_model_costs_nothing():
    assert prices.of(named("openai"), "GPT-4o") == prices.of(named("openai"), "gpt-4o")
