"""What each speaker of OpenAI's wire documents that it takes, as JSON Schemas of whole requests.

Written from the vendors' references and servers' sources, not from what we send: closed objects, so
that a misspelt field fails. `Speaker` says which wishes a vendor documents a field for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TEXT = {"type": "string", "minLength": 1}
NUMBER = {"type": "number", "minimum": 0, "maximum": 2}
COUNT = {"type": "integer", "minimum": 1}
SEED = {"type": "integer"}
SCHEMA = {"type": "object", "minProperties": 1}
EFFORT = {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]}


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    """An object with these properties alone; those that are not named in `required` may lack."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


MESSAGES = {
    "type": "array",
    "items": closed("role", "content", role={"enum": ["system", "user"]}, content=TEXT),
    "minItems": 2,
    "maxItems": 2,
}
NAME = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
STRICT_SCHEMA = closed(
    "type",
    "json_schema",
    type={"const": "json_schema"},
    json_schema=closed("name", "schema", name=NAME, strict={"type": "boolean"}, schema=SCHEMA),
)
ANY_OBJECT = closed("type", type={"const": "json_object"})
ANY_OBJECT_WITH_SCHEMA = closed("type", type={"const": "json_object"}, schema=SCHEMA)
TOOLS = {
    "type": "array",
    "minItems": 1,
    "items": closed(
        "type",
        "function",
        type={"const": "function"},
        function=closed(
            "name",
            "parameters",
            name=NAME,
            description=TEXT,
            strict={"type": "boolean"},
            parameters=SCHEMA,
        ),
    ),
}
WORDS = {"enum": ["none", "auto", "required"]}
NAMED = closed("type", "function", type={"const": "function"}, function=closed("name", name=NAME))
TOOL = {"tools": TOOLS, "tool_choice": {"anyOf": [WORDS, NAMED]}}
SERIAL = {"parallel_tool_calls": {"type": "boolean"}}
BY_ID = {
    "type": "object",
    "propertyNames": {"pattern": "^[0-9]+$"},
    "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
}
BY_ID_WHOLE = {**BY_ID, "additionalProperties": {"type": "integer"}}
PAIRS = {
    "type": "array",
    "items": {
        "type": "array",
        "prefixItems": [{"type": ["integer", "string"]}, {"type": ["number", "boolean"]}],
        "minItems": 2,
        "maxItems": 2,
    },
}


def formats(*allowed: dict[str, Any]) -> dict[str, Any]:
    """The field `response_format`, as one of some shapes."""
    return {"response_format": {"anyOf": list(allowed)}}


def logprobs(most: int | None) -> dict[str, Any]:
    """The two fields for log-probabilities; `most` alternatives, None: no cap."""
    cap = {} if most is None else {"maximum": most}
    return {"logprobs": {"type": "boolean"}, "top_logprobs": {"type": "integer", **cap}}


def request(*required: str, **fields: Any) -> dict[str, Any]:
    """A whole request: the fields that all have, and these."""
    whole = closed("model", "messages", *required, model=TEXT, messages=MESSAGES, **fields)
    # Documented by OpenAI, and enforced with a 400.
    return {**whole, "dependentRequired": {"top_logprobs": ["logprobs"]}}


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """One vendor or server.

    Args:
        schema: of its requests.
        modes: the modes that it documents.
        lengths: names of the fields for the limit that it reads.
        seed: whether it takes one.
        alternatives: numbers of alternatives worth trying; empty: no log-probabilities.
        biases: "ids", "texts", or "" for none.
        thinking: wishes that it can be told.
        models: names that its profile may tell apart.
    """

    schema: dict[str, Any]
    modes: tuple[str, ...] = ("native", "tool", "json_mode", "prompted")
    lengths: tuple[str, ...] = ("max_tokens",)
    seed: bool = True
    alternatives: tuple[int, ...] = (0, 5, 20)
    biases: str = ""
    thinking: tuple[str, ...] = ("off", "low", "medium", "high")
    models: tuple[str, ...] = ("some-model",)


BOTH = {"max_tokens": COUNT, "max_completion_tokens": COUNT}
TEMPLATE = {"chat_template_kwargs": closed(enable_thinking={"type": "boolean"})}

