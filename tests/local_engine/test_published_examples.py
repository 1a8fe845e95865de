"""Published numbers and behaviours of constrained decoding, each through the engine itself.

Most models here are tables of logits, so that every number can be followed by hand; the last ones
are real.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_models import toy

from weighbridge.local_engine import guides
from weighbridge.local_engine.chat_template import Message
from weighbridge.local_engine.decoding import decoder
from weighbridge.local_engine.decoding.generation import Generation
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.schemas.finite import Choice, FiniteLanguage, Option
from weighbridge.schemas.task import Task

LETTERS = {"a": 2.0, "b": 1.5, "c": 1.0, "d": 0.5, "e": 0.2, "X": 3.5}
MOVES = {"run": 2.5, "walk": 2.0, "jump": 1.8, "skip": 1.5, "hop": 1.0, "crawl": 0.5, "roll": 0.2}
TRIAGE = Task.triage()
TICKETS = ("I was charged twice, please refund me.", "The export button crashes the app.")
RARELY = -30.0


@pytest.fixture
def drawn_from(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The distributions that the engine has drawn its tokens from, in order."""
    seen: list[Tensor] = []

    def watched(logits: Tensor, sampling: Sampling) -> Tensor:
        seen.append(real(logits, sampling))
        return seen[-1]

    real = decoder.distribution
    monkeypatch.setattr(decoder, "distribution", watched)
    return seen


def saying(logits: Mapping[str, float]) -> Engine:
    """An engine that finds these words as likely everywhere, and hardly ever ends."""
    return toy([*(word.encode() for word in logits), b""], [*logits.values(), RARELY])


def one_word(engine: Engine, spec: Spec, **settings: Any) -> str:
    return engine.generate([0], spec, sampling=Sampling(**settings), max_tokens=1).text


def in_percent(distribution: Tensor) -> list[float]:
    return [round(100 * p, 1) for p in distribution.tolist()]


# The mask


@pytest.mark.parametrize(
    ("temperature", "wanted"),
    [
        (0.5, [63.3, 23.3, 8.6, 3.2, 1.7]),
        (1.0, [42.3, 25.7, 15.6, 9.4, 7.0]),
        (2.0, [30.6, 23.9, 18.6, 14.5, 12.5]),
    ],
)
def test_temperature_under_a_mask(drawn_from, temperature, wanted):
    """The likeliest letter is forbidden, and has no share at any temperature."""
    engine, spec = saying(LETTERS), guides.choice(["a", "b", "c", "d", "e"])
    texts = {one_word(engine, spec, temperature=temperature, seed=seed) for seed in range(20)}
    assert texts <= set("abcde")
    for distribution in drawn_from:
        assert in_percent(distribution) == [*wanted, 0.0, 0.0]


def test_top_k_is_taken_among_what_the_mask_leaves(drawn_from):
    """Taken before it, the forbidden favourite would use up one of the three places."""
    engine, spec = saying({**MOVES, "FLY": 5.0}), guides.choice(list(MOVES))
    texts = {one_word(engine, spec, temperature=1.0, top_k=3, seed=seed) for seed in range(20)}
    assert texts <= {"run", "walk", "jump"}
    for distribution in drawn_from:
        assert in_percent(distribution) == [47.5, 28.8, 23.6] + 6 * [0.0]


def test_greedy_answers_with_the_best_allowed_label_for_every_ticket():
    """Choosing first and masking afterwards gives the lowest token whenever it is not allowed."""
    labels = ["how_to", "billing", "bug", "login"]
    words = [*(label.encode() for label in labels), b"Sure!", b""]
    says = torch.full((6, 6), -1.0)
    says[:, 4] = 9.0  # what it would rather say is no label at all
    for ticket, label in enumerate((1, 2, 3, 0)):
        says[ticket, label] = 2.0
    engine = toy(words, says)
    for ticket, label in enumerate(("billing", "bug", "login", "how_to")):
        answer = engine.generate([ticket], guides.choice(labels))
        assert (answer.text, answer.steps[0].rank) == (label, 2)
        assert engine.generate([ticket], max_tokens=1).text == "Sure!"


def test_draws_have_the_published_shares():
    """Not only the distribution is right, but also what is drawn from it."""
    engine, spec = saying(LETTERS), guides.choice(["a", "b", "c", "d", "e"])
    answers = engine.generate_many([[0]], spec, samples=2000, sampling=Sampling(temperature=1.0))
    found = Counter(answer.text for answer in answers if isinstance(answer, Generation))
    wanted = dict(zip("abcde", [0.423, 0.257, 0.156, 0.094, 0.070], strict=True))
    statistic = sum((found[k] - 2000 * p) ** 2 / (2000 * p) for k, p in wanted.items())
    assert statistic < 18.467  # exceeded once in a thousand runs at four degrees of freedom


# Logit bias


def test_bias_of_minus_100_bans():
    """Also what is by far the likeliest, at every temperature up to 2."""
    engine, spec = saying(LETTERS), guides.soft(by_text={"X": -100.0})
    assert one_word(engine, guides.soft(), temperature=0.0) == "X"
    for temperature in (0.0, 1.0, 2.0):
        texts = {one_word(engine, spec, temperature=temperature, seed=seed) for seed in range(50)}
        assert texts <= set("abcde")


