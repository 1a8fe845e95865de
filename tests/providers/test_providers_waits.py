"""Waits: every way in which providers ask to be left alone."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.providers.waits import MAX_WAIT_S, should_retry, wait_s

NOON = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
IN_90_S = "Tue, 01 Dec 2026 12:01:30 GMT"


def message(text):
    return {"error": {"message": text}}


def retry_info(delay):
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    return [{"error": {"code": 429, "details": [{"@type": kind, "retryDelay": delay}]}}]


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after-ms": "11054"}, None, 11.054),
        ({"retry-after": "20"}, None, 20),
        ({"retry-after": " 1.5 "}, None, 1.5),
        ({"retry-after": "0"}, None, 0),
        ({"retry-after": IN_90_S}, None, 90),
        ({"retry-after": "Tue, 01 Dec 2026 11:00:00 GMT"}, None, 0),
        ({}, retry_info("37s"), 37),
        ({}, retry_info("0.250s"), 0.25),
        ({}, message("Please try again in 11.054s. Visit https://example.com"), 11.054),
        ({}, message("Please try again in 120ms."), 0.12),
        ({}, message("Please try again in 1m23.45s"), 83.45),
        ({}, message("Please try again in 7m12s."), 432),
        ({}, message("Please retry after 26 seconds."), 26),
        ({}, message("Please retry in 1 minute 5 seconds."), 65),
        ({}, {"error": "Busy, try again in 2h"}, 7200),
        ({}, {"error": {"metadata": {"raw": "Limited. Retry in 3s"}}}, 3),
        ({}, message("Too many requests, please wait 20s before the next one"), 20),
        ({}, message("Retry your request after 5 seconds"), 5),
        ({"retry-after": "2026-12-01T12:01:30Z"}, None, 90),
        ({"retry-after": "1796126490"}, None, 90),
        ({"x-ratelimit-reset": "6m0s"}, None, 360),
        ({"x-ratelimit-reset": "1h2m3.5s"}, None, 3723.5),
        ({"x-ratelimit-reset": "850µs"}, None, 0.00085),
        ({"x-ratelimit-reset": "30"}, None, 30),
        ({"x-ratelimit-reset": "1796126490000"}, None, 90),
        ({"x-ratelimit-reset-requests": "120ms"}, None, 0.12),
        ({"anthropic-ratelimit-requests-reset": "2026-12-01T12:01:30Z"}, None, 90),
        ({"anthropic-ratelimit-input-tokens-reset": "2026-12-01T13:00:30+01:00"}, None, 30),
        ({"anthropic-ratelimit-output-tokens-reset": "2026-12-01T11:00:00Z"}, None, 0),
    ],
)
def test_every_dialect_of_waiting_is_read(headers, body, seconds):
    """Milliseconds, float seconds, HTTP dates, Go durations, RetryInfo and plain English."""
    assert wait_s(headers, body, NOON, status=429) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1_000"}, None),
        ({"x-ratelimit-reset": "5 moments"}, None),
        ({"x-ratelimit-reset": "-6m0s"}, None),
        ({"x-ratelimit-reset": "9" * 30}, None),
        ({"anthropic-ratelimit-requests-reset": "2026-13-01T12:01:30Z"}, None),
        ({}, message("We will not wait 20 sunsets")),
        ({}, message("You may try again in a while")),
        ({}, message("Try again in 5 moments")),
        ({}, retry_info(37)),
    ],
)
def test_what_is_no_wait_is_not_read_as_one(headers, body):
    """The pair of the table above: nothing is guessed."""
    assert wait_s(headers, body, NOON, status=429) is None


def test_sources_are_asked_in_order():
    """Milliseconds first; then seconds, RetryInfo, text; the reset of the allowance last."""
    headers = {"retry-after-ms": "1000", "retry-after": "2", "x-ratelimit-reset": "5s"}
    body = {**message("try again in 4s"), "details": retry_info("3s")}
    seen = [wait_s(headers, body, NOON, status=429)]
    for name in ("retry-after-ms", "retry-after"):
        del headers[name]
        seen.append(wait_s(headers, body, NOON, status=429))
    del body["details"]
    seen.append(wait_s(headers, body, NOON, status=429))
    seen.append(wait_s(headers, None, NOON, status=429))
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("status", [200, 201, 299])
def test_the_headers_of_a_success_are_not_read(status):
    """A plain 200 with `retry-after` has been recorded; what an error inside says still counts."""
    headers = {"retry-after": "30", "retry-after-ms": "30000"}
    assert wait_s(headers, None, NOON, status=status) is None
    assert wait_s(headers, message("try again in 4s"), NOON, status=status) == 4


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "99999999"},
        {"retry-after-ms": "1000000000000"},
        {"retry-after": "Wed, 01 Dec 2066 12:00:00 GMT"},
        {"x-ratelimit-reset": "400d"},
    ],
)
def test_no_wait_outlasts_a_day(headers):
    """A slip of a server's must not switch a provider off for ever."""
    assert wait_s(headers, None, NOON, status=429) == MAX_WAIT_S


