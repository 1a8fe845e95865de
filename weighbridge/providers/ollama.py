"""Ollama's own chat interface, never as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, assert_never

from weighbridge.capability import Mode
from weighbridge.decision import FailureKind, Json
from weighbridge.providers.envelopes import count_of, invalid, model_of, post, word_of
from weighbridge.providers.failures import body_json, classify, classify_error
from weighbridge.providers.profiles import Profile
from weighbridge.providers.prompting import with_schema
from weighbridge.providers.protocol import (
    Failure,
    HttpRequest,
    HttpResponse,
    Reply,
    RequestOptions,
    TokenLogprob,
)
from weighbridge.providers.token_logprobs import of_answer, read_logprobs
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt

# The server loads a model anew whenever it is asked for another context, which takes seconds. So
# the context comes in powers of two, and the smallest has room for nearly every ticket: the default
# of small machines, 4096, is filled by a model that thinks. A prompt that is too long even for the
# largest is refused; asking for more would fail for want of memory, as if the server were ill.
CONTEXT_TOKENS = (8192, 16384, 32768)
_BYTES_PER_TOKEN = 3  # less than prose has (about 4), so that the guess is rather too high
_TEMPLATE_TOKENS = 64  # of the chat template around the messages

_UNFINISHED: Mapping[str, FailureKind] = {
    "length": FailureKind.TRUNCATED,
    # The model was only brought into memory, or out of it.
    "load": FailureKind.TRANSIENT,
    "unload": FailureKind.TRANSIENT,
}
_SMALLEST_CONTEXT = 2048  # that a server ever had by default


class _Message(TypedDict):
    role: Literal["system", "user"]
    content: str


class _Options(TypedDict, total=False):
    num_predict: int
    num_ctx: int
    temperature: float
    seed: int


class _Request(TypedDict, total=False):
    """What all models take; how to think is named by the profile."""

    model: str
    messages: list[_Message]
    stream: bool
    truncate: bool
    shift: bool
    format: dict[str, Json] | Literal["json"]
    options: _Options
    logprobs: bool
    top_logprobs: int


@dataclass(frozen=True, slots=True)
class OllamaAdapter:
    """Builds and reads `POST /api/chat`. It offers no tool: the server cannot force one.

    By default the server answers whatever part of a prompt fits, with a 200. So it is told to
    refuse a prompt that is too long (`truncate`) and to stop an answer that fills the context
    rather than forget the prompt (`shift`), both since 0.12.6, and asked for a context with room
    for both. Older servers cut a prompt to the context exactly, which shows in its token count.

    Args:
        profile: what is sent for a wish to think, by model.

    Source: ollama/ollama, api/types.go, server/routes.go and server/prompt.go; responses of 0.12.5,
    0.12.6, 0.33, 0.34 and 0.40 to prompts that are too long, measured by others.
    """

    profile: Profile

    def build(self, schema: SchemaPlan, prompt: Prompt, options: RequestOptions) -> HttpRequest:
        """The request for one ticket; see `Adapter.build`.

        Raises:
            ValueError: tool mode or a logit bias, for which the wire has no field.
        """
        return post("/api/chat", self._body(schema, prompt, options))

    def parse(self, response: HttpResponse) -> Reply | Failure:
        """The reply, or the first of these that applies; see `Adapter.parse`.

        An error status, an error inside a 200, an answer that is not done, a reason that tells of
        no finish, a prompt that was cut, a call of a tool, no text, a reason that is not documented
        as complete.
        """
        if not 200 <= response.status <= 299:
            return classify(response)
        body = body_json(response.body)
        if not isinstance(body, dict):
            return invalid(response.status, "the body is no JSON object")
        if body.get("error"):
            return classify_error(response.status, response.headers, {"error": body["error"]})
        return replace(
            _outcome(response.status, body),
            prompt_tokens=count_of(body.get("prompt_eval_count")),
            completion_tokens=count_of(body.get("eval_count")),
        )

    def _body(
        self, schema: SchemaPlan, prompt: Prompt, options: RequestOptions
    ) -> Mapping[str, object]:
        if options.logit_bias:
            raise ValueError("Ollama's wire format has no field for a logit bias")
        request = _enforcing(schema, options.mode)
        is_shown = options.mode in ("json_mode", "prompted")
        system = with_schema(prompt.system, schema) if is_shown else prompt.system
        request["model"] = options.model
        request["messages"] = [
            {"role": "system", "content": system},
            {"role": "user", "content": prompt.user},
        ]
        request["stream"] = request["truncate"] = request["shift"] = False
        sampling: _Options = {
            "num_predict": options.max_output_tokens,
            "num_ctx": _context(system + prompt.user, options.max_output_tokens),
        }
        if options.temperature is not None:
            sampling["temperature"] = options.temperature
        if options.seed is not None:
            sampling["seed"] = options.seed
        request["options"] = sampling
        if options.num_alternatives is not None:
            request["logprobs"] = True
            if options.num_alternatives:
                request["top_logprobs"] = options.num_alternatives
        thinking: Mapping[str, Json] | None = None
        if options.thinking is not None:
            thinking = self.profile.thinking_fields(options.model, options.thinking)
        return {**request, **(thinking or {})}


def _enforcing(schema: SchemaPlan, mode: Mode) -> _Request:
    """The field that makes the server enforce what it can."""
    match mode:
        case "native":
            return {"format": schema.wire}
        case "json_mode":
            return {"format": "json"}
        case "prompted":
            return {}
        case "tool":
            raise ValueError("Ollama's wire format has no field that forces a tool")
        case _:
            assert_never(mode)


def _context(text: str, max_output_tokens: int) -> int:
    """Tokens of context to ask for: a guess, since the server counts tokens only afterwards.

    A guess that is too low is no harm done: the server refuses the prompt, or cuts the answer, and
    says so.
    """
    prompt = len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN + _TEMPLATE_TOKENS
    needed = prompt + max_output_tokens
    return next((size for size in CONTEXT_TOKENS if size >= needed), CONTEXT_TOKENS[-1])


def _outcome(status: int, body: dict[str, Json]) -> Reply | Failure:
    """What a success says, without its usage."""
    if body.get("done") is not True:
        # So it looks when the server stops a model that repeats one token for ever.
        return invalid(status, "the answer is not done")
    finish = body.get("done_reason")
    reason = finish if isinstance(finish, str) else ""
    ended = f"done reason {word_of(reason)}"
    if kind := _UNFINISHED.get(reason):
        return Failure(kind=kind, detail=ended, status=status)
    if _is_cut(body.get("prompt_eval_count")):
        detail = "the prompt fills the context to the last token: it was cut"
        return Failure(kind=FailureKind.TOO_LONG, detail=detail, status=status)
    message = body.get("message")
    said = message if isinstance(message, dict) else {}
    if said.get("tool_calls"):
        return invalid(status, f"the model called a tool that it was not offered, {ended}")
    # Thoughts stand beside it, in `thinking`.
    text = said.get("content")
    if not isinstance(text, str) or not text.strip():
        return invalid(status, f"no text, {ended}")
    # Servers before May 2024 give no reason. That lets no truncated answer through: a cut object is
    # no JSON, and nothing is ever repaired.
    if finish not in ("stop", "", None):
        return invalid(status, ended)
    return Reply(
        text=text,
        finish_reason=reason,
        status=status,
        model=model_of(body.get("model")),
        logprobs=_logprobs(body.get("logprobs"), text),
    )


def _is_cut(prompt_tokens: Json) -> bool:
    """Whether a count is that of a context rather than that of a prompt.

    Contexts are powers of two, also where a model has less than it was asked for. A prompt that
    happens to be as long is given up with those: rarer than one in thousands, and never in silence.
    """
    count = count_of(prompt_tokens) or 0
    return count >= _SMALLEST_CONTEXT and count.bit_count() == 1


def _logprobs(entries: Json, text: str) -> tuple[TokenLogprob, ...] | None:
    """The tokens of the text; None where they spell anything else.

    Those of the thoughts, of marks around them, and of an answer that was begun before the thoughts
    had ended and written again under the schema, stand in the same list.
    """
    tokens = read_logprobs({"content": entries})
    if tokens is None:
        return None
    kept = of_answer(tokens, text)
    spelled = b"".join(token.token for token in kept).strip()
    return kept if spelled == text.encode("utf-8", "surrogatepass").strip() else None
