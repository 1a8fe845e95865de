"""OpenAI's chat completions, spoken by OpenAI, Groq, OpenRouter, vLLM, llama-server and others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.failures import (
    RESPONSE_FORMAT,
    body_json,
    classify,
    classify_error,
    is_identifier,
)
from weighbridge.providers.protocol import (
    Failure,
    HttpRequest,
    HttpResponse,
    Reply,
    RequestOptions,
    TokenLogprob,
)
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt

NUM_ALTERNATIVES = 20  # the most that the API documents

_COMPLETE = frozenset({"stop", "end_turn", "eos"})
_UNFINISHED: Mapping[str, FailureKind] = {
    "length": FailureKind.TRUNCATED,
    "max_tokens": FailureKind.TRUNCATED,
    "model_length": FailureKind.TRUNCATED,
    "model_context_window_exceeded": FailureKind.TRUNCATED,
    "content_filter": FailureKind.FILTERED,
    "sensitive": FailureKind.FILTERED,
    "error": FailureKind.TRANSIENT,
    "abort": FailureKind.TRANSIENT,
    "insufficient_system_resource": FailureKind.TRANSIENT,
}
_UNKNOWN_LOGPROB = -9999.0  # what OpenAI and vLLM write for "not in the list" or "masked"
_ROUNDING = 1e-3  # as much above 0 is taken for 0
_STATUS = re.compile(r"[1-5][0-9][0-9]")


class _Message(TypedDict):
    role: Literal["system", "user"]
    content: str


class _JsonSchema(TypedDict):
    name: str
    strict: bool
    schema: dict[str, Json]


class _ResponseFormat(TypedDict):
    type: Literal["json_schema"]
    json_schema: _JsonSchema


class _Request(TypedDict, total=False):
    model: str
    messages: list[_Message]
    response_format: _ResponseFormat
    max_completion_tokens: int
    max_tokens: int
    logprobs: bool
    top_logprobs: int
    seed: int
    temperature: float


@dataclass(frozen=True, slots=True)
class OpenAIAdapter:
    """Builds and reads `POST /chat/completions`, never as a stream.

    A provider without schema support (`response_format` in `options.without`) is shown the schema
    in the system text instead: it may ignore it, and the answer is checked either way.

    Source: OpenAI API reference, chat completions; differences between providers in their docs.
    """

    def build(self, plan: SchemaPlan, prompt: Prompt, options: RequestOptions) -> HttpRequest:
        """The request for one ticket; see `Adapter.build`."""
        body = _request(plan, prompt, options)
        return HttpRequest(
            method="POST",
            path="/chat/completions",
            headers={"content-type": "application/json", "accept": "application/json"},
            body=json.dumps(body, separators=(",", ":"), allow_nan=False).encode(),
        )

    def parse(self, response: HttpResponse) -> Reply | Failure:
        """The reply, or the first of these that applies; see `Adapter.parse`.

        An error status, an error inside a 200, a finish reason that tells of no finish, a refusal,
        no text, no finish reason. Only then is the text looked at, and not here.
        """
        if not 200 <= response.status <= 299:
            return classify(response)
        body = body_json(response.body)
        if not isinstance(body, dict):
            return _invalid(response.status, "the body is no JSON object")
        usage = body.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        return replace(
            _outcome(response.status, body),
            prompt_tokens=_count(counts.get("prompt_tokens")),
            completion_tokens=_count(counts.get("completion_tokens")),
        )


def read_logprobs(entries: Json) -> tuple[TokenLogprob, ...] | None:
    """Tokens as OpenAI and its followers list them; None where one is missing or unreadable.

    A gap is no small loss: behind it nothing could be aligned with the text.
    """
    if not isinstance(entries, list) or not entries:
        return None
    tokens = [_token(entry) for entry in entries]
    whole = tuple(token for token in tokens if token is not None)
    return whole if len(whole) == len(tokens) else None


def _request(plan: SchemaPlan, prompt: Prompt, options: RequestOptions) -> _Request:
    has_format = RESPONSE_FORMAT not in options.without
    system = prompt.system if has_format else f"{prompt.system}\n\n{_in_words(plan)}"
    request = _Request(
        model=options.model,
        messages=[
            {"role": "system", "content": system},
            {"role": "user", "content": prompt.user},
        ],
    )
    if has_format:
        request["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": plan.name, "strict": True, "schema": plan.wire},
        }
    if "max_completion_tokens" not in options.without:
        request["max_completion_tokens"] = options.max_output_tokens
    elif "max_tokens" not in options.without:
        request["max_tokens"] = options.max_output_tokens
    if options.logprobs and not options.without & {"logprobs", "top_logprobs"}:
        request["logprobs"] = True
        request["top_logprobs"] = NUM_ALTERNATIVES
    if options.seed is not None and "seed" not in options.without:
        request["seed"] = options.seed
    if options.temperature is not None and "temperature" not in options.without:
        request["temperature"] = options.temperature
    return request


def _in_words(plan: SchemaPlan) -> str:
    schema = json.dumps(plan.wire, ensure_ascii=False)
    return f"The JSON object must be valid under this JSON Schema:\n{schema}"


def _outcome(status: int, body: dict[str, Json]) -> Reply | Failure:
    """What a success says, without its usage."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if error := _error_inside(body, choice):
        return _error_outcome(status, error)
    if not isinstance(choice, dict):
        return _invalid(status, "no choice")
    finish, message, logprobs = (choice.get(k) for k in ("finish_reason", "message", "logprobs"))
    reason = finish if isinstance(finish, str) else ""
    ended = f"finish reason {reason if is_identifier(reason) else 'missing or unreadable'}"
    text, is_refusal = _content(message)
    if kind := _UNFINISHED.get(reason.lower()):
        return Failure(kind=kind, detail=ended, status=status)
    if is_refusal:
        return Failure(kind=FailureKind.REFUSAL, detail="the model refused", status=status)
    if not text.strip():
        return _invalid(status, f"no text, {ended}")
    if reason.lower() not in _COMPLETE:
        return _invalid(status, ended)
    model = body.get("model")
    return Reply(
        text=text,
        finish_reason=reason,
        status=status,
        model=model if isinstance(model, str) and model else None,
        logprobs=read_logprobs(logprobs.get("content")) if isinstance(logprobs, dict) else None,
    )


