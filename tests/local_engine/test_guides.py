"""Guides by example: what each demands, and what it refuses to be given."""

from __future__ import annotations

import ast
import gc
import math
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import tiny_model
import torch

from weighbridge.errors import EngineError, TaskInvalid
from weighbridge.local_engine import guides
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.protocol import Guide
from weighbridge.local_engine.guides.texts import Texts
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.local_engine.vocabulary import TableVocabulary, Vocabulary
from weighbridge.schemas.finite import language

WORDS = TableVocabulary(
    [b"bug", b"b", b"u", b"g", b"fix", b"bugfix", b"!", b"", b"", b"bug", b""], eos_ids={7}
)
CONTROL, END, TWIN, PADDING = 8, 7, 9, 10


def allowed(guide: Guide, state: Any) -> set[int]:
    return set(torch.nonzero(guide.bias(state) > -torch.inf).flatten().tolist())


def after(guide: Guide, *tokens: int) -> Any:
    state = guide.init()
    for token in tokens:
        state = guide.advance(state, token)
    return state


def accepts(guide: Guide, text: str, vocabulary: Vocabulary) -> bool:
    """Whether the canonical spelling of a text is an answer."""
    try:
        state = after(guide, *vocabulary.encode(text))
    except ValueError:
        return False
    return vocabulary.eos_ids <= allowed(guide, state)


# Texts


def test_an_option_that_begins_another_may_end_or_go_on() -> None:
    """After `bug` both the end and the rest of `bugfix` can come."""
    guide = guides.choice(["bug", "bugfix"]).bind(WORDS)
    assert allowed(guide, guide.init()) == {0, 1, 5, TWIN}
    assert allowed(guide, after(guide, 0)) == {4, END}
    assert not guide.finished(after(guide, 0))
    assert guide.finished(after(guide, 5))
    assert guide.finished(after(guide, 0, END))


def test_tokens_that_spell_the_same_are_allowed_together() -> None:
    """Bytes never name one token."""
    guide = guides.literal("bug").bind(WORDS)
    assert allowed(guide, guide.init()) == {0, TWIN, 1}
    assert after(guide, 0) == after(guide, TWIN) == after(guide, 1, 2, 3)


@pytest.mark.parametrize("token", [CONTROL, PADDING, -1, 11])
def test_tokens_that_spell_nothing_never_come(token: int) -> None:
    """Not even where bytes of them could be read: ids from the end of a list, say."""
    guide = guides.literal("bug").bind(WORDS)
    with pytest.raises(ValueError, match="banned"):
        guide.advance(guide.init(), token)


def test_end_of_text_spells_nothing_whatever_its_bytes() -> None:
    """Some vocabularies give it a name in plain characters."""
    named = TableVocabulary([b"b", b"u", b"bu"], eos_ids={2})
    guide = guides.literal("bu").bind(named)
    assert allowed(guide, guide.init()) == {0}
    assert 2 not in guide.forced(guide.init())
    with pytest.raises(ValueError, match="not whole"):
        guide.advance(guide.init(), 2)
    closing = guides.free("bu", max_tokens=0).bind(named)
    assert 2 not in closing.forced(closing.init())
    with pytest.raises(TaskInvalid, match="no tokens"):
        guides.soft(by_text={"bu": 1.0}).bind(TableVocabulary([b"b", b"bu"], eos_ids={1}))


def test_a_refused_token_is_named_and_the_text_is_not() -> None:
    """Answers stay out of messages."""
    guide = guides.literal("bug").bind(WORDS)
    with pytest.raises(ValueError, match="token 4") as caught:
        guide.advance(guide.init(), 4)
    assert "bug" not in str(caught.value)


@pytest.mark.parametrize("spec", [guides.literal(""), guides.choice([""])])
def test_an_empty_text_is_finished_at_once(spec: Any) -> None:
    """It is an answer, and nothing can follow it."""
    guide = spec.bind(WORDS)
    assert guide.finished(guide.init())
    assert allowed(guide, guide.init()) == {END}


def test_an_empty_option_makes_a_part_optional() -> None:
    """The answer may leave it out."""
    guide = guides.then(guides.choice(["", "fix"]), guides.literal("bug")).bind(WORDS)
    assert [accepts(guide, text, WORDS) for text in ("bug", "fixbug", "fix", "fixfixbug")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("options", "pointer"),
    [([], ""), (["bug", "fix", "bug"], "/2"), (["bug", "b\ud800"], "/1")],
)
def test_a_list_that_is_no_choice_is_refused(options: list[str], pointer: str) -> None:
    """Nothing to choose between, an option twice, and half a character."""
    with pytest.raises(TaskInvalid) as caught:
        guides.choice(options)
    assert caught.value.pointer == pointer


