from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from profile_servers import KEY, speaking
from pydantic import SecretStr
from toy_speaker import Speaker

from weighbridge.capability import Fact, Origin, Status
from weighbridge.decision import FailureKind
from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.probe_session import BELIEVED_FOR, MAX_CALLS
from weighbridge.providers.probe_steps import STEPS
from weighbridge.providers.probing import Probed, probe
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import Failure, HttpRequest, HttpResponse
from weighbridge.providers.transport import send

NOW = datetime(2026, 11, 30, tzinfo=UTC)

YES, NO, IGNORED = Status.SUPPORTED, Status.UNSUPPORTED, Status.IGNORED
TAKEN, SOME = Status.CONDITIONAL, Status.PARTIAL

ALL_MODES = {"json_schema_strict": YES, "tool_strict": YES, "json_object": YES}
NO_LOGPROBS = {"logprobs": NO, "top_logprobs": NO}
AFTER, BEFORE = (YES, "after_mask"), (YES, "before_mask")

# A status alone, or with the value or the limit that belongs to it.
Expected = Mapping[str, Any]

HONEST: dict[str, tuple[Speaker, Expected]] = {
    "openai strict with logprobs": (
        Speaker(
            profile="openai",
            model="gpt-4.1-mini",
            thinking="refused",
            most=20,
            order="after_mask",
            bias="honoured",
            fingerprint="fp_1",
        ),
        ALL_MODES
        | {"reasoning_control": NO, "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": AFTER, "logit_bias": (YES, 100), "seed": YES}
        | {"temperature": (YES, 2)},
    ),
    "openai of late": (
        Speaker(
            profile="openai",
            model="gpt-5.6-terra",
            thinking="honoured",
            most=5,
            lists=1,
            refuses=frozenset({"temperature", "logit_bias", "max_tokens"}),
        ),
        ALL_MODES
        | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": (SOME, 1)}
        | {"logit_bias": NO, "seed": YES, "temperature": NO},
    ),
    "openai that always thinks": (
        Speaker(
            profile="openai",
            model="o3",
            thinking="honoured",
            refuses=frozenset({"temperature", "logit_bias", "logprobs", "max_tokens"}),
        ),
        ALL_MODES
        | NO_LOGPROBS
        | {"thinking_with_schema": YES, "logit_bias": NO}
        | {"seed": YES, "temperature": NO},
    ),
    "groq strict": (
        Speaker(
            profile="groq",
            model="openai/gpt-oss-20b",
            thinking="honoured",
            logprobs="refused",
            bias="refused",
        ),
        ALL_MODES
        | NO_LOGPROBS
        | {"thinking_with_schema": YES, "logit_bias": NO}
        | {"seed": YES, "temperature": (YES, 2)},
    ),
    "groq without schemas": (
        Speaker(
            profile="groq",
            model="llama-3.3-70b-versatile",
            schema="refused",
            logprobs="refused",
            bias="refused",
        ),
        ALL_MODES
        | NO_LOGPROBS
        | {"json_schema_strict": NO, "logit_bias": NO}
        | {"seed": YES, "temperature": (YES, 2)},
    ),
    "vllm": (
        Speaker(
            profile="vllm",
            thinking="honoured",
            most=20,
            order="after_mask",
            bias="honoured",
            fingerprint="vllm-0.30.1",
        ),
        ALL_MODES
        | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": AFTER, "logit_bias": YES, "seed": YES, "temperature": YES},
    ),
    "llama-server": (
        Speaker(
            profile="llama_cpp_server",
            thinking="honoured",
            bias="honoured",
            fingerprint="b11139-436f6f8",
        ),
        ALL_MODES
        | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": YES}
        | {"logprobs_vs_mask": BEFORE, "logit_bias": YES, "seed": YES, "temperature": YES},
    ),
    "ollama": (
        Speaker(profile="ollama_native", thinking="refused", most=20, fingerprint="0.34.3"),
        {"json_schema_strict": YES, "tool_strict": NO, "json_object": YES}
        | {"reasoning_control": NO, "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": BEFORE, "logit_bias": NO, "seed": YES, "temperature": YES},
    ),
    "gemini": (
        Speaker(
            profile="gemini_native",
            model="gemini-3.1-flash",
            thinking="honoured",
            logprobs="refused",
        ),
        ALL_MODES
        | NO_LOGPROBS
        | {"thinking_with_schema": YES, "logit_bias": NO}
        | {"seed": YES, "temperature": (YES, 2)},
    ),
    "anthropic of late": (
        Speaker(
            profile="anthropic",
            model="claude-sonnet-5",
            thinking="honoured",
            refuses=frozenset({"temperature"}),
        ),
        ALL_MODES
        | NO_LOGPROBS
        | {"json_object": NO, "thinking_with_schema": YES, "logit_bias": NO}
        | {"seed": NO, "temperature": NO},
    ),
    "mistral": (
        Speaker(
            profile="mistral",
            model="mistral-large-latest",
            logprobs="refused",
            bias="refused",
            refuses=frozenset({"max_completion_tokens", "seed"}),
        ),
        ALL_MODES | NO_LOGPROBS | {"logit_bias": NO, "seed": YES, "temperature": YES},
    ),
    "deepseek": (
        Speaker(
            profile="deepseek",
            model="deepseek-flash",
            schema="refused",
            tool="ignored",
            thinking="honoured",
            most=20,
        ),
        {"json_schema_strict": NO, "tool_strict": IGNORED, "json_object": YES}
        | {"logprobs": YES, "top_logprobs": (YES, 20), "logit_bias": IGNORED}
        | {"seed": TAKEN, "temperature": (TAKEN, 2)},
    ),
    "together, OpenAI's shape": (
        Speaker(profile="together", most=5),
        ALL_MODES
        | {"logprobs": YES, "top_logprobs": (YES, 5), "logprobs_vs_mask": BEFORE}
        | {"logit_bias": IGNORED, "seed": TAKEN, "temperature": YES},
    ),
    "together, older shape": (
        Speaker(profile="together", most=5, shape="lists"),
        ALL_MODES
        | {"logprobs": YES, "top_logprobs": (YES, 5), "logprobs_vs_mask": BEFORE}
        | {"logit_bias": IGNORED, "seed": TAKEN, "temperature": YES},
    ),
    "openrouter": (
        Speaker(
            profile="openrouter",
            model="meta-llama/llama-3.1-8b-instruct",
            thinking="refused",
            lists=5,
            bias="refused",
        ),
        ALL_MODES
        | {"reasoning_control": NO, "logprobs": YES, "top_logprobs": (SOME, 5)}
        | {"logprobs_vs_mask": BEFORE, "logit_bias": NO, "seed": TAKEN, "temperature": TAKEN},
    ),
    "lm studio": (
        Speaker(profile="lm_studio", json_mode="refused", most=20),
        ALL_MODES
        | {"json_object": NO, "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": BEFORE, "logit_bias": IGNORED, "seed": TAKEN}
        | {"temperature": TAKEN},
    ),
}

