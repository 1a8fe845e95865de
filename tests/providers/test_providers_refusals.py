"""Refusals: what a provider does not take, told apart from what was merely mentioned."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import response

from weighbridge.capability import Feature
from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.failures import classify

TICKET = "my card was charged twice and your app does not support logprobs"


def error(message="", **members):
    return {"error": {"message": message, **members}}


def anthropic(message):
    return {"type": "error", **error(message, type="invalid_request_error"), "request_id": "req_1"}


def gemini(message, *, field="", description=""):
    violation = {"field": field, "description": description}
    bad = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
    return error(message, code=400, status="INVALID_ARGUMENT", details=[bad] if field else [])


REFUSED = [  # status, body, the feature
    # OpenAI and those who copied it
    (400, error("No.", code="unsupported_parameter", param="logprobs"), Feature.LOGPROBS),
    (
        400,
        error("'logprobs' is not supported with this model.", code="unsupported_parameter"),
        Feature.LOGPROBS,
    ),
    (400, error("No.", code="unsupported_value", param="temperature"), Feature.TEMPERATURE),
    (400, error("No.", code="unsupported_value", param="reasoning_effort"), Feature.REASONING),
    (400, error("Unknown parameter: 'seed'.", code="unknown_parameter"), Feature.SEED),
    (400, error("Unrecognized request argument supplied: logit_bias"), Feature.LOGIT_BIAS),
    (400, error("Logprobs are not supported with reasoning models"), Feature.LOGPROBS),
    (403, error("You are not allowed to request logprobs from this model"), Feature.LOGPROBS),
    (
        400,
        error("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        Feature.MAX_TOKENS,
    ),
    (
        400,
        error(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with "
            "this model.",
        ),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        error(
            "'response_format' of type 'json_object' is not supported with this model.",
            param="response_format",
        ),
        Feature.JSON_OBJECT,
    ),
    (
        400,
        error(
            "Function tools with reasoning_effort are not supported for this model.",
            param="reasoning_effort",
        ),
        Feature.TOOL,
    ),
    (400, error("tool_choice is not supported", param="tool_choice"), Feature.TOOL),
    (
        400,
        error("'parallel_tool_calls' is not supported.", param="parallel_tool_calls"),
        Feature.TOOL,
    ),
    # Azure
    (
        400,
        error(
            "response_format value as json_schema is enabled only for api versions 2024-08-01",
            code="BadRequest",
        ),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        error("Structured `response_format` is not enabled for model `thinker`."),
        Feature.JSON_SCHEMA,
    ),
    # Groq
    (400, error("`logprobs` is not supported with this model", param="logprobs"), Feature.LOGPROBS),
    (
        400,
        error("This model does not support response format `json_schema`."),
        Feature.JSON_SCHEMA,
    ),
    # OpenRouter
    (404, error("No endpoints found that can handle the requested parameters.", code=404), None),
    (404, error("No endpoints found that support tool use.", code=404), Feature.TOOL),
    (
        400,
        error(
            "Provider returned error",
            code=400,
            metadata={"raw": json.dumps(error("No.", code="unknown_parameter", param="seed"))},
        ),
        Feature.SEED,
    ),
    # Together
    (
        400,
        error("logprobs: invalid type: integer `5`, expected a boolean"),
        Feature.LOGPROBS,
    ),
    # Mistral
    (
        400,
        {"object": "error", "message": "Logprobs are not enabled for this model", "code": "3051"},
        Feature.LOGPROBS,
    ),
    (
        422,
        {
            "object": "error",
            "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "random_seed"]}]},
        },
        Feature.SEED,
    ),
    # DeepSeek
    (400, error("This response_format type is unavailable now"), Feature.JSON_SCHEMA),
    # LM Studio
    (400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}, Feature.JSON_OBJECT),
    (400, {"error": "'response_format.type' must be 'json_object'"}, Feature.JSON_SCHEMA),
    # Ollama
    (400, {"error": '"qwen2.5:3b" does not support thinking'}, Feature.REASONING),
    (400, {"error": "tiny:latest does not support tools"}, Feature.TOOL),
    # Gemini, natively and behind its OpenAI route
    (400, gemini("Logprobs is not enabled for this model"), Feature.LOGPROBS),
    (400, gemini('Invalid JSON. Unknown name "logprobs": Cannot find field.'), Feature.LOGPROBS),
    (
        400,
        gemini("Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field."),
        Feature.JSON_SCHEMA,
    ),
    (400, gemini("JSON mode is not enabled for models/small"), Feature.JSON_SCHEMA),
    (400, gemini("Thinking level is not supported for this model."), Feature.REASONING),
    (400, gemini("Function calling is not enabled for models/small"), Feature.TOOL),
    # Anthropic
    (400, anthropic("logprobs: Extra inputs are not permitted"), Feature.LOGPROBS),
    (400, anthropic("output_config: Extra inputs are not permitted"), Feature.JSON_SCHEMA),
    (400, anthropic("output_config.effort: Extra inputs are not permitted"), Feature.REASONING),
    (400, anthropic("output_config.format: Extra inputs are not permitted"), Feature.JSON_SCHEMA),
    (400, anthropic("tools.0.custom.strict: Extra inputs are not permitted"), Feature.TOOL),
    (400, anthropic("`temperature` is deprecated for this model."), Feature.TEMPERATURE),
    (
        400,
        anthropic("`temperature` may only be set to 1 when thinking is enabled."),
        Feature.TEMPERATURE,
    ),
    (400, anthropic("This model does not support effort level 'low'."), Feature.REASONING),
    (400, anthropic("Thinking may not be enabled when tool_choice forces a tool."), Feature.TOOL),
    # FastAPI servers and Bedrock
    (
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}]},
        Feature.SEED,
    ),
    (400, {"message": "extraneous key [temperature] is not permitted"}, Feature.TEMPERATURE),
    # something that we have no name for
    (400, anthropic("This model does not support assistant message prefill."), None),
    (400, gemini("Audio input modality is not enabled for models/small"), None),
    (400, error("Web search options not supported here.", param="web_search_options"), None),
    (400, error("No.", code="unsupported_value", param="messages[0].role"), None),
]


@pytest.mark.parametrize(("status", "body", "feature"), REFUSED)
def test_a_missing_capability_has_our_name_for_it(status, body, feature):
    """Code, or parameter and wording tell, never the status; whatever the wire calls the field."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
    assert (failure.is_schema, failure.limit) == (False, None)


