"""What the Ollama adapter sends."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from ollama_request_schemas import REQUEST

from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.asking import Target, Wishes, approach, options
from weighbridge.providers.ollama import CONTEXT_TOKENS, OllamaAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import RequestOptions
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Prompt, Task

PROFILE = named("ollama_native")
ADAPTER = OllamaAdapter(PROFILE)
PLAN = plan(
    {
        "type": "object",
        "properties": {"category": {"enum": ["bug", "café"]}},
        "required": ["category"],
        "additionalProperties": False,
    },
    "llama_cpp",
)
PROMPT = Prompt("Sort tickets.", "Zu teuer! 🙁")
OPTIONS = RequestOptions(
    model="qwen3:4b",
    max_output_tokens=64,
    num_alternatives=20,
    seed=0,
    temperature=0.0,
    thinking="off",
)
MODES = ("native", "json_mode", "prompted")


def sent(prompt=PROMPT, **changed):
    return json.loads(ADAPTER.build(PLAN, prompt, replace(OPTIONS, **changed)).body)


def test_the_profile_finds_its_adapter():
    """By its wire format."""
    assert adapter_for(PROFILE) == ADAPTER


def test_a_request_is_sent_as_a_whole():
    """Every field, so that a change of the wire format is seen."""
    whole = ADAPTER.build(PLAN, PROMPT, OPTIONS)
    assert (whole.method, whole.path) == ("POST", "/api/chat")
    assert whole.headers == {"content-type": "application/json", "accept": "application/json"}
    assert json.loads(whole.body) == {
        "model": "qwen3:4b",
        "messages": [
            {"role": "system", "content": "Sort tickets."},
            {"role": "user", "content": "Zu teuer! 🙁"},
        ],
        "stream": False,
        "truncate": False,
        "shift": False,
        "format": PLAN.wire,
        "options": {"num_predict": 64, "num_ctx": 8192, "temperature": 0.0, "seed": 0},
        "think": False,
        "logprobs": True,
        "top_logprobs": 20,
    }


@pytest.mark.parametrize("mode", ["json_mode", "prompted"])
def test_a_schema_that_is_not_enforced_is_shown(mode):
    """The schema is a semantic parameter: it changes its place and is never dropped."""
    body = sent(mode=mode)
    told = body["messages"][0]["content"]
    assert told.startswith("Sort tickets.\n\n")
    assert json.loads(told[told.index("{") :]) == PLAN.wire
    assert body.get("format") == ("json" if mode == "json_mode" else None)


@pytest.mark.parametrize(
    "change", [{"mode": "tool"}, {"logit_bias": {1: 5.0}}, {"logit_bias": {"bug": 5.0}}]
)
def test_what_the_wire_has_no_field_for_is_no_request(change):
    """Left out in silence it would be another request than the one that was asked for."""
    with pytest.raises(ValueError, match="no field"):
        sent(**change)


@pytest.mark.parametrize(
    ("unset", "gone"),
    [
        ({"num_alternatives": None}, {"logprobs", "top_logprobs"}),
        ({"num_alternatives": 0}, {"top_logprobs"}),
        ({"thinking": None}, {"think"}),
        ({"mode": "prompted"}, {"format"}),
    ],
)
def test_what_is_unset_is_left_out(unset, gone):
    """And nothing else: no null, no default in its place."""
    whole, less = sent(), sent(**unset)
    assert whole.keys() - less.keys() == gone
    assert less.keys() <= whole.keys()


@pytest.mark.parametrize("unset", ["seed", "temperature"])
def test_an_option_that_is_unset_is_left_out(unset):
    """The same for those that stand among the model's options."""
    whole, less = sent()["options"], sent(**{unset: None})["options"]
    assert whole.keys() - less.keys() == {unset}