GENERIC = {"logit_bias": IGNORED, "seed": TAKEN, "temperature": TAKEN}

PECULIAR: dict[str, tuple[Speaker, Expected]] = {
    "reads the older name of the limit alone": (
        Speaker(profile="openai_compatible", refuses=frozenset({"max_completion_tokens"})),
        ALL_MODES
        | GENERIC
        | {"max_completion_tokens": NO, "thinking_with_schema": YES}
        | {"logprobs": YES, "top_logprobs": YES, "logprobs_vs_mask": BEFORE},
    ),
    "cannot be kept from thinking": (
        Speaker(profile="openai_compatible", must_think=True, num_thoughts=500),
        ALL_MODES
        | GENERIC
        | {"reasoning_control": SOME, "thinking_with_schema": YES}
        | {"logprobs": YES, "top_logprobs": YES, "logprobs_vs_mask": BEFORE},
    ),
    "thinks without an end": (
        Speaker(profile="openai_compatible", must_think=True, num_thoughts=10**6),
        {},
    ),
    "ignores the temperature, as its vendor says": (
        Speaker(
            profile="deepseek", model="deepseek-reasoner", schema="refused", logprobs="refused"
        ),
        ALL_MODES | NO_LOGPROBS | {"json_schema_strict": NO, "logit_bias": IGNORED, "seed": TAKEN},
    ),
    "lists seven alternatives and says so": (
        Speaker(profile="openai_compatible", most=7),
        ALL_MODES
        | GENERIC
        | {"thinking_with_schema": YES}
        | {"logprobs": YES, "top_logprobs": (YES, 7), "logprobs_vs_mask": BEFORE},
    ),
    "lists none": (
        Speaker(profile="openai_compatible", lists=0),
        ALL_MODES
        | GENERIC
        | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": IGNORED},
    ),
    "lists two, which hides what is forbidden": (
        Speaker(profile="openai_compatible", lists=2, order="after_mask"),
        ALL_MODES
        | GENERIC
        | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": (SOME, 2)},
    ),
    "refuses alternatives": (
        Speaker(profile="openai_compatible", refuses=frozenset({"top_logprobs"})),
        ALL_MODES | GENERIC | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": NO},
    ),
    "forbids logprobs and biases with a bare 403": (
        Speaker(profile="openai_compatible", forbids=frozenset({"logprobs", "logit_bias"})),
        ALL_MODES | GENERIC | NO_LOGPROBS | {"thinking_with_schema": YES, "logit_bias": NO},
    ),
}