SCHEMA_REFUSED = [
    (400, error("Invalid schema for response_format 'ticket': In context=()"), Feature.JSON_SCHEMA),
    (400, error("No.", code="invalid_json_schema", param="text.format"), Feature.JSON_SCHEMA),
    (400, error("No.", param="text.format.schema"), Feature.JSON_SCHEMA),
    (400, error("Missing 'unit'.", code="invalid_function_parameters"), Feature.TOOL),
    (
        400,
        error("Invalid schema for function 'answer'", param="tools[0].function.parameters"),
        Feature.TOOL,
    ),
    (400, error("Failed to parse grammar", type="invalid_request_error"), Feature.JSON_SCHEMA),
    (400, error("Failed to initialize samplers: bad rule"), Feature.JSON_SCHEMA),
    (
        400,
        error(
            "The provided JSON schema contains features not supported by xgrammar.",
            type="BadRequestError",
            code=400,
        ),
        Feature.JSON_SCHEMA,
    ),
    (500, {"error": "invalid JSON schema in format"}, Feature.JSON_SCHEMA),
    (
        400,
        gemini("The specified schema produces a constraint that has too many states for serving."),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        gemini(
            "Request contains an invalid argument.",
            field="generation_config.response_json_schema",
            description="The schema has too many states for serving.",
        ),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        gemini(
            "Invalid JSON payload received.",
            field="generation_config.response_schema",
            description="Unknown name \"const\" at 'generation_config.response_schema.properties'",
        ),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        gemini("* GenerateContentRequest.generation_config.response_schema.properties: is empty"),
        Feature.JSON_SCHEMA,
    ),
    (400, anthropic("Schema is too complex for compilation."), Feature.JSON_SCHEMA),
    (
        400,
        anthropic("output_config.format.schema: For 'array' type, 'minItems' is not supported"),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        anthropic("tools.0.custom.input_schema: oneOf is not supported at the top level"),
        Feature.TOOL,
    ),
    (400, anthropic("The compiled grammar is too large."), Feature.JSON_SCHEMA),
]


