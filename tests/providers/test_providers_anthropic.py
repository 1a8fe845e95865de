"""Anthropic's messages: what is sent, and what an answer means."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from anthropic_request_schema import REQUEST
from jsonschema import Draft202012Validator

from weighbridge.capability import Mode
from weighbridge.decision import FailureKind
from weighbridge.providers.anthropic import AnthropicAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Failure, HttpResponse, Reply, RequestOptions, Thinking
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

TASK = Task.triage(categories=["billing", "bug"], priorities=[])
ADAPTER = AnthropicAdapter(named("anthropic"))
ANSWER = '{"category": "billing"}'
USAGE = {
    "input_tokens": 100,
    "cache_creation_input_tokens": 10,
    "cache_read_input_tokens": 5,
    "output_tokens": 7,
}


def body_of(options: RequestOptions) -> dict[str, Any]:
    dialect = "anthropic" if options.mode in ("native", "tool") else "prompt"
    request = ADAPTER.build(
        plan(TASK.schema, dialect), TASK.prompt(Ticket.of("charged twice")), options
    )
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["anthropic-version"] == "2023-06-01"
    body: dict[str, Any] = json.loads(request.body)
    return body


MODES: tuple[Mode, ...] = ("native", "tool", "json_mode", "prompted")
WISHES: tuple[Thinking | None, ...] = (None, "off", "low", "medium", "high")
MODELS = ("claude-sonnet-4-6", "claude-opus-4-8", "claude-haiku-4-5", "claude-sonnet-5-5")
LIMITS = (16, 1279, 1280, 5120)


@pytest.mark.parametrize(
    ("mode", "thinking", "model", "limit"), list(itertools.product(MODES, WISHES, MODELS, LIMITS))
)
@pytest.mark.parametrize("temperature", [None, 0.0])
def test_every_request_has_the_documented_shape(
    mode: Mode, thinking: Thinking | None, model: str, limit: int, temperature: float | None
) -> None:
    """And says the schema: to the server where it enforces one, to the model where not.

    A budget for thinking is below the limit, and no tool is forced beside one.
    """
    body = body_of(
        RequestOptions(
            model=model,
            mode=mode,
            max_output_tokens=limit,
            thinking=thinking,
            temperature=temperature,
            seed=3,
            num_alternatives=5,
        )
    )
    Draft202012Validator(REQUEST).validate(body)
    assert body["max_tokens"] == limit
    budget = body.get("thinking", {}).get("budget_tokens")
    assert budget is None or budget < limit
    if mode == "tool":
        assert body["tool_choice"]["type"] == ("tool" if budget is None else "auto")
    assert ("JSON Schema" in body["system"]) == (mode in ("json_mode", "prompted"))
    assert ("format" in body.get("output_config", {})) == (mode == "native")
    assert ("tools" in body) == (mode == "tool")
    assert ("temperature" in body) == (temperature is not None)


ADAPTIVE = {
    wish: ({"type": "adaptive"}, {"effort": wish}) for wish in ("low", "medium", "high")
} | {"off": ({"type": "disabled"}, None)}
BUDGETS = {
    wish: ({"type": "enabled", "budget_tokens": tokens}, None)
    for wish, tokens in {"low": 1024, "medium": 2048, "high": 4096}.items()
} | {"off": (None, None)}


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("claude-sonnet-4-6", ADAPTIVE),
        ("claude-opus-4-6", ADAPTIVE),
        ("claude-opus-4-8", ADAPTIVE),
        ("claude-opus-5", ADAPTIVE),
        ("claude-haiku-5-5", ADAPTIVE),
        ("claude-sonnet-5-5", ADAPTIVE | {"off": ({"type": "between_tools"}, None)}),
        ("claude-fable-5", ADAPTIVE | {"off": (None, None)}),
        ("claude-opus-5-5", ADAPTIVE | {"off": (None, None)}),
        ("claude-opus-4-5-20251101", BUDGETS),
        ("claude-sonnet-4-5", BUDGETS),
        ("claude-haiku-4-5-20251001", BUDGETS),
        ("claude-opus-4-1", BUDGETS),
        ("claude-sonnet-4-20250514", BUDGETS),
        ("claude-3-7-sonnet-latest", BUDGETS),
    ],
)
@pytest.mark.parametrize("wish", ["off", "low", "medium", "high"])
def test_each_generation_is_told_to_think_in_its_own_way(
    model: str, sent: dict[str, Any], wish: Thinking
) -> None:
    """Adaptive with an effort or a budget: each refuses the other's."""
    options = RequestOptions(
        model=model, mode="prompted", thinking=wish, max_output_tokens=1024 + 4096
    )
    body = body_of(options)
    assert (body.get("thinking"), body.get("output_config")) == sent[wish]


@pytest.mark.parametrize(("limit", "budget"), [(1279, None), (1280, 1024), (3000, 2400)])
def test_budget_that_does_not_fit_is_cut_or_left_out(limit: int, budget: int | None) -> None:
    """A fifth of the limit is the answer's; 1024 is the least budget."""
    options = RequestOptions(model="claude-haiku-4-5", thinking="high", max_output_tokens=limit)
    assert body_of(options).get("thinking", {}).get("budget_tokens") == budget