LIARS: dict[str, tuple[Speaker, Expected]] = {
    "takes a schema and ignores it": (
        Speaker(
            profile="openai_compatible",
            schema="ignored",
            tool="ignored",
            json_mode="ignored",
            logprobs="ignored",
        ),
        dict.fromkeys(ALL_MODES, IGNORED)
        | {"logprobs": IGNORED, "top_logprobs": IGNORED, "logit_bias": IGNORED}
        | {"seed": TAKEN, "temperature": TAKEN},
    ),
    "takes logprobs and drops them": (
        Speaker(profile="openai", model="gpt-4o", thinking="refused", logprobs="ignored"),
        ALL_MODES
        | {"reasoning_control": NO, "logprobs": IGNORED, "top_logprobs": IGNORED}
        | {"logit_bias": IGNORED, "seed": YES, "temperature": (YES, 2)},
    ),
    "drops logprobs beside a schema": (
        Speaker(profile="openai_compatible", drops_with_schema=True),
        ALL_MODES
        | {"thinking_with_schema": YES, "logprobs": SOME, "top_logprobs": YES}
        | {"logit_bias": IGNORED, "seed": TAKEN, "temperature": TAKEN},
    ),
    "claims to be strict and masks nothing": (
        Speaker(profile="vllm", schema="ignored", order="after_mask", bias="honoured"),
        {"json_schema_strict": IGNORED, "tool_strict": YES, "json_object": YES}
        | {"logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logit_bias": YES, "seed": YES, "temperature": YES},
    ),
    "is vllm in name alone": (
        Speaker(profile="vllm", thinking="honoured", order="before_mask"),
        ALL_MODES
        | {"thinking_with_schema": YES, "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": BEFORE, "logit_bias": IGNORED, "seed": YES, "temperature": YES},
    ),
    "loses the schema when it must not think": (
        Speaker(profile="vllm", loses_schema=frozenset({"off"}), order="after_mask"),
        ALL_MODES
        | {"thinking_with_schema": (SOME, "not_off"), "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": AFTER, "logit_bias": IGNORED, "seed": YES, "temperature": YES},
    ),
    "loses the schema when it thinks": (
        Speaker(profile="vllm", loses_schema=frozenset({"on"}), order="after_mask"),
        ALL_MODES
        | {"thinking_with_schema": IGNORED, "logprobs": YES, "top_logprobs": (YES, 20)}
        | {"logprobs_vs_mask": AFTER, "logit_bias": IGNORED, "seed": YES, "temperature": YES},
    ),
}


async def probed(
    speaker: Speaker, url: str, *, key: str = KEY, **rest: Any
) -> tuple[Probed, list[Mapping[str, Fact]]]:
    """What a probe of an endpoint returns, and what it reported on the way."""
    profile = named(speaker.profile)
    reports: list[Mapping[str, Fact]] = []

    async with httpx.AsyncClient() as client:

        async def post(request: HttpRequest) -> HttpResponse | Failure:
            return await send(
                client,
                request,
                base_url=url,
                key=SecretStr(key),
                auth=profile.auth,
                timeout_s=5,
            )

        async def no_sleep(seconds: float) -> None:
            await asyncio.sleep(0)

        result = await probe(
            profile,
            speaker.model,
            adapter_for(profile),
            post,
            known=profile.declared(speaker.model),
            now=NOW,
            **{"sleep": no_sleep, "report": lambda step, facts: reports.append(facts)} | rest,
        )
    return result, reports


