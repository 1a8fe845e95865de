"""Waits: how long a provider asks to be left alone, wherever it says so."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from weighbridge.decision import Json

_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d)(?:(?:ec|econd|in|inute|our|ay)s?)?(?![a-z])"
_DURATION = re.compile(rf"{_PART}(?: ?{_PART})*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_AGAIN = re.compile(rf"(?:try again|retry) (?:in|after) (?P<wait>{_DURATION.pattern})")
_SPOKEN = frozenset({"message", "error", "detail", "raw"})  # keys whose text speaks to a person


def wait_s(
    headers: Mapping[str, str],
    body: Json,
    now: datetime | None = None,
    *,
    status: int | None = None,
) -> float | None:
    """Seconds that an error response asks for, ≥ 0; None where it does not say.

    What is said about this one request comes first: `retry-after-ms`, `retry-after`, Google's
    RetryInfo, "try again in" in the message. The `x-ratelimit-reset` family comes last: it tells
    when the whole allowance is back, and of several allowances only the spent one counts.

    Args:
        headers: names in lower case.
        body: the parsed body; None if there is none.
        now: when the response came, with a time zone. None: by the provider's own clock, as its
            `date` header shows it, so that no difference between two clocks becomes a wait.
        status: of the response; the reset headers come with every answer and count under 429.

    Source: RFC 9110 section 10.2.3; google.rpc.RetryInfo; the OpenAI and Groq rate-limit pages.

    >>> wait_s({}, {"error": {"message": "Busy. Please try again in 1m23.45s."}})
    83.45
    """
    found = (
        _scaled(headers.get("retry-after-ms"), 0.001),
        _scaled(headers.get("retry-after"), 1),
        _until(headers.get("retry-after"), now or _date(headers.get("date"))),
        *(_duration(delay) for key, delay in _texts(body) if key == "retryDelay"),
        *(_spoken(text) for key, text in _texts(body) if key in _SPOKEN),
        _reset(headers) if status == 429 else None,
    )
    return next((wait for wait in found if wait is not None), None)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """What `x-should-retry` says; None where it is absent or says neither.

    >>> should_retry({"x-should-retry": "false"})
    False
    """
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def _scaled(number: str | None, unit_s: float) -> float | None:
    # Not float() alone: it also reads "nan", "-1" and "1_000".
    if number is None or not _NUMBER.fullmatch(number.strip()):
        return None
    return _finite(float(number) * unit_s)


def _until(date: str | None, now: datetime | None) -> float | None:
    then = _date(date)
    return None if then is None or now is None else max(0.0, (then - now).total_seconds())


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _duration(text: str) -> float | None:
    """Seconds in "120ms", "6m0s" or "20 seconds"; a bare number is a date at some vendors."""
    if not _DURATION.fullmatch(text.strip().lower()):
        return None
    return _finite(sum(float(n) * _UNIT_S[unit] for n, unit in re.findall(_PART, text.lower())))


def _spoken(text: str) -> float | None:
    again = _AGAIN.search(text.lower())
    return _duration(again["wait"]) if again else None


def _reset(headers: Mapping[str, str]) -> float | None:
    waits = [
        _duration(reset)
        for suffix in ("", "-requests", "-tokens")
        if (reset := headers.get(f"x-ratelimit-reset{suffix}"))
        and headers.get(f"x-ratelimit-remaining{suffix}", "0").strip() == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _texts(body: Json) -> Iterator[tuple[str, str]]:
    """Every text in a body with the key it stands under, outermost first."""
    level: list[Any] = [body]
    while level:
        objects = [part for part in level if isinstance(part, dict)]
        yield from (
            (key, text) for part in objects for key, text in part.items() if isinstance(text, str)
        )
        level = [inner for part in level if isinstance(part, list) for inner in part]
        level += [inner for part in objects for inner in part.values()]


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
