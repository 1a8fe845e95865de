"""Anthropic's messages, never as a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, assert_never

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.envelopes import count_of, invalid, model_of, post, word_of
from weighbridge.providers.failures import body_json, classify, classify_error, is_identifier
from weighbridge.providers.profiles import Profile
from weighbridge.providers.prompting import TOOL_DESCRIPTION, TOOL_NAME, with_schema
from weighbridge.providers.protocol import (
    Failure,
    HttpRequest,
    HttpResponse,
    Reply,
    RequestOptions,
)
from weighbridge.providers.raw_json import as_sent
from weighbridge.schemas.plan import SchemaPlan
from weighbridge.schemas.task import Prompt

VERSION = "2023-06-01"
MIN_BUDGET = 1024  # tokens for thinking, the least that is taken

_COMPLETE = frozenset({"end_turn", "stop_sequence"})
_UNFINISHED: Mapping[str, FailureKind] = {
    "max_tokens": FailureKind.TRUNCATED,
    "model_context_window_exceeded": FailureKind.TRUNCATED,
    "refusal": FailureKind.REFUSAL,
}


class _Message(TypedDict):
    role: Literal["user"]
    content: str


class _Tool(TypedDict):
    name: str
    description: str
    strict: bool
    input_schema: dict[str, Json]


class _ToolChoice(TypedDict, total=False):
    type: Literal["tool", "auto"]
    name: str
    disable_parallel_tool_use: bool


class _Request(TypedDict, total=False):
    model: str
    max_tokens: int
    system: str
    messages: list[_Message]
    thinking: dict[str, Json]
    output_config: dict[str, Json]
    tools: list[_Tool]
    tool_choice: _ToolChoice
    temperature: float


@dataclass(frozen=True, slots=True)
class AnthropicAdapter:
    """Builds and reads `POST /v1/messages`.

    There is no mode for any JSON object: it is asked for in words, as in the prompted mode.

    Args:
        profile: what is sent for a wish to think.
        tool: name of the tool that takes the answer. A call of any other is no answer.

    Source: Anthropic API reference, messages and structured outputs.
    """

    profile: Profile
    tool: str = TOOL_NAME

    def build(self, schema: SchemaPlan, prompt: Prompt, options: RequestOptions) -> HttpRequest:
        """The request for one ticket; see `Adapter.build`."""
        body = self._body(schema, prompt, options)
        return post("/v1/messages", body, anthropic_version=VERSION)

    def parse(self, response: HttpResponse) -> Reply | Failure:
        """The reply, or the first of these that applies; see `Adapter.parse`.

        An error status, an error inside a 200, a stop reason that tells of no finish, a call of
        another tool, no text, a stop reason that nobody documents as complete.
        """
        if not 200 <= response.status <= 299:
            return classify(response)
        body = body_json(response.body)
        if not isinstance(body, dict):
            return invalid(response.status, "the body is no JSON object")
        usage = body.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        return replace(
            self._outcome(response, body),
            prompt_tokens=_total(
                counts,
                ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            ),
            completion_tokens=_total(counts, ("output_tokens",)),
        )

    def _body(
        self, schema: SchemaPlan, prompt: Prompt, options: RequestOptions
    ) -> Mapping[str, object]:
        shown = options.mode in ("json_mode", "prompted")
        request: _Request = {
            "model": options.model,
            "max_tokens": options.max_output_tokens,
            "system": with_schema(prompt.system, schema) if shown else prompt.system,
            "messages": [{"role": "user", "content": prompt.user}],
        }
        fields = self._thinking(options)
        thinking, output = fields.pop("thinking", {}), fields.pop("output_config", {})
        assert isinstance(thinking, dict)
        assert isinstance(output, dict)
        match options.mode:
            case "native":
                output = {**output, "format": {"type": "json_schema", "schema": schema.wire}}
            case "tool":
                request["tools"] = [
                    {
                        "name": self.tool,
                        "description": TOOL_DESCRIPTION,
                        "strict": True,
                        "input_schema": schema.wire,
                    }
                ]
                # To force a model that has a budget for thinking is refused with a 400; one that
                # thinks as it sees fit is forced without harm.
                request["tool_choice"] = (
                    {"type": "auto", "disable_parallel_tool_use": True}
                    if thinking.get("type") == "enabled"
                    else {"type": "tool", "name": self.tool, "disable_parallel_tool_use": True}
                )
            case "json_mode" | "prompted":
                pass
            case _:
                assert_never(options.mode)
        if thinking:
            request["thinking"] = thinking
        if output:
            request["output_config"] = output
        if options.temperature is not None:
            request["temperature"] = options.temperature
        return {**request, **fields}

    def _thinking(self, options: RequestOptions) -> dict[str, Json]:
        """What is sent for a wish to think; a budget leaves a fifth of the limit to the answer.

        Where that is less than the least budget, the limit was not meant for thoughts.
        """
        if options.thinking is None:
            return {}
        fields = dict(self.profile.thinking_fields(options.model, options.thinking) or {})
        thinking = fields.get("thinking")
        if isinstance(thinking, dict) and isinstance(asked := thinking.get("budget_tokens"), int):
            budget = min(asked, options.max_output_tokens * 4 // 5)
            fields["thinking"] = {**thinking, "budget_tokens": budget}
            if budget < MIN_BUDGET:
                del fields["thinking"]
        return fields

    def _outcome(self, response: HttpResponse, body: dict[str, Json]) -> Reply | Failure:
        status = response.status
        if body.get("type") == "error" or isinstance(body.get("error"), dict):
            # The headers are left out: a `retry-after` of a success is about something else.
            return classify_error(status, {}, body)
        stop = body.get("stop_reason")
        reason = stop if isinstance(stop, str) else ""
        ended = f"stop reason {word_of(reason)}"
        if kind := _UNFINISHED.get(reason):
            if kind is FailureKind.REFUSAL:
                ended = f"the model refused{_category(body.get('stop_details'))}"
            return Failure(kind=kind, detail=ended, status=status)
        content = body.get("content")
        blocks = content if isinstance(content, list) else []
        calls = _calls(blocks)
        ours = next((at for at, name in calls if name == self.tool), None)
        if calls and ours is None:
            return invalid(status, f"the model called a tool that it was not offered, {ended}")
        text = _text(blocks)
        if ours is not None:
            text = as_sent(response.body, ("content", ours, "input")) or ""
        if not text.strip():
            return invalid(status, f"no text, {ended}")
        if reason not in _COMPLETE and not (ours is not None and reason == "tool_use"):
            return invalid(status, ended)
        return Reply(
            text=text,
            finish_reason=reason,
            status=status,
            model=model_of(body.get("model")),
        )


def _category(details: Json) -> str:
    """Why the model refused, where the vendor has a word for it: sentences may quote the ticket."""
    category = details.get("category") if isinstance(details, dict) else None
    is_word = isinstance(category, str) and is_identifier(category)
    return f", category {category}" if is_word else ""


def _calls(blocks: Sequence[Json]) -> list[tuple[int, str]]:
    """Place and tool of every call."""
    return [
        (at, name)
        for at, block in enumerate(blocks)
        if isinstance(block, dict)
        and block.get("type") == "tool_use"
        and isinstance(name := block.get("name"), str)
    ]


def _text(blocks: Sequence[Json]) -> str:
    """The answer; thoughts stand in blocks of their own."""
    texts = [
        block.get("text")
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _total(counts: Mapping[str, Json], names: Sequence[str]) -> int | None:
    """Tokens under several names together; what was read from a cache counts as read."""
    found = [number for name in names if (number := count_of(counts.get(name))) is not None]
    return sum(found) if found else None
