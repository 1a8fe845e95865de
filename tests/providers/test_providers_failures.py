"""Failures: one kind for every way in which providers say no."""

import json

import pytest
from wire import response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.failures import classify, from_transport
from weighbridge.providers.protocol import TransportFault

CANARY = "my card 4111 1111 was charged twice"


def error(message="", **members):
    return {"error": {"message": message, **members}}


REFUSED = [  # status, body, the parameter that is named
    (
        400,
        error("'logprobs' is not supported with this model.", code="unsupported_parameter"),
        "logprobs",
    ),
    (400, error("Unsupported.", code="unsupported_value", param="temperature"), "temperature"),
    (400, error("Unknown parameter: 'seed'.", code="unknown_parameter", param="seed"), "seed"),
    (400, error("Unrecognized request argument supplied: logprobs"), "logprobs"),
    (400, error("`logprobs` is not supported with this model", param="logprobs"), "logprobs"),
    (
        400,
        error("Invalid value for 'top_logprobs': must be less than or equal to 5."),
        "top_logprobs",
    ),
    (
        400,
        error(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with "
            "this model."
        ),
        "response_format",
    ),
    (
        400,
        error("This model does not support response format `json_schema`."),
        "response_format",
    ),
    (
        400,
        error("response_format value as json_schema is enabled only for api versions 2024-08-01"),
        "response_format",
    ),
    (
        400,
        error("Invalid schema for response_format 'ticket'", param="response_format"),
        "response_format",
    ),
    (400, error("Failed to parse grammar", type="invalid_request_error"), "response_format"),
    (400, error("No.", code="invalid_json_schema", param="text.format.schema"), "response_format"),
    (
        400,
        {"object": "error", "message": "Logprobs are not enabled for this model", "code": "3051"},
        "logprobs",
    ),
    (400, error('Unknown name "seed": Cannot find field.'), "seed"),
    (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}]},
        "seed",
    ),
    (
        422,
        {
            "object": "error",
            "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "logprobs"]}]},
        },
        "logprobs",
    ),
    (403, error("You are not allowed to request logprobs from this model"), "logprobs"),
    (
        404,
        error("No endpoints found that can handle the requested parameters.", code=404),
        None,
    ),
    (
        400,
        error(
            "Provider returned error",
            code=400,
            metadata={
                "raw": json.dumps(error("No.", code="unsupported_parameter", param="logprobs"))
            },
        ),
        "logprobs",
    ),
]


