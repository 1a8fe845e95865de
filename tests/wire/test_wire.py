"""The wire corpus through the adapters: every exchange ends as its label says.

Recorded and written ones are tests of their own: a written exchange shows that the code does what
we think a provider does, and not that the provider does it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest
from corpus import (
    EXCHANGES,
    FOLDER,
    NAMED,
    Exchange,
    adapter_for,
    cases,
    errors,
    replay,
    why_not_read,
)
from outcomes import KINDS, RETRYABLE

from weighbridge.capability import Feature
from weighbridge.decision import FailureKind
from weighbridge.providers.failures import classify
from weighbridge.providers.protocol import Failure, Reply

needs_corpus = pytest.mark.skipif(
    not (NAMED or FOLDER.is_dir()),
    reason=f"no wire corpus at {FOLDER}: WEIGHBRIDGE_WIRE_DIR names another",
)


@pytest.mark.parametrize("exchange", cases("recorded"))
def test_a_recorded_exchange_ends_as_it_did(exchange: Exchange) -> None:
    """What providers really sent."""
    check(exchange)


@pytest.mark.parametrize("exchange", cases("synthetic"))
def test_a_synthetic_exchange_ends_as_documented(exchange: Exchange) -> None:
    """What providers are said to send, where no recording shows it."""
    check(exchange)


@pytest.mark.parametrize("exchange", cases("own"))
def test_an_exchange_of_our_own_ends_as_documented(exchange: Exchange) -> None:
    """These run everywhere, with or without a corpus."""
    check(exchange)


@pytest.mark.parametrize("exchange", [*errors("recorded"), *errors("synthetic"), *errors("own")])
def test_an_error_is_understood_without_an_adapter(exchange: Exchange) -> None:
    """One classifier for all is not told who speaks; it also reads hosts that no adapter reads."""
    check_failure(classify(replay(exchange)), exchange)


def test_nothing_is_left_out_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """Only streams, hosts without an adapter, and tools where none is offered; each by name."""
    left_out = {name: why for name, e in EXCHANGES.items() if (why := why_not_read(e))}
    parts = Counter(name.partition("/")[0] for name in EXCHANGES.keys() - left_out.keys())
    with capsys.disabled():
        lines = [f"  {name}: {why}\n" for name, why in sorted(left_out.items())]
        sys.stdout.write(f"\nwire exchanges read: {dict(parts)}; left out: {len(lines)}\n")
        sys.stdout.writelines(lines)
    for name, why in left_out.items():
        exchange = EXCHANGES[name]
        is_tool = exchange["adapter"] == "ollama" and exchange["expected"].get("tool_calls")
        assert exchange["stream"] or exchange["adapter"] is None or is_tool, (name, why)


@needs_corpus
def test_the_corpus_has_exchanges_to_read() -> None:
    """A folder that is not there, or of another form, would pass every test above."""
    assert cases("recorded") or cases("synthetic")


def test_every_outcome_is_known() -> None:
    """A new label is a decision to take, and no default."""
    assert {exchange["expected"]["outcome"] for exchange in EXCHANGES.values()} <= KINDS.keys()


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "refusal"},
        {"text": "something else"},
        {"finish_reason": "length"},
        {"logprob_tokens": 4},
    ],
)
def test_the_comparison_finds_what_differs(change: dict[str, object]) -> None:
    """A check that passes everything would be none."""
    exchange = EXCHANGES["own/openai-answer-logprobs"]
    check(exchange)
    with pytest.raises(AssertionError):
        check({**exchange, "expected": {**exchange["expected"], **change}})


@pytest.mark.parametrize(
    "change",
    [{"outcome": "quota"}, {"retry_after_s": 12}, {"retryable": False}, {"error": {"status": 502}}],
)
def test_the_comparison_finds_what_differs_in_a_failure(change: dict[str, object]) -> None:
    """The pair of the above."""
    exchange = EXCHANGES["own/openrouter-200-error"]
    check(exchange)
    with pytest.raises(AssertionError):
        check({**exchange, "expected": {**exchange["expected"], **change}})


def check(exchange: Exchange) -> None:
    """Compare what an adapter makes of an exchange with what is expected of it."""
    result = adapter_for(exchange).parse(replay(exchange))
    if isinstance(result, Failure):
        check_failure(result, exchange)
    else:
        check_reply(result, exchange)


def check_reply(reply: Reply, exchange: Exchange) -> None:
    """A reply: outcome, text or arguments, finish reason, number of log-probabilities."""
    expected = exchange["expected"]
    assert expected["outcome"] == "success", "a reply was read"
    assert "refusal" not in expected
    if calls := expected.get("tool_calls"):
        assert json.loads(reply.text) == calls[0]["arguments"]
    else:
        assert reply.text == expected["text"]
    assert reply.finish_reason == expected["finish_reason"]
    assert reply.status == exchange["response"]["status"]
    if (num_tokens := expected.get("logprob_tokens")) is not None:
        assert reply.logprobs is not None
        assert len(reply.logprobs) == num_tokens
    else:
        assert reply.logprobs is None


def check_failure(failure: Failure, exchange: Exchange) -> None:
    """A failure: kind, what it is about, status, wait, advice, and a detail without vendor text."""
    expected, came = exchange["expected"], exchange["response"]
    kind = KINDS[expected["outcome"]]
    assert failure.kind is kind, failure.detail
    assert kind is FailureKind.REFUSAL or "refusal" not in expected
    assert failure.is_schema == (expected["outcome"] == "schema_rejected")
    assert failure.parameter is None or failure.parameter in set(Feature)
    assert failure.status == _status(exchange)
    if "retry_after_s" in expected:
        assert failure.wait_s == expected["retry_after_s"]
    elif came["status"] == 200:
        assert failure.wait_s is None, "the headers of a success are about something else"
    if "retryable" in expected:
        assert (failure.kind in RETRYABLE) == expected["retryable"]
    advice = {"true": True, "false": False}.get(came["headers"].get("x-should-retry", ""))
    assert failure.retry is (advice if came["status"] >= 300 else None)
    _check_detail(failure, exchange)


def _status(exchange: Exchange) -> int:
    """The status of the response, or the one that an error inside a success names."""
    status: int = exchange["response"]["status"]
    error = exchange["expected"].get("error", {})
    inside = [s for key in ("status", "code") if isinstance(s := error.get(key), int)]
    return next((s for s in inside if 100 <= s <= 599), status) if status < 300 else status


def _check_detail(failure: Failure, exchange: Exchange) -> None:
    """The vendor's finish reason is kept, its sentences are not."""
    expected = exchange["expected"]
    finish = expected["finish_reason"]
    if failure.kind in (FailureKind.TRUNCATED, FailureKind.FILTERED) and finish:
        assert finish in failure.detail
    for text in (expected["text"], expected.get("error", {}).get("message")):
        is_sentence = isinstance(text, str) and len(text) > 12
        assert not is_sentence or text not in failure.detail