def _error_inside(body: dict[str, Json], choice: Json) -> Json:
    """The error that a success holds; something false if it holds none."""
    inner = choice.get("error") if isinstance(choice, dict) else None
    flat = body if body.get("object") == "error" else None
    return body.get("error") or inner or flat


def _error_outcome(status: int, error: Json) -> Failure:
    """The failure that an error inside a success stands for, under the status that it names."""
    named = [error.get(key) for key in ("code", "status")] if isinstance(error, dict) else []
    statuses = [int(str(code)) for code in named if _STATUS.fullmatch(str(code))]
    # The headers are left out: a `retry-after` of a success is about something else.
    failure = classify_error(statuses[0] if statuses else status, {}, {"error": error})
    return replace(failure, detail=f"error inside a {status}: {failure.detail}")


def _invalid(status: int, detail: str) -> Failure:
    return Failure(kind=FailureKind.INVALID, detail=detail, status=status)


def _content(message: Json) -> tuple[str, bool]:
    """The text of a message, without thinking, and whether the model refused."""
    if not isinstance(message, dict):
        return "", False
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    listed = content if isinstance(content, list) else []
    parts = [part for part in listed if isinstance(part, dict)]
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    # Snowflake sends an empty string where nothing was refused.
    refusals = [message.get("refusal"), *(part.get("refusal") for part in parts)]
    return (
        "".join(text for text in texts if isinstance(text, str)),
        any(isinstance(refusal, str) and refusal for refusal in refusals),
    )


def _count(value: Json) -> int | None:
    return value if type(value) is int and value >= 0 else None  # True is no count


def _token(entry: Any) -> TokenLogprob | None:
    spelled = _spelled(entry)
    if spelled is None:
        return None
    alternatives = entry.get("top_logprobs")
    top = [_spelled(other) for other in alternatives] if isinstance(alternatives, list) else []
    return TokenLogprob(
        token=spelled[0],
        logprob=spelled[1],
        top=tuple((other[0], other[1]) for other in top if other and other[1] is not None),
    )


def _spelled(entry: Any) -> tuple[bytes, float | None] | None:
    """Bytes and logprob of one entry; None if it is no token."""
    if not isinstance(entry, dict) or not isinstance(token := entry.get("token"), str):
        return None
    spelling = token.encode("utf-8", "surrogatepass")
    octets = entry.get("bytes")
    # Part of a character has no text of its own: there, only `bytes` tells what it is.
    if isinstance(octets, list) and all(type(o) is int and 0 <= o <= 255 for o in octets):
        spelling = bytes(octets)
    return spelling, _logprob(entry.get("logprob"))


def _logprob(value: Json) -> float | None:
    if not isinstance(value, int | float) or not _UNKNOWN_LOGPROB < value <= _ROUNDING:
        return None
    return min(float(value), 0.0)
