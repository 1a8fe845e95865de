"""In which order providers are asked. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, assert_never

from weighbridge.providers.protocol import Provider
from weighbridge.router.latency import Latencies

Strategy: TypeAlias = Literal["configured", "cheapest", "fastest", "weighted"]

_TYPICAL_TOKENS = 600, 60  # of a prompt and an answer, to compare prices by


def ordered(
    providers: Sequence[Provider],
    strategy: Strategy,
    *,
    latencies: Latencies,
    draw: Callable[[], float],
) -> Sequence[Provider]:
    """The providers, best first.

    Engines on this machine stay last, but for the configured order: they are what is left when
    nobody answers, whatever they cost. Equal ones keep the configured order.

    Args:
        providers: in the configured order.
        strategy: "cheapest": by the price of a typical ticket, unknown prices last. "fastest": by
            the median time of the newest requests; those of whom too little is known go first, or
            nothing would ever be known of them; those whose answers are mostly useless go last.
            "weighted": by chance, in proportion to weights.
        latencies: by provider identity.
        draw: 0 to 1, once for each provider.
    """

    def rank(provider: Provider) -> float:
        match strategy:
            case "cheapest":
                cost = provider.cost_usd(*_TYPICAL_TOKENS)
                return math.inf if cost is None else cost
            case "fastest":
                return latencies.median(provider.identity) or 0.0
            case "weighted":
                # Efraimidis and Spirakis 2006: the smallest exponential times are a weighted draw.
                weight = provider.weight
                return -math.log(1.0 - draw()) / weight if weight > 0 else math.inf
            case "configured":
                return 0.0
            case _:
                assert_never(strategy)

    if strategy == "configured":
        return providers
    return sorted(providers, key=lambda provider: (not provider.is_remote, rank(provider)))
