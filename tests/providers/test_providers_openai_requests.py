"""What the OpenAI adapter sends, to each speaker in its own manner."""

from __future__ import annotations

import copy
import itertools
import json
import tomllib
from dataclasses import fields, replace
from importlib import resources
from typing import get_args

import pytest
from jsonschema import Draft202012Validator
from openai_request_schemas import SPEAKERS

from weighbridge.capability import Feature
from weighbridge.providers import profiles
from weighbridge.providers.asking import Target, Wishes, approach, options
from weighbridge.providers.openai import OpenAIAdapter
from weighbridge.providers.profiles import Profile, named, of_url
from weighbridge.providers.protocol import RequestOptions, Thinking
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Prompt, Task

PLAN = plan(
    {"type": "object", "properties": {"category": {"enum": ["bug", "café"]}}, "required": []},
    "openai",
    name="triage v1: café " + "x" * 80,
)
PROMPT = Prompt("Sort tickets.", "Zu teuer! 🙁")
OPTIONS = RequestOptions(
    model="m",
    max_output_tokens=64,
    num_alternatives=20,
    seed=0,
    temperature=0.0,
    logit_bias={50256: -100.0, 11: 2.0},
    thinking="off",
)
MODES = ("native", "tool", "json_mode", "prompted")
BIASES = {"": [{}], "ids": [{}, {50256: -100.0}], "texts": [{}, {"bug": 5, 50256: -1.5}]}


def request(profile, wanted=OPTIONS, plan=PLAN):
    return OpenAIAdapter(named(profile)).build(plan, PROMPT, wanted)


def sent(profile, wanted=OPTIONS, plan=PLAN, **changed):
    return json.loads(request(profile, replace(wanted, **changed), plan).body)


def system(body):
    return body["messages"][0]["content"]


def test_a_request_for_openai_is_sent_as_a_whole():
    """Every field, so that a change of the wire format is seen."""
    whole = request("openai")
    assert (whole.method, whole.path) == ("POST", "/chat/completions")
    assert whole.headers == {"content-type": "application/json", "accept": "application/json"}
    assert json.loads(whole.body) == {
        "model": "m",
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
        "logit_bias": {"50256": -100, "11": 2},
        "reasoning_effort": "none",
    }


def test_a_tool_is_one_strict_function_that_must_be_called():
    """The answer is its arguments; several calls at once would be several answers."""
    body = sent("openai", mode="tool")
    [tool] = body["tools"]
    assert tool["type"] == "function"
    assert tool["function"] == {
        "name": "answer",
        "description": tool["function"]["description"],
        "strict": True,
        "parameters": PLAN.wire,
    }
    assert body["tool_choice"] == {"type": "function", "function": {"name": "answer"}}
    assert body["parallel_tool_calls"] is False
    assert "response_format" not in body


@pytest.mark.parametrize("profile", ["llama_cpp_server", "lm_studio"])
def test_servers_that_read_words_alone_are_told_a_word(profile):
    """LM Studio refuses an object there; llama-server takes it for "auto" and forces nothing."""
    assert sent(profile, logit_bias={}, mode="tool")["tool_choice"] == "required"


def test_vllm_has_a_field_of_its_own_for_schemas():
    """One kind of constraint alone; `response_format` would be a second."""
    body = sent("vllm")
    assert body["structured_outputs"] == {"json": PLAN.wire}
    assert "response_format" not in body


@pytest.mark.parametrize("profile", sorted(SPEAKERS))
@pytest.mark.parametrize("mode", ["json_mode", "prompted"])
def test_a_schema_that_is_not_enforced_is_shown(profile, mode):
    """The schema is a semantic parameter: it changes its place and is never dropped."""
    told = system(sent(profile, logit_bias={}, mode=mode))
    assert told.startswith("Sort tickets.\n\n")
    assert "JSON" in told  # OpenAI and DeepSeek refuse json_object without the word
    assert json.loads(told[told.index("{") :]) == PLAN.wire


@pytest.mark.parametrize("mode", ["native", "tool"])
def test_a_schema_that_is_enforced_is_shown_to_together_alone(mode):
    """Its documents ask for both."""
    for profile in SPEAKERS:
        told = system(sent(profile, logit_bias={}, mode=mode))
        assert ("{" in told) == (profile == "together")


@pytest.mark.parametrize(
    ("profile", "dialect", "expected"),
    [
        ("llama_cpp_server", "llama_cpp", {"type": "json_object", "schema": PLAN.wire}),
        ("llama_cpp_server", "prompt", {"type": "json_object"}),
        ("together", "openai", {"type": "json_object", "schema": PLAN.wire}),
        ("openai", "openai", {"type": "json_object"}),
        ("deepseek", "prompt", {"type": "json_object"}),
    ],
)
def test_a_schema_stands_beside_json_mode_only_where_it_was_written_for_the_server(
    profile, dialect, expected
):
    """Any other might be what the server has just refused, and json_mode the way round it."""
    plan = replace(PLAN, dialect=dialect)
    assert sent(profile, plan=plan, logit_bias={}, mode="json_mode")["response_format"] == expected


