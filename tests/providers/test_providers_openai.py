"""The OpenAI adapter: what it sends, and what it makes of everything that comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import exchanges, replay, response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.protocol import Failure, Reply, RequestOptions, TokenLogprob
from weighbridge.schemas.plan import plan_openai
from weighbridge.schemas.task import Prompt

CANARY = "my card 4111 1111 was charged twice"
ADAPTER = OpenAIAdapter()
PLAN = plan_openai(
    {"type": "object", "properties": {"category": {"enum": ["bug", "café"]}}, "required": []},
    name="triage v1: café " + "x" * 80,
)
PROMPT = Prompt("Sort tickets.", "Zu teuer! 🙁")
OPTIONS = RequestOptions(model="gpt-4.1-mini", max_output_tokens=64)

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


def sent(options=OPTIONS):
    return json.loads(ADAPTER.build(PLAN, PROMPT, options).body)


def test_a_request_asks_for_the_schema_strictly_and_for_logprobs():
    """The whole request, so that a change of the wire format is seen."""
    request = ADAPTER.build(PLAN, PROMPT, OPTIONS)
    assert (request.method, request.path) == ("POST", "/chat/completions")
    assert request.headers == {"content-type": "application/json", "accept": "application/json"}
    assert json.loads(request.body) == {
        "model": "gpt-4.1-mini",
        "messages": [
            {"role": "system", "content": "Sort tickets."},
            {"role": "user", "content": "Zu teuer! 🙁"},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": ("triage_v1__caf__" + "x" * 80)[:64],
                "strict": True,
                "schema": PLAN.wire,
            },
        },
        "max_completion_tokens": 64,
        "logprobs": True,
        "top_logprobs": 20,
        "seed": 0,
        "temperature": 0.0,
    }


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (replace(OPTIONS, seed=None), {"seed"}),
        (replace(OPTIONS, temperature=None), {"temperature"}),
        (replace(OPTIONS, logprobs=False), {"logprobs", "top_logprobs"}),
        (replace(OPTIONS, without=frozenset({"seed", "temperature"})), {"seed", "temperature"}),
        (replace(OPTIONS, without=frozenset({"logprobs"})), {"logprobs", "top_logprobs"}),
        (replace(OPTIONS, without=frozenset({"top_logprobs"})), {"logprobs", "top_logprobs"}),
        (
            replace(OPTIONS, without=frozenset({"max_completion_tokens", "max_tokens"})),
            {"max_completion_tokens"},
        ),
    ],
)
def test_what_is_unset_or_refused_is_left_out(options, gone):
    """And nothing else: no null, no default in its place."""
    assert sent(options) == {key: value for key, value in sent().items() if key not in gone}


def test_old_servers_get_the_old_name_of_the_token_limit():
    """Ollama's /v1 and Mistral know `max_tokens` alone."""
    body = sent(replace(OPTIONS, without=frozenset({"max_completion_tokens"})))
    assert body["max_tokens"] == 64
    assert "max_completion_tokens" not in body


