"""Refusals: what a provider does not take, told apart from what was merely mentioned."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vendor_errors import anthropic, error
from vendor_refusals import LIMITED, REFUSED, SAID, SAID_OF_SCHEMAS, SCHEMA_REFUSED
from wire import response

from weighbridge.capability import Feature
from weighbridge.decision import FailureKind as Kind
from weighbridge.providers.failures import classify

TICKET = "my card was charged twice and your app does not support logprobs"
QUOTES = ["''", '""', "``", "\u201c\u201d", ("'", ""), ('"', " and so on")]

# Where the wires keep it.
PATHS = [
    ("top_logprobs", Feature.TOP_LOGPROBS),
    ("generationConfig.responseLogprobs", Feature.LOGPROBS),
    ("generation_config.logprobs", Feature.LOGPROBS),
    ("logit_bias", Feature.LOGIT_BIAS),
    ("random_seed", Feature.SEED),
    ("options.temperature", Feature.TEMPERATURE),
    ("max_completion_tokens", Feature.MAX_COMPLETION_TOKENS),
    ("max_tokens", Feature.MAX_TOKENS),
    ("generationConfig.maxOutputTokens", Feature.MAX_TOKENS),
    ("max_new_tokens", Feature.MAX_TOKENS),
    ("options.num_predict", Feature.MAX_TOKENS),
    ("reasoning.max_tokens", Feature.REASONING),
    ("reasoning.max_tokens", Feature.REASONING),
    ("output_config.effort", Feature.REASONING),
    ("think", Feature.REASONING),
    ("thinking.budget_tokens", Feature.REASONING),
    ("generationConfig.thinkingConfig.includeThoughts", Feature.REASONING),
    ("thinkingBudget", Feature.REASONING),
    ("thinkingLevel", Feature.REASONING),
    ("enable_thinking", Feature.REASONING),
    ("chat_template_kwargs.other", Feature.REASONING),
    ("tools[0].function.strict", Feature.TOOL),
    ("tool.strict", Feature.TOOL),
    ("tool_choice", Feature.TOOL),
    ("toolConfig", Feature.TOOL),
    ("functionDeclarations", Feature.TOOL),
    ("functions", Feature.TOOL),
    ("functionCallingConfig.mode", Feature.TOOL),
    ("function_call", Feature.TOOL),
    ("parallel_tool_calls", Feature.TOOL),
    ("json_object", Feature.JSON_OBJECT),
    ("response_format", Feature.JSON_SCHEMA),
    ("response_format.type", Feature.JSON_SCHEMA),
    ("output_format", Feature.JSON_SCHEMA),
    ("output_config", Feature.JSON_SCHEMA),
    ("output_config.format", Feature.JSON_SCHEMA),
    ("text.format", Feature.JSON_SCHEMA),
    ("format", Feature.JSON_SCHEMA),
    ("json_schema", Feature.JSON_SCHEMA),
    ("generationConfig.responseMimeType", Feature.JSON_SCHEMA),
    ("structured_outputs", Feature.JSON_SCHEMA),
    ("guided_json", Feature.JSON_SCHEMA),
]


@pytest.mark.parametrize(("status", "body", "feature"), REFUSED)
def test_a_missing_capability_has_our_name_for_it(status, body, feature):
    """Code, or parameter and wording tell, never the status; whatever the wire calls the field."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
    assert (failure.is_schema, failure.limit) == (False, None)


