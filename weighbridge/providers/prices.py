"""Prices: what tokens cost, by configuration or as vendors published it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from weighbridge.providers.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    prompt: float
    completion: float

    def cost_usd(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Of so many tokens; None where a number is not known."""
        if prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


def of(profile: Profile, model: str) -> Price | None:
    """The published price of a model; None where it is not in the table `prices.toml`.

    Args:
        profile: who sells it. The same model costs something else elsewhere.
        model: its exact name.

    >>> from weighbridge.providers.profiles import named
    >>> of(named("openai"), "gpt-4.1-mini")
    Price(prompt=0.4, completion=1.6)
    >>> of(named("openai"), "gpt-4.1-mini-of-my-own") is None
    True
    """
    return _prices().get((profile.name, model.lower()))


@cache
def _prices() -> Mapping[tuple[str, str], Price]:
    text = resources.files(__package__).joinpath("prices.toml").read_text("utf-8")
    return {
        (entry["profile"], name): Price(prompt=entry["prompt"], completion=entry["completion"])
        for entry in tomllib.loads(text)["price"]
        for name in entry["models"]
    }