@pytest.mark.parametrize("mode", MODES)
def test_openrouter_is_always_told_to_leave_nothing_out(mode):
    """Its default drops what a route does not know, the schema among it."""
    body = sent("openrouter", mode=mode, length_feature=Feature.MAX_TOKENS)
    assert body["provider"] == {"require_parameters": True}
    assert body["max_tokens"] == 64


@pytest.mark.parametrize(
    ("unset", "gone"),
    [
        ({"seed": None}, {"seed"}),
        ({"temperature": None}, {"temperature"}),
        ({"num_alternatives": None}, {"logprobs", "top_logprobs"}),
        ({"num_alternatives": 0}, {"top_logprobs"}),
        ({"logit_bias": {}}, {"logit_bias"}),
        ({"thinking": None}, {"reasoning_effort"}),
        ({"mode": "prompted"}, {"response_format"}),
    ],
)
def test_what_is_unset_is_left_out(unset, gone):
    """And nothing else: no null, no default in its place."""
    whole, less = sent("openai"), sent("openai", **unset)
    assert whole.keys() - less.keys() == gone
    assert less.keys() <= whole.keys()


def test_the_limit_has_the_name_that_the_provider_reads():
    """Ollama's /v1 ignores the newer name, GPT-5 refuses the older one."""
    for feature in (Feature.MAX_TOKENS, Feature.MAX_COMPLETION_TOKENS):
        limits = {name for name in sent("openai", length_feature=feature) if "_tokens" in name}
        assert limits == {feature.value}


def test_mistral_calls_the_seed_by_another_name():
    """And refuses a request with a field that it does not know."""
    body = sent("mistral", seed=7, logit_bias={})
    assert body["random_seed"] == 7
    assert "seed" not in body


def test_whole_biases_are_sent_as_whole_numbers():
    """OpenAI documents integers, where 2.0 is none."""
    body = request("openai", replace(OPTIONS, logit_bias={11: 2.0, 12: -0.5})).body
    assert b'"logit_bias":{"11":2,"12":-0.5}' in body


def test_biases_name_texts_where_they_may():
    """A number among the texts stays a token id, and a text of digits stays a text."""
    body = sent("llama_cpp_server", logit_bias={"bug": 5.0, "11": -0.5, 11: -100.0})
    assert body["logit_bias"] == [["bug", 5], ["11", -0.5], [11, -100]]
    with pytest.raises(ValueError, match="openai reads token ids alone"):
        sent("openai", logit_bias={"bug": 5.0})


