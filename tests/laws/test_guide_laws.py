"""Every guide keeps the laws of the protocol, on a toy vocabulary and on a byte-level tokenizer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import guide_laws as laws
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import tiny_tokenizer

from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.spelled import SpelledGuide
from weighbridge.local_engine.guides.texts import Texts
from weighbridge.local_engine.vocabulary import TableVocabulary, Vocabulary
from weighbridge.schemas.finite import language

# Short and long tokens over three letters and one two-byte character; `ab` twice, two control
# tokens, two ends, and padding.
_WORDS = [b"", b"a", b"b", b"c", b"ab", b"bc", b"", b"ab", b"abc", b"ca", b"aab", b""]
_BYTES = ["é".encode()[:1], "é".encode()[1:], "é".encode(), b"b\xc3"]
TOY = TableVocabulary([*_WORDS, *_BYTES, b"", b""], eos_ids={6, 11})
TINY = tiny_tokenizer()

toy_texts = st.text("abcé", max_size=5)
toy_options = st.lists(toy_texts, min_size=1, max_size=6, unique=True)
tiny_options = st.lists(
    st.sampled_from(
        ["bug", "bugfix", "billing", "bill", "billing report", 'the "low"', "é!", "éa"]
    ),
    min_size=1,
    max_size=5,
    unique=True,
)
scores = st.floats(-30, 30) | st.just(-math.inf)


def walk(data: st.DataObject, guide: Any, vocabulary: Vocabulary) -> list[tuple[bytes, Any]]:
    return laws.check_walk(guide, vocabulary, lambda ids: data.draw(st.sampled_from(ids)))


def begins(members: Iterable[bytes]) -> Callable[[bytes], bool]:
    known = list(members)
    return lambda text: any(member.startswith(text) for member in known)


def check_members(
    data: st.DataObject, spec: Any, vocabulary: Vocabulary, members: set[bytes]
) -> None:
    """The laws, and the same tokens as brute force finds, on the way of one answer."""
    guide = spec.bind(vocabulary)
    for text, state in walk(data, guide, vocabulary):
        laws.check_members(guide, state, text, vocabulary, members)


@given(st.data(), toy_texts)
def test_literal_keeps_the_laws(data: st.DataObject, text: str) -> None:
    """One text, in every tokenization."""
    check_members(data, guides.literal(text), TOY, {text.encode()})


@given(st.data(), toy_options)
def test_choice_keeps_the_laws(data: st.DataObject, options: list[str]) -> None:
    """Exactly the options, in every tokenization."""
    check_members(data, guides.choice(options), TOY, {text.encode() for text in options})


@settings(max_examples=25)
@given(st.data(), tiny_options)
def test_choice_keeps_the_laws_over_a_byte_level_tokenizer(
    data: st.DataObject, options: list[str]
) -> None:
    """The same where tokens are merges of bytes."""
    check_members(data, guides.choice(options), TINY, {text.encode() for text in options})


@given(st.data(), st.lists(toy_options, min_size=1, max_size=3))
def test_product_of_texts_keeps_the_laws(data: st.DataObject, parts: list[list[str]]) -> None:
    """Tokens reach over the seams, and a text that can be divided in several ways stays one."""
    members = {"".join(texts).encode() for texts in itertools.product(*parts)}
    check_members(data, Texts(tuple(map(tuple, parts))), TOY, members)
    check_members(data, guides.then(*map(guides.choice, parts)), TOY, members)


@settings(max_examples=10)
@given(st.data())
def test_finite_language_keeps_the_laws(data: st.DataObject) -> None:
    """A schema's answers, and nothing else."""
    words = language(
        {
            "type": "object",
            "required": ["bill", "high"],
            "additionalProperties": False,
            "properties": {"bill": {"enum": ["bug", "bugfix", 1]}, "high": {"enum": [1, 12]}},
        }
    )
    assert words is not None
    check_members(data, guides.finite(words), TINY, {text.encode() for text in words.strings()})


@given(st.data(), toy_options, toy_options)
def test_sequence_keeps_the_laws_and_divides_between_tokens(
    data: st.DataObject, first: list[str], second: list[str]
) -> None:
    """A token is allowed if some division of the tokens so far lets it come."""
    # A conjunction is no text, so the two stay parts of their own.
    spec = guides.then(guides.biased(guides.choice(first)), guides.choice(second))
    guide, spelled = spec.bind(TOY), TOY.token_bytes
    ones, twos = ({text.encode() for text in texts} for texts in (first, second))
    state, ids = guide.init(), list[int]()

    def joined(tokens: list[int]) -> bytes:
        return b"".join(spelled[token] for token in tokens)

    for _ in range(10):
        laws.check_state(guide, state, TOY)
        seams = [k for k in range(len(ids) + 1) if joined(ids[:k]) in ones]
        allowed = {
            token
            for token, text in enumerate(spelled)
            if text
            and (
                begins(ones)(joined(ids) + text)
                or any(begins(twos)(joined(ids[k:]) + text) for k in seams)
            )
        }
        if any(joined(ids[k:]) in twos for k in seams):
            allowed |= TOY.eos_ids
        assert set(laws.allowed_ids(guide, state)) == allowed
        token = data.draw(st.sampled_from(sorted(allowed)))
        if token in TOY.eos_ids:
            break
        state, ids = guide.advance(state, token), [*ids, token]


