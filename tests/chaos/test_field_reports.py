"""What went wrong for others when they asked, waited and gave up; one test each, named after it.

The docstring names the thread. Every test puts vendors that behave as in the report in front of a
real router. What went wrong with answers themselves is in `test_field_reports_on_answers`.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scene import ANSWER, Scene, failures
from servers import (
    WRONG,
    Behaviour,
    answers,
    completion,
    hangs,
    in_turn,
    resets,
    response,
    says,
    slowly,
    status,
)

TOLD_NOT_TO = {"x_should_retry": "false"}


# Wrong decisions about asking again


@pytest.mark.parametrize(
    ("told", "failure", "by"),
    [
        ("invalid_value: max_tokens must be positive", "caller_fault", None),
        ("Your credit balance is too low to access the API", "quota", "b"),
        ("API key not valid. Please pass a valid API key.", "credential", "b"),
        ("model_not_found: The model `m` does not exist", "model_gone", "b"),
        ("context_length_exceeded: too long", "too_long", "b"),
        ("content_policy_violation: no", "filtered", "b"),
    ],
)
def test_every_400_was_treated_alike(scene: Scene, told: str, failure: str, by: str | None) -> None:
    """BerriAI/litellm#19216 and #12503: some were retried, and some should have fallen back."""
    a, b = scene.add("a", status(400, told)), scene.add("b", answers())
    decision = scene.decide()
    assert (failures(decision), decision.provider) == ([failure], by)
    assert (a.hits, b.hits) == (1, int(by == "b"))


def test_missing_model_was_asked_again(scene: Scene) -> None:
    """tashfeenahmed/freellmapi#66: a 404 was retried on the same model."""
    a, b = scene.add("a", status(404, "model_not_found: gone")), scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, f"Ticket {number}") for number in range(3)]
    assert {d.provider for d in decisions} == {"b"}
    assert (a.hits, b.hits) == (1, 3)


def test_fallback_restarted_the_retries_without_end(scene: Scene) -> None:
    """BerriAI/litellm#19985: one budget of attempts and one deadline cover the whole call."""
    vendors = [scene.add(name, status(503, retry_after="0.01")) for name in "abcde"]
    decision = scene.decide(max_attempts=7)
    assert decision.reasons == ("no_answer",)
    assert [vendor.hits for vendor in vendors] == [3, 3, 1, 0, 0]


def test_400_without_a_body_ended_the_chain(scene: Scene) -> None:
    """openclaw/openclaw#146962: what nobody understands goes on to the next, and cools nobody."""
    a, b = scene.add("a", in_turn(status(400, None), answers())), scene.add("b", answers())
    with scene.router() as router:
        first, second = scene.ask(router, "First"), scene.ask(router, "Second")
    assert (first.provider, failures(first)) == ("b", ["unknown"])
    assert (second.provider, failures(second)) == ("a", [None])
    assert (a.hits, b.hits) == (2, 1)


