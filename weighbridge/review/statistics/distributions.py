"""Distributions over options: softened, freed of a model's habit, and what a reviewer reads off."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weighbridge.review.statistics.checks import check_distribution


def tempered(options: Sequence[float], temperature: float) -> tuple[float, ...]:
    """q^(1/T), normalised: flatter above 1, sharper below. Keeps order.

    Raises:
        ValueError: no distribution, or a temperature that is not above 0.

    Source: Guo et al. 2017.
    """
    check_distribution("options", options)
    if not 0 < temperature < math.inf:
        raise ValueError(f"want a temperature above 0, got {temperature}")
    # Over the largest first: at low temperatures all the powers may be too small for a float.
    return normalised([(option / max(options)) ** (1 / temperature) for option in options])


def without_habit(options: Sequence[float], content_free: Sequence[float]) -> tuple[float, ...]:
    """Options over q₀, normalised, where q₀ is what the model says to a ticket without content.

    Raises:
        ValueError: no distribution, unlike lengths, or a q₀ of 0 somewhere.

    Source: contextual calibration, Zhao et al. 2021.
    """
    check_distribution("options", options)
    check_distribution("content_free", content_free)
    if len(options) != len(content_free) or not all(content_free):
        raise ValueError("want a content-free probability above 0 for each option")
    return normalised([q / habit for q, habit in zip(options, content_free, strict=True)])


def normalised(weights: Sequence[float]) -> tuple[float, ...]:
    """Weights over their sum.

    Raises:
        ValueError: a negative or infinite weight, or a sum of 0.
    """
    total = sum(weights)
    if not all(weight >= 0 for weight in weights) or not 0 < total < math.inf:
        raise ValueError("want weights of at least 0, and a finite sum above 0")
    return tuple(weight / total for weight in weights)


def margin(options: Sequence[float]) -> float:
    """How far the likeliest option is ahead of the next; 1 for a single one.

    Raises:
        ValueError: no distribution.
    """
    check_distribution("options", options)
    first, second = sorted((*options, 0.0), reverse=True)[:2]
    return first - second


def entropy(options: Sequence[float]) -> float:
    """In nats; ln(n) where all n options are alike.

    Raises:
        ValueError: no distribution.
    """
    check_distribution("options", options)
    return -sum(option * math.log(option) for option in options if option)