def told(fact: Fact) -> set[Any]:
    """What a test may say of a fact beside its status."""
    return {fact.value, fact.limit} - {None}


@pytest.mark.parametrize(
    ("speaker", "expected"), (HONEST | PECULIAR | LIARS).values(), ids=HONEST | PECULIAR | LIARS
)
async def test_ledger_holds_the_truth_after_a_probe(speaker, expected):
    """Whatever the endpoint says of itself; and nothing that was not shown."""
    with speaking(speaker, named(speaker.profile).wire) as server:
        result, reports = await probed(speaker, server.url)
    ledger = MemoryLedger(lambda: NOW)
    for facts in reports:
        for feature, fact in facts.items():
            ledger.record(server.url, speaker.model, feature, fact)
    found = ledger.facts(server.url, speaker.model)
    assert result.failure is None
    assert found == result.facts
    wanted = {f: e if isinstance(e, tuple) else (e,) for f, e in expected.items()}
    assert {f: (fact.status, *told(fact)) for f, fact in found.items()} == wanted
    assert len(server.asked) <= result.num_calls <= 18


@pytest.mark.parametrize(
    ("speaker", "name"),
    [
        (HONEST["vllm"][0], "vllm-0.30.1"),
        (HONEST["llama-server"][0], "b11139-436f6f8"),
        (HONEST["ollama"][0], "ollama 0.34.3"),
        (HONEST["mistral"][0], "toy"),
        (HONEST["anthropic of late"][0], ""),
    ],
    ids=lambda given: given if isinstance(given, str) else given.profile,
)
async def test_fact_says_who_when_and_until_when(speaker, name):
    with speaking(speaker, named(speaker.profile).wire) as server:
        result, _ = await probed(speaker, server.url)
    assert {fact.origin for fact in result.facts.values()} == {Origin.PROBED}
    assert {fact.checked for fact in result.facts.values()} == {NOW}
    assert {fact.expires for fact in result.facts.values()} == {NOW + BELIEVED_FOR}
    assert {fact.server for fact in result.facts.values()} == {name}
    assert {fact.source for fact in result.facts.values()} == {"probe"}


@pytest.mark.parametrize(
    "speaker", [speaker for speaker, _ in (HONEST | PECULIAR | LIARS).values()]
)
async def test_no_fact_holds_what_was_said(speaker):
    """Neither the answer nor the vendor's sentences nor the key."""
    with speaking(speaker, named(speaker.profile).wire) as server:
        result, _ = await probed(speaker, server.url)
    shown = repr(result).lower()
    for word in ("blue", "zebra", "quartz", "sky", "supported with this", "permitted", KEY):
        assert word not in shown


async def test_every_step_is_reported_once():
    speaker = HONEST["vllm"][0]
    with speaking(speaker, "openai") as server:
        result, reports = await probed(speaker, server.url)
    assert len(reports) == len(STEPS)
    assert {feature for facts in reports for feature in facts} == result.facts.keys()
    assert (result.prompt_tokens, result.completion_tokens) == (
        50 * len(server.asked),
        6 * len(server.asked),
    )


@pytest.mark.parametrize(
    "speaker",
    [HONEST[name][0] for name in ("vllm", "ollama", "gemini", "anthropic of late", "mistral")],
    ids=lambda speaker: speaker.profile,
)
async def test_wrong_key_is_a_failure_without_any_fact(speaker):
    """And the second question is never asked."""
    with speaking(speaker, named(speaker.profile).wire) as server:
        result, reports = await probed(speaker, server.url, key="sk-wrong")
        assert len(server.asked) == 1
    assert result.failure is not None
    assert result.failure.kind is FailureKind.CREDENTIAL
    assert dict(result.facts) == {}
    assert reports == []


async def test_endpoint_that_is_down_is_a_failure_without_any_fact():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result, reports = await probed(HONEST["vllm"][0], url)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.TRANSIENT
    assert (dict(result.facts), reports) == ({}, [])


