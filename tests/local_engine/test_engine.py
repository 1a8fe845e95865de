"""The engine: what it says of a ticket is what the slow way says of the same prompt."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from naive_scoring import option_log_probs

from weighbridge.errors import ModelMissing, ModelUnknown
from weighbridge.local_engine import guides
from weighbridge.local_engine.chat_template import ChatTemplate
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.prior import LabelText
from weighbridge.local_engine.spellings import Text
from weighbridge.local_engine.tickets import _NO_TICKET
from weighbridge.local_engine.weighing import MODEL_WEIGHT, FieldSpec
from weighbridge.schemas.finite import FiniteLanguage, judged_fields, language
from weighbridge.schemas.task import Task

SYSTEM = "Sort the ticket."
SCHEMA = {
    "type": "object",
    "properties": {
        "category": {"enum": ["bug", "bug_report", "billing", "the end."]},
        "urgent": {"type": "boolean"},
    },
    "required": ["category", "urgent"],
    "additionalProperties": False,
}


def specs(schema) -> list[FieldSpec]:
    return [
        FieldSpec(
            path=field.path,
            options=field.options,
            labels=tuple(LabelText(name=json.dumps(option)) for option in field.options),
        )
        for field in judged_fields(schema)
    ]


def weighed(engine, ticket, schema=SCHEMA, system=SYSTEM):
    return engine.weigh(system, ticket, language(schema), specs(schema))


def assert_same_weights(one, other):
    for field, twin in zip(one.weights.fields, other.weights.fields, strict=True):
        assert field.posterior == pytest.approx(twin.posterior, abs=1e-6)


def naive_log_probs(engine, ticket):
    """Of the first field's options, each by a pass over the whole prompt."""
    chat, encode, words = engine.chat, engine.vocabulary.encode, language(SCHEMA)
    prompt = [*chat.before_user(SYSTEM), *encode(ticket), *chat.after_user(SYSTEM)]
    prompt += encode(words.parts[0].text)
    texts = [Text(o.stem, o.closer) for o in words.choices[0].options]
    each = option_log_probs(engine.model, engine.vocabulary, prompt, texts)
    return torch.tensor(each, dtype=torch.float64)


def test_first_field_is_weighed_as_the_prompt_has_it(tiny_engine):
    """Prompt, prefix cache, scoring and softmax together."""
    ticket = "The bill has a bug."
    wanted, empty = (naive_log_probs(tiny_engine, text) for text in (ticket, _NO_TICKET))
    field = weighed(tiny_engine, ticket).weights.fields[0]
    assert field.model == pytest.approx(wanted.softmax(0).tolist(), abs=1e-4)
    lift = wanted - empty
    assert field.lift == pytest.approx(lift.softmax(0).tolist(), abs=1e-4)
    assert field.posterior == pytest.approx((MODEL_WEIGHT * lift).softmax(0).tolist(), abs=1e-5)
    assert field.mass[0] == pytest.approx(float(wanted.logsumexp(0).exp()), rel=1e-4)
    assert (field.prior, field.support) == (None, None)


def test_ticket_is_weighed_the_same_however_often_it_comes(tiny, tiny_tokenizer):
    """Caches of tasks change nothing, even where many tasks push each other out."""
    chat = ChatTemplate("", tiny_tokenizer)
    engine, fresh = (Engine(tiny, tiny_tokenizer, chat=chat) for _ in range(2))
    first = weighed(engine, "It broke.")
    for number in range(20):
        weighed(engine, "Another.", system=f"{SYSTEM} {number}")
    assert_same_weights(first, weighed(engine, "It broke."))
    assert_same_weights(first, weighed(fresh, "It broke."))


@pytest.mark.parametrize(
    "ticket", ["", " ", "\x00", "<|im_end|>\n<|im_start|>assistant\n", "😀" * 99]
)
def test_any_text_is_weighed(tiny_engine, ticket):
    for field in weighed(tiny_engine, ticket).weights.fields:
        assert sum(field.posterior) == pytest.approx(1.0)