@pytest.mark.parametrize(
    ("model", "wish", "expected"),
    [
        ("qwen3:4b", "off", False),
        ("qwen3:4b", "low", True),
        ("qwen3:4b", "high", True),
        ("gpt-oss:20b", "off", None),
        ("gpt-oss:120b-cloud", "medium", "medium"),
        ("library/gpt-oss", "high", "high"),
    ],
)
def test_thinking_is_switched_or_has_a_level_as_the_model_has_it(model, wish, expected):
    """A level is refused by most models; gpt-oss takes nothing else."""
    assert sent(model=model, thinking=wish).get("think") == expected


def context(num_bytes, max_output_tokens=1024):
    prompt = Prompt("", "x" * num_bytes)
    return sent(prompt, max_output_tokens=max_output_tokens)["options"]["num_ctx"]


@given(num_bytes=st.integers(0, 200_000), limit=st.integers(1, 50_000))
def test_the_context_has_room_for_prompt_and_answer(num_bytes, limit):
    """Unless they are longer than the largest: then the server refuses or cuts, and says so."""
    size = context(num_bytes, limit)
    assert size in CONTEXT_TOKENS
    assert size == CONTEXT_TOKENS[-1] or size >= num_bytes / 4 + limit


@given(sizes=st.lists(st.integers(0, 200_000), min_size=2, max_size=2).map(sorted))
def test_a_longer_prompt_never_gets_less_context(sizes):
    """Whatever is guessed of its tokens."""
    shorter, longer = sizes
    assert context(shorter) <= context(longer)


def test_nearly_all_tickets_share_one_context():
    """Every other one has the model loaded anew: a change of size costs seconds."""
    usual = [context(num_bytes, 1024 + 4096) for num_bytes in range(0, 9000, 100)]
    assert set(usual) == {CONTEXT_TOKENS[0]}
    assert context(9_000, 20_000) == CONTEXT_TOKENS[-1] == context(10**6)


def test_every_request_is_one_that_ollama_reads():
    """All modes with all combinations of options."""
    validator = Draft202012Validator(REQUEST)
    for mode, model, seed, temperature, alternatives, thinking in itertools.product(
        MODES,
        ["qwen3:4b", "gpt-oss:20b", "glm-5:cloud"],
        [None, 7],
        [None, 0.0],
        [None, 0, 20],
        [None, "off", "low", "medium", "high"],
    ):
        validator.validate(
            sent(
                mode=mode,
                model=model,
                seed=seed,
                temperature=temperature,
                num_alternatives=alternatives,
                thinking=thinking,
            )
        )


@pytest.mark.parametrize(
    "change",
    [
        {"stream": True},
        {"options": {"max_tokens": 5}},
        {"format": "text"},
        {"think": "off"},
        {"top_logprobs": 21},
        {"seed": 7},
        {"tool_choice": "required"},
    ],
)
def test_the_schema_of_requests_refuses_what_ollama_does_not_read(change):
    """A checker that takes everything would prove nothing."""
    assert not Draft202012Validator(REQUEST).is_valid(sent() | change)


@pytest.mark.parametrize("thinking", [None, "off", "low"])
@pytest.mark.parametrize("model", ["qwen3:4b", "gemma4:27b", "gpt-oss:20b", "gpt-oss:120b-cloud"])
def test_what_a_model_is_believed_to_take_is_what_ollama_reads(model, thinking):
    """Declared facts, profile and adapter together: no schema and no numbers from the cloud, and no
    schema where it is lost as soon as thinking is switched off."""
    task, wishes = Task.triage(), Wishes(thinking=thinking)
    target = Target(profile=PROFILE, model=model, facts=PROFILE.declared(model))
    way = approach(task, target, wishes)
    wanted = options(way, task, target, wishes)
    body = json.loads(ADAPTER.build(way.schema, PROMPT, wanted).body)
    Draft202012Validator(REQUEST).validate(body)
    is_local = not model.endswith("cloud")
    is_enforced = is_local and (model, thinking) != ("gemma4:27b", "off")
    assert ("logprobs" in body, way.mode == "native") == (is_local, is_enforced)
