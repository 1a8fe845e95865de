"""The chain of providers: whose turn it is, and what is remembered for the next ticket."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from stage import TASK, Clock, Script, Stage, answer, cooling, error, failures, identity_of

from weighbridge.decision import FailureKind
from weighbridge.errors import ModelMissing
from weighbridge.providers.asking import Wishes
from weighbridge.providers.http import HttpProvider
from weighbridge.providers.local import LocalProvider
from weighbridge.router.chain import Policy
from weighbridge.router.connections import Connections
from weighbridge.router.health import ProviderHealth
from weighbridge.schemas.redaction import Redactor
from weighbridge.schemas.task import LogitBias, Task

FREE_TEXT = Task.from_schema(
    {
        "type": "object",
        "properties": {"summary": {"type": "string"}},
        "required": ["summary"],
        "additionalProperties": False,
    },
    instructions="Summarise.",
)
SUMMARY = answer('{"summary": "charged twice"}')


def refuse_parameters(*names: str) -> Script:
    """A provider that refuses parameters one at a time, as they all do."""

    def respond(request: httpx.Request) -> httpx.Response:
        for name in names:
            if name in json.loads(request.content):
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                inner = {"message": message, "param": name, "code": "unsupported_parameter"}
                return httpx.Response(400, json={"error": inner})
        return answer()

    return respond


@pytest.mark.parametrize(
    ("waits_s", "asked", "slept"),
    [
        ({"a": 20.0, "b": 2.0}, "b", [2.0]),
        ({"a": 3600.0, "b": 2.0}, "b", [2.0]),
        ({"a": 2.0, "b": 20.0}, "a", [2.0]),
        ({"a": 5.0, "b": 5.0}, "a", [5.0]),
        ({"a": 2.0}, "b", []),
        ({"a": 3600.0, "b": 3600.0}, "a", []),
    ],
)
def test_where_all_are_cooling_the_first_to_be_free_is_waited_for(
    waits_s: dict[str, float], asked: str, slept: list[float]
) -> None:
    """Waits for no one else, and never blocks the last: a wait that does not fit is left out."""
    stage = Stage({"a": [answer()], "b": [answer()]})
    decision = cooling(stage, **waits_s).triage("x")
    assert (decision.provider, stage.clock.slept) == (asked, slept)
    assert len(stage.requests) == 1


def test_provider_that_cannot_take_the_task_does_not_stand_in_for_a_cooling_one() -> None:
    """The local engine lists answers; for free text it is nobody to go on to."""
    stage = Stage({"a": [SUMMARY]})
    router = cooling(stage, a=2.0)
    router._chain._providers = (*router._providers, LocalProvider())
    decision = router.ask(FREE_TEXT, "x")
    assert (decision.provider, stage.clock.slept) == ("a", [2.0])


def test_no_time_is_kept_back_for_a_provider_that_cannot_take_the_task() -> None:
    stage = Stage({"a": [SUMMARY]})
    router = stage.router(deadline_s=5.0)
    router._chain._providers = (*router._providers, LocalProvider(reserve_s=8.0))
    assert router.ask(FREE_TEXT, "x").provider == "a"


def test_provider_that_cannot_take_the_task_is_in_the_trail_at_its_place() -> None:
    stage = Stage({"a": [SUMMARY]})
    router = stage.router()
    router._chain._providers = (LocalProvider(), *router._providers)
    decision = router.ask(FREE_TEXT, "x")
    assert failures(decision) == [("local", FailureKind.CAPABILITY), ("a", None)]


def test_skipped_providers_cost_none_of_the_attempts() -> None:
    """`max_attempts` counts requests."""
    stage = Stage({"a": [answer()], "b": [error(413)], "c": [error(500)]})
    router = cooling(stage, Policy(max_attempts=3), a=20.0)
    router.triage("x")
    assert [stage.hits(name) for name in "abc"] == [0, 1, 2]


def test_provider_that_fails_when_the_budget_ends_is_left_alone_too() -> None:
    """The next ticket goes to who is up."""
    stage = Stage({"a": [error(500)], "b": [answer()]})
    router = stage.router(policy=Policy(max_attempts=1))
    assert router.triage("first").value is None
    assert failures(router.triage("second")) == [("a", FailureKind.COOLING), ("b", None)]


def test_refused_parameter_is_remembered_even_if_the_ticket_goes_on() -> None:
    """One ticket leaves out one parameter; the next does not pay for the second refusal again."""
    stage = Stage({"a": refuse_parameters("logprobs", "seed"), "b": [answer()]})
    router = stage.router()
    first, second = router.triage("first"), router.triage("second")
    assert (first.provider, second.provider) == ("b", "a")
    assert second.trail[0].dropped == ("logprobs", "seed")
    assert stage.hits("a") == 3


def refusing(message: str, param: str) -> httpx.Response:
    inner = {"message": message, "param": param, "code": None}
    return httpx.Response(400, json={"error": inner})


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("Unsupported parameter: 'seed' is not supported with this model.", "seed"),
        ("Unsupported parameter: 'logit_bias' is not supported with this model.", "logit_bias"),
        ("max_tokens must be at most 8192.", "max_tokens"),
    ],
)
def test_refusal_of_what_was_never_sent_is_no_reason_to_ask_again(message: str, param: str) -> None:
    """The request would be the same once more: the next provider is asked."""
    refused = refusing(message, param)
    stage = Stage({"a": [refused], "b": [answer()]}, wishes=Wishes(seed=None))
    decision = stage.router().triage("x")
    assert failures(decision) == [("a", FailureKind.CAPABILITY), ("b", None)]
    assert stage.hits("a") == 1
    assert param not in json.loads(stage.requests[0].content)


async def test_refusal_that_another_ticket_has_learned_meanwhile_still_helps() -> None:
    """Both were sent what is refused; the second to hear of it learns nothing new, and benefits."""
    stage = Stage({"a": [answer()], "b": [answer()]})
    router = stage.router()
    both, refuse = asyncio.Barrier(2), refuse_parameters("seed")

    async def respond(request: httpx.Request) -> httpx.Response:
        assert callable(refuse)
        if request.url.host == "b.test":
            return answer()
        if "seed" in json.loads(request.content):
            await both.wait()
        response = refuse(request)
        assert isinstance(response, httpx.Response)
        return response

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        router._connections = Connections(lambda: client)
        decisions = await asyncio.gather(router.atriage("first"), router.atriage("second"))
    assert [failures(one) for one in decisions] == [
        [("a", FailureKind.CAPABILITY), ("a", None)]
    ] * 2


def test_schema_that_is_refused_is_shown_to_the_model_instead() -> None:
    """The refusal is remembered for this schema: another one is tried in the strict mode again."""
    refused = {"message": "Invalid schema for response_format 'triage'", "param": "response_format"}
    stage = Stage({"a": [httpx.Response(400, json={"error": refused}), answer()]})
    router = stage.router()
    decision = router.triage("first")
    assert [(a.mode, a.failure) for a in decision.trail] == [
        ("native", FailureKind.CAPABILITY),
        ("tool", None),
    ]
    assert router.triage("second").trail[0].mode == "tool"
    assert router.ask(FREE_TEXT, "third").trail[0].mode == "native"


def test_schema_that_is_accepted_and_ignored_is_found_out() -> None:
    """Two answers that no enforcement would have let through: the next ticket is asked otherwise,
    and the provider, which is healthy, is not left alone."""
    stage = Stage({"a": [answer("It is about billing.")], "b": [answer()]})
    router = stage.router()
    first = router.triage("first")
    assert failures(first) == [("a", FailureKind.INVALID)] * 2 + [("b", None)]
    second = router.triage("second")
    assert [(a.provider, a.mode) for a in second.trail[:1]] == [("a", "tool")]


def test_task_that_requires_a_logit_bias_skips_who_has_none() -> None:
    """Where it is tuning it is left out and listed."""
    bias = LogitBias(by_token={1734: 5.0})
    stage = Stage({"a": [answer()]}, profile="groq")
    router = stage.router()
    tuned = router.ask(replace(TASK, logit_bias=bias), "x")
    assert "logit_bias" in tuned.trail[0].dropped
    assert tuned.provider == "a"
    needed = router.ask(replace(TASK, logit_bias=replace(bias, required=True)), "x")
    assert failures(needed) == [("a", FailureKind.CAPABILITY)]
    assert stage.hits("a") == 1


def test_ticket_that_must_stay_is_asked_of_nobody_far_away() -> None:
    """It waits for a person where no engine on this machine can answer."""
    stage = Stage({"a": [answer()]})
    decision = stage.router().triage({"body": "x", "local_only": True})
    assert failures(decision) == [("a", FailureKind.CAPABILITY)]
    assert (decision.reasons, stage.requests) == (("no_answer",), [])


def test_what_identifies_a_person_is_hidden_and_put_back_into_the_answer() -> None:
    """Also where the schema demands the very thing that was hidden."""
    task = Task.from_schema(
        {
            "type": "object",
            "properties": {"reply_to": {"type": "string", "format": "email"}},
            "required": ["reply_to"],
            "additionalProperties": False,
        },
        instructions="Extract.",
    )

    def echo(request: httpx.Request) -> httpx.Response:
        shown = json.loads(request.content)["messages"][1]["content"]
        return answer(json.dumps({"reply_to": shown.split()[-1]}))

    stage = Stage({"a": echo})
    decision = stage.router(redact=Redactor()).ask(task, "Write to al@b.example")
    assert decision.value == {"reply_to": "al@b.example"}
    assert b"al@b.example" not in stage.requests[0].content


def test_answer_does_not_end_a_cooldown_that_began_after_it_was_asked_for() -> None:
    """Of tickets under way together, one is told to wait and another is answered."""

    def answer_late(request: httpx.Request) -> httpx.Response:
        stage.clock.now += 1.0
        router._chain._around.health.cool(identity_of(router, "a"), 60.0)
        stage.clock.now += 1.0
        return answer()

    stage = Stage({"a": answer_late, "b": [answer()]})
    router = stage.router()
    assert router.triage("first").provider == "a"
    assert failures(router.triage("second")) == [("a", FailureKind.COOLING), ("b", None)]


def test_answer_ends_a_cooldown_that_was_known_when_it_was_asked_for() -> None:
    health = ProviderHealth(clock := Clock())
    health.cool("a", 60.0)
    clock.now += 1.0
    health.recovered("a", clock.now)
    assert health.left_s("a") == 0.0


def test_cooldown_is_never_cut_short_by_a_shorter_one() -> None:
    """Told 60 s and then 1 s, a provider is left alone for 60 s."""
    health = ProviderHealth(clock := Clock())
    health.cool("a", 60.0)
    clock.now += 10.0
    health.cool("a", 1.0)
    assert health.left_s("a") == 50.0
    assert health.left_s("nobody") == 0.0


def test_newest_wait_counts_and_not_the_first() -> None:
    responses = [error(503, retry_after="1"), error(503, retry_after="4"), answer()]
    stage = Stage({"a": responses})
    stage.router().triage("x")
    assert stage.clock.slept == [1.0, 4.0]


def test_provider_may_take_as_long_as_its_timeout() -> None:
    """httpx would break off each read after five seconds; only a connection must come so soon."""
    stage = Stage({"a": [answer()]})
    stage.router().triage("x")
    limits = stage.requests[0].extensions["timeout"]
    assert limits == {"connect": 5.0, "read": None, "write": None, "pool": None}


async def test_provider_that_outlasts_its_timeout_is_left_at_once() -> None:
    """The response is given up, and nobody waits for it any more."""
    ended = asyncio.Event()

    async def hang(request: httpx.Request) -> httpx.Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    stage = Stage({"a": [answer()]})
    router = stage.router()
    (provider,) = router._providers
    assert isinstance(provider, HttpProvider)
    provider.timeout_s = 0.01
    async with httpx.AsyncClient(transport=httpx.MockTransport(hang)) as client:
        router._connections = Connections(lambda: client)
        decision = await router.atriage("x")
    assert failures(decision) == [("a", FailureKind.TRANSIENT)]
    assert ended.is_set()


async def test_engine_that_cannot_run_was_asked_in_no_mode_and_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trail tells of requests; that nobody was paid is no price of 0."""
    local = LocalProvider()

    def weigh(*_: object) -> None:
        raise ModelMissing("smollm2-135m", "/nowhere")

    monkeypatch.setattr(local, "_weigh", weigh)
    router = Stage({"a": [answer()]}).router()
    router._chain._providers = (local, *router._providers)
    first, second = (await router.atriage("x")).trail
    local.close()
    assert (first.failure, first.mode, first.cost_usd) == (FailureKind.UNAVAILABLE, None, None)
    assert first.detail.startswith("the local model 'smollm2-135m' is not in /nowhere")
    assert (second.mode, second.cost_usd is None) == ("native", False)


async def test_local_engine_that_needs_longer_than_its_timeout_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own limit is not the ticket's deadline."""
    local = LocalProvider(timeout_s=0.01)
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def weigh(*_: object) -> None:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()

    monkeypatch.setattr(local, "_weigh", weigh)
    stage = Stage({"a": [answer()]})
    router = stage.router()
    router._chain._providers = (local, *router._providers)
    decision = await router.atriage("x")
    release.set()
    local.close()
    assert failures(decision) == [("local", FailureKind.TRANSIENT), ("a", None)]