@pytest.mark.parametrize("status", [500, 503, 404, 418])
async def test_endpoint_that_answers_nothing_yields_nothing(status):
    with speaking(HONEST["vllm"][0], "openai", status=status) as server:
        result, _ = await probed(HONEST["vllm"][0], server.url)
        assert len(server.asked) <= 4
    assert result.failure is not None
    assert dict(result.facts) == {}


async def test_probe_that_takes_too_long_keeps_what_it_found():
    """The limit covers everything, waits included."""
    speaker = HONEST["vllm"][0]
    steps = []

    async def hang(seconds: float) -> None:
        await asyncio.sleep(3600)

    with speaking(speaker, "openai") as server:

        def break_down(step: str, facts: Mapping[str, Fact]) -> None:
            steps.append(step)
            server.status = 503 if len(steps) == 2 else 200

        result, _ = await probed(speaker, server.url, report=break_down, sleep=hang, limit_s=1)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.DEADLINE
    assert result.facts.keys() == {"json_schema_strict"}


async def test_step_that_fails_for_another_reason_proves_nothing():
    """A server error says nothing about a feature, and later steps are taken."""
    speaker = HONEST["vllm"][0]
    steps = []
    with speaking(speaker, "openai") as server:

        def break_down(step: str, facts: Mapping[str, Fact]) -> None:
            steps.append(step)
            server.status = 503 if len(steps) == 2 else 200

        result, _ = await probed(speaker, server.url, report=break_down)
    assert result.failure is None
    assert "tool_strict" not in result.facts
    assert result.facts["json_object"].status is YES


async def test_answer_that_rambles_anyway_proves_no_bias(monkeypatch):
    """Only one that comes to an end without the bias, and to none with it."""
    speaker = HONEST["vllm"][0]
    with speaking(speaker, "openai") as server:
        answer = server.answer

        def ramble(path: str, body: Any) -> Any:
            said = answer(path, body)
            if "temperature" in body and "seed" not in body:
                said["choices"][0]["finish_reason"] = "length"
            return said

        monkeypatch.setattr(server, "answer", ramble)
        result, _ = await probed(speaker, server.url)
    assert result.failure is None
    assert result.facts["temperature"].status is YES
    assert "logit_bias" not in result.facts


async def test_obedience_of_a_model_that_was_shown_the_schema_is_noted():
    """A strict tool and JSON mode tell the model what is wanted; a strict schema need not."""
    notes = {}
    for name in ("vllm", "together, OpenAI's shape"):
        speaker = HONEST[name][0]
        with speaking(speaker, "openai") as server:
            result, _ = await probed(speaker, server.url)
        notes[name] = {f: bool(result.facts[f].note) for f in ALL_MODES}
    assert list(notes.values()) == [
        {"json_schema_strict": False, "tool_strict": True, "json_object": True},
        {"json_schema_strict": True, "tool_strict": True, "json_object": True},
    ]


async def test_number_of_calls_has_an_end():
    """Even if an endpoint makes a probe ask everything four times."""
    calls = 0
    profile = named("openai_compatible")
    cut = {"choices": [{"message": {"content": "T"}, "finish_reason": "length"}]}

    async def slow_and_wordy(request: HttpRequest) -> HttpResponse | Failure:
        nonlocal calls
        calls += 1
        if calls % 2:
            return HttpResponse(status=429, headers={"retry-after": "0"}, body=b"{}")
        return HttpResponse(status=200, headers={}, body=json.dumps(cut).encode())

    result = await probe(
        profile, "m", adapter_for(profile), slow_and_wordy, known=profile.declared("m"), now=NOW
    )
    assert calls == result.num_calls == MAX_CALLS
    assert result.failure is not None


@pytest.mark.parametrize(("wait_s", "slept_s"), [("3", [3.0]), ("300", [])])
async def test_rate_limit_is_waited_for_only_if_it_is_short(wait_s, slept_s):
    slept = []
    profile = named("openai_compatible")

    async def busy(request: HttpRequest) -> HttpResponse | Failure:
        return HttpResponse(status=429, headers={"retry-after": wait_s}, body=b"{}")

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    result = await probe(profile, "m", adapter_for(profile), busy, known={}, now=NOW, sleep=sleep)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.RATE_LIMIT
    assert slept == slept_s