def test_one_text_is_no_list_of_options() -> None:
    """`choice("bug")` would mean three letters."""
    with pytest.raises(TypeError, match="list"):
        guides.choice("bug")


def test_a_text_that_the_vocabulary_cannot_spell_is_named_when_bound() -> None:
    """Its tokenizer would put a stand-in there without a word."""
    lacking = tiny_model.tiny_tokenizer(missing={"Ã"})  # the byte that `é` begins with
    spec = guides.choice(["bug", "caf\u00e9"])
    assert accepts(spec.bind(tiny_model.tiny_tokenizer()), "café", tiny_model.tiny_tokenizer())
    with pytest.raises(TaskInvalid, match="no tokens") as caught:
        spec.bind(lacking)
    assert caught.value.pointer == "/1"
    assert "caf" not in str(caught.value)
    with pytest.raises(TaskInvalid) as caught:
        guides.then(guides.literal("bug"), guides.choice(["low", "é"])).bind(lacking)
    assert caught.value.pointer == "/1/1"


def test_a_text_may_be_spelled_by_longer_tokens_alone() -> None:
    """Also by one that reaches into the next part; a byte that is no token is no reason."""
    words = TableVocabulary([b"ab", b"bc", b"c", b""], eos_ids={3})
    assert accepts(guides.literal("abc").bind(words), "abc", words)
    guide = guides.then(guides.literal("a"), guides.literal("b")).bind(words)
    assert allowed(guide, guide.init()) == {0}
    for text in ("a", "bb", "ca"):
        with pytest.raises(TaskInvalid):
            guides.literal(text).bind(words)


def test_any_number_of_parts_may_be_left_out() -> None:
    """Six hundred of them are no deeper than two."""
    guide = Texts((("", "b"),) * 600).bind(WORDS)
    assert allowed(guide, guide.init()) == {1, END}
    assert allowed(guide, after(guide, 1, 1)) == {1, END}


def test_many_options_are_all_there() -> None:
    """Ten thousand, over one state; the first tokens are those that begin one of them."""
    vocabulary = tiny_model.tiny_tokenizer()
    options = [f"{n:04d} {'bug' if n % 2 else 'billing'}" for n in range(10_000)]
    guide = guides.choice(options).bind(vocabulary)
    assert {vocabulary.token_bytes[i] for i in allowed(guide, guide.init())} == {
        str(n).encode() for n in range(10)
    }
    assert accepts(guide, "4321 bug", vocabulary)
    assert not accepts(guide, "4321 billing", vocabulary)


def test_a_product_of_choices_is_never_listed() -> None:
    """Two hundred to the sixth strings would not fit anywhere."""
    vocabulary = tiny_model.tiny_tokenizer()
    labels = [f"label {n}" for n in range(200)]
    fields = {f"field{n}": {"enum": labels} for n in range(6)}
    words = language(
        {
            "type": "object",
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        }
    )
    assert words is not None
    guide = guides.finite(words).bind(vocabulary)
    text = next(words.strings())
    assert accepts(guide, text, vocabulary)
    assert not accepts(guide, text.replace("label 0", "label 200"), vocabulary)
    assert not accepts(guide, text[:-1], vocabulary)


def test_forced_tokens_stop_before_what_could_merge() -> None:
    """A quote may yet merge with what follows it; at the end of the answer nothing follows."""
    vocabulary = tiny_model.tiny_tokenizer()
    spec = guides.then(guides.literal('the "'), guides.choice(["}", "low"]), guides.literal('"}'))
    guide = spec.bind(vocabulary)
    forced = guide.forced(guide.init())
    assert b"".join(vocabulary.token_bytes[i] for i in forced) == b"the"
    state = after(guide, *vocabulary.encode('the "l'))
    assert guide.forced(state) == tuple(vocabulary.encode('ow"}'))


