"""From what is known of a provider to how it is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.capability import Fact, Feature, Mode, Status
from weighbridge.errors import CapabilityMissing
from weighbridge.providers.asking import MODE_FEATURES, Target, Wishes, approach, options
from weighbridge.providers.profiles import GENERIC, Profile, named, names
from weighbridge.schemas.task import LogitBias, Task

TASK = Task.triage()
WISHES = Wishes()
PROFILES = [named(name) for wire in GENERIC for name in names(wire)]

TUNING = (Feature.SEED, Feature.TEMPERATURE, Feature.LOGPROBS, Feature.REASONING)
facts = st.dictionaries(
    st.sampled_from([feature.value for feature in Feature]),
    st.builds(Fact, status=st.sampled_from(Status), limit=st.none() | st.integers(0, 50)),
)


def mode(profile: str, model: str = "m", task: Task = TASK, wishes: Wishes = WISHES) -> Mode:
    speaker = named(profile)
    return approach(task, declared(speaker, model), wishes).mode


def declared(profile: Profile, model: str = "m", **known: Fact) -> Target:
    return Target(profile=profile, model=model, facts=profile.declared(model) | known)


@pytest.mark.parametrize(
    ("profile", "model", "expected"),
    [
        ("openai", "gpt-4.1", "native"),
        ("groq", "openai/gpt-oss-20b", "native"),
        ("deepseek", "deepseek-flash", "json_mode"),
        ("anthropic", "claude-sonnet-4-6", "native"),
        ("gemini_native", "gemini-3.1-flash", "native"),
        ("ollama_native", "qwen3:4b", "native"),
        ("vllm", "any", "native"),
        ("openai_compatible", "any", "native"),
    ],
)
def test_declared_facts_give_the_strictest_mode(profile: str, model: str, expected: Mode) -> None:
    assert mode(profile, model) == expected


def test_groq_enforces_schemas_for_the_models_that_it_names_and_no_others() -> None:
    assert mode("groq", "openai/gpt-oss-120b") == "native"
    assert mode("groq", "llama-3.3-70b-versatile") != "native"


@given(known=facts, profile=st.sampled_from(PROFILES))
def test_nothing_that_is_refused_or_ignored_is_ever_sent(
    known: dict[str, Fact], profile: Profile
) -> None:
    """A clear no is obeyed for every feature, whatever else is known; and what was wished for and
    is not sent is listed."""
    wishes = Wishes(thinking="low")
    target = Target(profile=profile, model="m", facts=known)
    chosen = approach(TASK, target, wishes)
    sent = options(chosen, TASK, target, wishes)

    def refused(feature: Feature) -> bool:
        cannot_say = feature is Feature.REASONING and profile.thinking_fields("m", "low") is None
        return cannot_say or (feature in known and not known[feature].is_usable)

    feature = MODE_FEATURES[chosen.mode]
    assert feature is None or not refused(feature)
    carried = {
        Feature.SEED: sent.seed is not None,
        Feature.TEMPERATURE: sent.temperature is not None,
        Feature.LOGPROBS: sent.num_alternatives is not None,
        Feature.REASONING: sent.thinking is not None,
    }
    for tuning in TUNING:
        assert carried[tuning] != refused(tuning)
        assert (tuning in chosen.dropped) == refused(tuning)
    limit = known.get(Feature.TOP_LOGPROBS, Fact(status=Status.UNKNOWN)).limit
    if sent.num_alternatives is not None and limit is not None:
        assert sent.num_alternatives <= limit


@given(known=facts)
def test_thinking_and_a_schema_are_one_capability(known: dict[str, Fact]) -> None:
    """Where the pair is known not to work, the schema is only shown; without thinking it stays."""
    pair = {Feature.THINKING_WITH_SCHEMA.value: Fact(status=Status.IGNORED)}
    bare, paired = (
        Target(profile=named("ollama_native"), model="m", facts=facts)
        for facts in (known, known | pair)
    )
    assert approach(TASK, paired, Wishes(thinking="low")).mode == "prompted"
    silent = Wishes(thinking="off")
    assert approach(TASK, paired, silent).mode == approach(TASK, bare, silent).mode


@pytest.mark.parametrize(
    ("profile", "model", "feature"),
    [
        ("anthropic", "claude-sonnet-4-6", Feature.TEMPERATURE),
        ("openai", "gpt-5.6-terra", Feature.LOGPROBS),
    ],
)
def test_what_only_works_without_thinking_is_left_out_beside_the_wish_to_think(
    profile: str, model: str, feature: Feature
) -> None:
    """It would be refused; without the wish, or with that not to think, it is sent."""
    target = declared(named(profile), model)
    assert target.fact(feature).value == "thinking_off"
    for thinking, is_sent in (("low", False), ("off", True), (None, True)):
        wishes = Wishes(thinking=thinking)  # type: ignore[arg-type]
        chosen = approach(TASK, target, wishes)
        sent = options(chosen, TASK, target, wishes)
        carried = {
            Feature.TEMPERATURE: sent.temperature is not None,
            Feature.LOGPROBS: sent.num_alternatives is not None,
        }
        assert carried[feature] is is_sent
        assert (feature in chosen.dropped) is not is_sent


def test_schema_that_one_endpoint_refused_is_shown_there_and_enforced_for_others() -> None:
    refused = {f"json_schema_strict:{TASK.schema_hash}": Fact(status=Status.UNSUPPORTED)}
    target = declared(named("mistral"), **refused)
    assert approach(TASK, target, WISHES).mode == "json_mode"
    assert approach(Task.triage(priorities=[]), target, WISHES).mode == "native"


@pytest.mark.parametrize(
    ("profile", "bias", "sent"),
    [
        ("openai", {1734: 5.0}, True),
        ("vllm", {1734: 5.0}, True),
        ("llama_cpp_server", {"refund": 5.0}, True),
        ("openai", {"refund": 5.0}, False),
        ("openai", {1734: 5.0, "refund": 5.0}, False),
        ("groq", {1734: 5.0}, False),
        ("mistral", {1734: 5.0}, False),
        ("openai_compatible", {1734: 5.0}, False),
    ],
)
def test_logit_bias_is_sent_whole_to_those_who_take_it_or_not_at_all(
    profile: str, bias: dict[int | str, float], sent: bool
) -> None:
    """Left out and listed where it is tuning; where it is required the provider is not asked."""
    target = declared(named(profile), "gpt-4.1")
    task = replace(TASK, logit_bias=LogitBias(by_token=bias))
    chosen = approach(task, target, WISHES)
    carried = options(chosen, task, target, WISHES).logit_bias
    assert carried == (bias if sent else {})
    assert ("logit_bias" in chosen.dropped) is not sent
    strict = replace(TASK, logit_bias=LogitBias(by_token=bias, required=True))
    if sent:
        assert approach(strict, target, WISHES).mode == chosen.mode
    else:
        with pytest.raises(CapabilityMissing, match="logit_bias"):
            approach(strict, target, WISHES)


@pytest.mark.parametrize("name", [profile.name for profile in PROFILES])
def test_reasons_come_before_the_answer_in_every_dialect(name: str) -> None:
    """A model that must name the answer first can only justify it."""
    profile = named(name)
    task = replace(TASK, reasoning=True)
    chosen = approach(task, declared(profile), WISHES)
    assert next(iter(chosen.schema.wire["properties"])) == "reasoning"  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("profile", "feature"),
    [
        ("openai", Feature.MAX_COMPLETION_TOKENS),
        ("mistral", Feature.MAX_TOKENS),
        ("deepseek", Feature.MAX_TOKENS),
        ("llama_cpp_server", Feature.MAX_TOKENS),
        ("ollama_openai_compat", Feature.MAX_TOKENS),
        ("openrouter", Feature.MAX_TOKENS),
        ("openai_compatible", Feature.MAX_COMPLETION_TOKENS),
    ],
)
def test_limit_goes_into_the_field_that_is_read(profile: str, feature: Feature) -> None:
    target = declared(named(profile))
    chosen = approach(TASK, target, WISHES)
    assert options(chosen, TASK, target, WISHES).length_feature is feature


def test_model_that_may_think_gets_room_for_it() -> None:
    """Thoughts count against the limit; without room the answer is empty."""
    target = declared(named("anthropic"))
    chosen = approach(TASK, target, WISHES)
    limits = [
        options(chosen, TASK, target, Wishes(thinking=thinking)).max_output_tokens
        for thinking in ("off", None, "high")
    ]
    assert limits == [1024, 5120, 5120]
