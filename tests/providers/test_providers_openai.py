"""What the OpenAI adapter makes of everything that comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import exchanges, replay, response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Failure, Reply

CANARY = "my card 4111 1111 was charged twice"
ADAPTER = OpenAIAdapter(named("openai"))

# Outcomes of the recordings, as weighbridge calls them; a success is a Reply.
KINDS = {
    "refusal": Kind.REFUSAL,
    "content_filter": Kind.FILTERED,
    "truncated": Kind.TRUNCATED,
    "empty": Kind.INVALID,
    "capability_missing": Kind.CAPABILITY,
    "schema_rejected": Kind.CAPABILITY,
    "auth": Kind.CREDENTIAL,
    "not_found": Kind.MODEL_GONE,
    "rate_limited": Kind.RATE_LIMIT,
    "quota": Kind.QUOTA,
    "server_error": Kind.TRANSIENT,
    "bad_request": Kind.CALLER_FAULT,
    "generation_failed": Kind.INVALID,
}


def outcome_is_as_labelled(case):
    want, got = case["expected"], ADAPTER.parse(replay(case))
    if want["outcome"] == "success":
        assert isinstance(got, Reply)
        assert (got.text, got.finish_reason) == (want["text"], want["finish_reason"])
        assert len(got.logprobs or ()) == (want.get("logprob_tokens") or 0)
    else:
        assert isinstance(got, Failure)
        assert got.kind is KINDS[want["outcome"]]
        assert got.wait_s == want.get("retry_after_s")
        assert (want.get("error") or {}).get("message", CANARY) not in got.detail


@pytest.mark.parametrize("case", exchanges("recorded", adapter="openai"))
def test_recorded_exchanges_come_out_as_labelled(case):
    """Real traffic: the vendor's bytes are the specification."""
    outcome_is_as_labelled(case)


@pytest.mark.parametrize("case", exchanges("synthetic", adapter="openai"))
def test_synthetic_exchanges_come_out_as_labelled(case):
    """Hand-written after documents: shows that we do what we think providers do."""
    outcome_is_as_labelled(case)


def answer(content='{"category":"bug"}', finish="stop", *, choice=None, message=None, **body):
    first = {
        "finish_reason": finish,
        "message": {"role": "assistant", "content": content, **(message or {})},
        **(choice or {}),
    }
    return {"choices": [first], **body}


def kind(body):
    outcome = ADAPTER.parse(response(200, body))
    return outcome.kind if isinstance(outcome, Failure) else None