def test_forced_tokens_may_end_within_a_character_but_not_begin_there() -> None:
    """What all answers share is certain; from half a character on there is nothing to encode."""
    vocabulary = tiny_model.tiny_tokenizer()
    parting = guides.choice(["bé", "bè"]).bind(vocabulary)  # they part at their last byte
    assert parting.forced(parting.init()) == tuple(vocabulary.encode("bé")[:2])
    whole = guides.literal("éb").bind(vocabulary)
    assert whole.forced(whole.init()) == tuple(vocabulary.encode("éb"))
    assert whole.forced(after(whole, vocabulary.encode("éb")[0])) == ()


# Functions of ids


def test_a_function_says_what_may_come_and_is_asked_once_a_state() -> None:
    """None at all is the end; an end-of-text token among others allows it."""
    asked = []

    def function(ids: tuple[int, ...]) -> list[int]:
        asked.append(ids)
        return {(): [1], (1,): [2, END]}.get(ids, [])

    guide = guides.allowed(function).bind(WORDS)
    assert guide.forced(guide.init()) == (1,)
    assert allowed(guide, after(guide, 1)) == {2, END}
    assert guide.forced(after(guide, 1)) == ()
    assert guide.finished(after(guide, 1, 2))
    assert guide.finished(after(guide, 1, END))
    assert asked == [(), (1,), (1, 2)]


@pytest.mark.parametrize(
    ("token", "says"), [(11, "no token"), (-1, "no token"), (CONTROL, "control"), (PADDING, "pad")]
)
def test_a_function_that_permits_no_token_has_failed(token: int, says: str) -> None:
    """It is told which, instead of being taken at half its word."""
    guide = guides.allowed(lambda ids: [0, token]).bind(WORDS)
    with pytest.raises(EngineError, match=says) as caught:
        guide.bias(guide.init())
    assert str(token) in str(caught.value)


# Soft guides


def test_bias_by_text_goes_to_each_token_of_its_spelling() -> None:
    """Values for one token add up; the twin that `encode` does not use stays as it is."""
    guide = guides.soft(by_id={4: -100, 0: 1.0}, by_text={"bug": 2.0, "ugu": 0.5}).bind(WORDS)
    row = guide.bias(guide.init())
    assert row.tolist() == [3, 0, 0.5, 0.5, -100, 0, 0, 0, -math.inf, 0, -math.inf]
    assert not guide.is_hard


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e39, 10**400])
def test_a_bias_must_be_a_number_or_a_ban(value: float) -> None:
    """One token at +inf, or at what single precision takes for it, would ban all others."""
    with pytest.raises(TaskInvalid, match="finite"):
        guides.soft(by_id={1: value})
    with pytest.raises(TaskInvalid, match="finite"):
        guides.soft(by_text={"bug": value})
    with pytest.raises(TaskInvalid, match="finite"):
        guides.label_prior({"bug": value})
    guides.soft(by_id={1: -math.inf})


@pytest.mark.parametrize(
    "spec",
    [
        guides.both(guides.soft({0: 9e29}, {"bug": 9e29}), guides.soft({0: 9e29})),
        guides.soft({0: -1e39}),
        guides.label_prior({"bug": -1e39}),
        guides.label_prior({"bug": -1e300, "fix": -1.7e308}),
        guides.label_prior({"bug": 9e29, "fix": -1.7e308}),
    ],
)
def test_a_bias_of_any_size_leaves_numbers(spec: Any) -> None:
    """Sums and differences are no NaN and no infinity but that of a ban."""
    guide = spec.bind(WORDS)
    row = guide.bias(guide.init())
    assert not (row.isnan() | row.isposinf()).any()
    assert END in allowed(guide, after(guide, 1, 2, 3))


@pytest.mark.parametrize("token", [-1, 11, CONTROL, PADDING])
def test_a_bias_for_what_can_never_come_is_refused(token: int) -> None:
    """It would be without effect, and nobody would know."""
    with pytest.raises(TaskInvalid) as caught:
        guides.soft(by_id={token: 1.0}).bind(WORDS)
    assert caught.value.pointer == f"/by_id/{token}"
    guides.soft(by_id={END: 1.0}).bind(WORDS)


@pytest.mark.parametrize("text", ["", "x", "bugx"])
def test_a_bias_for_a_text_without_tokens_is_refused(text: str) -> None:
    """A stand-in must not be favoured in its place."""
    with pytest.raises(TaskInvalid):
        guides.soft(by_text={text: 1.0}).bind(WORDS)