def test_of_anthropics_allowances_the_spent_ones_count():
    """All of them are sent with every answer, each with its own date."""
    headers = {
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2026-12-01T18:00:00Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2026-12-01T12:00:20Z",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2026-12-01T12:00:05Z",
    }
    assert wait_s(headers, None, NOON, status=429) == 20


def test_reset_headers_count_under_429_and_for_what_is_spent():
    """They stand on every answer; Groq's requests come back once a day."""
    headers = {
        "x-ratelimit-remaining-requests": "987",
        "x-ratelimit-reset-requests": "18m43.2s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "44.6s",
    }
    assert wait_s(headers, None, NOON, status=429) == 44.6
    assert wait_s(headers, None, NOON, status=503) is None
    headers["x-ratelimit-remaining-tokens"] = "12"
    assert wait_s(headers, None, NOON, status=429) is None


def test_a_date_is_measured_by_the_clock_that_wrote_it():
    """Without a clock of our own the response's date counts; without that, no date does."""
    sent = {"retry-after": IN_90_S, "date": "Tue, 01 Dec 2026 12:01:00 GMT"}
    assert wait_s(sent, None) == 30
    assert wait_s(sent, None, NOON) == 90
    assert wait_s({"retry-after": IN_90_S}, None) is None


def test_only_the_beginning_of_an_error_is_read():
    """A body of megabytes costs no more time than an error does."""
    assert wait_s({}, message("x" * 3000 + " try again in 5s"), NOON, status=429) is None
    assert wait_s({}, message("try again in " + "1h" * 200_000), NOON, status=429) == MAX_WAIT_S
    assert wait_s({}, {"error": [message("busy")] * 5000}, NOON, status=429) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "retryDelay", "detail"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
header_texts = (
    st.text(max_size=20)
    | st.from_regex(r"-?\d{1,20}(\.\d+)?(ms|s|m|h|d)?", fullmatch=True)
    | st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:00:00Z", fullmatch=True)
)


@given(
    headers=st.dictionaries(
        st.sampled_from(
            [
                "retry-after-ms",
                "retry-after",
                "date",
                "x-ratelimit-reset",
                "anthropic-ratelimit-tokens-reset",
            ]
        ),
        header_texts,
    ),
    body=json_values,
)
def test_a_wait_is_a_finite_number_from_zero(headers, body):
    """Whatever a server sends: no exception, and never a sleep of -1 or of for ever."""
    wait = wait_s(headers, body, NOON, status=429)
    assert wait is None or 0 <= wait <= MAX_WAIT_S


@pytest.mark.parametrize(
    ("value", "verdict"), [("true", True), ("False", False), ("maybe", None), (None, None)]
)
def test_should_retry_is_the_providers_word_or_nothing(value, verdict):
    """`x-should-retry` overrides what we make of a status."""
    assert should_retry({} if value is None else {"x-should-retry": value}) is verdict