def test_long_ticket_is_cut_and_says_so(tiny_engine):
    """Head and tail are read; what stands in the middle changes nothing."""
    head, tail = "h" * 48, "t" * 16
    one, other = (weighed(tiny_engine, head + middle * 99 + tail) for middle in ("x", "y"))
    assert (one.ticket_tokens, one.read_tokens) == (163, 64)
    assert_same_weights(one, other)
    whole = weighed(tiny_engine, head + tail)
    assert (whole.ticket_tokens, whole.read_tokens) == (64, 64)


@pytest.mark.parametrize(
    "schema",
    [
        {**SCHEMA, "required": ["category"]},
        {"enum": ["bug", "billing", 3]},
        {**SCHEMA, "properties": {"category": {"const": "bug"}}, "required": ["category"]},
        {**SCHEMA, "properties": {}, "required": []},
        {"type": "array", "prefixItems": [{"enum": [1, 2]}], "items": False, "minItems": 1},
    ],
)
def test_any_finite_language_is_weighed(tiny_engine, schema):
    """Optional fields, bare values, a single option, nothing to choose at all, whole arrays."""
    for _ in range(2):
        weights = weighed(tiny_engine, "It broke.", schema).weights
        assert json.dumps(weights.value) in [
            json.dumps(json.loads(answer)) for answer in language(schema).strings()
        ]
        for field in weights.fields:
            assert sum(field.posterior) == pytest.approx(1.0)


def test_two_hundred_labels_are_weighed(tiny_engine):
    schema = {**SCHEMA, "properties": {"category": {"enum": [f"bug {n}" for n in range(200)]}}}
    schema["required"] = ["category"]
    (field,) = weighed(tiny_engine, "It broke.", schema).weights.fields
    assert sum(field.posterior) == pytest.approx(1.0)
    assert len(set(field.posterior)) == 200


CHOICE = guides.choice(["bug", "billing"])


@pytest.mark.parametrize(
    ("method", "arguments", "settings", "error"),
    [
        ("generate", ("a", "choice"), {}, TypeError),
        ("generate", ("a", ["bug", "billing"]), {}, TypeError),
        ("generate", ("a",), {"stop": "ab"}, TypeError),
        ("generate", ("a",), {"samples": 2}, TypeError),
        ("generate", ("a",), {"max_token": 2}, TypeError),
        ("generate", ("a", CHOICE), {"num_candidates": -1}, ValueError),
        ("explain", ("a", CHOICE), {"num_candidates": -1}, ValueError),
        ("generate_many", ("ab", CHOICE), {}, TypeError),
        ("generate_many", (["a"], CHOICE), {"samples": 0}, ValueError),
    ],
)
def test_argument_that_cannot_be_meant_is_refused(tiny_engine, method, arguments, settings, error):
    """A text is no list of its letters, and a list is no guide."""
    with pytest.raises(error):
        getattr(tiny_engine, method)(*arguments, **settings)


def test_any_whole_number_is_a_seed(tiny_engine):
    """Also one that torch cannot hold, and those that are counted up from it."""
    found = []
    for seed in (2**64 - 1, -1, 2**200):
        sampling = Sampling(temperature=1.0, seed=seed)
        answers = tiny_engine.generate_many(["a"], samples=2, sampling=sampling, max_tokens=8)
        found.append([answer.token_ids for answer in answers])
    assert found[0] == found[1] != found[2]
    drawn = tiny_engine.posterior("a", ["bug", "billing"]).sample(20, seed=2**200)
    assert set(drawn) <= {"bug", "billing"}


def test_no_draws_are_none_and_fewer_are_an_error(tiny_engine):
    found = tiny_engine.posterior("a", ["bug", "billing"])
    assert found.sample(0) == []
    with pytest.raises(ValueError, match="count"):
        found.sample(-1)


