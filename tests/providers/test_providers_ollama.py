"""What the Ollama adapter makes of everything that comes back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.ollama import CONTEXT_TOKENS, OllamaAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Failure, Reply, TokenLogprob

CANARY = "my card 4111 1111 was charged twice"
ADAPTER = OllamaAdapter(named("ollama_native"))
BUG = '{"category":"bug"}'


def answer(content=BUG, reason="stop", *, message=None, done=True, **body):
    return {
        "model": "qwen3:4b",
        "created_at": "2026-11-30T10:15:31.402913Z",
        "message": {"role": "assistant", "content": content, **(message or {})},
        "done": done,
        "done_reason": reason,
        **body,
    }


def without(body, *keys):
    return {key: value for key, value in body.items() if key not in keys}


def outcome(body):
    got = ADAPTER.parse(response(200, body))
    return got.kind if isinstance(got, Failure) else got.text


def test_a_reply_carries_text_model_usage_and_the_vendors_word():
    """Durations are no usage; a model that runs elsewhere is the one that was asked."""
    body = answer(
        prompt_eval_count=61,
        eval_count=7,
        prompt_eval_duration=120456789,
        total_duration=412345678,
        remote_model="gpt-oss:120b",
        remote_host="https://ollama.com:443",
    )
    assert ADAPTER.parse(response(200, body)) == Reply(
        text=BUG,
        finish_reason="stop",
        status=200,
        model="qwen3:4b",
        prompt_tokens=61,
        completion_tokens=7,
    )


CALL = [{"function": {"name": "answer", "arguments": {"category": "bug"}}}]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer(), BUG),
        (answer(reason=""), BUG),
        (without(answer(), "done_reason"), BUG),  # before May 2024 there was none
        (answer(message={"thinking": "billing?"}), BUG),
        (answer(message={"tool_calls": []}), BUG),
        # A block inside the text is the text's; whoever reads the JSON leaves it out.
        (answer(f"<think>billing?</think>{BUG}"), f"<think>billing?</think>{BUG}"),
        (answer(error=""), BUG),
        (answer(prompt_eval_count=2049), BUG),
        (answer(prompt_eval_count=1024), BUG),
        (answer(prompt_eval_count=0), BUG),
        # Not done is not done, whatever stands there.
        (answer(done=False), Kind.INVALID),
        (answer(done=None), Kind.INVALID),
        (answer(done="true"), Kind.INVALID),
        (without(answer(), "done"), Kind.INVALID),
        (answer(done=False, reason="length"), Kind.INVALID),
        (answer(reason="length"), Kind.TRUNCATED),
        (answer("", reason="length", message={"thinking": BUG}), Kind.TRUNCATED),
        (answer("", reason="load"), Kind.TRANSIENT),
        (answer(reason="unload"), Kind.TRANSIENT),
        # A prompt of exactly one context is what an old server left of a longer one.
        *[(answer(prompt_eval_count=size), Kind.TOO_LONG) for size in (2048, *CONTEXT_TOKENS)],
        (answer(reason="length", prompt_eval_count=8192), Kind.TRUNCATED),
        # No documented stop, no acceptance.
        (answer(reason="weather"), Kind.INVALID),
        (answer(reason=["stop"]), Kind.INVALID),
        (answer(reason=False), Kind.INVALID),
        (answer(""), Kind.INVALID),
        (answer(" \n"), Kind.INVALID),
        (answer(None), Kind.INVALID),
        (answer([{"type": "text", "text": BUG}]), Kind.INVALID),
        (answer("", message={"thinking": BUG}), Kind.INVALID),
        (answer("", message={"tool_calls": CALL}), Kind.INVALID),
        (answer(message={"tool_calls": CALL}), Kind.INVALID),
        (without(answer(), "message"), Kind.INVALID),
        ({**answer(), "message": BUG}, Kind.INVALID),
        ({"response": BUG, "done": True, "done_reason": "stop"}, Kind.INVALID),
        ({}, Kind.INVALID),
        ([answer()], Kind.INVALID),
        (None, Kind.INVALID),
        (b'{"done":false}\n{"done":true}\n', Kind.INVALID),
        (b"Ollama is running", Kind.INVALID),
        # An error is an error under any status.
        (answer(error="server busy, please try again.  maximum pending requests"), Kind.TRANSIENT),
        ({"error": "an error was encountered while running the model"}, Kind.TRANSIENT),
        ({"error": "model 'x' not found"}, Kind.MODEL_GONE),
        ({"error": {"message": "slow down", "code": 429}}, Kind.RATE_LIMIT),
        ({"error": "weather"}, Kind.UNKNOWN),
    ],
)
def test_a_200_is_read_in_a_fixed_order(body, expected):
    """Error, done, done reason, cut prompt, text, documented end."""
    assert outcome(body) == expected


REFUSED = {"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 32768}}


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, json.dumps(REFUSED), Kind.TOO_LONG),  # 0.34 and 0.40: llama-server's, as a string
        (400, "the input length exceeds the context length", Kind.TOO_LONG),  # 0.12.6
        (400, '"gemma3:4b" does not support thinking', Kind.CAPABILITY),
        (401, "unauthorized", Kind.CREDENTIAL),
        (404, "model 'qwen3:4b' not found", Kind.MODEL_GONE),
        (429, "too many concurrent requests", Kind.RATE_LIMIT),
        (503, "server busy, please try again.  maximum pending requests exceeded", Kind.TRANSIENT),
    ],
)
def test_an_error_status_is_never_an_answer(status, error, expected):
    """Errors are texts, or a whole error of the server inside as a text."""
    failure = ADAPTER.parse(response(status, {**answer(), "error": error}))
    assert isinstance(failure, Failure)
    assert (failure.status, failure.kind) == (status, expected)


def token(text, logprob=-0.5, **more):
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob, **more}


def logprobs(entries, text="{}", **more):
    return ADAPTER.parse(response(200, answer(text, logprobs=entries, **more))).logprobs


def test_tokens_have_bytes_and_alternatives():
    """Older servers tell no bytes: then the text's; half a character has nothing else."""
    listed = [token("[", -3), token("{", -0.1)]
    half = {"token": "\ufffd", "bytes": [0xC3], "logprob": -1}
    rest = {"token": "\ufffd", "bytes": [0xA9], "logprob": -9999}
    entries = [token("{", -0.1, top_logprobs=listed), half, rest, {"token": "}", "logprob": -2}]
    assert logprobs(entries, "{é}") == (
        TokenLogprob(token=b"{", logprob=-0.1, top=((b"{", -0.1), (b"[", -3.0))),
        TokenLogprob(token=b"\xc3", logprob=-1.0),
        TokenLogprob(token=b"\xa9", logprob=None),
        TokenLogprob(token=b"}", logprob=-2.0),
    )