def test_a_reply_carries_text_model_usage_and_the_vendors_word():
    """Everything but the numbers, which have a test of their own."""
    body = answer(finish="eos", model="m-1", usage={"prompt_tokens": 61, "completion_tokens": 7})
    assert ADAPTER.parse(response(200, body)) == Reply(
        text='{"category":"bug"}',
        finish_reason="eos",
        status=200,
        model="m-1",
        prompt_tokens=61,
        completion_tokens=7,
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer(), None),
        (answer(finish="end_turn"), None),
        (answer(finish="STOP"), None),
        (answer(finish="eos_token"), None),
        (answer(finish=""), None),  # some leave the word empty
        (answer(message={"tool_calls": None, "function_call": None}), None),
        (answer(message={"tool_calls": []}), None),
        (answer(message={"function_call": {"name": "", "arguments": ""}}), None),
        (answer(message={"reasoning": "billing?", "reasoning_content": "billing?"}), None),
        (answer([{"type": "thinking", "thinking": []}, {"type": "text", "text": "{}"}]), None),
        (answer(message={"refusal": ""}), None),
        (answer(error=None, choice={"error": None}), None),
        (b"  \n\n " + json.dumps(answer()).encode(), None),
        # Truncated wins over everything, also where the text parses.
        (answer(finish="length"), Kind.TRUNCATED),
        (answer("", finish="length"), Kind.TRUNCATED),
        (answer(finish="model_length"), Kind.TRUNCATED),
        (answer(finish="MAX_TOKENS"), Kind.TRUNCATED),
        (answer(finish="model_context_window_exceeded"), Kind.TRUNCATED),
        ({"choices": [{"finish_reason": "length"}]}, Kind.TRUNCATED),
        (answer(None, finish="length", message={"refusal": "I can"}), Kind.TRUNCATED),
        (answer(finish="sensitive"), Kind.FILTERED),
        ({"choices": [{"finish_reason": "content_filter", "message": None}]}, Kind.FILTERED),
        (answer(finish="content_filter"), Kind.FILTERED),
        (answer(None, finish="content_filter", message={"refusal": "no"}), Kind.FILTERED),
        (answer(finish="error"), Kind.TRANSIENT),
        (answer(finish="insufficient_system_resource"), Kind.TRANSIENT),
        (answer(finish="network_error"), Kind.TRANSIENT),
        (answer(finish="abort"), Kind.TRANSIENT),
        (answer(None, message={"refusal": "I cannot."}), Kind.REFUSAL),
        (answer([{"type": "refusal", "refusal": "I cannot."}]), Kind.REFUSAL),
        (answer(message={"refusal": "I cannot."}), Kind.REFUSAL),
        # No positive stop, no acceptance.
        (answer(finish=None), Kind.INVALID),
        (answer(finish="tool_calls"), Kind.INVALID),
        (answer(finish="weather"), Kind.INVALID),
        (answer("", finish=""), Kind.INVALID),
        (
            answer([{"type": "thinking", "text": "{}"}, {"type": "reasoning", "text": "{}"}]),
            Kind.INVALID,
        ),
        (
            answer([{"type": "thinking", "thinking": [{"type": "text", "text": "{}"}]}]),
            Kind.INVALID,
        ),
        (answer(finish=7), Kind.INVALID),
        (answer(""), Kind.INVALID),
        (answer(" \n"), Kind.INVALID),
        (answer(None, message={"reasoning_content": '{"category":"bug"}'}), Kind.INVALID),
        (answer({"text": "{}"}), Kind.INVALID),
        ({"choices": []}, Kind.INVALID),
        ({"choices": None}, Kind.INVALID),
        ({"choices": [7]}, Kind.INVALID),
        ({"choices": {"0": answer()["choices"][0]}}, Kind.INVALID),
        ({"choices": "no", "message": {"role": "assistant", "content": "{}"}}, Kind.INVALID),
        ({"choices": [{"finish_reason": "stop", "message": [7]}]}, Kind.INVALID),
        ({"choices": [{"finish_reason": "stop"}]}, Kind.INVALID),
        ({}, Kind.INVALID),
        ([], Kind.INVALID),
        (None, Kind.INVALID),
        (b"<html>It works!</html>", Kind.INVALID),
        (b'{"choices": "\xff"}', Kind.INVALID),
        # An error is an error under any status, and its number is the status that counts.
        (answer(error={"code": 502, "message": "Upstream"}), Kind.TRANSIENT),
        (answer(choice={"error": {"code": 429, "message": "Slow down"}}), Kind.RATE_LIMIT),
        ({"error": {"code": "429", "message": "Slow down"}}, Kind.RATE_LIMIT),
        ({"error": {"code": "content_filter", "status": 400}}, Kind.FILTERED),
        ({"error": {"message": "No.", "code": "insufficient_quota"}}, Kind.QUOTA),
        ({"error": "It broke."}, Kind.UNKNOWN),
        ({"object": "error", "message": "Slow down", "code": 429}, Kind.RATE_LIMIT),
        ({"object": "error", "message": "Slow", "raw_status_code": 429}, Kind.RATE_LIMIT),
        ({"code": "insufficient_quota", "error": "No."}, Kind.QUOTA),
        ({"statusCode": 401, "message": "Unauthorized."}, Kind.CREDENTIAL),
        ({"choices": None, "error": {"code": 503, "message": "No instance"}}, Kind.TRANSIENT),
        (b"\n\n" + json.dumps({"error": {"code": 503}}).encode(), Kind.TRANSIENT),
    ],
)
def test_a_200_is_read_in_a_fixed_order(body, expected):
    """Error, finish reason, refusal, text, documented end; None is a reply."""
    assert kind(body) is expected


