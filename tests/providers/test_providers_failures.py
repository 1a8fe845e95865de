"""Failures: one kind for every way in which providers say no; see also the refusals."""

import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vendor_errors import BY_VENDOR, SENTENCES, anthropic, error, gemini
from wire import response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.error_wording import CODES
from weighbridge.providers.failures import classify, classify_error, from_transport
from weighbridge.providers.protocol import TransportFault

PAGE = b"<!DOCTYPE html><html><body>Attention Required! invalid api key</body></html>"

NO_JSON = [
    (400, None, Kind.UNKNOWN),
    (400, {}, Kind.UNKNOWN),
    (400, [], Kind.UNKNOWN),
    (400, PAGE, Kind.UNKNOWN),
    (403, None, Kind.CREDENTIAL),
    (403, PAGE, Kind.UNKNOWN),
    (404, PAGE, Kind.MODEL_GONE),
    (413, PAGE, Kind.TOO_LONG),
    (429, None, Kind.RATE_LIMIT),
    (429, PAGE, Kind.RATE_LIMIT),
    (401, None, Kind.CREDENTIAL),
    (500, PAGE, Kind.TRANSIENT),
    (502, b"\xff\xfe\x00", Kind.TRANSIENT),
    (400, b"\xff\xfe\x00", Kind.UNKNOWN),
    (400, gzip.compress(b'{"error": "invalid api key"}'), Kind.UNKNOWN),
    (500, b"[" * 100_000, Kind.TRANSIENT),
    (200, b"not json", Kind.UNKNOWN),
    (200, {"choices": []}, Kind.UNKNOWN),
    (302, None, Kind.UNKNOWN),
    (418, None, Kind.UNKNOWN),
    *((status, None, Kind.TRANSIENT) for status in (408, 409, 498, 499, 500, 502, 503, 504, 529)),
]
ALL = [
    pytest.param(*case, id=f"{vendor}-{i}-{case[0]}")
    for vendor, cases in {**BY_VENDOR, "no-json": NO_JSON}.items()
    for i, case in enumerate(cases)
]


@pytest.mark.parametrize(("status", "body", "kind"), ALL)
def test_every_answer_has_one_kind(status, body, kind):
    """Codes first, then the vendor's own words, then the status."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.parameter, failure.is_schema) == (kind, None, False)


@pytest.mark.parametrize(("status", "body", "kind"), ALL)
def test_who_is_not_understood_is_said_to_be_unknown(status, body, kind):
    """The trail says so: a growing share of them is how a new dialect shows."""
    detail = classify(response(status, body)).detail
    says_so = "no known error" in detail or "web page" in detail
    assert says_so if kind is Kind.UNKNOWN else "no known error" not in detail


@pytest.mark.parametrize(("sentence", "kind"), SENTENCES)
def test_words_tell_where_no_code_does(sentence, kind):
    """Unless they are about a message of the request: then they may be the ticket's."""
    assert classify(response(400, error(sentence))).kind is kind
    about_content = classify(response(400, error(sentence, param="messages[1].content"))).kind
    is_about_text = kind in (Kind.FILTERED, Kind.TOO_LONG)
    assert about_content is (kind if is_about_text else Kind.CALLER_FAULT)


@given(
    code=st.sampled_from([(code, kind) for kind, codes in CODES.items() for code in codes]),
    status=st.sampled_from([200, 400, 403, 404, 422, 429]),
)
def test_a_known_code_decides_whatever_stands_around_it(code, status):
    """In any of the places for codes, in any letter case, under any status."""
    text, kind = code
    for body in (
        error("No.", code=text.upper()),
        error("No.", type=text),
        {"object": "error", "message": "No.", "code": text},
        error("No.", code=status, details=[{"reason": text}]),
    ):
        assert classify(response(status, body)).kind is kind


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (Kind.QUOTA, "insufficient_quota", "Your credit balance is too low"),
        (Kind.CREDENTIAL, "invalid_api_key", "API key not valid"),
        (Kind.MODEL_GONE, "model_not_found", "The model `m` does not exist"),
    ],
)
def test_what_waiting_does_not_cure_comes_before_the_rate_limit(kind, code, words):
    """Also where the provider itself calls it one."""
    assert classify(response(429, error("Slow down.", code=code))).kind is kind
    assert classify(response(400, error(words))).kind is kind


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: [e], lambda e: {"error": e["error"]}])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_shape_around_an_error_does_not_matter(wrap, depth):
    """Lists, gateways that put one body into another, texts that hold JSON."""
    body = wrap(error("No.", code="invalid_api_key"))
    for _ in range(depth):
        body = error("Upstream said no", metadata={"raw": json.dumps(body)})
    assert classify(response(400, body)).kind is Kind.CREDENTIAL


