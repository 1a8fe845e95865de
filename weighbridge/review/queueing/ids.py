"""Item ids: short enough to type, in the order of their making, not to be guessed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

# Crockford's base 32: no i, l, o or u to misread, and sorted as the digits are.
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS: Final = 9  # milliseconds until the year 3084
_RANDOM_DIGITS: Final = 6  # one in 10^9 within the same millisecond


def time_ordered_id(now_us: int, random_below: Callable[[int], int] = secrets.randbelow) -> str:
    """A new id of 15 characters; a later millisecond sorts after an earlier one.

    Args:
        now_us: microseconds since 1970.
        random_below: a random integer from 0 up to, but not including, its argument.

    >>> time_ordered_id(1_790_000_000_000_000, lambda limit: limit - 1)
    '1m3250v00zzzzzz'
    """
    return _digits(now_us // 1000, _TIME_DIGITS) + _digits(
        random_below(32**_RANDOM_DIGITS), _RANDOM_DIGITS
    )


def _digits(number: int, length: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(length)))