def test_a_provider_without_schemas_reads_the_schema():
    """The schema is a semantic parameter: it changes its place and is never dropped."""
    body = sent(replace(OPTIONS, without=frozenset({"response_format"})))
    system = body["messages"][0]["content"]
    assert "response_format" not in body
    assert system.startswith("Sort tickets.\n\n")
    assert json.loads(system[system.index("{") :]) == PLAN.wire


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
        (answer([{"type": "thinking", "thinking": []}, {"type": "text", "text": "{}"}]), None),
        (answer(message={"refusal": ""}), None),
        (answer(error=None, choice={"error": None}), None),
        (b"  \n\n " + json.dumps(answer()).encode(), None),
        # Truncated wins over everything, also where the text parses.
        (answer(finish="length"), Kind.TRUNCATED),
        (answer("", finish="length"), Kind.TRUNCATED),
        (answer(finish="model_length"), Kind.TRUNCATED),
        (answer(finish="content_filter"), Kind.FILTERED),
        (answer(None, finish="content_filter", message={"refusal": "no"}), Kind.FILTERED),
        (answer(finish="error"), Kind.TRANSIENT),
        (answer(finish="insufficient_system_resource"), Kind.TRANSIENT),
        (answer(None, message={"refusal": "I cannot."}), Kind.REFUSAL),
        (answer([{"type": "refusal", "refusal": "I cannot."}]), Kind.REFUSAL),
        # No positive stop, no acceptance.
        (answer(finish=None), Kind.INVALID),
        (answer(finish=""), Kind.INVALID),
        (answer(finish="tool_calls"), Kind.INVALID),
        (answer(finish="weather"), Kind.INVALID),
        (answer(finish=7), Kind.INVALID),
        (answer(""), Kind.INVALID),
        (answer(" \n"), Kind.INVALID),
        (answer(None, message={"reasoning_content": '{"category":"bug"}'}), Kind.INVALID),
        (answer({"text": "{}"}), Kind.INVALID),
        ({"choices": []}, Kind.INVALID),
        ({"choices": None}, Kind.INVALID),
        ({"choices": [7]}, Kind.INVALID),
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
        ({"error": "Unexpected endpoint or method. (GET /v2)"}, Kind.UNKNOWN),
        ({"object": "error", "message": "Slow down", "code": 429}, Kind.RATE_LIMIT),
    ],
)
def test_a_200_is_read_in_a_fixed_order(body, expected):
    """Error, finish reason, refusal, text, stop: the order of routing.md; None is a reply."""
    assert kind(body) is expected


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
    "usage", [None, 7, [], {"prompt_tokens": -1, "completion_tokens": True}, {"prompt_tokens": "9"}]
)
def test_usage_that_is_no_count_is_no_usage(usage):
    """Nobody is billed by a string."""
    reply = ADAPTER.parse(response(200, answer(usage=usage)))
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)


def logprobs_of(entries):
    return ADAPTER.parse(response(200, answer(choice={"logprobs": {"content": entries}}))).logprobs


def test_tokens_are_bytes_and_stand_ins_are_unknown():
    """Half a character has bytes alone; -9999 is no probability; a rounding error is zero."""
    entries = [
        {"token": "\\xc3", "bytes": [195], "logprob": -0.5, "top_logprobs": []},
        {"token": "é", "bytes": None, "logprob": 1e-6},
        {
            "token": "a",
            "logprob": -9999.0,
            "top_logprobs": [
                {"token": "a", "bytes": [97], "logprob": -9999},
                {"token": "b", "logprob": -1},
                {"logprob": -2},
            ],
        },
    ]
    assert logprobs_of(entries) == (
        TokenLogprob(token=b"\xc3", logprob=-0.5),
        TokenLogprob(token="é".encode(), logprob=0.0),
        TokenLogprob(token=b"a", logprob=None, top=((b"b", -1.0),)),
    )


@pytest.mark.parametrize("entries", [None, [], {}, "no", [None], [{"token": "a"}, {"bytes": [1]}]])
def test_a_gap_in_the_tokens_is_no_list_of_tokens(entries):
    """Behind a gap nothing could be aligned."""
    assert logprobs_of(entries) is None


@pytest.mark.parametrize("logprob", [None, "0", 3.0, True, {}, float("nan"), float("-inf")])
def test_what_is_no_logprob_is_unknown(logprob):
    """Unknown, neither 0 nor 1."""
    [token] = logprobs_of([{"token": "a", "logprob": logprob}])
    assert token.logprob is None


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
        CANARY,
    ],
)
def test_failures_never_hold_what_the_model_said(body):
    """Neither answers nor refusals nor unknown finish reasons reach the trail."""
    assert "4111" not in repr(ADAPTER.parse(response(200, body)))
