"""Vendor errors: a status, a body, and the kind of failure that it is.

Shapes and codes are the vendors'; their sentences are shortened to the part that counts.
"""

from __future__ import annotations

import json
from typing import Any

from weighbridge.decision import FailureKind as Kind

Body = dict[str, Any]
Case = tuple[int, Any, Kind]


def error(message: str = "", **members: object) -> Body:
    """OpenAI's envelope, and most others'."""
    return {"error": {"message": message, **members}}


def anthropic(message: str, kind: str = "invalid_request_error", **members: object) -> Body:
    """Anthropic's envelope."""
    return {"type": "error", **error(message, type=kind, **members), "request_id": "req_1"}


def gemini(
    code: int,
    status: str,
    message: str = "Request contains an invalid argument.",
    *details: Body,
) -> Body:
    """Google's envelope."""
    return error(message, code=code, status=status, details=list(details))


def google(kind: str, **members: object) -> Body:
    """One of its details."""
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **members}


def quota(quota_id: str) -> Body:
    """The detail that says which allowance is spent."""
    return google("QuotaFailure", violations=[{"quotaMetric": "requests", "quotaId": quota_id}])


OPENAI: list[Case] = [
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
    (400, error("The model produced invalid content."), Kind.INVALID),
    (400, error("Your prompt was flagged as a violation.", code="invalid_prompt"), Kind.FILTERED),
    (400, error("Invalid temperature", param="temperature"), Kind.CALLER_FAULT),
    (500, error("Sorry", type="server_error"), Kind.TRANSIENT),
]
AZURE: list[Case] = [
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
GROQ: list[Case] = [
    (400, error("Bad", code="json_validate_failed", failed_generation="{"), Kind.INVALID),
    (400, error("Bad", failed_generation="{"), Kind.INVALID),
    (413, error("Too large on tokens per minute", code="rate_limit_exceeded"), Kind.TOO_LONG),
    (429, error("Limit on tokens per day (TPD): try again in 7m12s"), Kind.QUOTA),
    (429, error("Limit on tokens per minute (TPM): try again in 7s"), Kind.RATE_LIMIT),
    (498, error("Flex tier capacity exceeded"), Kind.TRANSIENT),
    (400, error("No.", code="model_decommissioned"), Kind.MODEL_GONE),
    (400, error("No.", code="organization_restricted"), Kind.CREDENTIAL),
]
LOCAL_SERVERS: list[Case] = [
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
    (400, error("Model is not loaded", code="model_not_loaded"), Kind.MODEL_GONE),
    (400, {"error": "No models loaded. Please load a model"}, Kind.MODEL_GONE),
]
OPENROUTER: list[Case] = [
    (402, error("You requested 65536 tokens, but can only afford 12.", code=402), Kind.QUOTA),
    (
        403,
        error("Bad input", code=403, metadata={"reasons": ["violence"], "flagged_input": "…"}),
        Kind.FILTERED,
    ),
    (403, error("Forbidden", code=403), Kind.CREDENTIAL),
    (403, error("Prohibited due to a violation of provider Terms.", code=403), Kind.FILTERED),
    (403, error("Key limit exceeded (daily limit).", code=403), Kind.QUOTA),
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
MISTRAL: list[Case] = [
    (429, {"object": "error", "type": "rate_limited", "code": "1300"}, Kind.RATE_LIMIT),
    (400, {"object": "error", "message": "No.", "code": "1500"}, Kind.MODEL_GONE),
    (403, {"object": "error", "type": "tier_not_allowed", "code": "1910"}, Kind.MODEL_GONE),
    (401, {"detail": "Unauthorized"}, Kind.CREDENTIAL),
]
OTHERS: list[Case] = [
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
    (429, {"message": "The daily limit is reached"}, Kind.QUOTA),
    (400, {"detail": "the model cannot answer"}, Kind.CALLER_FAULT),  # System One
    (
        422,
        {"detail": [{"loc": ["body", "questions", "q"], "msg": "Field required"}]},
        Kind.CALLER_FAULT,
    ),
]
GEMINI: list[Case] = [
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
ANTHROPIC: list[Case] = [
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

BY_VENDOR = {
    "openai": OPENAI,
    "azure": AZURE,
    "groq": GROQ,
    "local": LOCAL_SERVERS,
    "openrouter": OPENROUTER,
    "mistral": MISTRAL,
    "others": OTHERS,
    "gemini": GEMINI,
    "anthropic": ANTHROPIC,
}

# Bad requests without a code: only these words tell.
SENTENCES: list[tuple[str, Kind]] = [
    ("Insufficient funds on this account.", Kind.QUOTA),
    ("Your prepayment credits are depleted.", Kind.QUOTA),
    ("This request requires more credits.", Kind.QUOTA),
    ("You can only afford 12 tokens.", Kind.QUOTA),
    ("Your team has used all available credits.", Kind.QUOTA),
    ("The project has exceeded its monthly spending cap.", Kind.QUOTA),
    ("Incorrect API key provided.", Kind.CREDENTIAL),
    ("User location is not supported.", Kind.CREDENTIAL),
    ("The free tier is not available in your country.", Kind.CREDENTIAL),
    ("Invalid model: tiny", Kind.MODEL_GONE),
    ("This is not a chat model.", Kind.MODEL_GONE),
    ("Model is not loaded", Kind.MODEL_GONE),
    ("This input requires moderation.", Kind.FILTERED),
    ("The prompt breaks our content policy.", Kind.FILTERED),
    ("It was rejected by our safety system.", Kind.FILTERED),
    ("It exceeds the model's context.", Kind.TOO_LONG),
    ("The context window is full.", Kind.TOO_LONG),
    ("Please reduce the length of the messages.", Kind.TOO_LONG),
    ("prompt too long; exceeded max context length by 5 tokens", Kind.TOO_LONG),
    ("This model's maximum prompt length is 100.", Kind.TOO_LONG),
    ("`inputs` tokens + `max_new_tokens` must be <= 4097.", Kind.TOO_LONG),
]