@given(st.data(), toy_options, toy_options)
def test_conjunction_allows_what_both_allow(
    data: st.DataObject, first: list[str], second: list[str]
) -> None:
    """Token by token; it can end in a row that bans everything."""
    guide = guides.both(guides.choice(first), guides.choice(second)).bind(TOY)
    ones, twos = ({text.encode() for text in texts} for texts in (first, second))
    for text, state in walk(data, guide, TOY):
        if not guide.finished(state):
            laws.check_bytes(
                guide,
                state,
                text,
                TOY,
                may_begin=lambda text: begins(ones)(text) and begins(twos)(text),
                is_member=(ones & twos).__contains__,
            )


@given(st.data(), st.dictionaries(st.sampled_from([1, 2, 4, 6, 11, 14]), scores), scores)
def test_soft_guide_keeps_the_laws(
    data: st.DataObject, by_id: dict[int, float], value: float
) -> None:
    """Its row is the opinions, 0 elsewhere, and the ban of what spells nothing."""
    guide = guides.soft(by_id, {"bca": value}).bind(TOY)
    expected = torch.tensor([0.0 if t else -torch.inf for t in TOY.token_bytes])
    expected[sorted(TOY.eos_ids)] = 0.0
    for token, number in [*by_id.items(), *((token, value) for token in TOY.encode("bca"))]:
        expected[token] += number
    assert torch.equal(guide.bias(guide.init()), expected)
    walk(data, guide, TOY)


@given(st.data(), toy_options)
def test_soft_guide_without_opinions_changes_nothing(
    data: st.DataObject, options: list[str]
) -> None:
    """A bias of 0 is no guide at all."""
    plain, soft = guides.choice(options).bind(TOY), guides.biased(guides.choice(options)).bind(TOY)
    one, other = plain.init(), soft.init()
    while not plain.finished(one):
        assert torch.equal(plain.bias(one), soft.bias(other))
        token = data.draw(st.sampled_from(laws.allowed_ids(plain, one)))
        one, other = plain.advance(one, token), soft.advance(other, token)
    assert soft.finished(other)


priors = st.dictionaries(toy_texts, scores, min_size=1, max_size=6).filter(
    lambda found: any(value > -math.inf for value in found.values())
)


@given(st.data(), priors)
def test_label_prior_keeps_the_laws(data: st.DataObject, log_probs: dict[str, float]) -> None:
    """In the options, and where the text has left them."""
    walk(data, guides.label_prior(log_probs).bind(TOY), TOY)


@given(priors)
def test_label_prior_adds_up_to_the_prior_of_the_option(log_probs: dict[str, float]) -> None:
    """Along every tokenization, end of text included; so whole options are reweighted exactly."""
    guide = guides.both(guides.choice(list(log_probs)), guides.label_prior(log_probs)).bind(TOY)
    total = torch.tensor(list(log_probs.values())).logsumexp(0)
    for option, value in log_probs.items():
        for tokens in laws.spellings(option.encode(), TOY):
            state, added = guide.init(), 0.0
            for token in [*tokens, min(TOY.eos_ids)]:
                added += float(guide.bias(state)[token])
                if added == -math.inf:
                    break
                state = guide.advance(state, token)
            assert added == pytest.approx(value - float(total), abs=1e-4)


@given(priors, toy_options)
def test_label_prior_counts_in_a_sequence_too(
    log_probs: dict[str, float], second: list[str]
) -> None:
    """Ending an option costs what its end of text costs, although none is written."""
    first = guides.both(guides.choice(list(log_probs)), guides.label_prior(log_probs))
    guide = guides.then(first, guides.literal("!")).bind(
        TableVocabulary([*TOY.token_bytes, b"!"], TOY.eos_ids)
    )
    mark = len(TOY.token_bytes)
    total = torch.tensor(list(log_probs.values())).logsumexp(0)
    for option, value in log_probs.items():
        state, added = guide.init(), 0.0
        for token in [*TOY.encode(option), mark]:
            added += float(guide.bias(state)[token])
            if added == -math.inf:
                break
            state = guide.advance(state, token)
        assert added == pytest.approx(value - float(total), abs=1e-4)


