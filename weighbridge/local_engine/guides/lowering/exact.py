"""Exact numbers: those that the engine, which computes with doubles, reads as they are written.

It takes the digits of a number for one integer, and moves the point then. Where that integer is no
double, or the power of ten is none, the number that it reads may be a neighbour.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

MAX_EXACT = 2**53  # beyond, not every integer is a double

_MAX_DECIMALS = 22  # 10^22 is the greatest power of ten that is a double
_NUM_DIGITS = 15  # as an integer always a double, and told apart from every other decimal


def whole(value: float) -> int | float:
    """2.0 as 2; what has a fraction stays."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_exact(value: float) -> bool:
    """Whether the engine is sure to read a number, made `whole` where it is, as it is.

    >>> is_exact(0.25), is_exact(0.30000000000000004), is_exact(2**53 + 1)
    (True, False, False)
    """
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    return int("".join(map(str, digits))) <= MAX_EXACT and exponent >= -_MAX_DECIMALS


def lower_bound(value: float, *, is_exclusive: bool) -> tuple[str, int | float]:
    """The keyword for a lower bound, and its number; if it must be moved, to the next of 15 digits.

    What is 0 or more is never excluded: beside a maximum with the same integer part llguidance
    1.9 would write that bound itself.

    >>> lower_bound(0.5, is_exclusive=False), lower_bound(-1, is_exclusive=True)
    (('minimum', 0.5), ('exclusiveMinimum', -1))
    >>> lower_bound(0.30000000000000004, is_exclusive=False), lower_bound(0, is_exclusive=True)
    (('minimum', 0.300000000000001), ('minimum', 1e-22))
    """
    value = whole(value)
    if is_exclusive and value >= 0:
        return "minimum", _next(value)
    number = value if isinstance(value, int) or is_exact(value) else _rounded_up(value)
    return "exclusiveMinimum" if is_exclusive else "minimum", number


def upper_bound(value: float, *, is_exclusive: bool) -> tuple[str, int | float]:
    """The same of an upper bound."""
    _, number = lower_bound(-value, is_exclusive=is_exclusive)
    return "exclusiveMaximum" if is_exclusive and value > 0 else "maximum", -number


def _next(value: float) -> int | float:
    above = whole(float(_upwards().next_plus(Decimal(repr(value)))))
    return min(above, value + 1) if isinstance(value, int) else above


def _rounded_up(value: float) -> int | float:
    return whole(float(_upwards().create_decimal(repr(value))))


def _upwards() -> decimal.Context:
    smallest = _NUM_DIGITS - 1 - _MAX_DECIMALS
    return decimal.Context(prec=_NUM_DIGITS, Emin=smallest, rounding=decimal.ROUND_CEILING)
