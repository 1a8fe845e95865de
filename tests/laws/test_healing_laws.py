"""Healing and prefill: nobody sees where what was given ends and what is written begins."""

from __future__ import annotations

from functools import partial

import guide_laws as laws
import pytest
from answers import HARD, SOFT, TEXTS, prompts, samplings, specs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive_scoring import spelled
from toy_models import TINY, exact_engine, remembering, toy

from weighbridge.local_engine import guides
from weighbridge.local_engine.chat_template import ChatTemplate, Message
from weighbridge.local_engine.decoding.healing import taken_back
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.vocabulary import TableVocabulary

texts = st.text("bugil the.\"'", min_size=1, max_size=10)
WRITE = partial(Engine.generate, max_tokens=8)


def owed_by(text: str) -> bytes:
    """The bytes that are taken back from a prompt."""
    return taken_back(TINY.encode(text), guides.soft().bind(TINY), TINY)[2]


# Healing


@settings(max_examples=40)
@given(seed=st.integers(0, 20), prompt=texts, spec=st.sampled_from(SOFT), sampling=samplings)
def test_healed_prompt_and_answer_lose_no_byte(seed, prompt, spec, sampling):
    """What is written spells what was taken back again, and the text begins right behind it."""
    owed = owed_by(prompt)
    answer = WRITE(exact_engine(seed), prompt, spec, sampling=sampling)
    written = b"".join(step.text for step in answer.steps)
    assert written.startswith(owed)
    assert written[len(owed) :].decode(errors="replace") == answer.text


@settings(max_examples=40)
@given(seed=st.integers(0, 20), prompt=texts, spec=st.sampled_from(TEXTS), sampling=samplings)
def test_healing_leaves_the_meaning_of_a_guide(seed, prompt, spec, sampling):
    """Healed or not, the guide holds for the text behind the prompt, and for nothing else."""
    guide = spec.bind(TINY)
    answer = exact_engine(seed).generate(prompt, spec, sampling=sampling)
    assert b"".join(step.text for step in answer.steps) == owed_by(prompt) + answer.text.encode()
    state = guide.init()
    for token in TINY.encode(answer.text):
        state = guide.advance(state, token)
    assert guide.finished(state) or any(guide.bias(state)[end] == 0 for end in TINY.eos_ids)


@settings(max_examples=15)
@given(data=st.data(), prompt=texts, spec=st.sampled_from([*HARD[:2], *SOFT]))
def test_healed_guide_keeps_the_laws(data, prompt, spec):
    """Every state of it, with every token tried."""
    ids = TINY.encode(prompt)
    assume(len(ids) > 1)
    _, guide, owed = taken_back(ids, spec.bind(TINY), TINY)
    assume(owed)
    laws.check_walk(guide, TINY, lambda allowed: data.draw(st.sampled_from(allowed)), max_tokens=4)


@settings(max_examples=20)
@given(data=st.data(), options=st.sets(st.text("ab", min_size=1), min_size=1))
def test_healed_guide_allows_every_tokenization(data, options):
    """The bytes owed and the answer behind them are one text; its border is no border of tokens."""
    words = TableVocabulary([b"a", b"b", b"ab", b"ba", b"aab", b"ab", b"bba", b""], eos_ids={7})
    ids = [0, *words.encode("ab")]
    _, guide, owed = taken_back(ids, guides.choice(sorted(options)).bind(words), words)
    members = {owed + option.encode() for option in options}
    walked = laws.check_walk(guide, words, lambda allowed: data.draw(st.sampled_from(allowed)))
    for text, state in walked:
        laws.check_members(guide, state, text, words, members)


@pytest.mark.parametrize(
    ("prompt", "owed"),
    [
        ("the bill", b"bill"),  # as in "billing"
        ("billing", b""),  # the whole prompt: nothing would be left to read
        ("the zz", b""),  # begins no longer token
        ("the low.", b"."),  # as before a closing quote
    ],
)
def test_only_a_token_that_begins_a_longer_one_is_taken_back(prompt, owed):
    assert owed_by(prompt) == owed


def test_control_token_at_the_end_is_never_taken_back():
    """It stands for no text that could be spelled again."""
    ids = [*TINY.encode("bug"), TINY.control("<|im_start|>")]
    guide = guides.soft().bind(TINY)
    assert taken_back(ids, guide, TINY) == (ids, guide, b"")


def test_healing_lets_a_label_merge_with_the_end_of_the_prompt():
    """The model knows ` bug`, not a space and `bug`: unhealed, it never says what it means."""
    words = [b"is", b" ", b" bug", b"bug", b"other", b""]
    engine = toy(words, [0.0, 0.0, 9.0, 0.0, 1.0, 0.0])
    spec = guides.choice(["bug", "other"])
    assert engine.generate("is ", spec).text == "bug"
    assert engine.generate("is ", spec, heal=False).text == "other"