def test_a_banned_token_cannot_be_taken() -> None:
    """-inf is a ban like that of a mask, wherever it comes from."""
    guide = guides.biased(guides.choice(["bug", "fix"]), by_text={"fix": -math.inf}).bind(WORDS)
    assert allowed(guide, guide.init()) == {0, 1, TWIN}
    with pytest.raises(ValueError, match="banned"):
        guide.advance(guide.init(), 4)
    assert guide.is_hard


def test_label_prior_speaks_where_options_part() -> None:
    """Three to one at the first byte; then `bug` against `bugfix`, its end against its rest."""
    prior = {"bug": math.log(0.1), "bugfix": math.log(0.3), "fix": math.log(0.6)}
    guide = guides.label_prior(prior).bind(WORDS)
    first = guide.bias(guide.init())
    assert first[[0, 5, 4]].exp().tolist() == pytest.approx([0.4, 0.3, 0.6])
    second = guide.bias(after(guide, 0))
    assert second[[END, 4]].exp().tolist() == pytest.approx([0.25, 0.75])
    assert guide.bias(after(guide, 6)).tolist() == guides.soft().bind(WORDS).bias(False).tolist()


@pytest.mark.parametrize("prior", [{}, {"bug": -math.inf}])
def test_label_prior_must_leave_an_option(prior: dict[str, float]) -> None:
    """It would ban everything, or say nothing."""
    with pytest.raises(TaskInvalid):
        guides.label_prior(prior)


# Combinations


def test_guides_with_nothing_in_common_leave_no_token() -> None:
    """The row bans everything; that is no end of text."""
    guide = guides.both(guides.choice(["bug"]), guides.choice(["fix"])).bind(WORDS)
    assert allowed(guide, guide.init()) == set()
    assert not guide.finished(guide.init())


def test_conjunction_ends_where_each_would_go_on_with_something_else() -> None:
    """Nothing that both allow can follow."""
    guide = guides.both(guides.choice(["bug", "bugfix"]), guides.choice(["bug", "bug!"]))
    bound = guide.bind(WORDS)
    assert bound.finished(after(bound, 0))


def test_conjunction_forces_only_what_the_other_allows() -> None:
    """What one forces and the other bans is a dead end, and nothing is forced into it."""
    guide = guides.biased(guides.literal("bugfix"), by_id={5: -math.inf}).bind(WORDS)
    assert guides.literal("bugfix").bind(WORDS).forced(after(guide)[0]) == (5,)
    assert guide.forced(guide.init()) == ()


def test_sequence_goes_on_from_every_way_to_divide_the_text() -> None:
    """`bug` may be all of the first part, or the beginning of it."""
    spec = guides.then(guides.biased(guides.choice(["bug", "bugfix"])), guides.literal("!"))
    guide = spec.bind(WORDS)
    assert allowed(guide, after(guide, 0)) == {4, 6}
    assert accepts(guide, "bug!", WORDS)
    assert accepts(guide, "bugfix!", WORDS)
    assert not accepts(guide, "bug", WORDS)
    assert not accepts(guide, "bug!!", WORDS)


def test_sequence_of_texts_lets_a_token_reach_over_the_seam() -> None:
    """Of other guides it does not: there a part begins between tokens."""
    texts = guides.then(guides.literal("bug"), guides.literal("fix")).bind(WORDS)
    others = guides.then(guides.biased(guides.literal("bug")), guides.literal("fix")).bind(WORDS)
    assert 5 in allowed(texts, texts.init())
    assert 5 not in allowed(others, others.init())


def test_sequence_forces_on_into_the_next_part() -> None:
    """As long as there is one way."""
    spec = guides.then(guides.free("!", max_tokens=0), guides.choice(["bugfix"]))
    guide = spec.bind(WORDS)
    assert guide.forced(guide.init()) == (6, 5)


def test_sequence_needs_a_part() -> None:
    """Nothing, one after the other, is a mistake."""
    with pytest.raises(TaskInvalid):
        guides.then()


# Free text


def test_free_text_cannot_end_before_its_stop_and_leaves_room_behind_it() -> None:
    """No end of text, no control token, and no token that writes on behind the stop string."""
    words = TableVocabulary([b"a", b".", b"a.", b".a", b"..", b"", b"a.a"], eos_ids={5})
    guide = guides.free(".").bind(words)
    assert allowed(guide, guide.init()) == {0, 1, 2}
    assert guide.finished(after(guide, 0, 2))


