"""Waits: how long a provider asks to be left alone, wherever it says so."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from weighbridge.decision import Json

MAX_WAIT_S = 86_400.0  # no longer wait is believed: what comes back later is asked for once a day

_UNIT_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 0.001,
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
}
_PART = r"(\d+(?:\.\d+)?) ?(ns|[uµ]s|ms|s|m|h|d)(?:(?:ec|econd|in|inute|our|ay)s?)?(?![a-z])"
_DURATION = re.compile(rf"{_PART}(?: ?{_PART})*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_AGAIN = re.compile(
    rf"(?:try again|retry|retry your request|wait)"
    rf" (?:in |after |for |another )?(?P<wait>{_DURATION.pattern})"
)
_SPOKEN = frozenset({"message", "error", "detail", "raw"})  # keys whose text speaks to a person
_MAX_TEXTS, _MAX_CHARS = 200, 2000  # of a body are read: an error is short, and some are hostile
# (remaining, reset) of each allowance: OpenAI and its followers, then Anthropic.
_ALLOWANCES = tuple(
    (before.format("remaining"), before.format("reset"))
    for before in (
        "x-ratelimit-{}",
        "x-ratelimit-{}-requests",
        "x-ratelimit-{}-tokens",
        "anthropic-ratelimit-requests-{}",
        "anthropic-ratelimit-tokens-{}",
        "anthropic-ratelimit-input-tokens-{}",
        "anthropic-ratelimit-output-tokens-{}",
    )
)
_EPOCH_S, _EPOCH_MS = 1e9, 1e12  # a number from here on is a date, and no server waits for decades


def wait_s(
    headers: Mapping[str, str],
    body: Json,
    now: datetime | None = None,
    *,
    status: int | None = None,
) -> float | None:
    """Seconds that an error response asks for, 0 to `MAX_WAIT_S`; None where it does not say.

    What is said about this one request comes first: `retry-after-ms`, `retry-after`, Google's
    RetryInfo, "try again in" in the message. The reset headers come last: they tell when a whole
    allowance is back, and of several allowances only the spent ones count.

    Args:
        headers: names in lower case.
        body: the parsed body; None if there is none.
        now: when the response came, with a time zone. None: by the provider's own clock, as its
            `date` header shows it, so that no difference between two clocks becomes a wait.
        status: of the response. The headers of a success are about something else; reset headers
            come with every answer and count under 429.

    Source: RFC 9110 section 10.2.3; google.rpc.RetryInfo; the rate-limit pages of OpenAI, Groq and
    Anthropic.

    >>> wait_s({}, {"error": {"message": "Busy. Please try again in 1m23.45s."}})
    83.45
    """
    if status is not None and 200 <= status <= 299:
        headers = {}
    now = now or _date(headers.get("date", ""))
    texts = [*islice(_texts(body), _MAX_TEXTS)]
    found = (
        _number(headers.get("retry-after-ms", ""), 0.001),
        _until(headers.get("retry-after", ""), now),
        *(_duration(delay) for key, delay in texts if key == "retryDelay"),
        *(_spoken(text) for key, text in texts if key in _SPOKEN),
        _reset(headers, now) if status == 429 else None,
    )
    return next((min(wait, MAX_WAIT_S) for wait in found if wait is not None), None)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """What `x-should-retry` says; None where it is absent or says neither.

    >>> should_retry({"x-should-retry": "false"})
    False
    """
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def _number(text: str, unit_s: float) -> float | None:
    # Not float() alone: it also reads "nan", "-1" and "1_000".
    if not _NUMBER.fullmatch(text.strip()):
        return None
    return _finite(float(text) * unit_s)


def _until(text: str, now: datetime | None) -> float | None:
    """Seconds, or until a date: of HTTP, of RFC 3339, or as seconds or milliseconds since 1970."""
    seconds = _number(text, 1)
    if seconds is not None and seconds < _EPOCH_S:
        return seconds
    then = _date(text) if seconds is None else _since_1970(seconds)
    return None if then is None or now is None else max(0.0, (then - now).total_seconds())


def _since_1970(number: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(number / (1000 if number >= _EPOCH_MS else 1), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _date(text: str) -> datetime | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = read(text.strip())
        except (ValueError, OverflowError):
            continue
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None


def _duration(text: str) -> float | None:
    """Seconds in "120ms", "6m0s" or "20 seconds"."""
    if not _DURATION.fullmatch(text.strip().lower()):
        return None
    return _finite(sum(float(n) * _UNIT_S[unit] for n, unit in re.findall(_PART, text.lower())))


def _spoken(text: str) -> float | None:
    again = _AGAIN.search(text.lower())
    return _duration(again["wait"]) if again else None


def _reset(headers: Mapping[str, str], now: datetime | None) -> float | None:
    """Until all spent allowances are back: durations, seconds, or dates."""
    resets = [
        headers[reset]
        for remaining, reset in _ALLOWANCES
        if reset in headers and headers.get(remaining, "0").strip() == "0"
    ]
    waits = [
        _until(reset, now) if (duration := _duration(reset)) is None else duration
        for reset in resets
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _texts(body: Json) -> Iterator[tuple[str, str]]:
    """Every text in a body with the key it stands under, outermost first."""
    level: list[Any] = [body]
    while level:
        objects = [part for part in level if isinstance(part, dict)]
        yield from (
            (key, text[:_MAX_CHARS])
            for part in objects
            for key, text in part.items()
            if isinstance(text, str)
        )
        level = [inner for part in level if isinstance(part, list) for inner in part]
        level += [inner for part in objects for inner in part.values()]


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
