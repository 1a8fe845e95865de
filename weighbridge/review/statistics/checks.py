"""Checks of arguments: the same words for the same mistake in every statistic."""

from __future__ import annotations

from collections.abc import Iterable


def check_open_share(name: str, value: float) -> None:
    """Raise unless `value` lies strictly between 0 and 1; NaN does not."""
    if not 0 < value < 1:
        raise ValueError(f"want {name} above 0 and below 1, got {value}")


def check_share(name: str, value: float) -> None:
    """Raise unless `value` lies from 0 to 1; NaN does not."""
    if not 0 <= value <= 1:
        raise ValueError(f"want {name} from 0 to 1, got {value}")


def check_tally(num_errors: float, num_labels: float) -> None:
    """Raise unless some of `num_labels` can be `num_errors`; NaN cannot."""
    if not 0 <= num_errors <= num_labels < float("inf"):
        raise ValueError(f"want 0 <= errors <= labels, got {num_errors} errors of {num_labels}")


def check_distribution(name: str, values: Iterable[float]) -> None:
    """Raise unless the values are from 0 to 1 and sum to 1 within 1e-6."""
    kept = [*values]
    if not kept or not all(0 <= value <= 1 for value in kept) or abs(sum(kept) - 1) > 1e-6:
        raise ValueError(f"want {name} as shares from 0 to 1 that sum to 1")
