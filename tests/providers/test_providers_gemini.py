"""What the Gemini adapter makes of everything that comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire import response

from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.gemini import GeminiAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Failure, Reply, TokenLogprob

CANARY = "my card 4111 1111 was charged twice"
ADAPTER = GeminiAdapter(named("gemini_native"))
BUG = '{"category":"bug"}'


def answer(*parts, finish="STOP", candidate=None, **body):
    """A response with these parts, texts as they are."""
    listed = [{"text": part} if isinstance(part, str) else part for part in parts]
    first = {
        "content": {"role": "model", "parts": listed},
        "finishReason": finish,
        "index": 0,
        **(candidate or {}),
    }
    return {"candidates": [first], **body}


def call(name="answer", args=None):
    return {"functionCall": {"name": name, **({} if args is None else {"args": args})}}


def outcome(body):
    got = ADAPTER.parse(response(200, body))
    return got.kind if isinstance(got, Failure) else got.text


def test_a_reply_carries_text_model_usage_and_the_vendors_word():
    """Everything but the numbers, which have a test of their own."""
    usage = {
        "promptTokenCount": 61,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 52,
        "totalTokenCount": 120,
    }
    body = answer(BUG, usageMetadata=usage, modelVersion="gemini-3.5-flash-001")
    assert ADAPTER.parse(response(200, body)) == Reply(
        text=BUG,
        finish_reason="STOP",
        status=200,
        model="gemini-3.5-flash-001",
        prompt_tokens=61,
        completion_tokens=59,
    )


FILTERS = ["SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer(BUG), BUG),
        (answer('{"category":', '"bug"}'), BUG),
        (answer({"text": "billing?", "thought": True}, BUG), BUG),
        (answer({"text": BUG, "thoughtSignature": "abc"}), BUG),
        (answer({"text": BUG, "thought": False}), BUG),
        (answer({"executableCode": {"code": "1"}}, BUG, 7), BUG),
        (answer(BUG, promptFeedback={"safetyRatings": []}), BUG),
        (answer(BUG, error=None), BUG),
        # Truncated and filtered win over everything, also where the text parses.
        (answer(BUG, finish="MAX_TOKENS"), Kind.TRUNCATED),
        (answer(finish="MAX_TOKENS", candidate={"content": {"role": "model"}}), Kind.TRUNCATED),
        (answer(finish="MAX_TOKENS", candidate={"content": {}}), Kind.TRUNCATED),
        (answer(call(args={}), finish="MAX_TOKENS"), Kind.TRUNCATED),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, Kind.TRUNCATED),
        *[(answer(BUG, finish=word), Kind.FILTERED) for word in FILTERS],
        (answer(finish="SAFETY", candidate={"content": {}}), Kind.FILTERED),
        ({"candidates": [{"finishReason": "MODEL_ARMOR"}]}, Kind.FILTERED),
        ({"candidates": [{"finishReason": "IMAGE_SAFETY"}]}, Kind.FILTERED),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, Kind.FILTERED),
        ({"promptFeedback": {"blockReason": "WHATEVER"}, "candidates": []}, Kind.FILTERED),
        (answer(BUG, promptFeedback={"blockReason": "SAFETY"}), Kind.FILTERED),
        # No positive stop, no acceptance.
        (answer(BUG, finish=None), Kind.INVALID),
        (answer(BUG, finish="stop"), Kind.INVALID),
        (answer(BUG, finish="FINISH_REASON_UNSPECIFIED"), Kind.INVALID),
        (answer(BUG, finish="WEATHER"), Kind.INVALID),
        (answer(BUG, finish=["STOP"]), Kind.INVALID),
        (answer(finish="MALFORMED_FUNCTION_CALL"), Kind.INVALID),
        (answer(call("weather", {}), finish="UNEXPECTED_TOOL_CALL"), Kind.INVALID),
        (answer(), Kind.INVALID),
        (answer(" \n"), Kind.INVALID),
        (answer({"text": BUG, "thought": True}), Kind.INVALID),
        (answer({"text": ["a"]}), Kind.INVALID),
        (answer(candidate={"content": {}}), Kind.INVALID),
        (answer(candidate={"content": BUG}), Kind.INVALID),
        (answer(candidate={"content": {"parts": BUG}}), Kind.INVALID),
        ({"candidates": []}, Kind.INVALID),
        ({"candidates": None}, Kind.INVALID),
        ({"candidates": [7]}, Kind.INVALID),
        ({"promptFeedback": {}}, Kind.INVALID),
        ({}, Kind.INVALID),
        (None, Kind.INVALID),
        (b"<html>It works!</html>", Kind.INVALID),
        # A stream that nobody asked for is no answer, however whole it looks.
        ([answer(BUG)], Kind.INVALID),
        ([], Kind.INVALID),
        # An error is an error under any status, and its number is the status that counts.
        ({"error": {"code": 503, "status": "UNAVAILABLE"}}, Kind.TRANSIENT),
        (answer(BUG, error={"code": 429, "status": "RESOURCE_EXHAUSTED"}), Kind.RATE_LIMIT),
        ([{"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}], Kind.CREDENTIAL),
    ],
)
def test_a_200_is_read_in_a_fixed_order(body, expected):
    """Error, blocked prompt, finish reason, text, documented end."""
    assert outcome(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer(call(args={"category": "bug"})), '{"category": "bug"}'),
        (answer("I will call it.", call(args={"category": "bug"})), '{"category": "bug"}'),
        (answer(call("weather", {}), call(args={"a": 1}), call(args={"a": 2})), '{"a": 1}'),
        (answer({**call(args={"a": 1}), "thoughtSignature": "abc"}), '{"a": 1}'),
        (answer({**call(args={"a": 1}), "thought": True}, call(args={"a": 2})), '{"a": 2}'),
        # Our function is never the way round a bad end.
        (answer(call(args={"a": 1}), finish="SAFETY"), Kind.FILTERED),
        (answer(call(args={"a": 1}), finish="MALFORMED_FUNCTION_CALL"), Kind.INVALID),
        (answer(call(args={"a": 1}), finish=None), Kind.INVALID),
        (answer(call()), Kind.INVALID),
        # Nobody offered these.
        (answer(call("weather", {"a": 1})), Kind.INVALID),
        (answer(call("weather", {"a": 1}), BUG), Kind.INVALID),
        (answer(call("Answer", {"a": 1})), Kind.INVALID),
        (answer(call(7, {"a": 1})), Kind.INVALID),
        (answer({"functionCall": "answer"}), Kind.INVALID),
    ],
)
def test_the_answer_is_what_our_function_was_called_with(body, expected):
    """The first call of ours; calls of other functions alone are no answer."""
    assert outcome(body) == expected


@pytest.mark.parametrize(
    "args", ['{"p": 0.10000000000000000001}', '{"a": 1, "a": 2}', "{ }", '{"x":[1e400, "é"]}']
)
def test_arguments_are_taken_as_they_were_written(args):
    """They come as an object: read and written again, numbers would change."""
    body = json.dumps(answer("text", call("weather", {}), call(args="HERE")))
    assert outcome(body.replace('"HERE"', args).encode()) == args


def test_the_function_that_counts_can_have_another_name():
    """Whoever builds requests with it reads replies with it."""
    other = replace(ADAPTER, tool="final_result")
    got = other.parse(response(200, answer(call("final_result", {"a": 1}))))
    assert got.text == '{"a": 1}'
    assert other.parse(response(200, answer(call(args={"a": 1})))).kind is Kind.INVALID


def scored(token, logprob=-0.5):
    return {"token": token, "tokenId": 7, "logProbability": logprob}


def logprobs(result, text="{}", **candidate):
    body = answer(text, candidate={"logprobsResult": result, **candidate})
    return ADAPTER.parse(response(200, body)).logprobs


def test_tokens_have_their_texts_and_alternatives():
    """In the order of their numbers; Google tells no bytes."""
    result = {
        "chosenCandidates": [scored("{", -0.1), scored("é}", -1e-7)],
        "topCandidates": [
            {"candidates": [scored("[", -3), scored("{", -0.1), scored("<", -9999)]},
            {},
        ],
    }
    assert logprobs(result, "{é}") == (
        TokenLogprob(token=b"{", logprob=-0.1, top=((b"{", -0.1), (b"[", -3.0))),
        TokenLogprob(token="é}".encode(), logprob=-1e-7),
    )


@pytest.mark.parametrize("tops", [None, [], [{}], "no", [{}, {}, {}], [7, {"candidates": 7}]])
def test_alternatives_of_other_places_are_nobodys(tops):
    """A list of another length cannot be told apart; the chosen tokens still can."""
    result = {"chosenCandidates": [scored("{"), scored("}")], "topCandidates": tops}
    assert logprobs(result) == tuple(TokenLogprob(token=t, logprob=-0.5) for t in (b"{", b"}"))


def test_tokens_of_thoughts_are_not_tokens_of_the_answer():
    """They may stand in the same list."""
    result = {"chosenCandidates": [scored("bug?"), scored("{"), scored("}")]}
    assert [token.token for token in logprobs(result)] == [b"{", b"}"]


@pytest.mark.parametrize(
    "result",
    [None, {}, 7, {"chosenCandidates": []}, {"chosenCandidates": {}}, {"chosenCandidates": [None]},
     {"chosenCandidates": [scored("{"), {"logProbability": -1}]}],
)  # fmt: skip
def test_a_gap_in_the_tokens_is_no_list_of_tokens(result):
    """Behind a gap nothing could be aligned, and an average is no substitute."""
    assert logprobs(result, avgLogprobs=-0.25) is None


def test_waits_of_a_success_are_not_waits_of_the_error_inside():
    """A `retry-after` on a 200 is about something else; RetryInfo is about the error."""
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [retry]}}
    failure = ADAPTER.parse(response(200, body, headers={"retry-after": "99"}))
    assert (failure.status, failure.wait_s) == (429, 3.5)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"promptTokenCount": 31, "thoughtsTokenCount": 2}, (31, 2)),
        ({"promptTokenCount": 31, "totalTokenCount": 31}, (31, 0)),
        ({"promptTokenCount": 31, "candidatesTokenCount": 5}, (31, 5)),
        ({"candidatesTokenCount": 5}, (None, None)),
        ({"promptTokenCount": 31, "candidatesTokenCount": "5"}, (31, None)),
        ({"promptTokenCount": True}, (None, None)),
        ({"promptTokenCount": -1, "candidatesTokenCount": 5}, (None, None)),
        (None, (None, None)),
        ([], (None, None)),
    ],
)
def test_an_answer_that_does_not_count_was_paid_for(usage, expected):
    """Budget and price need the usage of failures as well; a zero is left out on the wire."""
    failure = ADAPTER.parse(response(200, answer(finish="MAX_TOKENS", usageMetadata=usage)))
    assert (failure.prompt_tokens, failure.completion_tokens) == expected


KEYS = [
    "candidates",
    "error",
    "content",
    "parts",
    "text",
    "thought",
    "functionCall",
    "name",
    "args",
    "finishReason",
    "promptFeedback",
    "blockReason",
    "usageMetadata",
    "promptTokenCount",
    "logprobsResult",
    "chosenCandidates",
    "topCandidates",
    "token",
    "logProbability",
    "code",
    "status",
    "details",
    "reason",
    "modelVersion",
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


@given(part=values, key=st.sampled_from(["finishReason", "content", "logprobsResult"]))
def test_no_candidate_is_an_exception(part, key):
    """The same one level deeper, where everything else is in order."""
    body = answer(BUG, candidate={key: part})
    assert isinstance(ADAPTER.parse(response(200, body)), Reply | Failure)


@pytest.mark.parametrize(
    "body",
    [
        answer(CANARY, finish=CANARY),
        answer(CANARY, finish="MAX_TOKENS", candidate={"finishMessage": CANARY}),
        answer(call(CANARY, {CANARY: CANARY})),
        answer(call(args={CANARY: CANARY}), finish="SAFETY"),
        {"promptFeedback": {"blockReason": CANARY, "blockReasonMessage": CANARY}},
        {"error": {"message": CANARY, "status": CANARY, "details": [{"reason": CANARY}]}},
        [{"error": CANARY}],
        CANARY,
    ],
)
def test_failures_never_hold_what_the_model_said(body):
    """Neither answers nor unknown reasons reach the trail."""
    failure = ADAPTER.parse(response(200, body))
    assert isinstance(failure, Failure)
    assert "4111" not in repr(failure)
