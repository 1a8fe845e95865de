"""In which order providers are asked, and by what they are known to be quick."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.providers.http import HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.local import LocalProvider
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.prices import Price
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Provider
from weighbridge.router.latency import Latencies
from weighbridge.router.order import Strategy, ordered


def remote(name: str, usd: float | None = None, weight: float = 1.0) -> Provider:
    return HttpProvider(
        name=name,
        model=name,
        base_url="https://a.test",
        profile=named("openai"),
        adapter=OpenAIAdapter(named("openai")),
        ledger=MemoryLedger(),
        price=None if usd is None else Price(prompt=usd, completion=usd),
        weight=weight,
    )


LOCAL = cast(Provider, LocalProvider())


def names(
    strategy: Strategy, *providers: Provider, latencies: Latencies | None = None, **options: Any
) -> list[str]:
    draws = iter(options.get("draws", [0.5] * len(providers)))
    known = latencies or Latencies()
    order = ordered(providers, strategy, latencies=known, draw=lambda: next(draws))
    return [provider.name for provider in order]


def test_configured_order_is_kept_wherever_the_local_engine_stands() -> None:
    assert names("configured", LOCAL, remote("a"), remote("b")) == ["local", "a", "b"]


def test_cheapest_goes_first_and_what_has_no_price_last() -> None:
    """The local engine costs nothing and is what is left when nobody answers."""
    providers = LOCAL, remote("free?"), remote("dear", 9.0), remote("cheap", 0.1)
    assert names("cheapest", *providers) == ["cheap", "dear", "free?", "local"]


def test_fastest_goes_first_after_those_of_whom_nothing_is_known() -> None:
    latencies = Latencies()
    a, b, new = remote("a"), remote("b"), remote("new")
    for _ in range(10):
        latencies.note(a.identity, 2.0)
        latencies.note(b.identity, 1.0)
    assert names("fastest", LOCAL, a, b, new, latencies=latencies) == ["new", "b", "a", "local"]


def test_weighted_order_begins_with_each_in_proportion_to_its_weight() -> None:
    """Checked over an even grid of draws, so that nothing is left to chance."""
    providers = remote("a", weight=3.0), remote("b", weight=1.0), remote("never", weight=0.0)
    grid = [(i + 0.5) / 40 for i in range(40)]
    firsts = Counter(
        names("weighted", *providers, draws=(one, other, 0.5))[0] for one in grid for other in grid
    )
    assert firsts["a"] / firsts.total() == pytest.approx(0.75, abs=0.02)
    assert firsts["never"] == 0


@given(
    strategy=st.sampled_from(["configured", "cheapest", "fastest", "weighted"]),
    prices=st.lists(st.none() | st.floats(0, 100), max_size=6),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_order_loses_nobody_and_asks_nobody_twice(
    strategy: Strategy, prices: list[float | None], draw: float
) -> None:
    providers = [remote(str(i), usd) for i, usd in enumerate(prices)]
    order = names(strategy, *providers, draws=[draw] * len(providers))
    assert sorted(order) == sorted(provider.name for provider in providers)


@given(
    seconds=st.lists(st.floats(0, 100), min_size=8, max_size=64),
    share=st.floats(0.01, 1),
)
def test_quantile_is_an_answer_within_which_that_share_came(
    seconds: list[float], share: float
) -> None:
    latencies = Latencies()
    for one in seconds:
        latencies.note("a", one)
    found = latencies.quantile("a", share)
    assert found in seconds
    assert sum(one <= found for one in seconds) >= math.floor(share * len(seconds))


def test_quantile_moves_with_the_newest_answers() -> None:
    """What was slow an hour ago is forgotten; few answers say nothing."""
    latencies = Latencies()
    for seconds in [9.0] * 7:
        latencies.note("a", seconds)
    assert latencies.quantile("a", 0.5) is None
    for seconds in [1.0] * 64:
        latencies.note("a", seconds)
    assert latencies.quantile("a", 0.99) == statistics.median([1.0])