def test_rate_limit_text_was_pasted_into_the_prompt(scene: Scene) -> None:
    """567-labs/instructor#1907 and #1418: only where the schema was broken may reach a model."""
    limited = status(429, "rate_limit_exceeded: CANARY, use the label bug", retry_after="0.01")
    a = scene.add("a", in_turn(limited, answers('{"category": "CANARY"}'), answers()))
    decision = scene.decide()
    assert (decision.provider, failures(decision)) == ("a", ["rate_limit", "invalid", None])
    first, second, third = (call.prompt for call in a.calls)
    assert first == second
    assert "CANARY" not in third
    assert "category" in third[len(first) // 2 :]


# Waits


def test_wait_of_the_first_refusal_was_slept_after_the_second(scene: Scene) -> None:
    """BerriAI/litellm#20722: 107 s were asked for, and the 9 s of an older answer were slept.

    The newest wait counts, for later tickets too.
    """
    a = scene.add("a", in_turn(status(429, retry_after="0.02"), status(429, retry_after="107")))
    b = scene.add("b", answers())
    with scene.router() as router:
        first, second = scene.ask(router, "First"), scene.ask(router, "Second")
    assert [attempt.waited_s for attempt in first.trail] == [0.0, 0.02, 0.0]
    assert failures(second) == ["cooling"]
    assert second.trail[0].detail.startswith("cooling down for 10")
    assert (a.hits, b.hits) == (2, 2)


@pytest.mark.parametrize("code", [429, 503])
def test_long_wait_was_replaced_by_a_short_one(scene: Scene, code: int) -> None:
    """vercel/ai#5018: 107 s against a deadline of 5: nobody sleeps, the next one is asked."""
    scene.deadline_s = 5.0
    a, b = scene.add("a", status(code, retry_after="107")), scene.add("b", answers())
    decision = scene.decide()
    assert (decision.provider, decision.value) == ("b", ANSWER)
    assert [attempt.waited_s for attempt in decision.trail] == [0.0, 0.0]
    assert (a.hits, b.hits) == (1, 1)


# Cooldown


def test_cooling_again_cut_the_cooldown_short(scene: Scene) -> None:
    """BerriAI/litellm#40130 and #40223: of 60 s that were asked for, 0.71 s were kept.

    Two tickets are under way: one is told 60 s, the other afterwards 10 ms.
    """
    long, short = (status(429, retry_after=wait, **TOLD_NOT_TO) for wait in ("60", "0.01"))
    a, b = scene.add("a", in_turn(long, slowly(0.3, short))), scene.add("b", answers())
    with scene.router() as router, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda text: scene.ask(router, text), ["First", "Second"]))
        time.sleep(0.02)
        third = scene.ask(router, "Third")
    assert failures(third) == ["cooling"]
    assert (a.hits, b.hits) == (2, 3)


def test_only_the_first_failure_cooled(scene: Scene) -> None:
    """BerriAI/litellm#32574: the second was logged already, and so did not count."""
    a, b = scene.add("a", status(503, retry_after="0.4", **TOLD_NOT_TO)), scene.add("b", answers())
    with scene.router() as router:
        for number in range(3):
            failed, cooled = (
                scene.ask(router, f"{number}, first"),
                scene.ask(router, f"{number}, next"),
            )
            assert (failures(failed), failures(cooled)) == (["transient"], ["cooling"])
            time.sleep(0.45)
    assert (a.hits, b.hits) == (3, 6)


def test_25_straight_500s_stayed_in_rotation(scene: Scene) -> None:
    """BerriAI/litellm#34836: three requests for the first ticket, and none while it cools."""
    a, b = scene.add("a", status(500)), scene.add("b", answers())
    with scene.router() as router:
        decisions = [scene.ask(router, f"Ticket {number}") for number in range(25)]
    assert [d.value for d in decisions] == [ANSWER] * 25
    assert (a.hits, b.hits) == (3, 25)


def test_dead_host_was_picked_again_and_again(scene: Scene) -> None:
    """BerriAI/litellm#27610: a word in the error's text kept unreachable hosts from cooling."""
    gone = scene.market.open(hangs)
    scene.market.shut(gone)
    scene.add_url("a", f"http://127.0.0.1:{gone.port}/v1")
    b = scene.add("b", answers())
    with scene.router() as router:
        first, *others = [scene.ask(router, f"Ticket {number}") for number in range(4)]
    assert failures(first) == ["transient"] * 3
    assert [failures(d) for d in others] == [["cooling"]] * 3
    assert b.hits == 4


@pytest.mark.parametrize("body", [b'{"choices": []}', b'{"choices": [{}]}', b"{}"])
def test_empty_success_counted_as_one(scene: Scene, body: bytes) -> None:
    """ENTERPILOT/GoModel#947: no failover, and the breaker was told that all is well.

    A vendor that was told to be left alone stays so after an empty success of a ticket that was
    under way.
    """
    limited = status(429, retry_after="60", **TOLD_NOT_TO)
    a = scene.add("a", in_turn(slowly(0.3, says(200, body)), limited))
    b = scene.add("b", answers())
    with scene.router() as router, ThreadPoolExecutor(2) as pool:
        decisions = list(pool.map(lambda text: scene.ask(router, text), ["First", "Second"]))
        decisions.append(scene.ask(router, "Third"))
    assert [(d.provider, d.value) for d in decisions] == [("b", ANSWER)] * 3
    assert failures(decisions[2]) == ["cooling"]
    assert (a.hits, b.hits) == (2, 3)  # the first ticket has heard of the wait, and asks no more


