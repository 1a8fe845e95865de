"""Pydantic models of every shape, from the model to the typed answer, through every dialect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic_shapes import SHAPES

from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.asking import Target, Wishes, approach, options, shown
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Approach, HttpResponse, Reply
from weighbridge.router.acceptance import Accepted, accept
from weighbridge.schemas.task import Task
from weighbridge.schemas.ticket import Ticket

# One speaker for each dialect, with a model that takes schemas.
SPEAKERS = {
    "openai": "gpt-4.1",
    "azure_openai": "gpt-4.1",
    "groq": "openai/gpt-oss-20b",
    "gemini_native": "gemini-3-flash",
    "anthropic": "claude-sonnet-4-6",
    "deepseek_beta": "deepseek-chat",
    "llama_cpp_server": "m",
    "vllm": "m",
    "mistral": "mistral-small",
    "ollama_native": "qwen3:4b",
    "lm_studio": "m",
}
TICKET = Ticket.of("I was charged twice.")


def openai(text: str, *, is_tool: bool) -> Any:
    function = {"name": "answer", "arguments": text}
    message = {"tool_calls": [{"function": function}]} if is_tool else {"content": text}
    finish = "tool_calls" if is_tool else "stop"
    return {"choices": [{"message": message, "finish_reason": finish}]}


def gemini(text: str, *, is_tool: bool) -> Any:
    call = {"functionCall": {"name": "answer", "args": json.loads(text)}}
    part = call if is_tool else {"text": text}
    return {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}


def anthropic(text: str, *, is_tool: bool) -> Any:
    call = {"type": "tool_use", "name": "answer", "input": json.loads(text)}
    block = call if is_tool else {"type": "text", "text": text}
    return {"content": [block], "stop_reason": "tool_use" if is_tool else "end_turn"}


def ollama(text: str, *, is_tool: bool) -> Any:
    return {"message": {"content": text}, "done": True, "done_reason": "stop"}


ENVELOPES: dict[str, Callable[..., Any]] = {
    "openai": openai,
    "gemini": gemini,
    "anthropic": anthropic,
    "ollama": ollama,
}


def asked(task: Task, speaker: str) -> list[Approach]:
    """The best way to ask a speaker, and the one that always works."""
    profile, model = named(speaker), SPEAKERS[speaker]
    target = Target(profile=profile, model=model, facts=profile.declared(model))
    return [approach(task, target, Wishes()), shown(task)]


@pytest.mark.parametrize("speaker", SPEAKERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_model_comes_back_as_it_was_meant(shape: str, speaker: str) -> None:
    """Whatever a wire can express arrives as the instance, equal to the last field."""
    model, instances = SHAPES[shape]
    task = Task.from_model(model, instructions="Fill it in.")
    adapter = adapter_for(named(speaker))
    target = Target(profile=named(speaker), model=SPEAKERS[speaker], facts={})
    for chosen in asked(task, speaker):
        request = adapter.build(
            chosen.schema, task.prompt(TICKET), options(chosen, task, target, Wishes())
        )
        assert json.loads(request.body)
        narrowed = {loss.keyword for loss in chosen.schema.losses if loss.kind == "narrowed"}
        for instance in instances:
            said = chosen.schema.forward(instance)
            if not Draft202012Validator(chosen.schema.wire).is_valid(said):
                assert narrowed
                continue
            body = ENVELOPES[named(speaker).wire](json.dumps(said), is_tool=chosen.mode == "tool")
            response = HttpResponse(status=200, headers={}, body=json.dumps(body).encode())
            reply = adapter.parse(response)
            assert isinstance(reply, Reply), reply
            result = accept(reply, chosen.schema, task)
            assert isinstance(result, Accepted), result
            if result.value != instance:
                # Null that is a value cannot be told from absence.
                assert "required" in narrowed
                continue
            expected = model.model_validate_json(json.dumps(instance))
            assert result.typed == expected


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_most_shapes_need_no_prompting(speaker: str) -> None:
    """The test above would pass if everything were only shown to the model."""
    tasks = [Task.from_model(model, instructions="Fill it in.") for model, _ in SHAPES.values()]
    modes = [asked(task, speaker)[0].mode for task in tasks]
    assert sum(mode in ("native", "tool") for mode in modes) >= len(modes) // 2