@pytest.mark.parametrize(("status", "body", "parameter"), REFUSED)
def test_a_missing_capability_names_its_parameter(status, body, parameter):
    """Status 400, 403, 404 or 422: code, parameter and wording tell, not the status."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, parameter)


@pytest.mark.parametrize(
    "body",
    [
        error(
            "'messages' must contain the word 'json' to use 'response_format'.", param="messages"
        ),
        error("Invalid value: response_format.", param="response_format", code="invalid_value"),
        error("Missing required parameter.", code="missing_required_parameter"),
        error("name: string too long", param="response_format.json_schema.name"),
        error("Invalid 'max_completion_tokens': must be less than or equal to 8192."),
        error("'top_logprobs' is only allowed when 'logprobs' is enabled.", param="top_logprobs"),
        error("Invalid text: 'your app does not support logprobs'", param="messages[1].content"),
        error("Bad. " + "x" * 300 + " The ticket: seed is not supported with this model"),
        error("decimal below minimum", param="temperature", code="decimal_below_min_value"),
    ],
)
def test_naming_a_parameter_is_not_rejecting_it(body):
    """A 400 that merely mentions response_format is the caller's fault (iTestFlow-Agent#197)."""
    failure = classify(response(400, body))
    assert (failure.kind, failure.parameter) == (Kind.CALLER_FAULT, None)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, error("Rate limit reached", code="rate_limit_exceeded"), Kind.RATE_LIMIT),
        (429, None, Kind.RATE_LIMIT),
        (429, error("Quota.", code="insufficient_quota"), Kind.QUOTA),
        (429, error("Limit on tokens per day (TPD): try again in 7m12s"), Kind.QUOTA),
        (429, error("Rate limit exceeded: free-models-per-day"), Kind.QUOTA),
        (429, {"error": {"code": "1113", "message": "No balance"}}, Kind.QUOTA),
        (402, error("Insufficient Balance"), Kind.QUOTA),
        (400, error("Your credit balance is too low"), Kind.QUOTA),
        (401, None, Kind.CREDENTIAL),
        (401, {"error": "Unauthorized"}, Kind.CREDENTIAL),
        (401, {"statusCode": 401, "message": "Access token is missing"}, Kind.CREDENTIAL),
        (400, [error("API key not valid. Please pass a valid API key.")], Kind.CREDENTIAL),
        (429, error("No.", code="invalid_api_key"), Kind.CREDENTIAL),
        (403, error("Forbidden"), Kind.CREDENTIAL),
        (404, error("No.", code="model_not_found"), Kind.MODEL_GONE),
        (404, {"detail": "Not Found"}, Kind.MODEL_GONE),
        (404, b"<html><body>404 Not Found</body></html>", Kind.MODEL_GONE),
        (403, error("No access", code="model_not_found"), Kind.MODEL_GONE),
        (403, {"code": "1910", "type": "tier_not_allowed"}, Kind.MODEL_GONE),
        (400, error("Model Not Exist", type="invalid_request_error"), Kind.MODEL_GONE),
        (400, error("invalid model ID"), Kind.MODEL_GONE),
        (400, error("Unsupported.", code="unsupported_value", param="model"), Kind.MODEL_GONE),
        (413, error("Request too large", code="rate_limit_exceeded"), Kind.TOO_LONG),
        (400, error("Too long", code="context_length_exceeded"), Kind.TOO_LONG),
        (400, error("Too long", type="exceed_context_size_error"), Kind.TOO_LONG),
        (400, error("This model's maximum context length is 4096 tokens."), Kind.TOO_LONG),
        (400, error("Filtered", code="content_filter", param="prompt"), Kind.FILTERED),
        (403, error("This input was flagged for violence"), Kind.FILTERED),
        (400, error("Bad", code="json_validate_failed", failed_generation="{"), Kind.INVALID),
        (400, error("max_tokens or model output limit was reached"), Kind.TRUNCATED),
        (400, error("Invalid temperature", param="temperature"), Kind.CALLER_FAULT),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "missing"}]}, Kind.CALLER_FAULT),
        (400, {"message": "Bad request"}, Kind.CALLER_FAULT),
        (400, None, Kind.UNKNOWN),
        (400, {}, Kind.UNKNOWN),
        (400, b"<html><body>400 Bad Request, model not found</body></html>", Kind.UNKNOWN),
        (302, None, Kind.UNKNOWN),
        (418, None, Kind.UNKNOWN),
        *((status, None, Kind.TRANSIENT) for status in (408, 409, 498, 500, 502, 503, 504, 529)),
        (503, {"error": {"code": 503, "message": "Loading model"}}, Kind.TRANSIENT),
        (500, b"<html>response_format is not supported with this model</html>", Kind.TRANSIENT),
        (500, b"\xff\xfe", Kind.TRANSIENT),
        (500, b"[" * 100_000, Kind.TRANSIENT),
    ],
)
def test_every_answer_has_one_kind(status, body, kind):
    """Quota, credential and model come before the rate limit; the rest as routing.md lists it."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.status, failure.parameter) == (kind, status, None)


def test_waits_and_retry_advice_travel_along():
    """The router decides with both."""
    headers = {"retry-after": "20", "x-should-retry": "false"}
    failure = classify(response(429, None, headers=headers))
    assert (failure.wait_s, failure.retry) == (20, False)


@pytest.mark.parametrize("fault", TransportFault)
def test_no_response_is_transient(fault):
    """Connections come back; the detail says what broke."""
    failure = from_transport(fault)
    assert (failure.kind, failure.status) == (Kind.TRANSIENT, None)
    assert fault.value in failure.detail


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 422, 429, 500, 529])
@pytest.mark.parametrize(
    "body",
    [
        error(CANARY, code=CANARY, type=CANARY, param=CANARY),
        error(f"{CANARY} is not supported with this model", param=CANARY),
        {"code": CANARY, "error": CANARY},
        {"detail": [{"type": CANARY, "loc": ["body", CANARY], "msg": CANARY, "input": CANARY}]},
        {"object": "error", "message": CANARY},
        f"<html>{CANARY}</html>".encode(),
        error("Provider returned error", metadata={"raw": CANARY}),
    ],
)
def test_vendor_text_never_reaches_the_trail(status, body):
    """Bodies echo tickets and organisation ids; details outlive them in logs and databases."""
    assert "4111" not in repr(classify(response(status, body)))


def test_codes_are_shown_because_they_explain():
    """An identifier is a code; the status is not said twice."""
    body = error("secret", code="unsupported_parameter", type="invalid_request_error")
    detail = classify(response(400, body)).detail
    assert detail == "status 400, unsupported_parameter, invalid_request_error"
    assert classify(response(429, error("x", code=429))).detail == "status 429"