def called(*calls, finish="tool_calls", content=None, **message):
    """An answer with calls of tools, each (name, arguments)."""
    listed = [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(calls)
    ]
    return answer(content, finish, message={"tool_calls": listed, **message})


BUG = '{"category":"bug"}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (called(("answer", BUG)), BUG),
        (called(("answer", BUG), finish="stop"), BUG),
        (called(("answer", BUG), finish="function_call"), BUG),
        (called(("answer", BUG), content=""), BUG),
        (called(("answer", BUG), content="I will call the tool."), BUG),
        (called(("weather", "{}"), ("answer", BUG), ("answer", "{}")), BUG),
        (answer(None, message={"function_call": {"name": "answer", "arguments": BUG}}), BUG),
        # Our tool is never the way round a bad end.
        (called(("answer", BUG), finish="length"), Kind.TRUNCATED),
        (called(("answer", BUG), finish="content_filter"), Kind.FILTERED),
        (called(("answer", BUG), refusal="I cannot."), Kind.REFUSAL),
        (called(("answer", BUG), finish=None), Kind.INVALID),
        (called(("answer", BUG), finish="weather"), Kind.INVALID),
        (called(("answer", "")), Kind.INVALID),
        (called(("answer", None)), Kind.INVALID),
        # Nobody offered these.
        (called(("weather", BUG)), Kind.INVALID),
        (called(("weather", BUG), finish="stop", content=BUG), Kind.INVALID),
        (called(("Answer", BUG)), Kind.INVALID),
        (called((7, BUG)), Kind.INVALID),
        (answer(None, "tool_calls", message={"tool_calls": [7, {"function": 7}]}), Kind.INVALID),
        (answer(None, "tool_calls", message={"tool_calls": {"0": 7}}), Kind.INVALID),
    ],
)
def test_the_answer_is_what_our_tool_was_called_with(body, expected):
    """The first call of ours; calls of other tools alone are no answer."""
    outcome = ADAPTER.parse(response(200, body))
    assert expected == (outcome.text if isinstance(outcome, Reply) else outcome.kind)


def test_a_call_of_a_tool_that_nobody_offered_is_named_so():
    """In our words: a name that a model invents can be anything."""
    failure = ADAPTER.parse(response(200, called((CANARY, "{}"))))
    assert failure.detail == (
        "the model called a tool that it was not offered, finish reason tool_calls"
    )


@pytest.mark.parametrize(
    "arguments", ['{"p": 0.10000000000000000001}', '{"a": 1, "a": 2}', "{ }", '[1e400, "é"]']
)
def test_arguments_that_come_as_an_object_are_taken_as_they_were_written(arguments):
    """Ollama's /v1 and others send JSON where OpenAI sends JSON in a string."""
    body = json.dumps(called(("weather", {}), ("answer", "HERE")), ensure_ascii=False)
    raw = body.replace('"HERE"', arguments).encode()
    assert ADAPTER.parse(response(200, raw)).text == arguments


def test_the_tool_that_counts_can_have_another_name():
    """Whoever builds requests with it reads replies with it."""
    other = replace(ADAPTER, tool="final_result")
    assert other.parse(response(200, called(("final_result", BUG)))).text == BUG
    assert other.parse(response(200, called(("answer", BUG)))).kind is Kind.INVALID