def parsed(content: Any, stop: Any = "end_turn", **more: Any) -> Reply | Failure:
    body = {"model": "claude-x", "content": content, "stop_reason": stop, "usage": USAGE, **more}
    raw = json.dumps(body).encode()
    return ADAPTER.parse(HttpResponse(status=200, headers={"retry-after": "9"}, body=raw))


def block(text: str = ANSWER) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(name: str = "answer", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t", "name": name, "input": arguments or {"category": "bug"}}


CANARY = "Your ticket of May 3, Ms Miller, asks for malware."
THOUGHT = {"type": "thinking", "thinking": '{"category": "bug"}', "signature": "s"}


@pytest.mark.parametrize(
    ("content", "stop", "text"),
    [
        ([block()], "end_turn", ANSWER),
        ([block()], "stop_sequence", ANSWER),
        ([block('{"category":'), block(' "billing"}')], "end_turn", ANSWER),
        ([THOUGHT, block()], "end_turn", ANSWER),
        ([block("\n\n"), THOUGHT, block()], "end_turn", "\n\n" + ANSWER),
        ([{"type": "redacted_thinking", "data": "x"}, block()], "end_turn", ANSWER),
        ([block("Let me see."), call()], "tool_use", '{"category": "bug"}'),
        ([call("other"), call()], "tool_use", '{"category": "bug"}'),
    ],
)
def test_answer_is_the_text_or_what_our_tool_was_given(content: Any, stop: str, text: str) -> None:
    """Thoughts are no answer. What was read from a cache was read."""
    reply = parsed(content, stop)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish_reason, reply.model) == (text, stop, "claude-x")
    assert (reply.prompt_tokens, reply.completion_tokens) == (115, 7)


def test_numbers_in_a_tool_call_stay_as_they_were_sent() -> None:
    raw = (
        b'{"content": [{"type": "tool_use", "name": "answer", "input":'
        b' {"id": 9007199254740993, "share": 0.10000000000000000001}}], "stop_reason": "tool_use"}'
    )
    reply = ADAPTER.parse(HttpResponse(status=200, headers={}, body=raw))
    assert isinstance(reply, Reply)
    assert reply.text == '{"id": 9007199254740993, "share": 0.10000000000000000001}'


@pytest.mark.parametrize(
    ("content", "stop", "kind"),
    [
        ([block()], "max_tokens", FailureKind.TRUNCATED),
        ([block()], "model_context_window_exceeded", FailureKind.TRUNCATED),
        ([], "refusal", FailureKind.REFUSAL),
        ([block("I will not.")], "refusal", FailureKind.REFUSAL),
        ([block()], "pause_turn", FailureKind.INVALID),
        ([block()], "brand_new", FailureKind.INVALID),
        ([block()], None, FailureKind.INVALID),
        ([block()], "tool_use", FailureKind.INVALID),
        ([call("lookup_country")], "tool_use", FailureKind.INVALID),
        ([block(), call("lookup_country")], "end_turn", FailureKind.INVALID),
        ([call()], "pause_turn", FailureKind.INVALID),
        ([THOUGHT], "end_turn", FailureKind.INVALID),
        ([block("  ")], "end_turn", FailureKind.INVALID),
        ([], "end_turn", FailureKind.INVALID),
        (None, "end_turn", FailureKind.INVALID),
        ("text", "end_turn", FailureKind.INVALID),
        ([None, 3, {"type": "text"}], "end_turn", FailureKind.INVALID),
    ],
)
def test_what_is_no_finished_answer_is_a_failure_with_its_usage(
    content: Any, stop: Any, kind: FailureKind
) -> None:
    failure = parsed(content, stop)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status, failure.wait_s) == (kind, 200, None)
    assert (failure.prompt_tokens, failure.completion_tokens) == (115, 7)


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (
            {"type": "refusal", "category": "cyber", "explanation": CANARY},
            "refused, category cyber",
        ),
        ({"type": "refusal", "category": None, "explanation": CANARY}, "refused"),
        ({"type": "refusal", "category": CANARY}, "refused"),
        (None, "refused"),
    ],
)
def test_refusal_is_told_by_its_category_and_never_by_its_sentence(details: Any, said: str) -> None:
    failure = parsed([], "refusal", stop_details=details)
    assert isinstance(failure, Failure)
    assert failure.detail == f"the model {said}"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", FailureKind.INVALID),
        (b"<html>", FailureKind.INVALID),
        (b"[]", FailureKind.INVALID),
        (
            b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
            FailureKind.TRANSIENT,
        ),
    ],
)
def test_success_that_is_none_is_a_failure(raw: bytes, kind: FailureKind) -> None:
    failure = ADAPTER.parse(HttpResponse(status=200, headers={}, body=raw))
    assert isinstance(failure, Failure)
    assert failure.kind is kind
