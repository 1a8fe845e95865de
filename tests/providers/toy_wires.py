"""Four wire formats around the toy model: requests read, answers and refusals written."""

from __future__ import annotations

import json
import math
from typing import Any

from toy_speaker import Asked, Refused, Said, Speaker, listed


class OpenAIWire:
    """Chat completions."""

    @staticmethod
    def read(speaker: Speaker, path: str, body: Any) -> Asked:
        assert path == "/chat/completions", path
        form = body.get("response_format") or {}
        kind = form.get("type")
        schema = (form.get("json_schema") or {}).get("schema")
        if "structured_outputs" in body and speaker.profile == "vllm":
            kind, schema = "json_schema", body["structured_outputs"]["json"]
        mode: Any = {"json_schema": "native", "json_object": "json"}.get(kind)
        if body.get("tools"):
            mode, schema = "tool", body["tools"][0]["function"]["parameters"]
        effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
        switch = (body.get("chat_template_kwargs") or {}).get("enable_thinking")
        kinds = {"disabled": "off", "enabled": "on"}
        thinking = kinds.get((body.get("thinking") or {}).get("type"))
        if effort is not None or switch is not None:
            thinking = "off" if effort == "none" or switch is False else "on"
        length = body.get("max_completion_tokens", body.get("max_tokens", 1000))
        biases = body.get("logit_bias") or {}
        return Asked(
            mode=mode,
            options=_options(schema),
            thinking=thinking,
            alternatives=body.get("top_logprobs", 0) if body.get("logprobs") else None,
            bias={str(k): v for k, v in (biases.items() if isinstance(biases, dict) else biases)},
            max_tokens=length,
            names=frozenset(body),
        )

    @staticmethod
    def write(speaker: Speaker, asked: Asked, said: Said) -> Any:
        message: dict[str, Any] = {"role": "assistant", "content": said.text}
        finish = "length" if said.is_cut else "stop"
        if said.calls_tool:
            call = {"name": "answer", "arguments": said.text}
            message |= {
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": call}],
            }
            finish = "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        if said.has_logprobs:
            choice["logprobs"] = OpenAIWire._logprobs(speaker, asked, said)
        return {
            "object": "chat.completion",
            "model": speaker.model,
            "choices": [choice],
            "usage": {"prompt_tokens": 50, "completion_tokens": 6, "total_tokens": 56},
            **({"system_fingerprint": speaker.fingerprint} if speaker.fingerprint else {}),
        }

    @staticmethod
    def _logprobs(speaker: Speaker, asked: Asked, said: Said) -> Any:
        tops = [listed(speaker, asked, ranked) for _, ranked in said.tokens]
        chosen = [math.log(ranked[token]) for token, ranked in said.tokens]
        if speaker.shape == "lists":
            return {
                "tokens": [token for token, _ in said.tokens],
                "token_logprobs": chosen,
                "top_logprobs": [dict(top) for top in tops],
            }
        return {
            "content": [
                {
                    "token": token,
                    "bytes": list(token.encode()),
                    "logprob": logprob,
                    "top_logprobs": [{"token": t, "logprob": p, "bytes": None} for t, p in top],
                }
                for (token, _), logprob, top in zip(said.tokens, chosen, tops, strict=True)
            ]
        }

    @staticmethod
    def refusal(speaker: Speaker, name: str, *, reason: str) -> Refused:
        match speaker.profile:
            case "mistral" if name == "logprobs":
                message, code = "Logprobs are not enabled for this model", "3051"
                return Refused(400, {"object": "error", "message": message, "code": code})
            case "mistral":
                problem = "Extra inputs are not permitted"
                detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": problem}]
                return Refused(422, {"detail": detail})
            case "openrouter":
                text = "No endpoints found that can handle the requested parameters."
                return Refused(404, {"error": {"message": text, "code": 404}})
            case "groq" if name == "response_format":
                message = "This model does not support response format `json_schema`"
            case "groq":
                message = f"`{name}` is not supported with this model"
            case "deepseek":
                message = "This response_format type is unavailable now"
                return Refused(
                    400,
                    {
                        "error": {
                            "message": message,
                            "type": "invalid_request_error",
                            "param": None,
                            "code": "invalid_request_error",
                        }
                    },
                )
            case "lm_studio":
                return Refused(400, {"error": "'response_format.type' must be 'json_schema'"})
            case _ if reason == "too many":
                message = (
                    "Invalid value for 'top_logprobs': must be less than or equal to"
                    f" {speaker.most}."
                )
                error = {"message": message, "type": "invalid_request_error", "param": name}
                return Refused(400, {"error": {**error, "code": None}})
            case _:
                message = f"Unsupported parameter: '{name}' is not supported with this model."
        code = "unsupported_parameter" if speaker.profile != "groq" else None
        error = {"message": message, "type": "invalid_request_error", "param": name, "code": code}
        return Refused(400, {"error": error})

    @staticmethod
    def unauthorised() -> Refused:
        error = {"message": "Incorrect API key provided", "code": "invalid_api_key"}
        return Refused(401, {"error": {**error, "type": "invalid_request_error", "param": None}})


