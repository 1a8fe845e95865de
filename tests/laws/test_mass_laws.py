"""Masses and posteriors: probabilities that add up, bounds that hold, draws that match."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from answers import WORDS
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_scoring import any_spelling, option_log_probs
from tiny_model import tiny_llama
from toy_models import TINY, Memory, remembering, toy

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine import guides
from weighbridge.local_engine.decoding.generation import Generation
from weighbridge.local_engine.decoding.sampling import Sampling
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.posterior import Posterior, _misspelled, behind, of_texts, posterior
from weighbridge.local_engine.scoring import Branch, Prompt, Scorer, Scores
from weighbridge.local_engine.spellings import Text
from weighbridge.schemas.finite import FiniteLanguage, language

PROMPT = "the billing"
CLOSE = 1e-4  # of two float32 sums of logs, packed and not

# The statistic that a true fit exceeds once in a thousand draws, by degrees of freedom.
CHI_SQUARE_999 = {1: 10.828, 2: 13.816, 3: 16.266, 4: 18.467, 5: 20.515, 6: 22.458, 7: 24.322}

labels = st.text("bugil_!", min_size=1, max_size=4)
short = st.text("bgu", min_size=1, max_size=2)


def product(*choices: Sequence[Any]) -> FiniteLanguage:
    """The language of objects with one of the values in each place."""
    names = [f"p{number}" for number in range(len(choices))]
    found = language(
        {
            "type": "object",
            "properties": {
                name: {"enum": list(values)} for name, values in zip(names, choices, strict=True)
            },
            "required": names,
            "additionalProperties": False,
        }
    )
    assert found is not None
    return found


products = st.lists(st.sets(short, min_size=1, max_size=2).map(sorted), min_size=1, max_size=2).map(
    lambda choices: product(*choices)
)


def start(words: FiniteLanguage) -> list[int]:
    """The prompt and the literal before the first choice."""
    return [*TINY.encode(PROMPT), *TINY.encode(getattr(words.parts[0], "text", ""))]


def scores_at(model: Llama, words: FiniteLanguage, max_passes: int = 1) -> Scores:
    """The scores of branches, each looked at so many times."""
    scorer, prompt = Scorer(model, TINY), Prompt(model.empty_cache(), tuple(start(words)))
    tighten = partial(scorer.tightened, prompt, tolerance=0.0, max_passes=max_passes)
    return Scores(lambda branches: [tighten(branch) for branch in branches])


def brute_force(model: Llama, words: FiniteLanguage) -> float:
    """The language mass with every spelling of every option tried.

    The literals between the choices are given, behind the tokenizer's own spelling of an option.
    """

    def below(ids: list[int], turns: Sequence[Any]) -> float:
        if not turns:
            return 1.0
        (choice, literal), rest = turns[0], turns[1:]
        total = 0.0
        for option in choice.options:
            said = any_spelling(model, TINY, ids, Text(option.stem, option.closer))
            total += said * below([*ids, *behind(option, literal, TINY.encode)], rest)
        return total

    return below(start(words), words.turns)


def naive_log_probs(model: Llama, words: FiniteLanguage) -> dict[tuple[Any, ...], float]:
    """The log-probability of each member, every option scored by passes of its own."""

    def below(ids: list[int], turns: Sequence[Any]) -> dict[tuple[Any, ...], float]:
        if not turns:
            return {(): 0.0}
        (choice, literal), rest = turns[0], turns[1:]
        texts = [Text(option.stem, option.closer) for option in choice.options]
        found = {}
        for option, said in zip(
            choice.options, option_log_probs(model, TINY, ids, texts), strict=True
        ):
            inner = below([*ids, *behind(option, literal, TINY.encode)], rest)
            found |= {(option.value, *values): said + more for values, more in inner.items()}
        return found

    return below(start(words), words.turns)


def chi_square(counts: Mapping[str, int], wanted: Mapping[str, float]) -> float:
    total = sum(counts.values())
    return sum((counts[key] - total * p) ** 2 / (total * p) for key, p in wanted.items())


# Sums


@settings(max_examples=25)
@given(seed=st.integers(0, 50), words=products | st.just(WORDS))
def test_probabilities_sum_to_one_and_marginals_to_the_joint(seed, words):
    found = Engine(tiny_llama(seed), TINY).posterior(PROMPT, words)
    assert sum(member.probability for member in found.members) == pytest.approx(1.0)
    assert sum(found.joint().values()) == pytest.approx(1.0)
    assert len(found.joint()) == len(found.members) == words.count
    for place, choice in enumerate(words.choices):
        marginal = found.marginal(choice.path)
        assert sum(marginal.values()) == pytest.approx(1.0)
        for text, probability in marginal.items():
            inside = [m for m in found.members if json.dumps(m.values[place]) == text]
            assert probability == pytest.approx(sum(m.probability for m in inside))
    ratios = [math.exp(m.log_prob) / m.probability for m in found.members]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-6)
    assert found.best == found.value(max(found.members, key=lambda m: m.probability))
    with pytest.raises(KeyError):
        found.marginal(("nowhere",))


@settings(max_examples=25)
@given(seed=st.integers(0, 50), words=products | st.just(WORDS))
def test_language_mass_is_the_sum_of_its_members_within_its_bounds(seed, words):
    """And no more than what may begin the first choice."""
    found = Engine(tiny_llama(seed), TINY).posterior(PROMPT, words)
    low, high = found.mass
    total = math.fsum(math.exp(member.log_prob) for member in found.members)
    assert low == pytest.approx(total, rel=1e-6)
    assert 0 < total <= high * (1 + 1e-9)
    assert high <= found.decision_mass * (1 + CLOSE) <= 1 + CLOSE
    assert found.dropped == 0.0


@settings(max_examples=20)
@given(seed=st.integers(0, 50), words=products | st.just(WORDS))
def test_members_scored_together_are_those_scored_alone(seed, words):
    """One packed pass for each choice, or passes over the whole text for each option."""
    model = tiny_llama(seed)
    found = Engine(model, TINY).posterior(PROMPT, words)
    wanted = naive_log_probs(model, words)
    assert {member.values for member in found.members} == wanted.keys()
    for member in found.members:
        assert member.log_prob == pytest.approx(wanted[member.values], abs=3 * CLOSE)


@settings(max_examples=25)
@given(seed=st.integers(0, 50), options=st.sets(labels, min_size=2, max_size=6), data=st.data())
def test_order_of_the_options_is_irrelevant(seed, options, data):
    """As texts and as values of a schema."""
    engine = Engine(tiny_llama(seed), TINY)
    mixed = data.draw(st.permutations(sorted(options)))
    for one, other in (
        (sorted(options), mixed),
        (product(sorted(options), ["low"]), product(mixed, ["low"])),
    ):
        first, second = engine.posterior(PROMPT, one), engine.posterior(PROMPT, other)
        assert first.joint() == pytest.approx(second.joint(), rel=1e-4)
        assert first.mass == pytest.approx(second.mass, rel=1e-4)
        assert first.decision_mass == pytest.approx(second.decision_mass, rel=1e-4)


# Bounds


@settings(max_examples=20)
@given(seed=st.integers(0, 50), words=products)
def test_bounds_of_a_language_narrow_around_every_tokenization(seed, words):
    """The interval holds the brute-force mass, shrinks with every pass, and ends there."""
    model = tiny_llama(seed)
    wanted = brute_force(model, words)
    before = (0.0, 1.0)
    for max_passes in (1, 2, 40):
        low, high = posterior(words, scores_at(model, words, max_passes), TINY.encode).mass
        assert before[0] * (1 - CLOSE) <= low <= wanted * (1 + CLOSE)
        assert wanted * (1 - CLOSE) <= high <= before[1] * (1 + CLOSE)
        before = low, high
    assert before == pytest.approx((wanted, wanted), rel=1e-3)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 50),
    choices=st.lists(st.sets(labels, min_size=2, max_size=4).map(sorted), min_size=2, max_size=3),
    max_branches=st.integers(1, 8),
)
def test_what_is_dropped_is_reported_and_bounds_still_hold(seed, choices, max_branches):
    """Following few beginnings loses members, never honesty."""
    model, words = tiny_llama(seed), product(*choices)
    whole = posterior(words, scores_at(model, words), TINY.encode)
    pruned = posterior(words, scores_at(model, words), TINY.encode, max_branches=max_branches)
    assert sum(member.probability for member in pruned.members) == pytest.approx(1.0)
    assert len(pruned.members) <= max_branches * len(choices[-1])
    assert pruned.mass[0] <= whole.mass[0] * (1 + CLOSE)
    scored = {member.values: member.log_prob for member in whole.members}
    kept = {member.values for member in pruned.members}
    for member in pruned.members:
        assert member.log_prob == pytest.approx(scored[member.values], abs=CLOSE)
    lost = math.fsum(math.exp(p) for values, p in scored.items() if values not in kept)
    assert lost <= pruned.dropped * (1 + CLOSE)
    assert (pruned.dropped == 0.0) == (len(pruned.members) == len(whole.members))
    assert whole.mass[0] <= pruned.mass[1] * (1 + CLOSE)


def test_likeliest_beginnings_are_the_ones_that_are_followed():
    """However they are listed."""
    model, options = tiny_llama(), ["bug", "bill", "billing", "low", "high"]
    alone = posterior(product(options), scores_at(model, product(options)), TINY.encode)
    wanted = {member.values[0] for member in alone.members[:2]}
    for order in (options, options[::-1]):
        words = product(order, ["x", "y"])
        pruned = posterior(words, scores_at(model, words), TINY.encode, max_branches=2)
        assert {member.values[0] for member in pruned.members} == wanted


def test_options_beyond_a_thousand_that_were_not_looked_at_are_reported():
    """They have no probability, and what they could have had is in `dropped` and in the mass."""
    engine = Engine(tiny_llama(), TINY)
    found = engine.posterior(PROMPT, [f"bug {number}" for number in range(2000)])
    unseen = [member for member in found.members if member.log_prob == -math.inf]
    assert 0 < len(unseen) < 2000
    assert sum(member.probability for member in found.members) == pytest.approx(1.0)
    assert found.dropped > 0
    assert found.mass[1] - found.mass[0] == pytest.approx(found.dropped)


def test_a_thousand_options_are_one_distribution():
    """In bounded memory: no pass has more rows than it may."""
    options = [f"bug {number}" for number in range(1000)]
    engine = Engine(tiny_llama(), TINY)
    found = engine.posterior(PROMPT, options)
    assert len(found.members) == 1000
    assert sum(member.probability for member in found.members) == pytest.approx(1.0)
    few = engine.posterior(PROMPT, options[7:1000:200])
    wanted = {m.values: m.log_prob for m in found.members}
    for member in few.members:
        # Among many, more spellings are looked at: those of the others.
        assert member.log_prob <= wanted[member.values] + CLOSE
        assert member.log_prob == pytest.approx(wanted[member.values], abs=0.1)


# Near misses


def test_near_misses_tell_a_wrong_spelling_from_a_wrong_answer():
    """The model that says `Bug` means the bug; the one that talks of the weather does not."""
    words = [b"bug", b"Bug", b"weather", b'"', b'{"p0": "', b""]
    closes, near = [0.0, 0.0, 0.0, 9.0, 0.0, 0.0], {}
    for favourite in range(3):
        says = [0.0] * favourite + [9.0] + [0.0] * (5 - favourite)
        found, plain = (
            toy(words, says, closes).posterior([5] * 3, product(["bug"]), with_near_misses=asked)
            for asked in (True, False)
        )
        assert plain.near_misses is None
        assert (found.mass[0] > 0.9) == (words[favourite] == b"bug")
        near[words[favourite]] = found.near_misses
    assert near[b"Bug"][0] > 0.9
    assert max(near[b"bug"][1], near[b"weather"][1]) < 0.01


@settings(max_examples=10)
@given(seed=st.integers(0, 50), options=st.sets(short, min_size=1, max_size=2))
def test_near_misses_hold_every_tokenization_between_their_bounds(seed, options):
    """Of every other spelling of an option, right ones left out."""
    model, words = tiny_llama(seed), product(sorted(options))
    found = Engine(model, TINY).posterior(PROMPT, words, with_near_misses=True)
    wrong = {form for option in options for form in _misspelled(option)} - options
    each = [any_spelling(model, TINY, start(words), Text(form, '"')) for form in wrong]
    low, high = found.near_misses
    assert low <= sum(each) * (1 + CLOSE)
    assert sum(each) <= high * (1 + CLOSE)


def test_language_without_a_choice_is_certain():
    words = language(
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    )
    found = Engine(tiny_llama(), TINY).posterior(PROMPT, words, with_near_misses=True)
    assert found.best == {}
    assert (found.mass, found.near_misses, found.joint()) == ((1.0, 1.0), (0.0, 0.0), {"{}": 1.0})
    assert found.sample(2) == [{}, {}]


@pytest.mark.parametrize(
    ("texts", "pointer"),
    [([], ""), (["a", "b", "a"], "/2"), (["a", "\ud800"], "/1")],
)
def test_list_that_is_no_language_is_refused(texts, pointer):
    with pytest.raises(TaskInvalid) as caught:
        of_texts(texts)
    assert caught.value.pointer == pointer
    with pytest.raises(TypeError):
        of_texts("abc")


# Draws

LETTERS = [b"a", b"b", b"c", b""]  # every text has one spelling
SPREAD = 0.7
MEMBERS = ["a", "ab", "abc", "ba", "cab", "c"]


def free_texts(module: Memory, prompt: Sequence[int], count: int, max_tokens: int) -> Counter[str]:
    """Texts that the model itself writes, by the plainest of means; unfinished ones left out."""
    random = torch.Generator().manual_seed(11)
    ids = torch.tensor(prompt).repeat(count, 1)
    end = len(LETTERS) - 1
    for _ in range(max_tokens):
        probabilities = module(ids)[:, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(probabilities, 1, generator=random)], 1)
    texts: Counter[str] = Counter()
    for row in ids[:, len(prompt) :].tolist():
        if end in row:
            texts[b"".join(LETTERS[i] for i in row[: row.index(end)]).decode()] += 1
    return texts


def test_posterior_is_what_rejection_sampling_finds():
    """Free texts, kept where they are members: the definition of the posterior, and its mass."""
    found = remembering(LETTERS, 5, spread=SPREAD).posterior("ab", MEMBERS)
    count = 80_000
    drawn = free_texts(Memory(len(LETTERS), 5, SPREAD), [0, 1], count, max_tokens=4)
    kept = Counter({text: drawn[text] for text in MEMBERS})
    assert kept.total() >= 5000
    wanted = {member.values[0]: member.probability for member in found.members}
    assert min(wanted.values()) * kept.total() > 5
    assert chi_square(kept, wanted) < CHI_SQUARE_999[len(MEMBERS) - 1]
    share = kept.total() / count
    error = 4 * math.sqrt(share * (1 - share) / count)
    assert found.mass[0] - error < share < found.mass[1] + error


def test_draws_of_a_posterior_have_its_frequencies():
    found = remembering(LETTERS, 5, spread=SPREAD).posterior("ab", MEMBERS)
    drawn = Counter(map(str, found.sample(20_000, seed=3)))
    wanted = {member.values[0]: member.probability for member in found.members}
    assert chi_square(drawn, wanted) < CHI_SQUARE_999[len(MEMBERS) - 1]
    assert found.sample(50, seed=4) == found.sample(50, seed=4) != found.sample(50, seed=5)


def step_by_step(engine: Engine, members: Sequence[str], count: int) -> Counter[str]:
    """Answers sampled under a guide, one token after the other."""
    answers = engine.generate_many(
        ["a"],
        guides.choice(members),
        samples=count,
        sampling=Sampling(temperature=1.0),
        heal=False,
    )
    return Counter(answer.text for answer in answers if isinstance(answer, Generation))


def test_sampling_step_by_step_does_not_sample_from_the_posterior():
    """Nine times in ten the model begins with `b`, and then hardly ever goes on to `bc`."""
    to = {b"a": [0, 0.9, 0.1, 0], b"b": [0.989, 0, 0.01, 0.001], b"c": [0.01, 0, 0, 0.99]}
    rows = torch.tensor([*to.values(), [0.25] * 4]).clamp_min(1e-6).log()
    engine = toy(LETTERS, rows)
    found = engine.posterior("a", ["bc", "c"])
    wanted = {member.values[0]: member.probability for member in found.members}
    assert wanted["c"] == pytest.approx(0.1 / (0.1 + 0.9 * 0.01), rel=1e-3)
    drawn = step_by_step(engine, ["bc", "c"], 600)
    assert chi_square(drawn, wanted) > 100 * CHI_SQUARE_999[1]
    assert drawn["bc"] / drawn.total() == pytest.approx(0.9, abs=0.05)


def test_sampling_step_by_step_is_right_where_no_step_misleads():
    """Options that part at once, each ended by the same share: the two agree there."""
    begins, ends = [0.0, 1.0, 0.5, -9.0], [-9.0, -9.0, -9.0, 3.0]
    rows = torch.tensor([begins, ends, ends, begins])
    engine = toy(LETTERS, rows)
    found: Posterior = engine.posterior("a", ["b", "c"])
    wanted = {member.values[0]: member.probability for member in found.members}
    drawn = step_by_step(engine, ["b", "c"], 1000)
    assert chi_square(drawn, wanted) < CHI_SQUARE_999[1]


def test_branch_and_posterior_agree_on_one_choice():
    """What `Scorer` says of a choice is what the posterior over it says."""
    model, words = tiny_llama(), product(["bug", "billing"])
    (scores,) = scores_at(model, words).of(
        [Branch(prefix=(), texts=(Text("bug", '"'), Text("billing", '"')))]
    )
    found = posterior(words, scores_at(model, words), TINY.encode)
    assert found.mass == pytest.approx(scores.mass)
    assert found.decision_mass == scores.decision_mass
    assert sorted(m.log_prob for m in found.members) == sorted(scores.log_probs.tolist())
