"""Failures: one kind for every way in which providers say no; see also the refusals."""

import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.failures import classify, classify_error, from_transport
from weighbridge.providers.protocol import TransportFault


def error(message="", **members):
    return {"error": {"message": message, **members}}


def anthropic(message, kind="invalid_request_error", **members):
    return {"type": "error", **error(message, type=kind, **members), "request_id": "req_1"}


def gemini(code, status, message="Request contains an invalid argument.", *details):
    return error(message, code=code, status=status, details=list(details))


def google(kind, **members):
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **members}


def quota(quota_id):
    return google("QuotaFailure", violations=[{"quotaMetric": "requests", "quotaId": quota_id}])


PAGE = b"<!DOCTYPE html><html><body>Attention Required! invalid api key</body></html>"

OPENAI = [
    (429, error("Rate limit reached", type="tokens", code="rate_limit_exceeded"), Kind.RATE_LIMIT),
    (429, error("Plan.", type="insufficient_quota", code="insufficient_quota"), Kind.QUOTA),
    (429, error("Rate limit reached on requests per day (RPD): Limit 200"), Kind.QUOTA),
    (401, error("Incorrect API key provided: k.", code="invalid_api_key"), Kind.CREDENTIAL),
    (429, error("No.", code="invalid_api_key"), Kind.CREDENTIAL),
    (403, error("No.", code="unsupported_country_region_territory"), Kind.CREDENTIAL),
    (404, error("No.", code="model_not_found"), Kind.MODEL_GONE),
    (403, error("Project p does not have access to model `m`"), Kind.MODEL_GONE),
    (404, error("This is not a chat model.", param="model"), Kind.MODEL_GONE),
    (400, error("Unsupported.", code="unsupported_value", param="model"), Kind.MODEL_GONE),
    (400, error("This model's maximum context length is 4096 tokens."), Kind.TOO_LONG),
    (400, error("Too long", code="context_length_exceeded"), Kind.TOO_LONG),
    (400, error("max_tokens or model output limit was reached"), Kind.TRUNCATED),
    (400, error("Your prompt was flagged as a violation.", code="invalid_prompt"), Kind.FILTERED),
    (400, error("Invalid temperature", param="temperature"), Kind.CALLER_FAULT),
    (500, error("Sorry", type="server_error"), Kind.TRANSIENT),
]
AZURE = [
    (
        401,
        {"statusCode": 401, "message": "Unauthorized. Access token is missing."},
        Kind.CREDENTIAL,
    ),
    (404, error("No.", code="DeploymentNotFound"), Kind.MODEL_GONE),
    (400, error("No.", code="OperationNotSupported"), Kind.MODEL_GONE),
    (
        400,
        error("No.", innererror={"code": "ResponsibleAIPolicyViolation"}, param="prompt"),
        Kind.FILTERED,
    ),
    (
        400,
        error("The response was filtered due to Azure's content management policy."),
        Kind.FILTERED,
    ),
    (429, error("Please retry after 26 seconds.", code="429"), Kind.RATE_LIMIT),
]
GROQ = [
    (400, error("Bad", code="json_validate_failed", failed_generation="{"), Kind.INVALID),
    (400, error("Bad", failed_generation="{"), Kind.INVALID),
    (413, error("Too large on tokens per minute", code="rate_limit_exceeded"), Kind.TOO_LONG),
    (429, error("Limit on tokens per day (TPD): try again in 7m12s"), Kind.QUOTA),
    (429, error("Limit on tokens per minute (TPM): try again in 7s"), Kind.RATE_LIMIT),
    (498, error("Flex tier capacity exceeded"), Kind.TRANSIENT),
    (400, error("No.", code="model_decommissioned"), Kind.MODEL_GONE),
    (400, error("No.", code="organization_restricted"), Kind.CREDENTIAL),
]
LOCAL_SERVERS = [
    (401, {"error": "Unauthorized"}, Kind.CREDENTIAL),
    (404, error("The model `m` does not exist.", type="NotFoundError", code=404), Kind.MODEL_GONE),
    (404, {"detail": "Not Found"}, Kind.MODEL_GONE),
    (503, error("Loading model", type="unavailable_error", code=503), Kind.TRANSIENT),
    (400, error("Too long", type="exceed_context_size_error", n_ctx=4096), Kind.TOO_LONG),
    (400, error("the request exceeds the available context size."), Kind.TOO_LONG),
    (503, {"error": "server busy, please try again.  maximum pending requests"}, Kind.TRANSIENT),
    (404, {"error": "model 'qwen3:4b' not found"}, Kind.MODEL_GONE),
    (400, {"error": '"nomic-embed" does not support chat'}, Kind.MODEL_GONE),
    (401, {"error": "unauthorized", "signin_url": "https://ollama.com"}, Kind.CREDENTIAL),
    (429, {"error": "you've reached your weekly usage limit, please upgrade"}, Kind.QUOTA),
    (200, {"error": "Unexpected endpoint or method. (POST /v1/x)"}, Kind.MODEL_GONE),
    (200, {"error": "model 'qwen3:4b' not found"}, Kind.MODEL_GONE),
    (200, {"error": "an error was encountered while running the model"}, Kind.TRANSIENT),
    (400, {"object": "error", "message": "Bad", "type": "400", "code": 400}, Kind.CALLER_FAULT),
]
OPENROUTER = [
    (402, error("You requested 65536 tokens, but can only afford 12.", code=402), Kind.QUOTA),
    (
        403,
        error("Bad input", code=403, metadata={"reasons": ["violence"], "flagged_input": "…"}),
        Kind.FILTERED,
    ),
    (403, error("Forbidden", code=403), Kind.CREDENTIAL),
    (404, error("No endpoints found for some/model.", code=404), Kind.MODEL_GONE),
    (400, error("some/model is not a valid model ID", code=400), Kind.MODEL_GONE),
    (429, error("Rate limit exceeded: free-models-per-day", code=429), Kind.QUOTA),
    (429, error("Rate limit exceeded: free-models-per-min", code=429), Kind.RATE_LIMIT),
    (
        429,
        error("Provider returned error", metadata={"raw": "temporarily rate-limited upstream"}),
        Kind.RATE_LIMIT,
    ),
    (
        400,
        error(
            "Provider returned error",
            metadata={"raw": json.dumps(anthropic("Your credit balance is too low."))},
        ),
        Kind.QUOTA,
    ),
    (200, error("Upstream error", code=502), Kind.TRANSIENT),
    (200, error("Slow down", code=429), Kind.RATE_LIMIT),
    (503, error("No instances available", code=503), Kind.TRANSIENT),
]
MISTRAL = [
    (429, {"object": "error", "type": "rate_limited", "code": "1300"}, Kind.RATE_LIMIT),
    (400, {"object": "error", "message": "No.", "code": "1500"}, Kind.MODEL_GONE),
    (403, {"object": "error", "type": "tier_not_allowed", "code": "1910"}, Kind.MODEL_GONE),
    (401, {"detail": "Unauthorized"}, Kind.CREDENTIAL),
]
OTHERS = [
    (402, error("Insufficient Balance"), Kind.QUOTA),  # DeepSeek
    (400, error("Model Not Exist", type="invalid_request_error"), Kind.MODEL_GONE),
    (400, error("Content Exists Risk"), Kind.FILTERED),
    (400, {"id": "x", **error("No.", code="model_not_available")}, Kind.MODEL_GONE),  # Together
    (429, {"error": {"code": "1113", "message": "No balance"}}, Kind.QUOTA),  # Z.ai
    (429, {"error": {"code": "1302", "message": "Concurrency"}}, Kind.RATE_LIMIT),
    (403, {"code": "No permission", "error": "You don't have any credits yet"}, Kind.QUOTA),  # xAI
    (403, {"code": "No permission", "error": "Content violates usage guidelines."}, Kind.FILTERED),
    (400, {"message": "The provided model identifier is invalid."}, Kind.MODEL_GONE),  # Bedrock
    (400, {"message": "Input is too long for requested model."}, Kind.TOO_LONG),
    (429, {"message": "Too many requests, please wait"}, Kind.RATE_LIMIT),
    (429, {"message": "Too many tokens per day, please wait"}, Kind.QUOTA),
    (400, {"detail": "the model cannot answer"}, Kind.CALLER_FAULT),  # System One
    (
        422,
        {"detail": [{"loc": ["body", "questions", "q"], "msg": "Field required"}]},
        Kind.CALLER_FAULT,
    ),
]
GEMINI = [
    (
        400,
        gemini(
            400,
            "INVALID_ARGUMENT",
            "Request contains an invalid argument.",
            google("ErrorInfo", reason="API_KEY_INVALID"),
        ),
        Kind.CREDENTIAL,
    ),
    (400, [gemini(400, "INVALID_ARGUMENT", "API key expired.")], Kind.CREDENTIAL),
    (
        400,
        gemini(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        Kind.CREDENTIAL,
    ),
    (400, gemini(400, "FAILED_PRECONDITION", "Enable billing."), Kind.CREDENTIAL),
    (403, gemini(403, "PERMISSION_DENIED", "No."), Kind.CREDENTIAL),
    (
        404,
        gemini(404, "NOT_FOUND", "models/m is not found, or is not supported for this method."),
        Kind.MODEL_GONE,
    ),
    (
        404,
        gemini(404, "NOT_FOUND", "This model is no longer available to new users."),
        Kind.MODEL_GONE,
    ),
    (402, gemini(402, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), Kind.QUOTA),
    (
        429,
        gemini(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
            quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
        ),
        Kind.RATE_LIMIT,
    ),
    (
        429,
        gemini(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
            quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        ),
        Kind.QUOTA,
    ),
    (
        429,
        gemini(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: requests, limit: 0"),
        Kind.QUOTA,
    ),
    (
        400,
        gemini(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum (8)."),
        Kind.TOO_LONG,
    ),
    (400, gemini(400, "INVALID_ARGUMENT"), Kind.CALLER_FAULT),
    (500, gemini(500, "INTERNAL", "An internal error has occurred."), Kind.TRANSIENT),
    (503, gemini(503, "UNAVAILABLE", "The model is overloaded."), Kind.TRANSIENT),
    (504, gemini(504, "DEADLINE_EXCEEDED", "Deadline."), Kind.TRANSIENT),
    (499, gemini(499, "CANCELLED", "Cancelled."), Kind.TRANSIENT),
]
ANTHROPIC = [
    (401, anthropic("invalid x-api-key", "authentication_error"), Kind.CREDENTIAL),
    (402, anthropic("Pay.", "billing_error"), Kind.QUOTA),
    (403, anthropic("No.", "permission_error"), Kind.CREDENTIAL),
    (404, anthropic("model: no-such-model", "not_found_error"), Kind.MODEL_GONE),
    (413, anthropic("Request exceeds the maximum size", "request_too_large"), Kind.TOO_LONG),
    (400, anthropic("prompt is too long: 200001 tokens > 200000 maximum"), Kind.TOO_LONG),
    (400, anthropic("input length and `max_tokens` exceed context limit"), Kind.TOO_LONG),
    (400, anthropic("Your credit balance is too low to access the API."), Kind.QUOTA),
    (400, anthropic("You have reached your specified API usage limits."), Kind.QUOTA),
    (400, anthropic("This organization has been disabled."), Kind.CREDENTIAL),
    (400, anthropic("Output blocked by content filtering policy"), Kind.FILTERED),
    (429, anthropic("This would exceed the rate limit", "rate_limit_error"), Kind.RATE_LIMIT),
    (
        429,
        anthropic(
            "Spent.", "rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}
        ),
        Kind.QUOTA,
    ),
    (500, anthropic("Internal", "api_error"), Kind.TRANSIENT),
    (504, anthropic("Slow", "timeout_error"), Kind.TRANSIENT),
    (529, anthropic("Overloaded", "overloaded_error"), Kind.TRANSIENT),
    (200, anthropic("Overloaded", "overloaded_error"), Kind.TRANSIENT),
    (200, anthropic("Slow down", "rate_limit_error"), Kind.RATE_LIMIT),
    (400, anthropic("max_tokens: Field required"), Kind.CALLER_FAULT),
]
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
    for vendor, cases in {
        "openai": OPENAI,
        "azure": AZURE,
        "groq": GROQ,
        "local": LOCAL_SERVERS,
        "openrouter": OPENROUTER,
        "mistral": MISTRAL,
        "others": OTHERS,
        "gemini": GEMINI,
        "anthropic": ANTHROPIC,
        "no-json": NO_JSON,
    }.items()
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
