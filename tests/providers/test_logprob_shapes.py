"""One toy model through every shape in which log-probabilities come: the same numbers arrive."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from toy_token_model import ToyModel, toy_models
from wire import response

from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Reply, TokenLogprob

Told = Sequence[TokenLogprob]

UNKNOWN = -9999.0  # what stands in lists where nobody knows


def is_text(token: bytes) -> bool:
    return token.decode("utf-8", "ignore").encode() == token


def text_of(token: bytes) -> str:
    return token.decode("utf-8", "replace")


def by_objects(told: Told, *, with_bytes: bool = True) -> list[dict[str, Any]]:
    """OpenAI's shape; each alternative stands there twice, and one that nobody knows beside it."""

    def entry(token: bytes, logprob: float | None) -> dict[str, Any]:
        spelled = {"bytes": [*token]} if with_bytes else {}
        number = UNKNOWN if logprob is None else logprob
        return {"token": text_of(token), "logprob": number, **spelled}

    return [
        {
            **entry(t.token, t.logprob),
            "top_logprobs": [entry(*pair) for pair in (*t.top, *t.top, (b"zz", None))],
        }
        for t in told
    ]


def openai(text: str, told: Told) -> Any:
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return {"choices": [{**choice, "logprobs": {"content": by_objects(told)}}]}


def together(text: str, told: Told) -> Any:
    logprobs = {
        "tokens": [text_of(t.token) for t in told],
        "token_logprobs": [t.logprob for t in told],
        "top_logprobs": [{text_of(o): p for o, p in (*t.top, (b"zz", UNKNOWN))} for t in told],
    }
    return {
        "choices": [{"message": {"content": text}, "finish_reason": "eos", "logprobs": logprobs}]
    }


def gemini(text: str, told: Told) -> Any:
    def entry(token: bytes, logprob: float | None) -> dict[str, Any]:
        return {"token": text_of(token), "tokenId": 1, "logProbability": logprob}

    result = {
        "chosenCandidates": [entry(t.token, t.logprob) for t in told],
        "topCandidates": [{"candidates": [entry(*pair) for pair in t.top]} for t in told],
    }
    candidate = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
    return {"candidates": [{**candidate, "logprobsResult": result}]}


def ollama(text: str, told: Told) -> Any:
    return {
        "message": {"content": text},
        "done": True,
        "done_reason": "stop",
        "logprobs": by_objects(told),
    }


# The shapes without bytes cannot tell half a character.
SHAPES: dict[str, tuple[str, Callable[[str, Told], Any], bool]] = {
    "openai": ("openai", openai, True),
    "together": ("together", together, False),
    "gemini": ("gemini_native", gemini, False),
    "ollama": ("ollama_native", ollama, True),
}


@pytest.mark.parametrize("shape", SHAPES)
@given(model=toy_models())
def test_the_same_numbers_arrive_in_every_shape(shape: str, model: ToyModel) -> None:
    """Alternatives listed twice count once, and stand-ins for "unknown" not at all."""
    profile, write, has_bytes = SHAPES[shape]
    text, told = b"".join(model.emitted).decode(), model.told
    assume(has_bytes or all(is_text(t) for step in told for t in (step.token, *dict(step.top))))
    reply = adapter_for(named(profile)).parse(response(200, write(text, told)))
    assert isinstance(reply, Reply)
    assert reply.text == text
    assert reply.logprobs is not None
    assert [(t.token, t.logprob) for t in reply.logprobs] == [(t.token, t.logprob) for t in told]
    assert [dict(t.top) for t in reply.logprobs] == [dict(t.top) for t in told]


@pytest.mark.parametrize("shape", SHAPES)
@given(model=toy_models(), place=st.integers(0, 30))
def test_a_token_without_a_number_has_none(shape: str, model: ToyModel, place: int) -> None:
    """-9999 is no very small probability; the tokens around it keep theirs."""
    profile, write, has_bytes = SHAPES[shape]
    told = [TokenLogprob(token=t.token, logprob=t.logprob) for t in model.told]
    assume(has_bytes or all(is_text(t.token) for t in told))
    place %= len(told)
    told[place] = TokenLogprob(token=told[place].token, logprob=None)
    body = json.loads(json.dumps(write(b"".join(model.emitted).decode(), told)))
    reply = adapter_for(named(profile)).parse(response(200, body))
    assert isinstance(reply, Reply)
    assert reply.logprobs == tuple(told)
