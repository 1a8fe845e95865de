"""Decoding: nothing but prompt, guide and settings decides an answer, and greedy is greedy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from answers import (
    HARD,
    WORDS,
    assert_same,
    assert_same_steps,
    hard_specs,
    outcome,
    prompts,
    samplings,
    specs,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_scoring import all_log_probs
from tiny_model import tiny_llama
from toy_models import TINY, Counting, exact_engine, exact_llama, remembering

from weighbridge.local_engine import guides
from weighbridge.local_engine.decoding.decoder import MAX_ANSWERS
from weighbridge.local_engine.decoding.generation import Generation, Step
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.guides.protocol import Guide, Spec, State
from weighbridge.local_engine.vocabulary import Vocabulary

LONG = "the billing report: bug, the low bill. "  # more tokens than a shared prefix must have
WRITE = partial(Engine.generate, max_tokens=12)


@dataclass(frozen=True)
class Changed:
    """A spec whose guide is another one with a few methods replaced."""

    spec: Spec
    change: Any

    def bind(self, vocabulary: Vocabulary) -> Guide:
        return self.change(self.spec.bind(vocabulary))


class ByOne:
    """A guide that names one forced token at a time."""

    def __init__(self, guide: Guide) -> None:
        self._guide, self.is_hard = guide, guide.is_hard
        self.init, self.bias, self.advance = guide.init, guide.bias, guide.advance

    def finished(self, state: State) -> bool:
        return self._guide.finished(state)

    def forced(self, state: State) -> tuple[int, ...]:
        return self._guide.forced(state)[:1]


class Unforced(ByOne):
    """A guide that never says that there is no choice."""

    def forced(self, state: State) -> tuple[int, ...]:
        return ()


class Banning(ByOne):
    """A guide whose rows have some tokens masked out by hand."""

    def __init__(self, banned: frozenset[int], guide: Guide) -> None:
        super().__init__(guide)
        self._banned = torch.tensor(sorted(banned))
        self.bias = lambda state: guide.bias(state).index_fill(0, self._banned, -torch.inf)

    def finished(self, state: State) -> bool:
        left = set((self.bias(state) > -torch.inf).nonzero().flatten().tolist())
        return bool(left) and left <= TINY.eos_ids

    def forced(self, state: State) -> tuple[int, ...]:
        return ()


# Nothing but the request decides


@settings(max_examples=30)
@given(tails=st.lists(prompts, min_size=2, max_size=5), spec=specs, sampling=samplings)
def test_prompts_read_before_change_no_answer(tails, spec, sampling):
    """An engine that has read half of the prompt already writes what a new one writes."""
    used = exact_engine()
    for tail in tails:
        write = partial(outcome, guide=spec, sampling=sampling, max_tokens=12)
        assert_same(write(used, LONG + tail), write(exact_engine(), LONG + tail))


def test_prompts_read_before_are_not_read_again():
    """Without this the law above would hold for a cache that keeps nothing."""
    model = Counting(exact_llama())
    engine, shared = Engine(model, TINY), len(TINY.encode(LONG))
    WRITE(engine, LONG + "a", max_tokens=1, heal=False)
    before = model.num_tokens
    WRITE(engine, LONG + "b", max_tokens=1, heal=False)
    assert (before, model.num_tokens - before) == (shared + 1, 1)


@settings(max_examples=25)
@given(
    texts=st.lists(prompts | prompts.map(LONG.__add__), min_size=1, max_size=9),
    samples=st.integers(1, 3),
    spec=specs,
    sampling=samplings,
)
def test_answers_written_together_are_those_written_alone(texts, samples, spec, sampling):
    """Ragged prompts, several answers to each: sample i is the answer with the seed plus i."""
    together = exact_engine().generate_many(
        texts, spec, samples=samples, sampling=sampling, max_tokens=12
    )
    alone = [
        outcome(
            exact_engine(),
            text,
            spec,
            sampling=replace(sampling, seed=sampling.seed + sample),
            max_tokens=12,
        )
        for text in texts
        for sample in range(samples)
    ]
    for one, other in zip(together, alone, strict=True):
        assert_same(one, other)


def test_more_answers_than_grow_at_once_are_all_written():
    """Those that wait see nothing of those before them."""
    texts = [f"the bug {number}" for number in range(2 * MAX_ANSWERS + 3)]
    together = exact_engine().generate_many(texts, max_tokens=4)
    for text, answer in zip(texts, together, strict=True):
        assert_same(answer, WRITE(exact_engine(), text, max_tokens=4))
    assert exact_engine().generate_many([]) == []


@settings(max_examples=20)
@given(seed=st.integers(0, 20), texts=st.lists(prompts, min_size=2, max_size=4), spec=specs)
def test_single_precision_changes_numbers_by_rounding_alone(seed, texts, spec):
    """The model as it is used: packed, cached and batched rows agree to 1e-4."""
    model = tiny_llama(seed)
    engine = Engine(model, TINY)
    answers = engine.generate_many(texts, spec, max_tokens=8, heal=False)
    for text, answer in zip(texts, answers, strict=True):
        if isinstance(answer, Generation):
            ids = [*TINY.encode(text), *(step.token for step in answer.steps)]
            rows = all_log_probs(model, ids[:-1], last=len(answer.steps))
            for step, row in zip(answer.steps, rows, strict=True):
                assert step.logprob == pytest.approx(float(row[step.token]), abs=1e-4)


# Bias and mask


@settings(max_examples=25)
@given(prompt=prompts, sampling=samplings, ids=st.sets(st.integers(3, TINY.vocab_size - 1)))
def test_bias_of_zero_is_no_guide(prompt, sampling, ids):
    """A guide without opinions changes neither text nor numbers."""
    free = WRITE(exact_engine(), prompt, sampling=sampling)
    for spec in (guides.soft({}), guides.soft(by_id=dict.fromkeys(ids, 0.0))):
        assert_same(WRITE(exact_engine(), prompt, spec, sampling=sampling), free)


@settings(max_examples=25)
@given(
    prompt=prompts,
    sampling=samplings,
    spec=st.sampled_from([guides.soft(), guides.choice(["bug", "billing", "bill", "low"])]),
    banned=st.frozensets(st.integers(3, TINY.vocab_size - 1), min_size=1, max_size=200),
)
def test_bias_of_minus_infinity_is_a_mask(prompt, sampling, spec, banned):
    """Banned by an opinion or by a mask: the same text, mass and rank."""
    opinion = guides.biased(spec, by_id=dict.fromkeys(banned, -math.inf))
    by_hand = Changed(Changed(spec, partial(Banning, banned)), Unforced)
    write = partial(outcome, sampling=sampling, max_tokens=6, heal=False)
    found = write(exact_engine(), prompt, Changed(opinion, Unforced))
    assert_same(found, write(exact_engine(), prompt, by_hand))
    if isinstance(found, Generation):
        assert banned.isdisjoint(found.token_ids)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 30),
    prompt=prompts,
    share=st.floats(0.0, 0.98),
    data=st.randoms(use_true_random=False),
)
def test_greedy_is_the_argmax_of_the_masked_logits(seed, prompt, share, data):
    """Whatever is forbidden, the favourite included; the numbers are those before the mask."""
    banned = {i for i in range(3, TINY.vocab_size) if data.random() < share}
    spec = guides.soft(by_id=dict.fromkeys(banned, -math.inf))
    found = WRITE(exact_engine(seed), prompt, spec, max_tokens=5, heal=False)
    ids = TINY.encode(prompt)
    open_ids = torch.tensor(sorted({*range(3, TINY.vocab_size), *TINY.eos_ids} - banned))
    for step in found.steps:
        row = all_log_probs(exact_llama(seed), ids)[-1]
        token = int(open_ids[row[open_ids].argmax()])
        assert step.token == token
        assert step.logprob == pytest.approx(float(row[token]), abs=1e-5)
        assert step.rank == 1 + int((row > row[token]).sum())
        assert step.mass == pytest.approx(float(row[open_ids].exp().sum()), rel=1e-4)
        assert step.allowed_count == len(open_ids)
        ids.append(token)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 20),
    prompt=prompts,
    options=st.sets(st.text("bugil!", min_size=1, max_size=5), min_size=1, max_size=6),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 5.0, 100.0, 1e6]),
    prefer_long=st.booleans(),
)
def test_answer_of_a_hard_guide_is_in_its_language(seed, prompt, options, temperature, prefer_long):
    """At any temperature, healed or not."""
    sampling = Sampling(temperature=temperature, seed=seed, prefer_long=prefer_long)
    engine = exact_engine(seed)
    for heal in (True, False):
        answer = engine.generate(
            prompt, guides.choice(sorted(options)), sampling=sampling, heal=heal
        )
        assert answer.text in options
        assert answer.finish in ("eos", "guide")
        product = engine.generate(prompt, guides.finite(WORDS), sampling=sampling, heal=heal)
        assert product.text in set(WORDS.strings())


@settings(max_examples=25)
@given(seed=st.integers(0, 100), options=st.sets(st.text("abc", min_size=1), min_size=1))
def test_every_option_can_be_written_however_long_tokens_are_preferred(seed, options):
    """A short token is only set aside where the text comes out the same."""
    tokens = [b"a", b"b", b"c", b"ab", b"abc", b"ca", b"bcc", b""]
    engine = remembering(tokens, seed)
    for option in options:
        prior = {text: 0.0 if text == option else -200.0 for text in options}
        spec = guides.both(guides.choice(sorted(options)), guides.label_prior(prior))
        for prefer_long in (True, False):
            sampling = Sampling(prefer_long=prefer_long)
            answer = engine.generate("a", spec, sampling=sampling, heal=False)
            assert answer.text == option


# Forced runs


@settings(max_examples=40)
@given(seed=st.integers(0, 20), prompt=prompts, spec=specs, sampling=samplings)
def test_forced_run_is_accounted_for_like_its_tokens_one_by_one(seed, prompt, spec, sampling):
    """One pass or many: the same tokens, log-probabilities, masses and ranks."""
    write = partial(outcome, sampling=sampling, max_tokens=10)
    run = write(exact_engine(seed), prompt, spec)
    by_one = write(exact_engine(seed), prompt, Changed(spec, ByOne))
    assert_same(run, by_one)
    if isinstance(run, Generation) and isinstance(by_one, Generation):
        assert run.forward_passes <= by_one.forward_passes


@settings(max_examples=25)
@given(seed=st.integers(0, 100), options=st.sets(st.text("ab", min_size=1), min_size=1))
def test_forced_run_is_what_would_have_been_chosen_from_one_token(seed, options):
    """Where bytes are tokens, a forced token is the only one allowed: same text, same numbers."""
    tokens = [b"a", b"b", b"<", b">", b""]
    spec = guides.then(guides.literal("<<"), guides.choice(sorted(options)), guides.literal(">"))
    run = remembering(tokens, seed).generate("a", spec, heal=False)
    chosen = remembering(tokens, seed).generate("a", Changed(spec, Unforced), heal=False)
    assert run.text == chosen.text
    assert_same_steps(run, chosen, sources=False)
    assert {step.source for step in chosen.steps} == {"model"}
    assert run.forced_share > 0 == chosen.forced_share


def test_forced_run_is_read_in_one_pass():
    """And its last token not at all, where nothing comes behind it."""
    model = Counting(exact_llama())
    answer = WRITE(Engine(model, TINY), "bug", guides.literal("the billing"), heal=False)
    assert [step.source for step in answer.steps] == ["guide"] * len(answer.steps)
    assert len(answer.steps) > 2
    assert (model.num_passes, answer.forward_passes) == (2, 1)
    assert model.num_tokens == len(TINY.encode("bug")) + len(answer.steps) - 1


# Masses


@settings(max_examples=30)
@given(
    seed=st.integers(0, 20),
    prompt=prompts,
    spec=specs,
    one=samplings,
    other=samplings,
)
def test_sampling_never_touches_a_mass(seed, prompt, spec, one, other):
    """As long as two answers agree, so do mass, log-probability and rank of the next step."""
    first, second = (
        steps_of(exact_engine(seed), prompt, spec, sampling=sampling) for sampling in (one, other)
    )
    for left, right in zip(first, second, strict=False):
        if left.source == right.source:
            assert left.mass == pytest.approx(right.mass, rel=1e-5)
            assert left.allowed_count == right.allowed_count
        if left.token != right.token:
            break
        assert left.logprob == pytest.approx(right.logprob, abs=1e-6)
        assert left.rank == right.rank


def steps_of(engine: Engine, prompt: str, spec: Spec, **settings: Any) -> list[Step]:
    """The steps of an answer, also of one that is cut short."""
    steps: list[Step] = []
    outcome(
        engine,
        prompt,
        spec,
        max_tokens=8,
        on_step=lambda _, step: steps.append(step),
        **settings,
    )
    return steps


@settings(max_examples=20)
@given(seed=st.integers(0, 20), prompt=prompts, spec=hard_specs, sampling=samplings)
def test_a_token_is_at_most_as_likely_as_all_allowed_ones(seed, prompt, spec, sampling):
    """Its probability is part of the mass, and all are before the mask."""
    for step in steps_of(exact_engine(seed), prompt, spec, sampling=sampling):
        assert math.exp(step.logprob) <= step.mass * (1 + 1e-5) <= 1 + 1e-5
        assert 1 <= step.rank <= TINY.vocab_size


@given(prompt=prompts, spec=st.sampled_from(HARD))
@settings(max_examples=10)
def test_candidates_are_premask_where_free_and_postmask_where_allowed(prompt, spec):
    """The two lists are the same distribution before and after the guide."""
    answer = exact_engine().generate(prompt, spec, num_candidates=TINY.vocab_size)
    for step in answer.steps:
        free = {c.token: c.probability for c in step.free}
        allowed = {c.token: c.probability for c in step.allowed}
        assert sum(free.values()) == pytest.approx(1.0, abs=1e-4)
        assert sum(allowed.values()) == pytest.approx(1.0, abs=1e-4)
        assert free[step.token] == pytest.approx(math.exp(step.logprob), rel=1e-4)
        assert sum(free[t] for t in allowed if t in free) <= step.mass * (1 + 1e-4)
        assert list(free.values()) == sorted(free.values(), reverse=True)


# Streaming


@settings(max_examples=25)
@given(
    texts=st.lists(prompts, min_size=1, max_size=4),
    spec=specs,
    sampling=samplings,
    prefill=st.sampled_from(["", "the bill"]),
)
def test_callback_gets_exactly_the_steps_of_each_answer_in_order(texts, spec, sampling, prefill):
    """Those of an answer that fails as well: it was seen until then."""
    seen: dict[int, list[Step]] = {index: [] for index in range(2 * len(texts))}
    answers = exact_engine().generate_many(
        texts,
        spec,
        samples=2,
        sampling=sampling,
        max_tokens=6,
        prefill=prefill,
        on_step=lambda index, step: seen[index].append(step),
    )
    for index, answer in enumerate(answers):
        if isinstance(answer, Generation):
            assert tuple(seen[index]) == answer.steps
        else:
            assert seen[index]