def test_the_log_probabilities_are_those_of_the_answer():
    """Not of the thoughts that were taken out of it; see the tests of their shapes."""
    tokens = [{"token": t, "logprob": -0.5} for t in ("bug?", "</think>", "{", "}")]
    body = answer("{}", choice={"logprobs": {"content": tokens}})
    assert [token.token for token in ADAPTER.parse(response(200, body)).logprobs] == [b"{", b"}"]
    older = {"tokens": ["{", "}"], "token_logprobs": [-1, -2], "top_logprobs": None}
    body = answer("{}", choice={"logprobs": older})
    assert [token.logprob for token in ADAPTER.parse(response(200, body)).logprobs] == [-1, -2]


def test_waits_of_a_success_are_not_waits_of_the_error_inside():
    """A `retry-after` on a 200 is about something else."""
    body = {"error": {"code": 429, "message": "Try again in 3s"}}
    outcome = ADAPTER.parse(response(200, body, headers={"retry-after": "99"}))
    assert (outcome.status, outcome.wait_s) == (429, 3)


def test_an_answer_that_does_not_count_was_paid_for():
    """Budget and price need the usage of failures as well."""
    usage = {"prompt_tokens": 61, "completion_tokens": 64}
    failure = ADAPTER.parse(response(200, answer(finish="length", usage=usage)))
    assert (failure.prompt_tokens, failure.completion_tokens) == (61, 64)


@pytest.mark.parametrize(
    ("usage", "completion_tokens"),
    [
        ({"prompt_tokens": 61, "completion_tokens": 7, "total_tokens": 68}, 7),
        ({"prompt_tokens": 61, "completion_tokens": 7, "total_tokens": 168}, 107),
        ({"prompt_tokens": 61, "completion_tokens": 7, "total_tokens": 0}, 7),
        ({"completion_tokens": 7, "total_tokens": 168}, 7),
    ],
)
def test_thinking_that_is_counted_in_the_total_alone_was_written_too(usage, completion_tokens):
    """xAI and Gemini leave it out of the completion, and bill it."""
    reply = ADAPTER.parse(response(200, answer(usage=usage)))
    assert reply.completion_tokens == completion_tokens


@pytest.mark.parametrize(
    "usage", [None, 7, [], {"prompt_tokens": -1, "completion_tokens": True}, {"prompt_tokens": "9"}]
)
def test_usage_that_is_no_count_is_no_usage(usage):
    """Nobody is billed by a string."""
    reply = ADAPTER.parse(response(200, answer(usage=usage)))
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)


wrong = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    wrong,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "error",
                    "message",
                    "content",
                    "finish_reason",
                    "logprobs",
                    "refusal",
                    "usage",
                    "token",
                    "bytes",
                    "logprob",
                    "top_logprobs",
                    "code",
                    "type",
                    "text",
                    "detail",
                    "loc",
                    "object",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "tokens",
                    "token_logprobs",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(status=st.sampled_from([200, 400, 403, 404, 429, 500]), body=values | st.binary(max_size=40))
def test_no_body_is_an_exception(status, body):
    """Whatever a server sends is a reply or a failure."""
    assert isinstance(ADAPTER.parse(response(status, body)), Reply | Failure)


@given(part=values, key=st.sampled_from(["finish_reason", "message", "logprobs", "error"]))
def test_no_choice_is_an_exception(part, key):
    """The same one level deeper, where everything else is in order."""
    assert isinstance(ADAPTER.parse(response(200, answer(choice={key: part}))), Reply | Failure)


@pytest.mark.parametrize(
    "body",
    [
        answer(CANARY, finish=CANARY),
        answer(None, message={"refusal": CANARY}),
        answer(CANARY, finish="length"),
        answer(error={"message": CANARY, "code": CANARY}),
        answer(choice={"error": CANARY}),
        called((CANARY, CANARY), content=CANARY),
        called(("answer", CANARY), finish="length"),
        {"object": "error", "message": CANARY, "code": CANARY, "detail": CANARY},
        CANARY,
    ],
)
def test_failures_never_hold_what_the_model_said(body):
    """Neither answers nor refusals nor unknown finish reasons reach the trail."""
    assert "4111" not in repr(ADAPTER.parse(response(200, body)))