@pytest.mark.parametrize(("status", "body", "feature"), SCHEMA_REFUSED)
def test_a_refused_schema_is_no_refusal_of_schemas(status, body, feature):
    """A simpler one may well be taken: what is learned is about this one alone."""
    failure = classify(response(status, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
    assert (failure.is_schema, failure.limit) == (True, None)


@pytest.mark.parametrize(("path", "feature"), PATHS)
def test_one_capability_has_one_name_on_all_wires(path, feature):
    """Whoever calls it what, wherever it stands in the request."""
    for body in (
        error("No.", param=path, code="unsupported_parameter"),
        error("It is not supported.", param=path),
        anthropic(f"{path}: Extra inputs are not permitted"),
        {"detail": [{"type": "extra_forbidden", "loc": ["body", *path.split(".")], "msg": "No"}]},
    ):
        failure = classify(response(400, body))
        assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
        assert not failure.is_schema


@pytest.mark.parametrize(("sentence", "feature"), SAID)
def test_a_sentence_can_do_without_a_parameter_beside_it(sentence, feature):
    """If it names what it rejects, or says that the model lacks it."""
    failure = classify(response(400, error(sentence)))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)


@pytest.mark.parametrize("sentence", SAID_OF_SCHEMAS)
def test_sentences_about_the_schema_are_known(sentence):
    """Compilers complain in words of their own."""
    assert classify(response(400, error(sentence))).is_schema


@pytest.mark.parametrize(("body", "feature", "limit"), LIMITED)
def test_a_limit_is_learned_with_its_number(body, feature, limit):
    """It is the model's and not the caller's: another provider may take as much."""
    failure = classify(response(400, body))
    assert (failure.kind, failure.parameter) == (Kind.CAPABILITY, feature)
    assert (failure.limit, failure.is_schema) == (limit, False)


@pytest.mark.parametrize(
    "body",
    [
        error(
            "'messages' must contain the word 'json' to use 'response_format'.", param="messages"
        ),
        error("Invalid value: response_format.", param="response_format", code="invalid_value"),
        error("Missing required parameter.", code="missing_required_parameter"),
        error("name: string too long", param="response_format.json_schema.name"),
        error("'top_logprobs' is only allowed when 'logprobs' is enabled.", param="top_logprobs"),
        error("temperature must be less than or equal to 2", param="temperature"),
        error("decimal below minimum", param="temperature", code="decimal_below_min_value"),
        error('Either "json_schema" or "grammar" can be specified, but not both'),
        error("Pictures of that size are not supported."),
        error("Web search options are required.", param="web_search_options"),
        # the same words, but the ticket's
        error(f"Invalid text: '{TICKET}'", param="messages[1].content"),
        error(f"{TICKET}", param="messages"),
        error(f'Could not read "{TICKET}".'),
        error(f'Could not read "{TICKET}'),
        error(f"1 validation error, input_value={{'content': 'x' {TICKET}}}"),
        error("Bad. " + "x" * 300 + f" The ticket: {TICKET}"),
        anthropic(f"messages.0.content: {TICKET}"),
        anthropic("messages.0.content: Invalid schema for response_format"),
        anthropic("messages.0.content: Extra inputs are not permitted, credit balance is too low"),
        {"detail": [{"loc": ["body", "messages", 0], "msg": TICKET, "input": TICKET}]},
    ],
)
def test_naming_a_parameter_is_not_rejecting_it(body):
    """Neither does quoting somebody who rejects one (iTestFlow-Agent#197)."""
    failure = classify(response(400, body))
    assert (failure.kind, failure.parameter) == (Kind.CALLER_FAULT, None)
    assert (failure.is_schema, failure.limit) == (False, None)


@given(ticket=st.sampled_from([b for _, b, _ in REFUSED + SCHEMA_REFUSED]))
def test_what_refuses_in_an_error_refuses_nothing_in_a_ticket(ticket):
    """The whole text of a refusal, as the content that a server could not read."""
    text = json.dumps(ticket)
    plain = re.sub(r"[\\\"'`]", "", text)
    for body in (
        error(f"Invalid content: {text}", param="messages[1].content"),
        anthropic(f"messages.0.content: {text}"),
        *(error(f"Could not read {opening}{plain}{end}") for opening, end in QUOTES),
    ):
        assert classify(response(400, body)).kind is Kind.CALLER_FAULT


@pytest.mark.parametrize("status", [401, 413, 429, 500, 503])
@pytest.mark.parametrize("body", [error("`seed` is not supported with this model")])
def test_statuses_that_say_why_are_not_refusals(status, body):
    """Only a 400 and its like leave open what is wrong."""
    failure = classify(response(status, body))
    assert failure.kind is not Kind.CAPABILITY
    assert failure.parameter is None