SPEAKERS: dict[str, Speaker] = {
    "openai": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **SERIAL,
            **logprobs(20),
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID_WHOLE,
            reasoning_effort=EFFORT,
        ),
        lengths=("max_tokens", "max_completion_tokens"),
        biases="ids",
    ),
    "azure_openai": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **SERIAL,
            **logprobs(5),
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID_WHOLE,
            reasoning_effort=EFFORT,
        ),
        lengths=("max_tokens", "max_completion_tokens"),
        alternatives=(0, 5),
        biases="ids",
    ),
    "groq": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **SERIAL,
            seed=SEED,
            temperature=NUMBER,
            reasoning_effort={"enum": ["none", "default", "low", "medium", "high"]},
        ),
        lengths=("max_completion_tokens",),
        alternatives=(),
        models=("openai/gpt-oss-20b", "qwen/qwen3.8-27b", "llama-3.1-8b-instant"),
    ),
    "vllm": Speaker(
        schema=request(
            **BOTH,
            **formats(ANY_OBJECT),
            **TOOL,
            **SERIAL,
            **logprobs(20),
            **TEMPLATE,
            structured_outputs=closed("json", json=SCHEMA),
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID,
            reasoning_effort={"enum": ["none", "low", "medium", "high"]},
        ),
        lengths=("max_tokens", "max_completion_tokens"),
        biases="ids",
    ),
    "llama_cpp_server": Speaker(
        schema=request(
            **formats(STRICT_SCHEMA, ANY_OBJECT_WITH_SCHEMA),
            **SERIAL,
            **logprobs(None),
            tools=TOOLS,
            tool_choice=WORDS,  # read as a string; an object there means "auto"
            max_tokens=COUNT,
            seed=SEED,
            temperature=NUMBER,
            logit_bias=PAIRS,
            # Whatever the chat template knows; these two are what templates commonly do.
            chat_template_kwargs=closed(
                enable_thinking={"type": "boolean"},
                reasoning_effort={"enum": ["low", "medium", "high"]},
            ),
        ),
        alternatives=(0, 5, 40),
        biases="texts",
    ),
    "ollama_openai_compat": Speaker(
        schema=request(
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **logprobs(20),
            tools=TOOLS,
            max_tokens=COUNT,
            seed=SEED,
            temperature=NUMBER,
            reasoning_effort={"enum": ["none", "low", "medium", "high", "max"]},
        ),
        modes=("native", "json_mode", "prompted"),  # it reads no tool_choice
    ),
    "gemini_openai_compat": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            temperature=NUMBER,
            reasoning_effort=EFFORT,
        ),
        seed=False,
        alternatives=(),
    ),
    "openrouter": Speaker(
        schema=request(
            "provider",
            "max_tokens",
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **logprobs(20),
            provider=closed("require_parameters", require_parameters={"const": True}),
            max_tokens=COUNT,
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID,
            reasoning=closed(
                effort=EFFORT,
                max_tokens=COUNT,
                enabled={"type": "boolean"},
                exclude={"type": "boolean"},
            ),
        ),
        biases="ids",
    ),
    "together": Speaker(
        schema=request(
            **formats(STRICT_SCHEMA, ANY_OBJECT_WITH_SCHEMA),
            **TOOL,
            **logprobs(20),
            max_tokens=COUNT,
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID,
        ),
        biases="ids",
        thinking=(),
    ),
    "mistral": Speaker(
        schema=request(
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **SERIAL,
            tools=TOOLS,
            tool_choice={"anyOf": [{"enum": ["none", "auto", "any", "required"]}, NAMED]},
            max_tokens=COUNT,
            random_seed=SEED,
            temperature=NUMBER,
            reasoning_effort={"enum": ["none", "high"]},
        ),
        alternatives=(),
        models=("mistral-small-2603", "mistral-medium-3.5", "mistral-large-latest"),
    ),
    "deepseek": Speaker(
        schema=request(
            **formats(ANY_OBJECT),
            **logprobs(20),
            max_tokens=COUNT,
            temperature=NUMBER,
            thinking=closed("type", type={"enum": ["enabled", "disabled"]}),
            reasoning_effort={"enum": ["low", "medium", "high", "max"]},
        ),
        modes=("json_mode", "prompted"),
        seed=False,
    ),
    "deepseek_beta": Speaker(
        schema=request(
            **formats(ANY_OBJECT),
            **TOOL,
            **logprobs(20),
            max_tokens=COUNT,
            temperature=NUMBER,
            thinking=closed("type", type={"enum": ["enabled", "disabled"]}),
            reasoning_effort={"enum": ["low", "medium", "high", "max"]},
        ),
        modes=("tool", "json_mode", "prompted"),
        seed=False,
    ),
    "lm_studio": Speaker(
        schema=request(
            **formats(STRICT_SCHEMA),
            **logprobs(20),
            tools=TOOLS,
            tool_choice=WORDS,  # an object is a 400
            max_tokens=COUNT,
            seed=SEED,
            temperature=NUMBER,
        ),
        modes=("native", "tool", "prompted"),
        thinking=(),
    ),
    "sglang": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **logprobs(None),
            **TEMPLATE,
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID,
            reasoning_effort={"enum": ["low", "medium", "high"]},
        ),
        lengths=("max_tokens", "max_completion_tokens"),
        biases="ids",
    ),
    "fireworks": Speaker(
        schema=request(
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **logprobs(5),
            max_tokens=COUNT,
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID,
            reasoning_effort=EFFORT,
        ),
        alternatives=(0, 5),
        biases="ids",
    ),
    "xai": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            seed=SEED,
            temperature=NUMBER,
        ),
        lengths=("max_completion_tokens",),
        alternatives=(),
        thinking=(),
    ),
    "openai_compatible": Speaker(
        schema=request(
            **BOTH,
            **formats(STRICT_SCHEMA, ANY_OBJECT),
            **TOOL,
            **logprobs(20),
            seed=SEED,
            temperature=NUMBER,
            logit_bias=BY_ID_WHOLE,
            reasoning_effort=EFFORT,
        ),
        lengths=("max_tokens", "max_completion_tokens"),
        biases="ids",
    ),
}
