"""How an answer ends: by itself, by a stop string, by its length, or not at all, and says so."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from answers import HARD, SOFT, assert_same, hard_specs, outcome, prompts, samplings, specs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from toy_models import TINY, exact_engine, remembering, toy

from weighbridge.errors import ContextTooLong, DeadEnd, EngineError, Truncated
from weighbridge.local_engine import guides
from weighbridge.local_engine.decoding.generation import Generation, Step
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.models.module import ModuleModel
from weighbridge.local_engine.vocabulary import TableVocabulary

ABC = [b"a", b"b", b"c", b"ab", b"bca", b"cc", b""]
FREE = partial(Engine.generate, max_tokens=12, heal=False)

temperatures = st.sampled_from([0.0, 1.0, 3.0])


def sampled(temperature: float, seed: int) -> Sampling:
    return Sampling(temperature=temperature, seed=seed)


# Stop strings


@given(
    seed=st.integers(0, 200),
    temperature=temperatures,
    prefill=st.sampled_from(["", "ab"]),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_answer_ends_before_the_first_stop_string(seed, temperature, prefill, stops):
    """Wherever it begins and however its tokens straddle it: else nothing is changed."""
    sampling = sampled(temperature, seed)
    whole = FREE(remembering(ABC, seed), "a", sampling=sampling, prefill=prefill)
    ended = FREE(remembering(ABC, seed), "a", sampling=sampling, prefill=prefill, stop=stops)
    written = whole.text.removeprefix(prefill)
    places = [place for stop in stops if (place := written.find(stop)) >= 0]
    if not places:
        assert_same(ended, whole)
        return
    # As soon as any of them is there, the answer ends; of those that are, the first one counts.
    sizes = [len(step.text) for step in whole.written]
    ends = [sum(sizes[: count + 1]) for count in range(len(sizes))]
    there = min(end for end in ends if any(stop in written[:end] for stop in stops))
    first = min(written[:there].find(s) for s in stops if s in written[:there])
    assert (ended.text, ended.finish) == (prefill + written[:first], "stop")
    assert ended.written == whole.written[: ends.index(there) + 1]


@given(seed=st.integers(0, 50), text=st.text("abc", min_size=2, max_size=8), data=st.data())
def test_stop_string_ends_a_forced_run_and_no_more_of_it_is_read(seed, text, data):
    """The tokens behind it neither come nor count."""
    start = data.draw(st.integers(0, len(text) - 1))
    stop = text[start : data.draw(st.integers(start + 1, len(text)))]
    answer = FREE(remembering(ABC, seed), "a", guides.literal(text), stop=[stop])
    assert answer.text == text[: text.find(stop)]
    assert answer.finish == "stop"
    spelled = b"".join(step.text for step in answer.steps).decode()
    assert text.startswith(spelled)
    assert stop not in spelled[: -len(answer.steps[-1].text)]


def test_stop_string_in_what_repeats_the_prompt_stops_nothing():
    """The answer begins behind it."""
    engine = toy([b"b", b"bc", b"c", b""], [0.0, 5.0, 1.0, 3.0])
    answer = engine.generate("cb", stop=["b", "bc"], max_tokens=4)
    assert answer.steps[0].text == b"bc"
    assert answer.text == "c"
    assert engine.generate("cb", stop=["c"], max_tokens=4).text == ""


def test_empty_stop_string_is_refused():
    with pytest.raises(ValueError, match="empty"):
        FREE(exact_engine(), "bug", stop=["!", ""])


# Length


@settings(max_examples=25)
@given(
    seed=st.integers(0, 20),
    prompt=prompts,
    spec=st.sampled_from(SOFT),
    sampling=samplings,
    short=st.integers(1, 6),
    more=st.integers(1, 6),
)
def test_free_text_is_cut_at_its_length_and_says_so(seed, prompt, spec, sampling, short, more):
    """Less room gives a beginning of what more room gives."""
    write = partial(Engine.generate, sampling=sampling, heal=False)
    cut = write(exact_engine(seed), prompt, spec, max_tokens=short)
    longer = write(exact_engine(seed), prompt, spec, max_tokens=short + more)
    assert cut.steps == longer.steps[: len(cut.steps)]
    assert len(cut.steps) <= short
    assert (cut.finish == "length") == (len(longer.steps) > len(cut.steps))
    assert len(cut.steps) == short or cut.finish == "eos"


@settings(max_examples=30)
@given(
    seed=st.integers(0, 20),
    prompt=prompts,
    spec=hard_specs,
    sampling=samplings,
    max_tokens=st.integers(1, 12),
)
def test_guided_answer_is_whole_or_truncated(seed, prompt, spec, sampling, max_tokens):
    """Never a beginning of an answer; forced runs are cut like everything else."""
    write = partial(outcome, sampling=sampling, heal=False)
    whole = write(exact_engine(seed), prompt, spec)
    steps: list[Step] = []
    cut = write(
        exact_engine(seed),
        prompt,
        spec,
        max_tokens=max_tokens,
        on_step=lambda _, step: steps.append(step),
    )
    assert isinstance(whole, Generation)
    if len(whole.steps) <= max_tokens:
        assert_same(cut, whole)
    else:
        assert isinstance(cut, Truncated)
        assert cut.max_tokens == len(steps) == max_tokens
        assert tuple(steps) == whole.steps[:max_tokens]


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_answer_without_room_is_refused(max_tokens):
    with pytest.raises(ValueError, match="max_tokens"):
        exact_engine().generate("bug", max_tokens=max_tokens)


# Context


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 14), min_size=1, max_size=5),
    spec=st.sampled_from([guides.choice(["ab", "bca", "cc"]), None]),
    seed=st.integers(0, 30),
)
def test_prompt_that_is_too_long_leaves_the_others_alone(lengths, spec, seed):
    """Too long at once, or as soon as the answer grows: each by itself."""
    engine = remembering(ABC, seed, positions=8)
    ragged = [[number % 3] * length for number, length in enumerate(lengths)]
    answers = engine.generate_many(ragged, spec, max_tokens=4, heal=False)
    for ids, answer in zip(ragged, answers, strict=True):
        alone = outcome(remembering(ABC, seed, positions=8), ids, spec, max_tokens=4, heal=False)
        assert_same(answer, alone)
        if len(ids) > 8:
            assert isinstance(answer, ContextTooLong)
            assert (answer.needed_tokens, answer.max_positions) == (len(ids), 8)
        elif len(ids) < 4:
            assert isinstance(answer, Generation)


@given(seed=st.integers(0, 50), num_tokens=st.integers(1, 8))
def test_last_token_of_an_answer_needs_no_position(seed, num_tokens):
    """What nothing follows is not read, so an answer may be one token longer than the context."""
    prompt = [0] * num_tokens
    room = 8 - num_tokens + 1
    spec = guides.literal("a" * room)
    answer = FREE(remembering([b"a", b""], seed, positions=8), prompt, spec)
    assert answer.text == "a" * room
    longer = guides.literal("a" * (room + 1))
    error = outcome(remembering([b"a", b""], seed, positions=8), prompt, longer, heal=False)
    assert isinstance(error, ContextTooLong)
    assert (error.needed_tokens, error.max_positions) == (9, 8)


def test_forced_run_beyond_the_context_may_still_be_stopped_within_it():
    engine = remembering([b"a", b"b", b""], 0, positions=8)
    spec = guides.literal("aab" + "a" * 20)
    answer = FREE(engine, "a", spec, max_tokens=40, stop=["b"])
    assert (answer.text, answer.finish) == ("aa", "stop")


# No way on


@given(
    before=st.text("abc", min_size=1, max_size=5), temperature=temperatures, seed=st.integers(0, 9)
)
def test_guide_that_allows_nothing_is_a_dead_end(before, temperature, seed):
    """Never a fallback distribution; and it says after how many tokens, not which."""
    spec = guides.both(guides.literal(before + "b"), guides.literal(before + "c"))
    engine = remembering([b"a", b"b", b"c", b""], seed)
    steps: list[Step] = []
    with pytest.raises(DeadEnd) as caught:
        FREE(
            engine,
            "a",
            spec,
            sampling=sampled(temperature, seed),
            on_step=lambda _, step: steps.append(step),
        )
    assert caught.value.num_tokens == len(steps) == len(before)
    assert b"".join(step.text for step in steps) == before.encode()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_model_without_any_probability_for_what_is_allowed_is_a_dead_end(temperature):
    """Minus infinity everywhere is not a reason to take the lowest token."""
    engine = toy([b"x", b"yes", b"no", b""], [0.0] * 4, later=[1.0, -math.inf, -math.inf, 0.0])
    spec, prompt = guides.choice(["yes", "no"]), [0] * 6
    with pytest.raises(DeadEnd):
        FREE(engine, prompt, spec, sampling=sampled(temperature, 0))
    with pytest.raises(EngineError, match="no answer of the language"):
        engine.posterior(prompt, ["yes", "no"])


# Damaged numbers

NAN_LATER = [math.nan] * 4


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("spec", [None, guides.choice(["yes", "no"]), guides.literal("yesno")])
def test_logits_that_are_no_numbers_are_an_error(bad, temperature, spec):
    """Right behind the prompt, or within the answer, or within a forced run; allowed or not."""
    words = [b"x", b"yes", b"no", b""]
    for later in ([bad] * 4, [bad, 0.0, 0.0, 0.0], [0.0, bad, 0.0, 0.0]):
        for length in (4, 5):
            engine = toy(words, [0.0, 1.0, 1.0, -9.0], later)
            sampling = sampled(temperature, 0)
            answer = outcome(engine, [0] * length, spec, sampling=sampling, max_tokens=8)
            if length == 4 and spec is not None and isinstance(answer, Generation):
                assert len(answer.steps) == 1  # the answer was whole before the numbers went bad
            else:
                assert type(answer) is EngineError
                assert "not finite" in str(answer)


def test_damaged_answer_leaves_the_others_alone():
    """Also where the numbers go bad within a prefill."""
    engine = toy([b"x", b"yes", b"no", b""], [0.0, 1.0, 1.0, -9.0], later=NAN_LATER)
    bad, good = engine.generate_many([[0] * 5, [0]], guides.choice(["yes"]), heal=False)
    assert type(bad) is EngineError
    assert isinstance(good, Generation)
    assert good.text == "yes"
    given_before = engine.generate_many([[0] * 4, [0]], guides.choice(["no"]), prefill="yesx")
    assert type(given_before[0]) is EngineError
    assert isinstance(given_before[1], Generation)


# Prompts


@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ("", ValueError),
        ([], ValueError),
        ([-1], ValueError),
        ([7], ValueError),
        ([{"role": "user", "content": "a"}], TypeError),
        ([0, "a"], TypeError),
        ([0.0], TypeError),
        ([True], TypeError),
        (b"ab", TypeError),
    ],
)
def test_prompt_that_is_none_is_refused(prompt, error):
    """Above all, nothing in it is passed over in silence."""
    engine = remembering(ABC, 0)
    assert engine.vocabulary.vocab_size == 7
    with pytest.raises(error):
        FREE(engine, prompt)
    with pytest.raises(error):
        engine.posterior(prompt, ["a"])


def test_vocabulary_must_be_as_wide_as_the_logits():
    model = ModuleModel(torch.nn.Embedding(4, 4), 4, 8)
    with pytest.raises(EngineError, match="wide"):
        Engine(model, TableVocabulary([b"a", b"b", b""], {2}))


def test_guide_that_cannot_be_had_is_refused_before_anything_is_read():
    """No forward pass is made for an answer that cannot come."""

    class Unread(torch.nn.Module):
        is_open = True

        def forward(self, ids):
            assert self.is_open
            return torch.zeros(*ids.shape, 3)

    module = Unread()
    engine = Engine(ModuleModel(module, 3, 8), TableVocabulary([b"a", b"b", b""], {2}))
    module.is_open = False
    for spec in (guides.choice(["a", "z"]), guides.json_schema({"not": {}}), guides.regex("(")):
        with pytest.raises(ValueError, match=r"."):
            FREE(engine, "a", spec)


@given(spec=specs, sampling=samplings)
@settings(max_examples=15)
def test_ended_answer_says_how(spec, sampling):
    """By end of text, which is its last step; or where nothing could follow; or by its length."""
    answer = outcome(exact_engine(), "the bug", spec, sampling=sampling, max_tokens=20)
    assume(isinstance(answer, Generation))
    assert (answer.finish == "eos") == (answer.steps[-1].token in TINY.eos_ids)
    assert not (answer.finish == "length" and spec in HARD)
    assert not (answer.finish == "guide" and spec in SOFT)
    assert all(step.token not in TINY.eos_ids for step in answer.steps[:-1])