@pytest.mark.parametrize(
    ("profile", "model", "wish", "expected"),
    [
        ("openai", "gpt-5.6", "high", {"reasoning_effort": "high"}),
        ("groq", "openai/gpt-oss-20b", "low", {"reasoning_effort": "low"}),
        ("groq", "openai/gpt-oss-20b", "off", {}),
        ("groq", "qwen/qwen3.8-27b", "off", {"reasoning_effort": "none"}),
        ("groq", "qwen/qwen3.8-27b", "low", {}),
        ("groq", "llama-3.1-8b-instant", "off", {}),
        ("vllm", "m", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("llama_cpp_server", "m", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("sglang", "m", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("deepseek", "deepseek-flash", "off", {"thinking": {"type": "disabled"}}),
        (
            "deepseek_beta",
            "deepseek-flash",
            "low",
            {"thinking": {"type": "enabled"}, "reasoning_effort": "low"},
        ),
        ("openrouter", "openai/gpt-5", "medium", {"reasoning": {"effort": "medium"}}),
        ("mistral", "mistral-small-2603", "off", {"reasoning_effort": "none"}),
        ("mistral", "mistral-large-latest", "off", {}),
        ("together", "m", "off", {}),
    ],
)
def test_a_wish_for_thinking_is_put_as_the_speaker_understands_it(profile, model, wish, expected):
    """What a model cannot be told is not sent: some vendors refuse unknown fields."""
    plain = sent(profile, logit_bias={}, model=model, thinking=None)
    told = sent(profile, logit_bias={}, model=model, thinking=wish)
    assert told == plain | expected


def combinations(name):
    """Every request that the profile can be asked to make, of what its vendor documents."""
    speaker = SPEAKERS[name]
    for mode, length, seed, temperature, alternatives, bias, thinking, model in itertools.product(
        speaker.modes,
        speaker.lengths,
        [None, 7] if speaker.seed else [None],
        [None, 0.0],
        [None, *speaker.alternatives],
        BIASES[speaker.biases],
        [None, *speaker.thinking],
        speaker.models,
    ):
        yield RequestOptions(
            model=model,
            mode=mode,
            max_output_tokens=64,
            num_alternatives=alternatives,
            seed=seed,
            temperature=temperature,
            logit_bias=bias,
            thinking=thinking,
            length_feature=Feature(length),
        )


@pytest.mark.parametrize("name", sorted(SPEAKERS))
def test_every_request_is_one_that_the_vendor_documents(name):
    """All modes with all combinations of options."""
    validator = Draft202012Validator(SPEAKERS[name].schema)
    dialects = (PLAN, replace(PLAN, dialect="prompt"), replace(PLAN, dialect=named(name).dialect))
    seen = set()
    for number, wanted in enumerate(combinations(name)):
        body = request(name, wanted, dialects[number % 3]).body
        if body not in seen:
            seen.add(body)
            validator.validate(json.loads(body))
    assert len(seen) > 10


# What is tried though no document of the vendor's names it; may only become less.
UNDOCUMENTED = {
    "gemini_openai_compat": {"seed"},
    "lm_studio": {"max_completion_tokens"},
    "fireworks": {"max_completion_tokens"},
}


@pytest.mark.parametrize("thinking", [None, "off", "low", "medium", "high"])
@pytest.mark.parametrize("name", sorted(SPEAKERS))
def test_what_a_provider_is_believed_to_take_is_what_its_vendor_documents(name, thinking):
    """Declared facts, profile and adapter together, as a first request to anybody is made."""
    profile, task, wishes = named(name), Task.triage(), Wishes(thinking=thinking)
    validator = Draft202012Validator(SPEAKERS[name].schema)
    for model in (*SPEAKERS[name].models, "gpt-4.1-mini", "gpt-5.6-terra", "o3"):
        facts = profile.declared(model)
        target = Target(profile=profile, model=model, facts=facts)
        way = approach(task, target, wishes)
        wanted = options(way, task, target, wishes)
        body = json.loads(OpenAIAdapter(profile).build(way.schema, PROMPT, wanted).body)
        for field in UNDOCUMENTED.get(name, ()):
            body.pop(field, None)
        validator.validate(body)


def test_deepseek_is_told_not_to_think_where_it_is_forced_to_call():
    """It thinks by default, and refuses both together; an explicit wish is still obeyed."""
    for wish, kind in ((None, "disabled"), ("off", "disabled"), ("low", "enabled")):
        body = sent("deepseek_beta", logit_bias={}, mode="tool", thinking=wish)
        assert body["thinking"] == {"type": kind}
    assert "thinking" not in sent("deepseek_beta", logit_bias={}, mode="json_mode", thinking=None)


@pytest.mark.parametrize("name", sorted(SPEAKERS))
def test_a_misspelt_field_is_in_no_vendors_documents(name):
    """So the test above can fail: every key of ours, at every level, is checked by its name."""
    validator = Draft202012Validator(SPEAKERS[name].schema)
    for mode in SPEAKERS[name].modes:
        fullest = list(combinations(name))[-1]
        body = sent(name, replace(fullest, mode=mode))
        validator.validate(body)
        for path in key_paths(body):
            assert not validator.is_valid(misspelt(body, path)), path


def key_paths(value, path=()):
    """The paths of all keys that a vendor gave the name to."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from key_paths(item, (*path, i))
    elif isinstance(value, dict) and not {"schema", "parameters", "json", "logit_bias"} & {*path}:
        for key, item in value.items():
            yield (*path, key)
            yield from key_paths(item, (*path, key))


def misspelt(body, path):
    changed = copy.deepcopy(body)
    inside = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[f"{path[-1]}x"] = inside.pop(path[-1])
    return changed


def test_every_speaker_has_its_documents():
    """A new profile needs a schema of its requests."""
    assert sorted(profiles.names("openai")) == sorted(SPEAKERS)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://res.openai.azure.com/openai/v1", "azure_openai"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.deepseek.com/v1", "deepseek"),
        ("https://API.deepseek.com/beta", "deepseek_beta"),
        ("https://api.deepseek.com/betas", "deepseek"),
        ("http://localhost:1234/v1", "lm_studio"),
        ("http://localhost:1235/v1", "openai_compatible"),
        ("https://evil.example/res.openai.azure.com", "openai_compatible"),
        ("https://evil.example/api.deepseek.com/beta", "openai_compatible"),
    ],
)
def test_a_speaker_is_recognised_by_its_host_and_route(url, name):
    """What stands in a path is no host."""
    assert of_url("openai", url).name == name


def test_a_profile_like_another_has_all_that_it_does_not_say_itself():
    """DeepSeek's routes differ in strict tools alone."""
    plain, beta = named("deepseek"), named("deepseek_beta")
    assert {k for k, fact in beta.features.items() if fact != plain.features[k]} == {"tool_strict"}
    assert (beta.thinking, beta.dialect, beta.wire) == (plain.thinking, plain.dialect, plain.wire)


def test_the_table_has_no_key_that_nobody_reads():
    """A misspelt key would be a silent default."""
    table = tomllib.loads(
        resources.files("weighbridge.providers").joinpath("capabilities.toml").read_text("utf-8")
    )
    table.pop("sources")
    known = {field.name for field in fields(Profile)} | {"like"}
    wishes = set(get_args(Thinking))
    for name, entry in table.items():
        assert entry.keys() <= known - {"name", "model_thinking"}, name
        assert entry.get("thinking", {}).keys() <= wishes, name
        for one in entry.get("models", ()):
            assert one.keys() <= {"match", "features", "thinking"}, name
            assert one.get("thinking", {}).keys() <= wishes, name
            assert all(pattern == pattern.lower() for pattern in one["match"]), name
