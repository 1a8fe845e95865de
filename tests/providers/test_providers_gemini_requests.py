"""What the Gemini adapter sends."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import httpx
import pytest
from gemini_request_schemas import REQUEST
from jsonschema import Draft202012Validator

from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.asking import Target, Wishes, approach, options
from weighbridge.providers.gemini import GeminiAdapter
from weighbridge.providers.profiles import named
from weighbridge.providers.protocol import RequestOptions
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Prompt, Task

PROFILE = named("gemini_native")
ADAPTER = GeminiAdapter(PROFILE)
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"enum": ["bug", "café"]},
        "score": {"type": "integer", "minimum": 1, "exclusiveMaximum": 6},
        "note": {"type": ["string", "null"], "pattern": "^a", "maxLength": 80},
        "tags": {"type": "array", "items": {"const": "x"}, "maxItems": 20, "uniqueItems": True},
    },
    "required": ["category"],
    "additionalProperties": False,
}
PLAN = plan(SCHEMA, "gemini")
PROMPT = Prompt("Sort tickets.", "Zu teuer! 🙁")
OPTIONS = RequestOptions(
    model="gemini-3.5-flash",
    max_output_tokens=64,
    num_alternatives=20,
    seed=0,
    temperature=0.0,
    thinking="off",
)
MODES = ("native", "tool", "json_mode", "prompted")
MODELS = (
    "gemini-3.5-flash",
    "models/gemini-3.1-pro-preview",
    "gemini-3-pro-preview",
    "gemini-3.8-flash",
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "gemini-2.0-flash",
    "gemma-3-27b-it",
    "gemini-flash-latest",
)


def sent(**changed):
    return json.loads(ADAPTER.build(PLAN, PROMPT, replace(OPTIONS, **changed)).body)


def config(**changed):
    return sent(**changed)["generationConfig"]


def test_the_profile_finds_its_adapter():
    """By its wire format."""
    assert adapter_for(PROFILE) == ADAPTER


def test_a_request_is_sent_as_a_whole():
    """Every field, so that a change of the wire format is seen."""
    whole = ADAPTER.build(PLAN, PROMPT, OPTIONS)
    assert (whole.method, whole.path) == ("POST", "/models/gemini-3.5-flash:generateContent")
    assert whole.headers == {"content-type": "application/json", "accept": "application/json"}
    assert json.loads(whole.body) == {
        "systemInstruction": {"parts": [{"text": "Sort tickets."}]},
        "contents": [{"role": "user", "parts": [{"text": "Zu teuer! 🙁"}]}],
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": PLAN.wire,
            "maxOutputTokens": 64,
            "temperature": 0.0,
            "seed": 0,
            "responseLogprobs": True,
            "logprobs": 20,
            "thinkingConfig": {"thinkingLevel": "MINIMAL"},
        },
    }


def test_the_order_of_properties_is_told_apart():
    """Google writes required properties first otherwise."""
    ordering = config()["responseJsonSchema"]["propertyOrdering"]
    assert ordering == ["category", "score", "note", "tags"]


@pytest.mark.parametrize(
    ("model", "segment"),
    [
        ("gemini-3.5-flash", "gemini-3.5-flash"),
        ("models/gemini-3.5-flash", "gemini-3.5-flash"),
        ("a/../b?c#d%e é", "a%2F..%2Fb%3Fc%23d%25e%20%C3%A9"),
    ],
)
def test_the_model_is_one_segment_of_the_path(model, segment):
    """With or without Google's prefix, and whatever a configured name holds."""
    path = ADAPTER.build(PLAN, PROMPT, replace(OPTIONS, model=model)).path
    assert path == f"/models/{segment}:generateContent"
    assert httpx.URL(f"https://g.test/v1beta{path}").raw_path.decode() == f"/v1beta{path}"


def test_a_tool_is_one_function_that_must_be_called():
    """Mode ANY alone leaves no choice; a JSON type beside it is refused before Gemini 3."""
    body = sent(mode="tool")
    [tool] = body["tools"]
    [function] = tool["functionDeclarations"]
    assert (function["name"], function["parametersJsonSchema"]) == ("answer", PLAN.wire)
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["answer"]}
    }
    assert not {"responseMimeType", "responseJsonSchema"} & body["generationConfig"].keys()


def test_the_function_can_have_another_name():
    """The one that is declared is the one that must be called."""
    other = GeminiAdapter(PROFILE, tool="final_result")
    body = json.loads(other.build(PLAN, PROMPT, replace(OPTIONS, mode="tool")).body)
    [tool] = body["tools"]
    assert tool["functionDeclarations"][0]["name"] == "final_result"
    assert body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == ["final_result"]


