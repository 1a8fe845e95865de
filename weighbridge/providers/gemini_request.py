"""The request of Google's generateContent."""

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

# These models refuse a system text ("Developer instruction is not enabled"), or answer it.
_WITHOUT_SYSTEM = "gemma"


class _Part(TypedDict):
    text: str


class _Instruction(TypedDict):
    parts: list[_Part]


class _Content(TypedDict):
    role: Literal["user"]
    parts: list[_Part]


class _GenerationConfig(TypedDict, total=False):
    """What has one name for all models; how to think is named by the profile."""

    responseMimeType: Literal["application/json"]
    responseJsonSchema: dict[str, Json]
    maxOutputTokens: int
    temperature: float
    seed: int
    responseLogprobs: bool
    logprobs: int


class _FunctionDeclaration(TypedDict):
    name: str
    description: str
    parametersJsonSchema: dict[str, Json]


class _Tool(TypedDict):
    functionDeclarations: list[_FunctionDeclaration]


class _FunctionCallingConfig(TypedDict):
    mode: Literal["ANY"]
    allowedFunctionNames: list[str]


class _ToolConfig(TypedDict):
    functionCallingConfig: _FunctionCallingConfig


class _Request(TypedDict, total=False):
    systemInstruction: _Instruction
    contents: list[_Content]
    generationConfig: Mapping[str, object]
    tools: list[_Tool]
    toolConfig: _ToolConfig


def request_body(
    schema: SchemaPlan, prompt: Prompt, options: RequestOptions, profile: Profile, tool: str
) -> Mapping[str, object]:
    """The body of one request: what `options` hold, and no more.

    The model stands in the path. The limit of the answer has one name, whatever
    `options.length_feature` says.

    Args:
        schema: what the wire gets.
        prompt: of one ticket.
        options: what the model is believed to take.
        profile: what is sent for a wish to think.
        tool: name of the function that takes the answer in tool mode.

    Raises:
        ValueError: `options` hold a logit bias, for which the wire has no field.
    """
    if options.logit_bias:
        raise ValueError("Gemini's wire format has no field for a logit bias")
    is_shown = options.mode in ("json_mode", "prompted")
    system: _Part = {"text": with_schema(prompt.system, schema) if is_shown else prompt.system}
    user: _Part = {"text": prompt.user}
    request: _Request
    if _WITHOUT_SYSTEM in options.model.lower():
        request = {"contents": [{"role": "user", "parts": [system, user]}]}
    else:
        request = {
            "systemInstruction": {"parts": [system]},
            "contents": [{"role": "user", "parts": [user]}],
        }
    thinking: Mapping[str, Json] | None = None
    if options.thinking is not None:
        thinking = profile.thinking_fields(options.model, options.thinking)
    request["generationConfig"] = {
        **_sampling(options),
        **_format(schema, options.mode),
        **(thinking or {}),
    }
    if options.mode == "tool":
        request["tools"] = [
            {
                "functionDeclarations": [
                    {
                        "name": tool,
                        "description": TOOL_DESCRIPTION,
                        "parametersJsonSchema": schema.wire,
                    }
                ]
            }
        ]
        request["toolConfig"] = {
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [tool]}
        }
    return request


def _format(schema: SchemaPlan, mode: Mode) -> _GenerationConfig:
    """The fields that make the server enforce what it can; a tool has its own."""
    match mode:
        case "native":
            # Not `responseSchema`: that is OpenAPI's dialect, and must not stand beside this one.
            return {"responseMimeType": "application/json", "responseJsonSchema": schema.wire}
        case "json_mode":
            return {"responseMimeType": "application/json"}
        case "tool" | "prompted":
            return {}  # calls of functions and this type exclude each other before Gemini 3
        case _:
            assert_never(mode)


def _sampling(options: RequestOptions) -> _GenerationConfig:
    config: _GenerationConfig = {"maxOutputTokens": options.max_output_tokens}
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if options.seed is not None:
        config["seed"] = options.seed
    if options.num_alternatives is not None:
        config["responseLogprobs"] = True
        if options.num_alternatives:
            config["logprobs"] = options.num_alternatives
    return config
