"""The response of OpenAI's chat completions: a success, read in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.envelopes import count_of, invalid, model_of, word_of
from weighbridge.providers.failures import body_json, classify_error
from weighbridge.providers.protocol import Failure, HttpResponse, Reply, TokenLogprob
from weighbridge.providers.raw_json import as_sent
from weighbridge.providers.token_logprobs import of_answer, read_logprobs

# The vendors' words, in lower case. "eos" is Together's; "eos_token" and "stop_sequence" are those
# of Hugging Face's servers; some leave the word empty. That lets no truncated answer through: a cut
# object is no JSON, and nothing is ever repaired.
_COMPLETE = frozenset({"stop", "end_turn", "eos", "eos_token", "stop_sequence", ""})
_CALLED = frozenset({"tool_calls", "function_call"})
_UNFINISHED: Mapping[str, FailureKind] = {
    "length": FailureKind.TRUNCATED,
    "max_tokens": FailureKind.TRUNCATED,
    "model_length": FailureKind.TRUNCATED,
    "model_context_window_exceeded": FailureKind.TRUNCATED,
    "content_filter": FailureKind.FILTERED,
    "sensitive": FailureKind.FILTERED,
    "error": FailureKind.TRANSIENT,
    "abort": FailureKind.TRANSIENT,
    "network_error": FailureKind.TRANSIENT,
    "insufficient_system_resource": FailureKind.TRANSIENT,
}
# What vendors write beside `error`, or instead of it; a completion has none of them.
_FLAT_KEYS = (
    *("message", "detail", "type", "param"),
    *("code", "status", "statusCode", "raw_status_code"),
)


def read_success(response: HttpResponse, tool: str) -> Reply | Failure:
    """What a response with a good status says; see `OpenAIAdapter.parse`."""
    body = body_json(response.body)
    if not isinstance(body, dict):
        return invalid(response.status, "the body is no JSON object")
    prompt_tokens, completion_tokens = _usage(body.get("usage"))
    said = _outcome(response, body, tool)
    if isinstance(said, Failure):
        return replace(said, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    text, finish, tokens = said
    return Reply(
        text=text,
        finish_reason=finish,
        status=response.status,
        model=model_of(body.get("model")),
        logprobs=tokens and of_answer(tokens, text),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )


class _Call(NamedTuple):
    """A call of a tool: its arguments are JSON text, or what else was sent, with its path."""

    name: str
    arguments: Json
    path: tuple[str | int, ...]


class _Said(NamedTuple):
    """A message: its text without thinking, whether it refuses, and the tools it calls."""

    text: str
    is_refusal: bool
    calls: Sequence[_Call]


class _Answer(NamedTuple):
    """A complete answer."""

    text: str
    finish: str
    tokens: tuple[TokenLogprob, ...] | None


def _outcome(response: HttpResponse, body: dict[str, Json], tool: str) -> _Answer | Failure:
    """What a success says, without its usage."""
    status, choices = response.status, body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if error := _error_inside(body, choice):
        return classify_error(status, {}, error)
    if not isinstance(choice, dict):
        return invalid(status, "no choice")
    finish = choice.get("finish_reason")
    reason = finish.lower() if isinstance(finish, str) else None
    ended = f"finish reason {word_of(finish)}"
    said = _said(choice.get("message"))
    ours = next((call for call in said.calls if call.name == tool), None)
    text = _arguments(ours, response.body) if ours else said.text
    if reason is not None and (kind := _UNFINISHED.get(reason)):
        return Failure(kind=kind, detail=ended, status=status)
    if said.is_refusal:
        return Failure(kind=FailureKind.REFUSAL, detail="the model refused", status=status)
    if said.calls and not ours:
        return invalid(status, f"the model called a tool that it was not offered, {ended}")
    if not text.strip():
        return invalid(status, f"no text, {ended}")
    if reason not in (_COMPLETE | _CALLED if ours else _COMPLETE):
        return invalid(status, ended)
    return _Answer(text, str(finish), read_logprobs(choice.get("logprobs")))


def _error_inside(body: dict[str, Json], choice: Json) -> dict[str, Json]:
    """The error that a success holds, as the body of an error; empty if it holds none."""
    flat = {key: body[key] for key in _FLAT_KEYS if key in body}
    if body.get("error"):
        return {**flat, "error": body["error"]}
    if isinstance(choice, dict) and choice.get("error"):
        return {"error": choice["error"]}
    says_why = isinstance(flat.get("message"), str) or flat.get("detail")
    return flat if body.get("object") == "error" or (choice is None and says_why) else {}


def _said(message: Json) -> _Said:
    if not isinstance(message, dict):
        return _Said("", is_refusal=False, calls=())
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    listed = content if isinstance(content, list) else []
    parts = [part for part in listed if isinstance(part, dict)]
    # Thoughts stand in parts of their own, or in fields beside `content`.
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    # Snowflake sends an empty string where nothing was refused.
    refusals = [message.get("refusal"), *(part.get("refusal") for part in parts)]
    return _Said(
        "".join(text for text in texts if isinstance(text, str)),
        is_refusal=any(isinstance(refusal, str) and refusal for refusal in refusals),
        calls=_calls(message),
    )


def _calls(message: dict[str, Json]) -> list[_Call]:
    """All calls of tools; one without a name, as Snowflake sends it, is none."""
    in_message: tuple[str | int, ...] = ("choices", 0, "message")
    found = [(message.get("function_call"), (*in_message, "function_call"))]
    listed = message.get("tool_calls")
    for i, one in enumerate(listed if isinstance(listed, list) else []):
        function = one.get("function") if isinstance(one, dict) else None
        found.append((function, (*in_message, "tool_calls", i, "function")))
    return [
        _Call(name, function.get("arguments"), (*path, "arguments"))
        for function, path in found
        if isinstance(function, dict) and isinstance(name := function.get("name"), str) and name
    ]


def _arguments(call: _Call, body: bytes) -> str:
    """The arguments as JSON text, which is how OpenAI sends them; some followers send objects."""
    if isinstance(call.arguments, str):
        return call.arguments
    return "" if call.arguments is None else as_sent(body, call.path) or ""


def _usage(usage: Json) -> tuple[int | None, int | None]:
    """Tokens of the prompt and of everything that was written, thinking included."""
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion, total = (
        count_of(counts.get(f"{part}_tokens")) for part in ("prompt", "completion", "total")
    )
    if prompt is not None and completion is not None and total is not None:
        # xAI and Gemini leave thinking out of the completion; it is in the total, and paid for.
        completion = max(completion, total - prompt)
    return prompt, completion
