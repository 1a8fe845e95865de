"""The request of OpenAI's chat completions, in the manner of each speaker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, assert_never

from weighbridge.capability import Mode
from weighbridge.decision import Json
from weighbridge.providers.profiles import Profile
from weighbridge.providers.prompting import TOOL_DESCRIPTION, with_schema
from weighbridge.providers.protocol import RequestOptions
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt


class _Message(TypedDict):
    role: Literal["system", "user"]
    content: str


class _JsonSchema(TypedDict):
    name: str
    strict: bool
    schema: dict[str, Json]


class _ResponseFormat(TypedDict, total=False):
    type: Literal["json_schema", "json_object"]
    json_schema: _JsonSchema
    schema: dict[str, Json]  # beside json_object, at llama-server and Together


class _StructuredOutputs(TypedDict):
    """The field of vLLM; its older `guided_json` is ignored there without a word."""

    json: dict[str, Json]


class _Function(TypedDict):
    name: str
    description: str
    strict: bool
    parameters: dict[str, Json]


class _Tool(TypedDict):
    type: Literal["function"]
    function: _Function


class _Name(TypedDict):
    name: str


class _Named(TypedDict):
    type: Literal["function"]
    function: _Name


class _Request(TypedDict, total=False):
    """What has one name everywhere; the rest is named by the profile."""

    model: str
    messages: list[_Message]
    response_format: _ResponseFormat
    structured_outputs: _StructuredOutputs
    tools: list[_Tool]
    tool_choice: _Named | Literal["required"]
    logprobs: bool
    top_logprobs: int
    temperature: float
    logit_bias: dict[str, float] | list[list[int | str | float]]


def request_body(
    schema: SchemaPlan, prompt: Prompt, options: RequestOptions, profile: Profile, tool: str
) -> Mapping[str, object]:
    """The body of one request: what `options` hold under the names of `profile`, and no more.

    Args:
        schema: what the wire gets.
        prompt: of one ticket.
        options: what the provider is believed to take.
        profile: the speaker.
        tool: name of the tool that takes the answer in tool mode.

    Raises:
        ValueError: a logit bias names a text, and the provider reads token ids alone.
    """
    system = prompt.system
    if profile.shows_schema or options.mode in ("json_mode", "prompted"):
        system = with_schema(system, schema)
    request = _enforcing(schema, options.mode, profile, tool)
    request["model"] = options.model
    request["messages"] = [
        {"role": "system", "content": system},
        {"role": "user", "content": prompt.user},
    ]
    if options.num_alternatives is not None:
        request["logprobs"] = True
        if options.num_alternatives:
            request["top_logprobs"] = options.num_alternatives
    if options.temperature is not None:
        request["temperature"] = options.temperature
    if options.logit_bias:
        request["logit_bias"] = _logit_bias(options.logit_bias, profile)
    named: dict[str, object] = {options.length_feature.value: options.max_output_tokens}
    if options.seed is not None:
        named[profile.seed_field] = options.seed
    if options.thinking is not None:
        named |= profile.thinking_fields(options.model, options.thinking) or {}
    beside_tool = profile.tool_extra if options.mode == "tool" else {}
    return {**profile.extra, **beside_tool, **request, **named}


def _enforcing(schema: SchemaPlan, mode: Mode, profile: Profile, tool: str) -> _Request:
    """The fields that make the server enforce what it can."""
    match mode:
        case "native" if profile.schema_field == "structured_outputs":
            return {"structured_outputs": {"json": schema.wire}}
        case "native":
            strict: _JsonSchema = {"name": schema.name, "strict": True, "schema": schema.wire}
            return {"response_format": {"type": "json_schema", "json_schema": strict}}
        case "tool":
            function: _Function = {
                "name": tool,
                "description": TOOL_DESCRIPTION,
                "strict": True,
                "parameters": schema.wire,
            }
            return {
                "tools": [{"type": "function", "function": function}],
                # With one tool, "required" forces that one as well.
                "tool_choice": "required"
                if profile.tool_choice == "required"
                else {"type": "function", "function": {"name": tool}},
            }
        case "json_mode":
            any_object: _ResponseFormat = {"type": "json_object"}
            # One that was not written for this server could be what it just refused.
            if profile.json_mode_schema and schema.dialect == profile.dialect:
                any_object["schema"] = schema.wire
            return {"response_format": any_object}
        case "prompted":
            return {}
        case _:
            assert_never(mode)


def _logit_bias(
    bias: Mapping[int | str, float], profile: Profile
) -> dict[str, float] | list[list[int | str | float]]:
    # OpenAI documents whole numbers: 5.0 goes as 5.
    numbers = {token: int(b) if float(b).is_integer() else b for token, b in bias.items()}
    if profile.biases_texts:
        return [[token, number] for token, number in numbers.items()]
    if any(isinstance(token, str) for token in numbers):
        raise ValueError(f"a logit bias names a text; {profile.name} reads token ids alone")
    return {str(token): number for token, number in numbers.items()}
