"""The order of work: one number for each item, stored once, that lets nothing starve.

All items age alike, so the order of any two never changes with time: it can be written down when
the item comes in. Being wholly uncertain is worth a head start in age.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from weighbridge.decision import Decision

# How early before its due time an item ranks like one that came in just then.
LEAD_S: Final = 3 * 86_400.0
HEAD_STARTS_S: Final[Mapping[str, float]] = {
    "fair": 3 * 86_400.0,
    "uncertainty": 365 * 86_400.0,
    "oldest": 0.0,
}


def sort_key(
    created_at: int, uncertainty: float, due_at: int | None, *, head_start_s: float
) -> int:
    """Where an item comes in the queue, in microseconds since 1970; lower comes first.

    Args:
        created_at: microseconds since 1970.
        uncertainty: 0 to 1.
        due_at: microseconds since 1970, or None.
        head_start_s: what an uncertainty of 1 is worth.

    >>> day = 86_400 * 10**6
    >>> sort_key(10 * day, 0.5, None, head_start_s=2 * 86_400.0) == 9 * day
    True
    """
    by_age = created_at - round(uncertainty * head_start_s * 1e6)
    return by_age if due_at is None else min(by_age, due_at - round(LEAD_S * 1e6))


def uncertainty(decision: Decision) -> float:
    """How unsure the machine was of its least certain required field, 0 to 1; 1 if unknown."""
    required = [evidence for evidence in decision.fields.values() if evidence.required]
    return max((_doubt(evidence.probability) for evidence in required), default=1.0)


def _doubt(probability: float | None) -> float:
    if probability is None or not math.isfinite(probability):
        return 1.0
    return min(1.0, max(0.0, 1.0 - probability))