class OllamaWire:
    """`/api/chat`."""

    @staticmethod
    def read(speaker: Speaker, path: str, body: Any) -> Asked:
        assert path == "/api/chat", path
        form = body.get("format")
        options = body.get("options", {})
        think = body.get("think")
        return Asked(
            mode="json" if form == "json" else "native" if form else None,
            options=_options(form) if isinstance(form, dict) else (),
            thinking=None if think is None else "off" if think is False else "on",
            alternatives=body.get("top_logprobs", 0) if body.get("logprobs") else None,
            max_tokens=options.get("num_predict", 1000),
            names=frozenset(body) | frozenset(options),
        )

    @staticmethod
    def write(speaker: Speaker, asked: Asked, said: Said) -> Any:
        logprobs = [
            {
                "token": token,
                "logprob": math.log(ranked[token]),
                "bytes": list(token.encode()),
                "top_logprobs": [
                    {"token": t, "logprob": p, "bytes": list(t.encode())}
                    for t, p in listed(speaker, asked, ranked)
                ],
            }
            for token, ranked in said.tokens
        ]
        return {
            "model": speaker.model,
            "created_at": "2026-11-30T00:00:00Z",
            "message": {"role": "assistant", "content": said.text},
            "done": True,
            "done_reason": "length" if said.is_cut else "stop",
            "prompt_eval_count": 50,
            "eval_count": 6,
            **({"logprobs": logprobs} if said.has_logprobs else {}),
        }

    @staticmethod
    def refusal(speaker: Speaker, name: str, *, reason: str) -> Refused:
        if name in ("think", "reasoning"):
            return Refused(400, {"error": f'"{speaker.model}" does not support thinking'})
        return Refused(400, {"error": "top_logprobs must be between 0 and 20"})

    @staticmethod
    def unauthorised() -> Refused:
        return Refused(401, {"error": "unauthorized"})


class GeminiWire:
    """`generateContent`."""

    @staticmethod
    def read(speaker: Speaker, path: str, body: Any) -> Asked:
        assert path == f"/models/{speaker.model}:generateContent", path
        config = body.get("generationConfig", {})
        schema = config.get("responseJsonSchema")
        is_json = config.get("responseMimeType") == "application/json"
        mode: Any = "native" if schema else "json" if is_json else None
        if body.get("tools"):
            mode = "tool"
            schema = body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]
        wish = config.get("thinkingConfig") or {}
        is_off = wish.get("thinkingBudget") == 0 or wish.get("thinkingLevel") == "MINIMAL"
        return Asked(
            mode=mode,
            options=_options(schema),
            thinking=None if not wish else "off" if is_off else "on",
            alternatives=config.get("logprobs", 0) if config.get("responseLogprobs") else None,
            max_tokens=config.get("maxOutputTokens", 1000),
            names=frozenset(config),
        )

    @staticmethod
    def write(speaker: Speaker, asked: Asked, said: Said) -> Any:
        part: dict[str, Any] = {"text": said.text}
        if said.calls_tool:
            part = {"functionCall": {"name": "answer", "args": json.loads(said.text)}}
        return {
            "candidates": [
                {
                    "content": {"parts": [part], "role": "model"},
                    "finishReason": "MAX_TOKENS" if said.is_cut else "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 6},
            "modelVersion": speaker.model,
        }

    @staticmethod
    def refusal(speaker: Speaker, name: str, *, reason: str) -> Refused:
        message = "Logprobs is not enabled for this model"
        error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
        return Refused(400, {"error": error})

    @staticmethod
    def unauthorised() -> Refused:
        details = [{"reason": "API_KEY_INVALID"}]
        message = "API key not valid. Please pass a valid API key."
        error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": details}
        return Refused(400, {"error": error})


class AnthropicWire:
    """Messages."""

    @staticmethod
    def read(speaker: Speaker, path: str, body: Any) -> Asked:
        assert path == "/v1/messages", path
        config = body.get("output_config") or {}
        schema = (config.get("format") or {}).get("schema")
        mode: Any = "native" if schema else None
        if body.get("tools"):
            mode, schema = "tool", body["tools"][0]["input_schema"]
        kind = (body.get("thinking") or {}).get("type")
        return Asked(
            mode=mode,
            options=_options(schema),
            thinking=None if kind is None else "off" if kind == "disabled" else "on",
            max_tokens=body["max_tokens"],
            names=frozenset(body),
        )

    @staticmethod
    def write(speaker: Speaker, asked: Asked, said: Said) -> Any:
        block: dict[str, Any] = {"type": "text", "text": said.text}
        stop = "max_tokens" if said.is_cut else "end_turn"
        if said.calls_tool:
            block = {"type": "tool_use", "id": "t", "name": "answer"}
            block["input"], stop = json.loads(said.text), "tool_use"
        return {
            "type": "message",
            "role": "assistant",
            "model": speaker.model,
            "content": [block],
            "stop_reason": stop,
            "usage": {"input_tokens": 50, "output_tokens": 6},
        }

    @staticmethod
    def refusal(speaker: Speaker, name: str, *, reason: str) -> Refused:
        message = f"{name}: Extra inputs are not permitted"
        if name == "temperature":
            message = "`temperature` is deprecated for this model."
        error = {"type": "invalid_request_error", "message": message}
        return Refused(400, {"type": "error", "error": error})

    @staticmethod
    def unauthorised() -> Refused:
        error = {"type": "authentication_error", "message": "invalid x-api-key"}
        return Refused(401, {"type": "error", "error": error})


Wire = OpenAIWire | OllamaWire | GeminiWire | AnthropicWire
WIRES: dict[str, type[Wire]] = {
    "openai": OpenAIWire,
    "ollama": OllamaWire,
    "gemini": GeminiWire,
    "anthropic": AnthropicWire,
}


def _options(schema: Any) -> list[str]:
    return schema["properties"]["answer"]["enum"] if schema else []