def test_stop_string_is_found_across_tokens_and_after_a_false_start() -> None:
    """`aab` ends with `ab`, in whatever pieces."""
    letters = TableVocabulary([b"a", b"b", b"aa", b"ba", b""], eos_ids={4})
    guide = guides.free("ab").bind(letters)
    assert guide.finished(after(guide, 0, 0, 1))
    assert guide.finished(after(guide, 2, 1))
    assert 3 not in allowed(guide, after(guide, 0))
    assert 3 in allowed(guide, after(guide, 1))


def test_budget_of_free_text_closes_it() -> None:
    """Then the stop string is completed from where it stands, and the answer comes."""
    vocabulary = tiny_model.tiny_tokenizer()
    spec = guides.then(guides.free('":!', max_tokens=3), guides.choice(["bug", "billing"]))
    guide = spec.bind(vocabulary)
    state = after(guide, *vocabulary.encode("low low"), *vocabulary.encode('"'))
    assert b"".join(vocabulary.token_bytes[i] for i in guide.forced(state)) == b":!"
    assert {vocabulary.token_bytes[i] for i in allowed(guide, state)} == {b":"}


@pytest.mark.parametrize(
    ("stop", "max_tokens", "pointer"), [("", None, "/stop"), ("!", -1, "/max_tokens")]
)
def test_free_text_needs_a_stop_and_a_budget_that_can_be(
    stop: str, max_tokens: int | None, pointer: str
) -> None:
    """An empty stop string stops nothing."""
    with pytest.raises(TaskInvalid) as caught:
        guides.free(stop, max_tokens)
    assert caught.value.pointer == pointer
    guides.free("!", 0).bind(WORDS)


def test_stop_string_must_be_spelled() -> None:
    """Otherwise nothing would ever stop it."""
    with pytest.raises(TaskInvalid) as caught:
        guides.free("x").bind(WORDS)
    assert caught.value.pointer == "/stop"


# The package


def test_lexicon_is_made_once_and_goes_with_its_vocabulary() -> None:
    """It must not keep alive what it describes."""
    vocabulary = TableVocabulary([b"a", b""], eos_ids={1})
    assert Lexicon.of(vocabulary) is Lexicon.of(vocabulary)
    gone = weakref.ref(vocabulary)
    del vocabulary
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "spec",
    [
        guides.choice(["a", "b"]),
        guides.soft({1: 2.0}),
        guides.label_prior({"a": 0.0}),
        guides.then(guides.free("!", 3), guides.both(guides.literal("a"), guides.soft())),
    ],
)
def test_specs_are_values(spec: Any) -> None:
    """They compare, hash, and go to other processes."""
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(pickle.loads(pickle.dumps(spec)))


def test_names_of_guides_are_sorted_and_each_has_a_home() -> None:
    assert guides.__all__ == sorted(guides.__all__)
    assert set(guides.__all__) == set(guides._HOMES)


def test_type_checkers_see_the_same_guides() -> None:
    """What resolves lazily at run time is imported plainly for them."""
    tree = ast.parse(Path(guides.__file__).read_text("utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname: f"{node.module}".removeprefix(f"{guides.__name__}.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == guides._HOMES


@pytest.mark.parametrize("name", guides.__all__)
def test_name_of_a_guide_resolves_to_something_of_that_name(name: str) -> None:
    assert getattr(guides, name).__name__ == name


def test_unknown_guide_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="choise"):
        guides.choise  # noqa: B018  # the access is the test


def test_importing_the_package_of_guides_loads_nothing_heavy() -> None:
    """A guide's packages come with its first use."""
    code = (
        "import sys, weighbridge.local_engine.guides;"
        "print([n for n in ('torch', 'llguidance', 'xgrammar') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_byte_tokenizer_with_padding_has_rows_as_wide_as_the_logits(
    tiny_tokenizer: ByteTokenizer,
) -> None:
    """Ids beyond the tokenizer's are banned everywhere."""
    padded = ByteTokenizer(
        tiny_tokenizer._tokenizer,
        special_ids=tiny_tokenizer.special_ids,
        eos_ids=tiny_tokenizer.eos_ids,
        vocab_size=tiny_tokenizer.vocab_size + 5,
    )
    for spec in (guides.literal("bug"), guides.soft(), guides.free("!")):
        guide = spec.bind(padded)
        row = guide.bias(guide.init())
        assert row.shape == (padded.vocab_size,)
        assert (row[-5:] == -torch.inf).all()