@given(st.data(), st.text("abcé", min_size=1, max_size=4), st.none() | st.integers(0, 4))
def test_free_text_keeps_the_laws_and_ends_with_its_stop(
    data: st.DataObject, stop: str, max_tokens: int | None
) -> None:
    """The stop string occurs once, at the end; when the tokens are spent nothing else may come."""
    guide, mark = guides.free(stop, max_tokens).bind(TOY), stop.encode()
    for num_tokens, (text, state) in enumerate(walk(data, guide, TOY)):
        if guide.finished(state):
            assert text.find(mark) == len(text) - len(mark)
            break
        matched = max(k for k in range(len(mark)) if text.endswith(mark[:k]))
        is_closing = max_tokens is not None and num_tokens >= max_tokens

        def may_begin(
            longer: bytes, text: bytes = text, matched: int = matched, closing: bool = is_closing
        ) -> bool:
            if closing:
                return mark[matched:].startswith(longer[len(text) :])
            return mark not in longer[:-1]

        laws.check_bytes(guide, state, text, TOY, may_begin=may_begin, is_member=lambda text: False)


@given(
    st.data(),
    st.lists(st.sets(st.sampled_from([1, 2, 3, 4, 6, 7, 11, 14]), max_size=3), max_size=5),
)
def test_function_of_ids_keeps_the_laws(data: st.DataObject, steps: list[set[int]]) -> None:
    """Whatever the function answers; without an answer it is finished."""
    spec = guides.allowed(lambda ids: steps[len(ids)] if len(ids) < len(steps) else ())
    guide = spec.bind(TOY)
    for place, (_, state) in enumerate(walk(data, guide, TOY)):
        if not guide.finished(state):
            assert set(laws.allowed_ids(guide, state)) - TOY.eos_ids == steps[place] - TOY.eos_ids


@settings(max_examples=8)
@given(st.data(), tiny_options)
def test_reasoning_then_an_answer_keeps_the_laws(data: st.DataObject, options: list[str]) -> None:
    """Free text with a budget, and the choice always comes."""
    spec = guides.then(guides.free("!\n", 1), guides.biased(guides.choice(options)))
    guide = spec.bind(TINY)
    texts = [text for text, state in walk(data, guide, TINY) if guide.finished(state)]
    assert all(text.split(b"!\n", 1)[1].decode() in options for text in texts)


@pytest.mark.parametrize("vocabulary", [TOY, TINY], ids=["toy", "tiny"])
@given(data=st.data())
def test_forced_tokens_are_the_canonical_spelling_of_every_answer(
    data: st.DataObject, vocabulary: Vocabulary
) -> None:
    """What follows a forced run can merge with its end, and no such merge is cut."""
    options = toy_options if vocabulary is TOY else tiny_options
    parts = data.draw(st.lists(options, min_size=1, max_size=3))
    guide = Texts(tuple(map(tuple, parts))).bind(vocabulary)
    forced = list(guide.forced(guide.init()))
    spelled = [vocabulary.encode("".join(texts)) for texts in itertools.product(*parts)]
    assert all(tokens[: len(forced)] == forced for tokens in spelled)
    if len(set(map(tuple, spelled))) == 1:
        assert forced == spelled[0]


class Deaf(SpelledGuide):
    def advance(self, state: Any, token: int) -> Any:
        return super().advance(state, token) if token != 4 else super().advance(state, 1)


class Narrow(SpelledGuide):
    def bias(self, state: Any) -> Any:
        row = super().bias(state)
        row[7] = -torch.inf
        return row


class Leaky(SpelledGuide):
    def bias(self, state: Any) -> Any:
        row = super().bias(state)
        row[0] = 0.0
        return row


class Hasty(SpelledGuide):
    def finished(self, state: Any) -> bool:
        return laws.is_whole(self, state, TOY)


class Endless(SpelledGuide):
    def finished(self, state: Any) -> bool:
        return False


class Pushy(SpelledGuide):
    def forced(self, state: Any) -> tuple[int, ...]:
        return (1,)


class Changing(SpelledGuide):
    def init(self) -> Any:
        return [super().init()]

    def bias(self, state: Any) -> Any:
        return super().bias(state[0])

    def advance(self, state: Any, token: int) -> Any:
        state[0] = super().advance(state[0], token)
        return state


@pytest.mark.parametrize("broken", [Deaf, Narrow, Leaky, Hasty, Endless, Pushy, Changing])
def test_laws_find_a_guide_that_breaks_them(broken: type[SpelledGuide]) -> None:
    """A check that accepts everything would pass above as well."""
    sound = guides.choice(["ab", "abca", "b"]).bind(TOY)
    check_three_options(sound)
    with pytest.raises(AssertionError):
        check_three_options(broken(sound._language, TOY))


def check_three_options(guide: SpelledGuide) -> None:
    members = {b"ab", b"abca", b"b"}
    for tokens in ([], [1], [1, 2], [4], [2]):
        state, text = guide.init(), b""
        for token in tokens:
            state, text = guide.advance(state, token), text + TOY.token_bytes[token]
        laws.check_state(guide, state, TOY)
        laws.check_members(guide, state, text, TOY, members)