@given(
    thoughts=st.lists(st.text(max_size=3), max_size=4),
    spelling=st.sampled_from([["{", '"a"', ":1}"], [" {", "}"], ["{}\n"], ["é{", "}"]]),
)
def test_tokens_of_thoughts_are_not_tokens_of_the_answer(thoughts, spelling):
    """They stand before it in the same list: what is left spells the answer to the byte."""
    text = "".join(spelling).strip()
    entries = [*map(token, thoughts), token("</think>"), *map(token, spelling)]
    kept = logprobs(entries, text, message={"thinking": "".join(thoughts)})
    assert b"".join(each.token for each in kept).strip() == text.encode()


def test_an_answer_that_was_begun_twice_counts_once():
    """Under a schema the server breaks off behind the thoughts and starts again, constrained."""
    entries = [token("bug?"), token("</think>"), token("{", -9), token("{", -0.1), token("}", -0.2)]
    assert [each.logprob for each in logprobs(entries)] == [-0.1, -0.2]


@pytest.mark.parametrize(
    "entries",
    [
        None,
        [],
        {},
        "no",
        [None],
        [token("{"), {"logprob": -1}],
        [token("{")],
        [token("["), token("]")],
        # Where the answer begins inside a token, nobody can say whose the number is.
        [token("</think>{"), token("}")],
        [token("{"), token("}}")],
    ],
)
def test_tokens_that_do_not_spell_the_answer_are_no_tokens_of_it(entries):
    """None is better than numbers of something else."""
    assert logprobs(entries) is None


def test_waits_of_a_success_are_not_waits_of_the_error_inside():
    """A `retry-after` on a 200 is about something else."""
    body = {"error": "server busy, please try again in 3s"}
    failure = ADAPTER.parse(response(200, body, headers={"retry-after": "99"}))
    assert failure.wait_s == 3


def test_an_answer_that_does_not_count_was_paid_for():
    """Budget needs the usage of failures as well."""
    body = answer(reason="length", prompt_eval_count=61, eval_count=64)
    failure = ADAPTER.parse(response(200, body))
    assert (failure.prompt_tokens, failure.completion_tokens) == (61, 64)


@pytest.mark.parametrize("count", [None, -1, True, "9", 1.5, []])
def test_usage_that_is_no_count_is_no_usage(count):
    """Nobody is billed by a string."""
    reply = ADAPTER.parse(response(200, answer(prompt_eval_count=count, eval_count=count)))
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)


KEYS = [
    "message",
    "content",
    "thinking",
    "tool_calls",
    "done",
    "done_reason",
    "error",
    "logprobs",
    "token",
    "bytes",
    "logprob",
    "top_logprobs",
    "prompt_eval_count",
    "eval_count",
    "model",
    "code",
]
wrong = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    wrong,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(status=st.sampled_from([200, 400, 403, 404, 429, 500]), body=values | st.binary(max_size=40))
def test_no_body_is_an_exception(status, body):
    """Whatever a server sends is a reply or a failure."""
    assert isinstance(ADAPTER.parse(response(status, body)), Reply | Failure)


@given(part=values, key=st.sampled_from(["done_reason", "message", "logprobs", "error", "model"]))
def test_no_part_of_an_answer_is_an_exception(part, key):
    """The same one level deeper, where everything else is in order."""
    assert isinstance(ADAPTER.parse(response(200, {**answer(), key: part})), Reply | Failure)


@pytest.mark.parametrize(
    "body",
    [
        answer(CANARY, reason=CANARY),
        answer(CANARY, reason="length"),
        answer(CANARY, done=False),
        answer(CANARY, prompt_eval_count=8192),
        answer("", message={"thinking": CANARY}),
        answer("", message={"tool_calls": [{"function": {"name": CANARY}}]}),
        answer(CANARY, error=CANARY),
        {"error": {"message": CANARY, "code": CANARY}},
        CANARY,
    ],
)
def test_failures_never_hold_what_the_model_said(body):
    """Neither answers nor thoughts nor unknown reasons reach the trail."""
    failure = ADAPTER.parse(response(200, body))
    assert isinstance(failure, Failure)
    assert "4111" not in repr(failure)
