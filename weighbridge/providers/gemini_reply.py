"""The response of Google's generateContent: a success, read in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.envelopes import count_of, invalid, model_of, word_of
from weighbridge.providers.failures import body_json, classify_error
from weighbridge.providers.protocol import Failure, HttpResponse, Reply, TokenLogprob
from weighbridge.providers.raw_json import as_sent
from weighbridge.providers.token_logprobs import of_answer, read_logprobs

# The rest are faults of what the model wrote, or say nothing: MALFORMED_FUNCTION_CALL,
# UNEXPECTED_TOOL_CALL, TOO_MANY_TOOL_CALLS, FINISH_REASON_UNSPECIFIED, and whatever comes next.
_UNFINISHED: Mapping[str, FailureKind] = {
    "MAX_TOKENS": FailureKind.TRUNCATED,
    "SAFETY": FailureKind.FILTERED,
    "RECITATION": FailureKind.FILTERED,
    "LANGUAGE": FailureKind.FILTERED,
    "OTHER": FailureKind.FILTERED,
    "BLOCKLIST": FailureKind.FILTERED,
    "PROHIBITED_CONTENT": FailureKind.FILTERED,
    "SPII": FailureKind.FILTERED,
    "MODEL_ARMOR": FailureKind.FILTERED,
    "IMAGE_SAFETY": FailureKind.FILTERED,
    "IMAGE_PROHIBITED_CONTENT": FailureKind.FILTERED,
    "IMAGE_RECITATION": FailureKind.FILTERED,
    "IMAGE_OTHER": FailureKind.FILTERED,
}


def read_success(response: HttpResponse, tool: str) -> Reply | Failure:
    """What a response with a good status says; see `GeminiAdapter.parse`."""
    body = body_json(response.body)
    # A stream that was not asked for, and an error on the way to one, come as an array.
    first = body[0] if isinstance(body, list) and body else body
    if isinstance(first, dict) and first.get("error"):
        return classify_error(response.status, response.headers, {"error": first["error"]})
    if not isinstance(body, dict):
        return invalid(response.status, "the body is no JSON object")
    prompt_tokens, completion_tokens = _usage(body.get("usageMetadata"))
    return replace(
        _outcome(response, body, tool),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )


def _outcome(response: HttpResponse, body: dict[str, Json], tool: str) -> Reply | Failure:
    """What a success says, without its usage."""
    status = response.status
    feedback = body.get("promptFeedback")
    if isinstance(feedback, dict) and (blocked := feedback.get("blockReason")):
        detail = f"the prompt was blocked, reason {word_of(blocked)}"
        return Failure(kind=FailureKind.FILTERED, detail=detail, status=status)
    candidates = body.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(candidate, dict):
        return invalid(status, "no candidate")
    finish = candidate.get("finishReason")
    ended = f"finish reason {word_of(finish)}"
    if isinstance(finish, str) and (kind := _UNFINISHED.get(finish)):
        return Failure(kind=kind, detail=ended, status=status)
    content = candidate.get("content")
    # Without an answer the content may be an empty object, or have no parts, or be absent.
    parts = content.get("parts") if isinstance(content, dict) else None
    spoken = _spoken(parts if isinstance(parts, list) else [])
    calls = [
        (at, call) for at, part in spoken if isinstance(call := part.get("functionCall"), dict)
    ]
    ours = next((at for at, call in calls if call.get("name") == tool), None)
    if calls and ours is None:
        return invalid(status, f"the model called a tool that it was not offered, {ended}")
    if ours is None:
        texts = (part.get("text") for _, part in spoken)
        text = "".join(text for text in texts if isinstance(text, str))
    else:
        path = ("candidates", 0, "content", "parts", ours, "functionCall", "args")
        text = as_sent(response.body, path) or ""
    if not text.strip():
        return invalid(status, f"no text, {ended}")
    if finish != "STOP":
        return invalid(status, ended)
    tokens = _logprobs(candidate.get("logprobsResult"))
    return Reply(
        text=text,
        finish_reason=finish,
        status=status,
        model=model_of(body.get("modelVersion")),
        logprobs=tokens and of_answer(tokens, text),
    )


def _spoken(parts: Sequence[Json]) -> list[tuple[int, dict[str, Json]]]:
    """Place and part of all that is no thought."""
    return [
        (at, part)
        for at, part in enumerate(parts)
        if isinstance(part, dict) and not part.get("thought")
    ]


def _logprobs(result: Json) -> tuple[TokenLogprob, ...] | None:
    """The tokens of a candidate. A token has its text alone: half a character cannot be told.

    `avgLogprobs` is never used: recorded answers of one token at -0.00001 call it -11.5.
    """
    if not isinstance(result, dict) or not isinstance(
        chosen := result.get("chosenCandidates"), list
    ):
        return None
    tops = result.get("topCandidates")
    # Lists of another length belong to other places: then the chosen tokens are all we know.
    if not isinstance(tops, list) or len(tops) != len(chosen):
        tops = [None] * len(chosen)
    entries: list[Json] = []
    for one, top in zip(chosen, tops, strict=True):
        others = top.get("candidates") if isinstance(top, dict) else None
        listed: list[Json] = [_entry(other) for other in others] if isinstance(others, list) else []
        entry = _entry(one)
        entries.append({**entry, "top_logprobs": listed} if isinstance(entry, dict) else None)
    return read_logprobs({"content": entries})


def _entry(candidate: Json) -> Json:
    """A token by the names that OpenAI has for its parts."""
    if not isinstance(candidate, dict):
        return None
    return {"token": candidate.get("token"), "logprob": candidate.get("logProbability")}


def _usage(usage: Json) -> tuple[int | None, int | None]:
    """Tokens of the prompt and of everything that was written; thoughts are counted apart."""
    counts = usage if isinstance(usage, dict) else {}
    prompt = count_of(counts.get("promptTokenCount"))
    # A zero is left out, as everywhere in JSON that is written from protocol buffers.
    answer = count_of(counts.get("candidatesTokenCount", 0))
    thoughts = count_of(counts.get("thoughtsTokenCount", 0))
    if prompt is None or answer is None or thoughts is None:
        return prompt, None
    return prompt, answer + thoughts