def test_choice_that_is_not_there_is_named_with_those_that_are(tiny_engine):
    with pytest.raises(KeyError, match=r"categori.*category.*urgent"):
        tiny_engine.posterior("a", language(SCHEMA)).marginal(("categori",))


def test_language_of_nothing_has_one_member(tiny_engine):
    assert tiny_engine.posterior("a", FiniteLanguage(())).mass == (1.0, 1.0)


def test_ticket_without_room_is_refused(tiny, tiny_tokenizer):
    with pytest.raises(ValueError, match="max_ticket_tokens"):
        Engine(tiny, tiny_tokenizer, max_ticket_tokens=0)


def test_explanation_names_model_and_guide_and_what_was_read(tiny, tiny_tokenizer, tiny_engine):
    """As people call them; without a name the model is called by its class."""
    named = Engine(tiny, tiny_tokenizer, name="my model").explain("the bug", CHOICE)
    assert (named.model, named.guide, named.prompt) == ("my model", "choice", "the bug")
    free = tiny_engine.explain("the bug", max_tokens=2)
    assert (free.model, free.guide) == ("Llama", "")
    assert [len(one.free) for one in free.generation.steps] == [5, 5]


def test_engine_without_models_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(tmp_path))
    with pytest.raises(ModelMissing) as caught:
        Engine.load()
    assert "weighbridge model pull" in caught.value.hint
    with pytest.raises(ModelUnknown, match="smollm3"):
        Engine.load("smollm3", prior=None)


@pytest.mark.models
def test_real_engine_weighs_the_triage_task(models):
    """The label prior knows the task without any label."""
    task = Task.triage()
    fields = [
        FieldSpec(
            path=field.path,
            options=field.options,
            labels=tuple(
                LabelText(
                    name=str(option),
                    description=field.labels[option].description,
                    phrases=field.labels[option].phrases,
                )
                for option in field.options
            ),
        )
        for field in task.fields
    ]
    ticket = "I was charged twice for the Team plan. Refund please."
    result = models.weigh(task.system, ticket, task.language, fields)
    category, priority = result.weights.fields
    assert result.weights.value["category"] == category.value == "billing"
    assert not result.is_foreign
    for field in (category, priority):
        assert sum(field.posterior) == pytest.approx(1.0)
        assert sum(field.prior) == pytest.approx(1.0)
        assert 0 < field.mass[0] < field.mass[1] < 1
    assert models.weigh(
        task.system, "Ich kann mich seit gestern nicht mehr anmelden.", task.language, fields
    ).is_foreign


@pytest.mark.models
def test_real_engine_reads_labels_anew_when_they_change(models):
    """Phrases are no part of the prompt, so the same prompt may stand for other labels."""
    words = language(SCHEMA)
    ticket = "My invoice is wrong."
    results = []
    for phrases in (("The button does nothing.",), (ticket,)):
        labels = tuple(
            LabelText(name=o, phrases=phrases if o == "bug" else (o,))
            for o in SCHEMA["properties"]["category"]["enum"]
        )
        spec = FieldSpec(
            path=("category",), options=tuple(label.name for label in labels), labels=labels
        )
        results.append(models.weigh(SYSTEM, ticket, words, [spec]).weights.fields[0].posterior[0])
    assert results[0] < 0.5 < results[1]


@pytest.mark.models
def test_field_without_labels_is_not_judged_by_the_prior(models):
    """Degrees are no topics: nearness says nothing about them."""
    category, urgent = specs(SCHEMA)
    unlabelled = replace(urgent, labels=())
    one, other = models.weigh(
        SYSTEM, "My invoice is wrong.", language(SCHEMA), [category, unlabelled]
    ).weights.fields
    assert one.prior is not None
    assert (other.prior, other.support) == (None, None)


@pytest.mark.models
def test_real_engine_reads_a_megabyte(models):
    """To its limit; the rest costs no forward pass."""
    result = weighed(models, "My invoice is wrong. " * 50_000)
    assert result.ticket_tokens > 200_000
    assert result.read_tokens == 1024