def test_bias_of_1_multiplies_the_odds_by_e(drawn_from):
    """Against every other token, and nothing else changes."""
    engine = saying(LETTERS)
    for spec in (guides.soft(), guides.soft(by_text={"c": 1.0})):
        one_word(engine, spec, temperature=1.0)
    plain, nudged = (distribution.double() for distribution in drawn_from)
    odds = [float(nudged[2] / nudged[i]) / float(plain[2] / plain[i]) for i in (0, 1, 3, 4, 5)]
    assert odds == pytest.approx([math.e] * 5, rel=1e-5)
    assert float(nudged[0] / nudged[1]) == pytest.approx(math.exp(0.5), rel=1e-5)


def test_bias_of_100_forces_at_every_step():
    """However unlikely the token, and end of text as well: the answer goes on to its length."""
    engine, spec = saying(LETTERS), guides.soft(by_text={"e": 100.0})
    for temperature in (0.0, 1.0, 2.0):
        sampling = Sampling(temperature=temperature)
        answer = engine.generate([0], spec, sampling=sampling, max_tokens=12)
        assert (answer.text, answer.finish) == ("e" * 12, "length")
        assert [step.rank for step in answer.steps] == [6] * 12
        assert [step.mass for step in answer.steps] == pytest.approx([1.0] * 12)


# Given or forced


def test_literal_and_prefill_give_the_same_text_and_prefill_is_quicker():
    """The prefill is read with the prompt; a literal is a part of the answer."""
    engine = saying({**LETTERS, "Answer: ": 0.0})
    choice = guides.choice(["a", "b", "X"])
    forced = engine.generate([0], guides.then(guides.literal("Answer: "), choice))
    given_before = engine.generate([0], choice, prefill="Answer: ", heal=False)
    assert forced.text == given_before.text == "Answer: X"
    assert [step.source for step in forced.steps] == ["guide", "model"]
    assert [step.source for step in given_before.steps] == ["prefill", "model"]
    assert (forced.forward_passes, given_before.forward_passes) == (1, 0)


# Options that share a beginning


def test_option_is_not_chosen_by_its_first_token():
    """Asked for something like the sky: `sk` is the likeliest first token of the options."""
    words = [b"sk", b"ill", b"y", b"cloud", b""]
    says = torch.full((5, 5), RARELY)
    says[4] = torch.tensor([0.0, RARELY, RARELY, -0.2, RARELY])  # after the prompt: `sk` or `cloud`
    says[0] = torch.tensor([RARELY, -6.0, 0.0, RARELY, RARELY])  # after `sk`: `y`, hardly `ill`
    says[1, 4] = says[3, 4] = 0.0
    engine, options = toy(words, says), ["skill", "cloud"]
    assert engine.generate([4], guides.choice(options)).text == "skill"
    found = engine.posterior([4], options)
    assert found.best == "cloud"
    assert found.joint()['"cloud"'] > 0.99


def test_option_that_another_begins_with_is_chosen_with_its_end():
    """Without the end of text, `bug` would always be at least as likely as `bugfix`."""
    words = [b"bug", b"fix", b"?", b""]
    says = torch.tensor([[RARELY, 2.0, RARELY, 0.0]] * 2 + [[1.0, RARELY, RARELY, RARELY]] * 2)
    says[1] = torch.tensor([RARELY, RARELY, RARELY, 1.0])
    joint = toy(words, says).posterior([2], ["bug", "bugfix"]).joint()
    share = 1 / (1 + math.exp(-2.0))
    assert joint == pytest.approx({'"bugfix"': share, '"bug"': 1 - share})


# The real generator


def conversation(ticket: str) -> list[Message]:
    return [Message("system", TRIAGE.system), Message("user", ticket)]


@pytest.mark.models
@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_all_24_objects_are_reached_by_valid_answers_alone(models, temperature):
    """Under the guide every answer is an object of the schema; without it, it may be anything."""
    assert TRIAGE.language is not None
    valid = set(TRIAGE.language.strings())
    assert len(valid) == 24
    spec, sampling = guides.finite(TRIAGE.language), Sampling(temperature=temperature, seed=1)
    prompts = [conversation(ticket) for ticket in TICKETS]
    answers = models.generate_many(prompts, spec, samples=2, sampling=sampling)
    assert {answer.text for answer in answers} <= valid
    assert all(json.loads(answer.text).keys() == {"category", "priority"} for answer in answers)
    free = models.generate_many(prompts, sampling=sampling, max_tokens=12)
    assert not {answer.text for answer in free} & valid


@pytest.mark.models
def test_model_that_does_not_know_the_task_says_so_by_its_mass(models):
    """A sure-looking posterior over labels of which none is what the model would have said."""
    assert TRIAGE.language is not None
    for ticket in TICKETS:
        found = models.posterior(conversation(ticket), TRIAGE.language, with_near_misses=True)
        assert sum(found.joint().values()) == pytest.approx(1.0)
        assert 0 < found.mass[0] <= found.mass[1] < 0.1
        assert found.mass[1] <= found.decision_mass < 0.1
        assert found.near_misses is not None
        assert found.near_misses[1] < 0.1


@pytest.mark.models
def test_model_that_knows_the_answer_says_so_by_its_mass(models):
    """The same number, where the question is one that it has read many times."""
    cities = tuple(Option(city, f" {city}.", ".") for city in ("London", "Paris"))
    found = models.posterior("The capital of France is", FiniteLanguage((Choice((), cities),)))
    assert found.best == "Paris"
    assert found.mass[0] > 0.3