@pytest.mark.parametrize("mode", ["json_mode", "prompted"])
def test_a_schema_that_is_not_enforced_is_shown(mode):
    """The schema is a semantic parameter: it changes its place and is never dropped."""
    body = sent(mode=mode)
    [part] = body["systemInstruction"]["parts"]
    told = part["text"]
    assert told.startswith("Sort tickets.\n\n")
    assert json.loads(told[told.index("{") :]) == PLAN.wire
    mime = body["generationConfig"].get("responseMimeType")
    assert mime == ("application/json" if mode == "json_mode" else None)


def test_gemma_reads_the_system_text_as_the_users():
    """It refuses a system instruction."""
    body = sent(model="gemma-3-27b-it", mode="prompted")
    assert "systemInstruction" not in body
    first, second = body["contents"][0]["parts"]
    assert first["text"].startswith("Sort tickets.")
    assert second["text"] == PROMPT.user


@pytest.mark.parametrize(
    ("unset", "gone"),
    [
        ({"seed": None}, {"seed"}),
        ({"temperature": None}, {"temperature"}),
        ({"num_alternatives": None}, {"responseLogprobs", "logprobs"}),
        ({"num_alternatives": 0}, {"logprobs"}),
        ({"thinking": None}, {"thinkingConfig"}),
        ({"mode": "json_mode"}, {"responseJsonSchema"}),
        ({"mode": "prompted"}, {"responseJsonSchema", "responseMimeType"}),
    ],
)
def test_what_is_unset_is_left_out(unset, gone):
    """And nothing else: no null, no default in its place."""
    whole, less = config(), config(**unset)
    assert whole.keys() - less.keys() == gone
    assert less.keys() <= whole.keys()


@pytest.mark.parametrize(
    ("model", "wish", "expected"),
    [
        ("gemini-3.5-flash-lite", "off", {"thinkingLevel": "MINIMAL"}),
        ("models/gemini-3-flash-preview", "high", {"thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "off", None),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-3-pro-preview", "medium", None),
        ("gemini-3.8-flash", "off", None),
        ("gemini-flash-latest", "low", {"thinkingLevel": "LOW"}),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("models/gemini-2.5-flash-lite", "low", {"thinkingBudget": 1024}),
        ("gemini-2.5-pro", "off", None),
        ("gemini-2.5-pro", "high", {"thinkingBudget": 4096}),
    ],
)
def test_thinking_is_a_level_or_a_budget_as_the_model_has_it(model, wish, expected):
    """A level is refused before Gemini 3, 0 by those that always think, MINIMAL by many."""
    assert config(model=model, thinking=wish).get("thinkingConfig") == expected


def test_budgets_for_thinking_fit_into_the_room_that_is_made_for_it():
    """The limit of the answer includes thoughts: a larger budget would leave nothing over."""
    budget = config(model="gemini-2.5-pro", thinking="high")["thinkingConfig"]["thinkingBudget"]
    assert budget <= Wishes().thinking_tokens


def test_a_logit_bias_cannot_be_said():
    """Left out in silence it would be another request than the one that was asked for."""
    with pytest.raises(ValueError, match="logit bias"):
        sent(logit_bias={1: 5.0})


def test_every_request_is_one_that_google_documents():
    """All modes with all combinations of options, down to the keywords of the schema."""
    validator = Draft202012Validator(REQUEST)
    combinations = itertools.product(
        MODES, MODELS, [None, 7], [None, 0.0], [None, 0, 5], [None, "off", "low", "medium", "high"]
    )
    for mode, model, seed, temperature, alternatives, thinking in combinations:
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
        {"generationConfig": {"responseSchema": {}}},
        {"generationConfig": {"responseJsonSchema": {}}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 0}}},
        {"generationConfig": {"logprobs": 5}},
        {"toolConfig": {}},
        {"model": "gemini-3.5-flash"},
        {"contents": []},
    ],
)
def test_the_schema_of_requests_refuses_what_google_refuses(change):
    """A checker that takes everything would prove nothing."""
    assert not Draft202012Validator(REQUEST).is_valid(sent() | change)


@pytest.mark.parametrize("thinking", [None, "off", "low"])
@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_is_believed_to_take_is_what_google_documents(model, thinking):
    """Declared facts, profile and adapter together: nowhere log-probabilities or a bias."""
    task, wishes = Task.triage(), Wishes(thinking=thinking)
    target = Target(profile=PROFILE, model=model, facts=PROFILE.declared(model))
    way = approach(task, target, wishes)
    wanted = options(way, task, target, wishes)
    body = json.loads(ADAPTER.build(way.schema, PROMPT, wanted).body)
    Draft202012Validator(REQUEST).validate(body)
    assert "responseLogprobs" not in body["generationConfig"]
    assert way.mode == ("prompted" if "gemma" in model else "native")
