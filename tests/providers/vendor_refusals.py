"""Vendor refusals: a body of a bad request, and the feature that it refuses."""

from __future__ import annotations

import json
from typing import Any

from vendor_errors import Body, anthropic, error, google
from vendor_errors import gemini as google_error

from weighbridge.capability import Feature

Case = tuple[int, Any, Feature | None]


def gemini(message: str, *, field: str = "", description: str = "") -> Body:
    """A bad request at Google's, with the detail that says where."""
    bad = google("BadRequest", fieldViolations=[{"field": field, "description": description}])
    return google_error(400, "INVALID_ARGUMENT", message, *([bad] if field else []))


REFUSED: list[Case] = [  # status, body, the feature
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
    (
        422,
        error("Failed to read it: response_format.type `json_schema` is unavailable now at line 1"),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        error(
            "Invalid value: 'json_schema'. Supported values are: 'text', 'json_object'.",
            param="response_format.type",
            code="invalid_value",
        ),
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        error("Supported values are: 'text', 'json_schema'.", param="response_format.type"),
        Feature.JSON_OBJECT,
    ),
    (
        400,
        error(
            "Invalid value: 'none'. Supported values are: 'low', 'high'.",
            param="reasoning_effort",
            code="invalid_value",
        ),
        Feature.REASONING,
    ),
    (400, error("Value is not accepted for 'tool_choice': required", code=400), Feature.TOOL),
    (400, error("parameter.enable_thinking must be set to false"), Feature.REASONING),
    (
        400,
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'logit_bias'), 'input': 1}]",
        },
        Feature.LOGIT_BIAS,
    ),
    (
        400,
        {"error": "json: cannot unmarshal object into Go struct field ChatRequest.format of type"},
        Feature.JSON_SCHEMA,
    ),
    (
        400,
        {"error": "json: cannot unmarshal string into Go struct field ChatRequest.think of type"},
        Feature.REASONING,
    ),
    (400, {"error": 'think value "low" is not supported for this model'}, Feature.REASONING),
    (400, gemini("The thinking budget 0 is invalid. Choose between 1 and 2."), Feature.REASONING),
    (
        400,
        gemini("Budget 0 is invalid. This model only works in thinking mode."),
        Feature.REASONING,
    ),
    (
        400,
        anthropic("thinking.type: Input tag 'adaptive' is not any of the expected tags: 'enabled'"),
        Feature.REASONING,
    ),
    (400, anthropic("'haiku' does not support output format."), Feature.JSON_SCHEMA),
    # something that we have no name for
    (400, anthropic("This model does not support assistant message prefill."), None),
    (400, gemini("Audio input modality is not enabled for models/small"), None),
    (400, error("Web search options not supported here.", param="web_search_options"), None),
    (400, error("No.", code="unsupported_value", param="messages[0].role"), None),
]

SCHEMA_REFUSED: list[Case] = [
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
    (400, anthropic("Schemas contains too many optional parameters (30)"), Feature.JSON_SCHEMA),
    (400, gemini("A schema in the request exceeds the allowed depth."), Feature.JSON_SCHEMA),
]

LIMITED: list[tuple[Body, Feature, float]] = [
    (
        error("max_tokens (384000) exceeds the model's maximum output tokens (65536)"),
        Feature.MAX_TOKENS,
        65536,
    ),
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
    (
        gemini("It has a maxOutputTokens value of 99 but the range is from 1 to 65 (exclusive)"),
        Feature.MAX_TOKENS,
        64,
    ),
]

# Sentences without a parameter beside them.
SAID: list[tuple[str, Feature | None]] = [
    ("Log probabilities are not supported.", Feature.LOGPROBS),
    ("Limiting completion tokens is not supported.", Feature.MAX_TOKENS),
    ("Reasoning is not supported.", Feature.REASONING),
    ("The response schema is not supported: response_schema is not allowed.", Feature.JSON_SCHEMA),
    ("responseMimeType is not supported.", Feature.JSON_SCHEMA),
    ("output_config.format is not supported.", Feature.JSON_SCHEMA),
    ("Structured outputs are not supported.", Feature.JSON_SCHEMA),
    ("Structured outputs aren't supported.", Feature.JSON_SCHEMA),
    ("Seed is unsupported.", Feature.SEED),
    ("Seed is only supported with the larger plan.", Feature.SEED),
    ("Unknown parameter: 'top_k'.", None),
    ("extraneous key [top_k] is not known", None),
    ("tiny does not support pictures", None),
]
SAID_OF_SCHEMAS = [
    "JSON schema conversion failed: bad ref",
    "It has too many states for serving.",
    "Too many strict tools: 21 > 20",
    "It has too many recursive definitions.",
]