@given(depth=st.integers(10, 60))
def test_errors_are_not_looked_for_without_end(depth):
    """A body that is nested to tire us out is an ordinary bad request."""
    body = error("No.", code="invalid_api_key")
    for _ in range(depth):
        body = {"error": body}
    assert classify(response(400, body)).kind is Kind.UNKNOWN


def test_an_error_inside_a_success_has_its_own_status():
    """OpenRouter sends the upstream's; the headers of the 200 are about something else."""
    headers = {"retry-after": "30", "x-should-retry": "false"}
    failure = classify(response(200, error("Upstream", code=502), headers=headers))
    assert (failure.status, failure.wait_s, failure.retry) == (502, None, None)
    assert failure.detail == "status 502 inside a 200"
    other = classify_error(200, headers, anthropic("Overloaded", "overloaded_error"))
    assert (other.status, other.wait_s) == (529, None)


def test_waits_and_retry_advice_travel_along():
    """The router decides with both."""
    headers = {"retry-after": "20", "x-should-retry": "false"}
    failure = classify(response(429, None, headers=headers))
    assert (failure.wait_s, failure.retry) == (20, False)
    page = classify(response(503, PAGE, headers=headers))
    assert (page.wait_s, page.retry) == (20, False)


@pytest.mark.parametrize("fault", TransportFault)
def test_no_response_is_transient(fault):
    """Connections come back; the detail says what broke."""
    failure = from_transport(fault)
    assert (failure.kind, failure.status) == (Kind.TRANSIENT, None)
    assert fault.value in failure.detail


CANARIES = [
    "my card 4111 was charged twice",
    "org-4111abc",
    "sk-4111",
    "team_4111",
    "user.4111",
    "jane@4111.example",
    "4111",
    "logprobs-4111 is not supported with this model",
    "Invalid schema for response_format '4111'",
    "tools.4111.custom.input_schema: 4111",
    "Unknown parameter: '4111'",
]
KEYS = """
    error errors detail details message msg code type status reason param field loc error_code
    quotaId violations fieldViolations metadata raw innererror input failed_generation description
"""
canaries = st.sampled_from(CANARIES)
shapes = st.recursive(
    canaries,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    status=st.sampled_from([200, 400, 401, 402, 403, 404, 413, 418, 422, 429, 500, 529]),
    body=shapes,
)
def test_vendor_text_never_reaches_the_trail(status, body):
    """Bodies echo tickets, keys and ids; failures outlive them in logs and databases."""
    shown = repr(classify(response(status, body)))
    assert "4111" not in shown
    assert re.search(r"card|jane|team_|org-|sk-", shown) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(
    status=st.integers(100, 599),
    body=st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()),
)
def test_nothing_that_a_server_sends_is_too_strange(status, body):
    """A failure comes back for every status and every body."""
    failure = classify(response(status, body))
    assert failure.status is not None
    assert (failure.kind is Kind.CAPABILITY) or not (failure.parameter or failure.is_schema)


@given(st.sampled_from([case.values for case in ALL]), canaries)
def test_an_id_beside_an_error_changes_nothing(case, canary):
    """Whatever stands in the members that nobody reads."""
    status, body, kind = case
    if not isinstance(body, dict):
        return
    failure = classify(response(status, {**body, "user_id": canary, "request_id": canary}))
    assert failure.kind is kind or (kind is Kind.UNKNOWN)
    assert "4111" not in repr(failure)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            error("x", code="unsupported_parameter", type="invalid_request_error"),
            "status 400, unsupported_parameter, invalid_request_error",
        ),
        (gemini(400, "INVALID_ARGUMENT"), "status 400, invalid_argument"),
        (
            error("x", code="org-123", type="invalid_request_error"),
            "status 400, invalid_request_error",
        ),
        (error("x", code=400), "status 400"),
        (None, "status 400, no known error"),
        (PAGE, "status 400, a web page and no answer of the provider's"),
    ],
)
def test_known_codes_are_shown_because_they_explain(body, detail):
    """Only those: anything may stand where a code should be. The status is not said twice."""
    assert classify(response(400, body)).detail == detail