@given(first=st.floats(-9, 9), second=st.floats(-9, 9))
def test_healed_token_has_the_bias_of_all_that_it_spells(first, second):
    """What stands behind the prompt is spelled by two tokens: an opinion on each of them counts."""
    words = TableVocabulary([b"x", b" ", b" bug", b"b", b"ug", b""], eos_ids={5})
    spec = guides.both(guides.literal("bug"), guides.soft(by_id={3: first, 4: second}))
    _, guide, owed = taken_back([0, 1], spec.bind(words), words)
    assert owed == b" "
    row = guide.bias(guide.init())
    assert row[2] == pytest.approx(first + second, abs=1e-5)
    assert row[1] == 0
    assert set(laws.allowed_ids(guide, guide.init())) == {1, 2}


def test_healing_never_leads_where_the_rest_cannot_be_spelled():
    """Without `u` and `g` as tokens, `b` is no way to begin `bug` again."""
    engine = toy([b"b", b"bug", b"bugs", b"!", b""], [9.0, 1.0, 0.0, 0.0, 0.0])
    assert engine.generate("!bug", guides.literal("!")).text == "!"


def test_what_repeats_the_prompt_does_not_count():
    """One token of an answer is one token, healed or not."""
    engine = toy([b"a", b"ab", b"x", b""], [5.0, 0.0, 1.0, 0.0])
    for heal in (True, False):
        answer = engine.generate("xa", max_tokens=2, heal=heal)
        assert (answer.text, answer.finish) == ("aa", "length")


def test_conversation_is_healed_in_its_prefill_alone():
    """A template ends where it says."""
    engine = Engine(exact_engine().model, TINY, chat=ChatTemplate("", TINY))
    messages = [Message("user", "the bill")]
    plain = WRITE(engine, messages)
    assert plain.text == WRITE(engine, messages, heal=False).text
    prefilled = WRITE(engine, messages, prefill="the bill")
    again = b"".join(step.text for step in prefilled.written)
    assert again.startswith(b"bill")
    assert prefilled.text == "the " + again.decode(errors="replace")


# Prefill


@settings(max_examples=40)
@given(
    seed=st.integers(0, 100),
    prefill=st.text("ab", min_size=1, max_size=8),
    options=st.sets(st.text("xy", min_size=1, max_size=4), min_size=1, max_size=5),
    sampling=samplings,
)
def test_prefill_is_a_literal_that_was_read_with_the_prompt(seed, prefill, options, sampling):
    """Where no token reaches over the seam: the same text and numbers, for fewer passes."""
    words = [b"a", b"b", b"ab", b"bba", b"x", b"y", b"xy", b"yyx", b""]
    choice = guides.choice(sorted(options))
    write = partial(Engine.generate, sampling=sampling, heal=False)
    given_before = write(remembering(words, seed), "x", choice, prefill=prefill)
    forced = write(remembering(words, seed), "x", guides.then(guides.literal(prefill), choice))
    assert given_before.text == forced.text
    assert [s.token for s in given_before.steps] == [s.token for s in forced.steps]
    for one, other in zip(given_before.steps, forced.steps, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-5)
        assert one.rank == other.rank
    num_given = sum(step.source == "prefill" for step in given_before.steps)
    assert given_before.steps[num_given:] == given_before.written
    assert given_before.forward_passes <= forced.forward_passes
    if given_before.written[0].source == "model":
        assert given_before.forward_passes < forced.forward_passes


@settings(max_examples=25)
@given(seed=st.integers(0, 20), prompt=prompts, spec=specs, prefill=texts, sampling=samplings)
def test_text_begins_with_the_prefill_and_its_steps_spell_it(seed, prompt, spec, prefill, sampling):
    """Healed at its end as a prompt is; what was given counts in no total."""
    answer = exact_engine(seed).generate(prompt, spec, prefill=prefill, sampling=sampling)
    assert answer.text.startswith(prefill)
    given_before = [step.token for step in answer.steps if step.source == "prefill"]
    whole = spelled(TINY, given_before) + b"".join(step.text for step in answer.written)
    assert whole.decode(errors="replace") == answer.text
    assert answer.logprob == pytest.approx(sum(step.logprob for step in answer.written))


def test_prefill_is_accounted_for_however_much_of_it_was_read_before():
    """The rows before its tokens are read again, though the cache has the tokens."""
    engine, prompt = exact_engine(), "the billing report: bug, the low bill. "
    first, again = (engine.generate(prompt, prefill=prompt, max_tokens=3) for _ in range(2))
    assert first.steps == again.steps
    assert sum(step.source == "prefill" for step in first.steps) > 10