@pytest.mark.parametrize(("status", "body", "feature"), SCHEMA_REFUSED)
def test_a_refused_schema_is_no_refusal_of_schemas(status, body, feature):
    """A simpler one may well be taken: what is learned is about this one alone."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
    assert (failure.is_schema, failure.limit) == (True, None)


@pytest.mark.parametrize(
    ("body", "feature", "limit"),
    [
        (
            error("Invalid value for 'top_logprobs': must be less than or equal to 5."),
            Feature.TOP_LOGPROBS,
            5,
        ),
        (
            error("Requested sample logprobs of 30, which is greater than max allowed: 20"),
            Feature.TOP_LOGPROBS,
            20,
        ),
        ({"error": "top_logprobs must be between 0 and 20"}, Feature.TOP_LOGPROBS, 20),
        (
            error("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
            Feature.MAX_TOKENS,
            8192,
        ),
        (
            error("`max_completion_tokens` must be less than or equal to `8192`, the maximum"),
            Feature.MAX_COMPLETION_TOKENS,
            8192,
        ),
        (
            error(
                "max_tokens is too large: 100000. This model supports at most 16,384 completion"
                " tokens.",
                param="max_tokens",
                code="invalid_value",
            ),
            Feature.MAX_TOKENS,
            16384,
        ),
        (
            anthropic("max_tokens: 8192 > 4096, which is the maximum allowed number of tokens"),
            Feature.MAX_TOKENS,
            4096,
        ),
    ],
)
def test_a_limit_is_learned_with_its_number(body, feature, limit):
    """It is the model's and not the caller's: another provider may take as much."""
    failure = classify(response(400, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
    assert (failure.limit, failure.is_schema) == (limit, False)


@pytest.mark.parametrize(
    "body",
    [
        error(
            "'messages' must contain the word 'json' to use 'response_format'.", param="messages"
        ),
        error("Invalid value: response_format.", param="response_format", code="invalid_value"),
        error("Missing required parameter.", code="missing_required_parameter"),
        error("name: string too long", param="response_format.json_schema.name"),
        error("'top_logprobs' is only allowed when 'logprobs' is enabled.", param="top_logprobs"),
        error("temperature must be less than or equal to 2", param="temperature"),
        error("decimal below minimum", param="temperature", code="decimal_below_min_value"),
        error('Either "json_schema" or "grammar" can be specified, but not both'),
        error("Pictures of that size are not supported."),
        error("Web search options are required.", param="web_search_options"),
        # the same words, but the ticket's
        error(f"Invalid text: '{TICKET}'", param="messages[1].content"),
        error(f"{TICKET}", param="messages"),
        error(f'Could not read "{TICKET}".'),
        error(f'Could not read "{TICKET}'),
        error(f"1 validation error, input_value={{'content': 'x' {TICKET}}}"),
        error("Bad. " + "x" * 300 + f" The ticket: {TICKET}"),
        anthropic(f"messages.0.content: {TICKET}"),
        anthropic("messages.0.content: Extra inputs are not permitted, credit balance is too low"),
        {"detail": [{"loc": ["body", "messages", 0], "msg": TICKET, "input": TICKET}]},
    ],
)
def test_naming_a_parameter_is_not_rejecting_it(body):
    """Neither does quoting somebody who rejects one (iTestFlow-Agent#197)."""
    failure = classify(response(400, body))
    assert (failure.kind, failure.parameter) == (Kind.CALLER_FAULT, None)
    assert (failure.is_schema, failure.limit) == (False, None)


@given(ticket=st.sampled_from([b for _, b, _ in REFUSED + SCHEMA_REFUSED]))
def test_what_refuses_in_an_error_refuses_nothing_in_a_ticket(ticket):
    """The whole text of a refusal, quoted as the content that a server could not read."""
    quoted = json.dumps(ticket)
    body = error(f'Invalid content: "a ticket that says {quoted}"', param="messages[1].content")
    assert classify(response(400, body)).kind is Kind.CALLER_FAULT


@pytest.mark.parametrize("status", [401, 413, 429, 500, 503])
@pytest.mark.parametrize("body", [error("`seed` is not supported with this model")])
def test_statuses_that_say_why_are_not_refusals(status, body):
    """Only a 400 and its like leave open what is wrong."""
    failure = classify(response(status, body))
    assert failure.kind is not Kind.CAPABILITY
    assert failure.parameter is None