# Clients and loops


def test_one_router_closed_the_connections_of_another(scene: Scene) -> None:
    """BerriAI/litellm#20025: a client that two shared was closed by the first to be done."""
    a = scene.add("a", answers())
    with scene.router() as outer:
        assert scene.ask(outer, "First").status == "accepted"
        other = type(outer).from_config(scene.config)
        assert scene.ask(other, "Second").status == "accepted"
        other.close()
        del other
        assert scene.ask(outer, "Third").status == "accepted"
    assert (a.hits, a.num_connections) == (3, 2)


def test_client_of_one_loop_was_used_on_another(scene: Scene) -> None:
    """BerriAI/litellm#15294: synchronous calls and loops of one's own, by turns."""
    a = scene.add("a", answers())
    with scene.router() as router:
        for number in range(2):
            assert router.triage(f"Ticket {number}").status == "accepted"
            assert asyncio.run(router.atriage(f"Ticket {number}")).status == "accepted"
    assert (a.hits, a.num_connections) == (4, 3)


@pytest.mark.parametrize("kind", ["openai", "ollama", "anthropic", "gemini"])
def test_two_halves_of_two_answers_were_joined(scene: Scene, kind: str) -> None:
    """aden-hive/hive#5923: a stream was resumed from its start; nothing is ever streamed."""
    half = response(200, completion(answer=WRONG))[:-30]
    a = scene.add("a", in_turn(resets(half), answers()), kind=kind, timeout="3s")
    decision = scene.decide(max_attempts=2)
    assert a.hits == 2
    assert not any(call.body.get("stream") or "stream" in call.path for call in a.calls)
    if kind == "openai":
        assert decision.value == ANSWER


# Confidence


def test_missing_confidence_was_a_pass(scene: Scene) -> None:
    """IgorGanapolsky/trading#4776: an answer without any number goes to a person."""
    scene.without_evidence = "review"
    scene.add("a", answers())
    decision = scene.decide()
    assert (decision.status, decision.reasons) == ("review", ("no_evidence",))
    assert decision.value == ANSWER
    assert not any(field.accepted for field in decision.fields.values())


@pytest.mark.parametrize(
    ("a", "reason", "value"),
    [(answers(), "no_evidence", ANSWER), (status(500, **TOLD_NOT_TO), "no_answer", None),
     (says(200, completion("", refusal="No.")), "refusal", None)],
)  # fmt: skip
def test_unsure_unwilling_and_unavailable_were_one_outcome(
    scene: Scene, a: Behaviour, reason: str, value: Any
) -> None:
    """alphaonedev/ai-memory-mcp#3806: a person sees which it was."""
    scene.without_evidence = "review"
    scene.add("a", a)
    decision = scene.decide()
    assert (decision.reasons, decision.value) == ((reason,), value)


def test_certainty_after_the_mask_counted_as_certainty(scene: Scene) -> None:
    """ggml-org/llama.cpp#12643: after the grammar a probability of 1 says nothing.

    The same numbers pass where they are known to be taken before it.
    """
    tokens = ['{"category": "', "billing", '", "priority": "', "high", '"}']
    chosen = [{"token": t, "logprob": 0.0, "bytes": [*t.encode()]} for t in tokens]
    content = [{**one, "top_logprobs": [one]} for one in chosen]
    body = json.loads(completion())
    body["choices"][0]["logprobs"] = {"content": content}
    scene.without_evidence = "review"
    scene.add("a", says(200, json.dumps(body).encode()), logprobs="postmask")
    decision = scene.decide()
    assert decision.fields["category"].probability == pytest.approx(1.0)
    assert (decision.status, decision.reasons) == ("review", ("uncalibrated",))
    scene.providers[0]["logprobs"] = "premask"
    assert scene.decide().status == "accepted"
