"""What each wire format wraps an answer in, as raw JSON: also what no JSON writer would write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from weighbridge.capability import Fact, Feature, Status
from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Provider
from weighbridge.providers.systemone import SystemOneProvider

KEY = SecretStr("sk-canary-key")
MODEL = "m-1"
_GAP = '"GAP"'  # where the answer goes


@dataclass(frozen=True, kw_only=True)
class SpeakingWire:
    """One wire format in one mode.

    Args:
        profile: who speaks.
        whole: a complete response with a gap where the answer goes.
        reasons: what stands for the finish reason, by what it tells.
        is_spliced: the answer goes into the body as JSON, and not as a text of it.
        lacking: features to do without, which leaves this mode.
        refusals: bodies of successes in which the provider says that the model, or a filter,
            will not answer.
        hollow: bodies of successes without an answer.
        error: body of an error under a good status.
    """

    profile: str
    whole: str
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_spliced: bool = False
    lacking: Sequence[Feature] = ()
    refusals: Mapping[str, Any] = field(default_factory=dict)
    hollow: Sequence[Any] = ()
    error: Any = None

    def provider(self) -> Provider:
        """A provider that uses this mode."""
        ledger, profile, url = MemoryLedger(), named(self.profile), "https://a.test"
        for feature in self.lacking:
            ledger.record(url, MODEL, feature, Fact(status=Status.UNSUPPORTED))
        if profile.wire == "systemone":
            return SystemOneProvider(
                name="a", model=MODEL, base_url=url, profile=profile, ledger=ledger, key=KEY
            )
        return HttpProvider(
            name="a",
            model=MODEL,
            base_url=url,
            profile=profile,
            adapter=adapter_for(profile),
            ledger=ledger,
            key=KEY,
        )

    def answer(self, text: str, *, reason: str = "complete") -> bytes:
        """The body with an answer; `reason` is a key of `reasons`, or a word of its own."""
        body = self.whole.replace('"REASON"', json.dumps(self.reasons.get(reason, reason)))
        spelled = text if self.is_spliced else json.dumps(text)
        return body.replace(_GAP, spelled).encode("utf-8", "surrogatepass")


def _openai(message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "REASON", "message": message}
    return {"model": MODEL, "choices": [choice], "usage": {"prompt_tokens": 9}}


def _gemini(part: dict[str, Any]) -> dict[str, Any]:
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": "REASON"}]}


def _anthropic(block: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [block],
        "stop_reason": "REASON",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


_OPENAI_REASONS = {"complete": "stop", "truncated": "length", "filtered": "content_filter"}
_GEMINI_REASONS = {"complete": "STOP", "truncated": "MAX_TOKENS", "filtered": "SAFETY"}
_ANTHROPIC_REASONS = {"complete": "end_turn", "truncated": "max_tokens", "refusal": "refusal"}
_OPENAI_HOLLOW: tuple[Any, ...] = (
    {"choices": []},
    {"choices": None},
    {"choices": [None]},
    {"choices": [{}]},
    {"choices": {}},
    {"choices": [{"finish_reason": "stop", "message": None}]},
    {"choices": [{"finish_reason": "stop", "message": {"content": None}}]},
    {"choices": [{"finish_reason": "stop", "message": {"content": " \n"}}]},
    {"choices": [{"finish_reason": "stop", "message": {"content": [{"type": "image"}]}}]},
    {"choices": [{"finish_reason": "stop", "message": {"content": {"category": "bug"}}}]},
)
_OPENAI_REFUSALS = {
    "refusal": {
        "choices": [{"finish_reason": "stop", "message": {"content": None, "refusal": "canary"}}]
    },
    "filtered": {"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}]},
}
_CALL = {"id": "c", "type": "function", "function": {"name": "answer", "arguments": "GAP"}}
SYSTEMONE_ANSWERS: dict[str, dict[str, Any]] = {
    "category": {"type": "choice", "choice": "bug", "probabilities": {"bug": 0.9, "billing": 0.1}},
    "urgent": {"type": "noul", "noul": 0.2},
}

WIRES: dict[str, SpeakingWire] = {
    "openai": SpeakingWire(
        profile="openai",
        whole=json.dumps(_openai({"role": "assistant", "content": "GAP"})),
        reasons=_OPENAI_REASONS,
        refusals=_OPENAI_REFUSALS,
        hollow=_OPENAI_HOLLOW,
        error={"error": {"message": "canary", "code": 502, "type": "canary"}},
    ),
    "openai tool": SpeakingWire(
        profile="openai",
        lacking=(Feature.JSON_SCHEMA,),
        whole=json.dumps(_openai({"role": "assistant", "content": None, "tool_calls": [_CALL]})),
        reasons={**_OPENAI_REASONS, "complete": "tool_calls"},
        refusals=_OPENAI_REFUSALS,
        hollow=_OPENAI_HOLLOW,
        error={"object": "error", "message": "canary", "code": "502"},
    ),
    "gemini": SpeakingWire(
        profile="gemini_native",
        whole=json.dumps(_gemini({"text": "GAP"})),
        reasons=_GEMINI_REASONS,
        refusals={
            "filtered": {"promptFeedback": {"blockReason": "SAFETY"}, "candidates": []},
        },
        hollow=(
            {},
            {"candidates": []},
            {"candidates": None},
            {"candidates": [{"finishReason": "STOP"}]},
            {"candidates": [{"finishReason": "STOP", "content": {}}]},
            {"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": ""}]}}]},
            {
                "candidates": [
                    {"finishReason": "STOP", "content": {"parts": [{"text": "{}", "thought": 1}]}}
                ]
            },
        ),
        error=[{"error": {"code": 503, "message": "canary", "status": "UNAVAILABLE"}}],
    ),
    "gemini tool": SpeakingWire(
        profile="gemini_native",
        lacking=(Feature.JSON_SCHEMA,),
        whole=json.dumps(_gemini({"functionCall": {"name": "answer", "args": "GAP"}})),
        reasons=_GEMINI_REASONS,
        is_spliced=True,
        error={"error": {"code": 503, "message": "canary", "status": "UNAVAILABLE"}},
    ),
    "anthropic": SpeakingWire(
        profile="anthropic",
        whole=json.dumps(_anthropic({"type": "text", "text": "GAP"})),
        reasons=_ANTHROPIC_REASONS,
        refusals={
            "refusal": {
                "content": [{"type": "text", "text": "canary"}],
                "stop_reason": "refusal",
                "stop_details": {"category": "a canary sentence", "explanation": "canary"},
            }
        },
        hollow=(
            {},
            {"content": [], "stop_reason": "end_turn"},
            {"content": None, "stop_reason": "end_turn"},
            {"content": "{}", "stop_reason": "end_turn"},
            {"content": [{"type": "thinking", "thinking": "{}"}], "stop_reason": "end_turn"},
            {"content": [{"type": "text", "text": None}], "stop_reason": "end_turn"},
        ),
        error={"type": "error", "error": {"type": "overloaded_error", "message": "canary"}},
    ),
    "anthropic tool": SpeakingWire(
        profile="anthropic",
        lacking=(Feature.JSON_SCHEMA,),
        whole=json.dumps(
            _anthropic({"type": "tool_use", "id": "t", "name": "answer", "input": "GAP"})
        ),
        reasons={**_ANTHROPIC_REASONS, "complete": "tool_use"},
        is_spliced=True,
        error={"type": "error", "error": {"type": "api_error", "message": "canary"}},
    ),
    "ollama": SpeakingWire(
        profile="ollama_native",
        whole=json.dumps(
            {
                "model": MODEL,
                "message": {"role": "assistant", "content": "GAP"},
                "done": True,
                "done_reason": "REASON",
                "prompt_eval_count": 9,
            }
        ),
        reasons={"complete": "stop", "truncated": "length"},
        hollow=(
            {},
            {"done": True, "done_reason": "stop"},
            {"done": True, "done_reason": "stop", "message": {"content": ""}},
            {"done": False, "message": {"content": '{"category": "bug", "urgent": true}'}},
            {"done": True, "done_reason": "stop", "message": {"content": "", "thinking": "{}"}},
        ),
        error={"error": "server busy, please try again"},
    ),
    "systemone": SpeakingWire(
        profile="systemone",
        whole=json.dumps({"model": MODEL, "answers": "GAP", "usage": {"input_tokens": 9}}),
        is_spliced=True,
        hollow=(
            {},
            {"answers": {}},
            {"answers": None},
            {"answers": []},
            {"answers": {"category": {"type": "choice", "choice": "bug"}}},
            {"answers": {**SYSTEMONE_ANSWERS, "category": None}},
        ),
        error={"error": {"code": 503, "message": "canary"}},
    ),
}
# Those in which a model writes.
WRITERS = [name for name in WIRES if name != "systemone"]
