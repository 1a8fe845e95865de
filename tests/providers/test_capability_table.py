"""The shipped table of capabilities: its form, and the answers that are most often got wrong."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib import resources
from typing import Any

import pytest

from weighbridge.capability import NOTHING_KNOWN, Fact, Feature, Status
from weighbridge.providers.profiles import named, of_url

TABLE: dict[str, Any] = tomllib.loads(
    resources.files("weighbridge.providers").joinpath("capabilities.toml").read_text("utf-8")
)
SOURCES: dict[str, str] = TABLE.pop("sources")
EVIDENCE = {"doc", "src", "recorded", "measured", "measured_by_others", "inferred", "unconfirmed"}
KEYS = {"status", "limit", "limits", "value", "values", "note", "evidence", "source", "checked"}
VALUES = {
    Feature.MASK_ORDER: {"before_mask", "after_mask", "unknown", "not_applicable"},
    Feature.THINKING_WITH_SCHEMA: {"not_off"},
}
# What a value may say of any other feature: that it is there only while the model does not think.
CONDITION = {"thinking_off"}

ROWS = [
    pytest.param(feature, row, id=f"{profile}{''.join(where)}-{feature}")
    for profile, entry in TABLE.items()
    for where, rows in [
        ((), entry.get("features", {})),
        *((one["match"], one.get("features", {})) for one in entry.get("models", ())),
    ]
    for feature, row in rows.items()
]


@pytest.mark.parametrize(("feature", "row"), ROWS)
def test_row_says_what_how_well_and_since_when_it_is_known(feature, row):
    """And nobody claims to know what has no source."""
    assert row.keys() <= KEYS
    assert row["status"] in set(Status)
    assert row["evidence"] in EVIDENCE
    assert row["source"] in SOURCES
    assert type(row["checked"]) is date
    assert (row["evidence"] != "unconfirmed") or row["status"] not in ("supported", "unsupported")
    assert row["source"] != "nobody" or row["evidence"] in ("unconfirmed", "inferred")
    if "value" in row:
        assert row["value"] in VALUES.get(feature, CONDITION)


def test_every_source_is_used_and_dated():
    used = {row["source"] for _, row in (param.values for param in ROWS)}
    assert used == SOURCES.keys()
    assert [text for text in SOURCES.values() if ", as of " not in text] == []


@pytest.mark.parametrize("profile", TABLE)
def test_every_profile_answers_for_every_feature(profile):
    """Even if the answer is that nobody knows."""
    assert set(Feature) - named(profile).declared("any").keys() == set()


@pytest.mark.parametrize("profile", TABLE)
def test_every_block_of_models_changes_something(profile):
    """A pattern that never differs from what stands above it is a slip."""
    for one in TABLE[profile].get("models", ()):
        patterns = [pattern.replace("*", "") for pattern in one["match"]]
        assert patterns == [pattern.lower() for pattern in patterns]
        base = TABLE[profile].get("features", {})
        assert all(base.get(feature) != row for feature, row in one.get("features", {}).items())


def fact(profile: str, model: str, feature: Feature) -> Fact:
    return named(profile).declared(model).get(feature, NOTHING_KNOWN)


YES, NO = True, False


@pytest.mark.parametrize(
    ("profile", "model", "feature", "is_usable"),
    [
        ("groq", "openai/gpt-oss-20b", Feature.LOGIT_BIAS, NO),
        ("groq", "openai/gpt-oss-20b", Feature.LOGPROBS, NO),
        ("groq", "openai/gpt-oss-120b", Feature.JSON_SCHEMA, YES),
        ("groq", "qwen/qwen3.8-27b", Feature.JSON_SCHEMA, YES),
        ("groq", "openai/gpt-oss-safeguard-20b", Feature.JSON_SCHEMA, NO),
        ("groq", "llama-3.3-70b-versatile", Feature.JSON_SCHEMA, NO),
        ("groq", "llama-3.3-70b-versatile", Feature.JSON_OBJECT, YES),
        ("groq", "llama-3.3-70b-versatile", Feature.REASONING, NO),
        ("groq", "openai/gpt-oss-20b", Feature.REASONING, YES),
        ("groq", "qwen/qwen3.8-27b", Feature.REASONING, YES),
        ("gemini_native", "gemini-3.1-flash", Feature.LOGPROBS, NO),
        ("gemini_native", "models/gemini-2.5-flash", Feature.LOGPROBS, NO),
        ("gemini_native", "models/gemini-2.5-flash", Feature.JSON_SCHEMA, YES),
        ("gemini_native", "gemma-3-27b-it", Feature.JSON_SCHEMA, NO),
        ("gemini_openai_compat", "gemini-3.1-flash", Feature.LOGPROBS, NO),
        ("openai", "gpt-5.6-terra", Feature.TEMPERATURE, NO),
        ("openai", "gpt-5.6-terra", Feature.LOGIT_BIAS, NO),
        ("openai", "gpt-5.6-terra", Feature.LOGPROBS, YES),
        ("openai", "gpt-5.6-terra", Feature.MAX_TOKENS, NO),
        ("openai", "gpt-6-astra", Feature.LOGPROBS, NO),
        ("openai", "gpt-6.1-sol", Feature.TEMPERATURE, NO),
        ("openai", "gpt-5", Feature.LOGPROBS, NO),
        ("openai", "gpt-5-2025-08-07", Feature.LOGPROBS, NO),
        ("openai", "gpt-5-mini", Feature.TEMPERATURE, NO),
        ("openai", "o4-mini", Feature.TEMPERATURE, NO),
        ("openai", "gpt-5.1", Feature.LOGPROBS, YES),
        ("openai", "gpt-5.1-codex", Feature.LOGPROBS, NO),
        ("openai", "gpt-5.4-pro", Feature.LOGPROBS, NO),
        ("openai", "gpt-4.1-mini", Feature.LOGPROBS, YES),
        ("openai", "gpt-4.1-mini", Feature.TEMPERATURE, YES),
        ("openai", "gpt-4.1-mini", Feature.REASONING, NO),
        ("openai", "gpt-4-turbo", Feature.JSON_SCHEMA, NO),
        ("openai", "gpt-4o", Feature.JSON_SCHEMA, YES),
        ("azure_openai", "my-gpt-5.6-deployment", Feature.TEMPERATURE, NO),
        ("azure_openai", "Mistral-Large-3", Feature.LOGPROBS, NO),
        ("azure_openai", "Mistral-Large-3", Feature.MAX_COMPLETION_TOKENS, NO),
        ("deepseek", "deepseek-flash", Feature.JSON_SCHEMA, NO),
        ("deepseek", "deepseek-flash", Feature.JSON_OBJECT, YES),
        ("deepseek", "deepseek-flash", Feature.TOOL, NO),
        ("deepseek_beta", "deepseek-flash", Feature.TOOL, YES),
        ("deepseek_beta", "deepseek-flash", Feature.JSON_SCHEMA, NO),
        ("deepseek", "deepseek-flash", Feature.LOGPROBS, YES),
        ("deepseek", "deepseek-flash", Feature.SEED, NO),
        ("mistral", "mistral-small-2603", Feature.LOGPROBS, NO),
        ("mistral", "mistral-large-latest", Feature.MAX_COMPLETION_TOKENS, NO),
        ("xai", "grok-4.20", Feature.LOGPROBS, NO),
        ("anthropic", "claude-sonnet-4-6", Feature.TEMPERATURE, YES),
        ("anthropic", "claude-opus-4-6", Feature.TEMPERATURE, YES),
        ("anthropic", "claude-opus-4-5-20251101", Feature.TEMPERATURE, YES),
        ("anthropic", "claude-haiku-4-5", Feature.TEMPERATURE, YES),
        ("anthropic", "claude-opus-4-7", Feature.TEMPERATURE, NO),
        ("anthropic", "claude-sonnet-5", Feature.TEMPERATURE, NO),
        ("anthropic", "claude-sonnet-4-5", Feature.JSON_SCHEMA, YES),
        ("anthropic", "claude-sonnet-4-20250514", Feature.JSON_SCHEMA, NO),
        ("anthropic", "claude-3-7-sonnet-latest", Feature.JSON_SCHEMA, NO),
        ("anthropic", "claude-mythos-5", Feature.TOOL, NO),
        ("anthropic", "claude-sonnet-5", Feature.TOOL, YES),
        ("anthropic", "claude-sonnet-5", Feature.LOGPROBS, NO),
        ("anthropic", "claude-sonnet-5", Feature.SEED, NO),
        ("ollama_native", "qwen3:4b", Feature.JSON_SCHEMA, YES),
        ("ollama_native", "gpt-oss:120b-cloud", Feature.JSON_SCHEMA, NO),
        ("ollama_native", "glm-5:cloud", Feature.LOGPROBS, NO),
        ("ollama_cloud", "gpt-oss:120b", Feature.JSON_SCHEMA, NO),
        ("ollama_cloud", "gpt-oss:120b", Feature.LOGPROBS, NO),
        ("ollama_cloud", "gpt-oss:120b", Feature.SEED, YES),
        ("ollama_native", "qwen3:4b", Feature.LOGIT_BIAS, NO),
        ("ollama_native", "qwen3:4b", Feature.TOOL, NO),
        ("ollama_openai_compat", "qwen3:4b", Feature.MAX_COMPLETION_TOKENS, NO),
        ("openrouter", "openai/gpt-5.6-terra", Feature.TEMPERATURE, NO),
        ("openrouter", "anthropic/claude-sonnet-5", Feature.LOGPROBS, NO),
        ("openrouter", "meta-llama/llama-3.1-8b-instruct", Feature.LOGPROBS, YES),
        ("openai_compatible", "anything", Feature.JSON_SCHEMA, YES),
    ],
)
def test_answer_that_is_often_got_wrong(profile, model, feature, is_usable):
    assert fact(profile, model, feature).is_usable is is_usable


@pytest.mark.parametrize(
    ("profile", "model", "expected"),
    [
        ("vllm", "any", "after_mask"),
        ("llama_cpp_server", "any", "before_mask"),
        ("ollama_native", "qwen3:4b", "before_mask"),
        ("ollama_openai_compat", "qwen3:4b", "before_mask"),
        ("openai", "gpt-4o", "unknown"),
        ("openrouter", "meta-llama/llama-3.1-8b-instruct", "unknown"),
        ("lm_studio", "any", "unknown"),
        ("sglang", "any", "unknown"),
        ("groq", "any", "not_applicable"),
        ("ollama_native", "glm-5:cloud", "not_applicable"),
        ("openai", "o3", "not_applicable"),
    ],
)
def test_order_of_mask_and_logprobs_is_said_only_where_it_is_known(profile, model, expected):
    assert fact(profile, model, Feature.MASK_ORDER).value == expected


@pytest.mark.parametrize(
    ("profile", "model", "expected"),
    [
        ("openai", "gpt-4.1", 20),
        ("openai", "gpt-4o-mini", 20),
        ("openai", "gpt-5.4-mini", 5),
        ("openai", "gpt-5.6-luna", 5),
        ("openai", "gpt-6-luna", 2),
        ("azure_openai", "gpt-4o", 5),
        ("together", "any", 5),
        ("fireworks", "any", 5),
        ("vllm", "any", 20),
        ("deepseek", "deepseek-flash", 20),
        ("llama_cpp_server", "any", None),
    ],
)
def test_most_alternatives_that_a_model_lists(profile, model, expected):
    assert fact(profile, model, Feature.TOP_LOGPROBS).limit == expected


@pytest.mark.parametrize(
    ("profile", "model", "needs_thinking_off"),
    [
        ("openai", "gpt-5.6-terra", True),
        ("openai", "gpt-6-sol", True),
        ("openai", "gpt-4.1", False),
        ("deepseek", "deepseek-flash", True),
        ("fireworks", "any", True),
        ("vllm", "any", False),
    ],
)
def test_logprobs_that_thinking_takes_away(profile, model, needs_thinking_off):
    """Worth asking for only where the model is told not to think."""
    assert (fact(profile, model, Feature.LOGPROBS).value == "thinking_off") is needs_thinking_off


def test_models_in_ollamas_cloud_are_known_by_name_or_place():
    """Reached through a server of one's own, they have a suffix; at their own address, none."""
    assert of_url("ollama", "https://ollama.com").name == "ollama_cloud"
    assert of_url("ollama", "http://localhost:11434").name == "ollama_native"
