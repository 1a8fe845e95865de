"""Packed scores: against scores computed the slow way, and against every tokenization."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_scoring import all_log_probs, any_spelling, option_log_probs, spelled
from tiny_model import tiny_llama, tiny_tokenizer

from weighbridge.errors import EngineError
from weighbridge.local_engine import scoring, spellings
from weighbridge.local_engine.chat_template import Message
from weighbridge.local_engine.logprobs import log_probs
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.scoring import Branch, ChoiceScores, Prompt, Scorer
from weighbridge.local_engine.spellings import Spellings, Text
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.local_engine.trie import Trie
from weighbridge.schemas.finite import Literal, language
from weighbridge.schemas.task import Task

CLOSE = 1e-4  # of two float32 sums of logs, packed and not
PROMPT = [20, 40, 60, 80, 100]
TOKENIZER = tiny_tokenizer()


def quoted(label: str) -> Text:
    """A label as it stands in JSON, its opening quote given."""
    return Text(json.dumps(label, ensure_ascii=False)[1:-1], '"')


AWKWARD = [
    "bug",
    "bug_report",
    "bug report",
    "bill",
    "billing",
    "the end.",  # its last token merges with the closing quote
    "hi!",
    'say "hi"',
    "back\\slash",
    "end\\",
    "😀",
    "été 🎉",
    " space",
    "7",
]

labels = st.text('bugil_.! \\"é7', min_size=1, max_size=4)


def packed(
    model: Llama, tokenizer: ByteTokenizer, prompt: Sequence[int], branches: Sequence[Branch]
) -> list[ChoiceScores]:
    """Scores with the prompt read once."""
    return Scorer(model, tokenizer).score(read(model, prompt), branches)


def read(model: Llama, prompt: Sequence[int]) -> Prompt:
    prompt = Prompt(model.empty_cache(), tuple(prompt))
    prompt.after(model)
    return prompt


def assert_like_naive(model, tokenizer, prompt, branches, *, atol):
    for branch, scores in zip(branches, packed(model, tokenizer, prompt, branches), strict=True):
        start = [*prompt, *branch.prefix]
        wanted = option_log_probs(model, tokenizer, start, branch.texts)
        torch.testing.assert_close(
            scores.log_probs, torch.tensor(wanted, dtype=torch.float64), atol=atol, rtol=0
        )


def test_packed_scores_are_those_of_each_option_alone(tiny):
    """Labels that share beginnings, need escapes, or merge with the closing quote."""
    branches = [
        Branch(prefix=prefix, texts=tuple(quoted(label) for label in AWKWARD))
        for prefix in ((), (9, 8, 7), (9, 8))
    ]
    assert_like_naive(tiny, TOKENIZER, PROMPT, branches, atol=1e-4)


@given(seed=st.integers(0, 50), options=st.sets(labels, min_size=1, max_size=6))
@settings(max_examples=60)
def test_packed_scores_are_those_of_each_option_alone_for_any_labels(seed, options):
    branch = Branch(prefix=(), texts=tuple(quoted(label) for label in sorted(options)))
    assert_like_naive(tiny_llama(seed), TOKENIZER, PROMPT, [branch], atol=1e-4)


def test_values_that_end_with_the_text_or_a_literal_are_scored(tiny):
    """A number has no closing character of its own."""
    texts = (Text("1", "}"), Text("12", "}"), Text("true", "}"), Text("null", ""), Text("1", ""))
    assert_like_naive(tiny, TOKENIZER, PROMPT, [Branch(prefix=(), texts=texts)], atol=1e-4)


@given(seed=st.integers(0, 50), options=st.sets(labels, min_size=1, max_size=4))
@settings(max_examples=30)
def test_prompt_may_be_read_in_the_same_pass(seed, options):
    """Read before or with the first options: the same scores, and the same prompt afterwards."""
    model = tiny_llama(seed)
    scorer = Scorer(model, TOKENIZER)
    branches = [Branch(prefix=p, texts=tuple(map(quoted, sorted(options)))) for p in ((), (9, 8))]
    for start in (model.empty_cache(), model.forward(torch.tensor([3, 4]), model.empty_cache())[1]):
        unread, before = Prompt(start, tuple(PROMPT)), Prompt(start, tuple(PROMPT))
        before.after(model)
        for _ in range(2):
            for one, other in zip(
                scorer.score(unread, branches), scorer.score(before, branches), strict=True
            ):
                torch.testing.assert_close(one.log_probs, other.log_probs, atol=1e-4, rtol=0)
                assert one.mass == pytest.approx(other.mass, rel=1e-3)
        assert unread.tail == ()
        torch.testing.assert_close(unread.logits, before.logits, atol=1e-4, rtol=1e-4)


def test_one_label_is_scored(tiny):
    (scores,) = packed(tiny, TOKENIZER, PROMPT, [Branch(prefix=(), texts=(quoted("bug"),))])
    assert scores.log_probs.shape == (1,)
    low, high = scores.mass
    assert 0 < low < high < 1


@pytest.mark.parametrize("max_rows", [1, 7, scoring.MAX_ROWS])
def test_two_hundred_labels_are_scored_however_they_are_packed(tiny, monkeypatch, max_rows):
    """A choice too large for one pass is spread over several, with the same result."""
    texts = tuple(quoted(f"bug {number} report.") for number in range(200))
    branches = [Branch(prefix=(5,), texts=texts), Branch(prefix=(), texts=texts[:3])]
    whole = packed(tiny, TOKENIZER, PROMPT, branches)
    monkeypatch.setattr(scoring, "MAX_ROWS", max_rows)
    parts = packed(tiny, TOKENIZER, PROMPT, branches)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one.log_probs, other.log_probs, atol=1e-4, rtol=0)
        assert one.mass == pytest.approx(other.mass, rel=1e-4)
    few = Branch(prefix=(5,), texts=texts[::50])
    assert_like_naive(tiny, TOKENIZER, PROMPT, [few], atol=1e-4)


@given(seed=st.integers(0, 50), options=st.sets(labels, min_size=1, max_size=3))
@settings(max_examples=40)
def test_mass_holds_every_tokenization_between_its_bounds(seed, options):
    """The probability that one of the options is spelled in whatever way lies in the interval."""
    model = tiny_llama(seed)
    texts = tuple(quoted(label) for label in sorted(options))
    (scores,) = packed(model, TOKENIZER, PROMPT, [Branch(prefix=(), texts=texts)])
    each = [any_spelling(model, TOKENIZER, PROMPT, text) for text in texts]
    low, high = scores.mass
    assert 0 < low <= high < 1
    assert low <= sum(each) * (1 + CLOSE)
    assert sum(each) <= high * (1 + CLOSE)
    for log_prob, marginal in zip(scores.log_probs.exp().tolist(), each, strict=True):
        assert log_prob <= marginal * (1 + CLOSE)


@pytest.mark.parametrize("closer", ["}", ""])
def test_mass_holds_every_tokenization_of_a_number(tiny, closer):
    """Closed by the literal behind it, or by the end of the text."""
    texts = (Text("1", closer), Text("12", closer), Text("true", closer))
    (scores,) = packed(tiny, TOKENIZER, PROMPT, [Branch(prefix=(), texts=texts)])
    marginal = sum(any_spelling(tiny, TOKENIZER, PROMPT, text) for text in texts)
    low, high = scores.mass
    assert low <= marginal * (1 + CLOSE)
    assert marginal <= high * (1 + CLOSE)


def test_bounds_meet_where_nothing_but_the_closer_is_wanted(tiny):
    """Every spelling of the empty label is one token, so nothing is left open."""
    (scores,) = packed(tiny, TOKENIZER, PROMPT, [Branch(prefix=(), texts=(Text("", '"'),))])
    low, high = scores.mass
    assert low == pytest.approx(high, rel=1e-9)
    assert low == pytest.approx(any_spelling(tiny, TOKENIZER, PROMPT, Text("", '"')), rel=1e-5)


def test_closers_share_out_the_whole_vocabulary(tiny):
    """Every token begins with one byte or is a control token: their masses sum to 1."""
    closers = [Text("", chr(code)) for code in range(0x80)]
    (scores,) = packed(tiny, TOKENIZER, PROMPT, [Branch(prefix=(), texts=tuple(closers))])
    after = all_log_probs(tiny, PROMPT)[-1].exp()
    others = [i for i, data in enumerate(TOKENIZER.token_bytes) if data[:1] >= b"\x80"]
    rest = float(after[others].sum() + after[sorted(TOKENIZER.special_ids)].sum())
    assert math.isclose(float(scores.log_probs.exp().sum()) + rest, 1.0, abs_tol=1e-5)


@given(options=st.sets(labels, min_size=1, max_size=8), seed=st.integers(0, 50))
@settings(max_examples=40)
def test_leaves_of_a_trie_and_what_leaves_it_sum_to_one(options, seed):
    """Packed rows are whole distributions: paths through the tree and steps out of it are all."""
    model, trie = tiny_llama(seed), Trie()
    for label in options:
        trie.insert(TOKENIZER.encode(label))
    hidden, cache = model.forward(torch.tensor(PROMPT), model.empty_cache())
    tokens, parents = torch.tensor(trie.tokens), torch.tensor(trie.parents)
    packed_hidden, _ = model.forward(tokens, cache, parents=parents)
    logits = model.logits(torch.cat([packed_hidden, hidden[-1:]]))  # the root is last
    rows = log_probs(logits).double().exp()
    reach = {-1: 1.0}
    for node, (token, parent) in enumerate(zip(trie.tokens, trie.parents, strict=True)):
        reach[node] = reach[parent] * float(rows[parent, token])
    total = 0.0
    for node, probability in reach.items():
        inside = [t for t, p in zip(trie.tokens, trie.parents, strict=True) if p == node]
        residual = 1.0 - float(rows[node, inside].sum()) if inside else 1.0
        total += probability * residual  # of a leaf: all of it
    assert math.isclose(total, 1.0, abs_tol=1e-5)


def test_closing_character_that_merges_with_the_end_is_a_second_spelling(tiny):
    """Both are in the tree: the bare quote after the full stop, and the token of both."""
    tree = Spellings(TOKENIZER, [quoted("the end.")])
    ends = {
        (spelled(TOKENIZER, tree.path(node)), TOKENIZER.token_bytes[token][:2])
        for node, token in zip(
            tree.closings.nodes.tolist(), tree.closings.ids.tolist(), strict=True
        )
    }
    assert {(b"the end.", b'"'), (b"the end", b'."')} <= ends


@given(options=st.sets(labels, min_size=1, max_size=5))
def test_ends_of_spellings_exclude_each_other(options):
    """No sequence of tokens is counted twice: not as a closing, nor under a token outside."""
    tree = Spellings(TOKENIZER, [quoted(label) for label in sorted(options)])
    pairs = [
        pair
        for exits in (tree.closings, tree.outside, tree.children)
        for pair in zip(exits.nodes.tolist(), exits.ids.tolist(), strict=True)
    ]
    assert len(pairs) == len(set(pairs))


@given(seed=st.integers(0, 50), options=st.sets(labels, min_size=1, max_size=3))
@settings(max_examples=25)
def test_bounds_of_the_mass_narrow_around_every_tokenization(seed, options):
    """With enough passes nothing is left outside, and both bounds are the brute-force sum."""
    model = tiny_llama(seed)
    branch = Branch(prefix=(), texts=tuple(quoted(label) for label in sorted(options)))
    scorer, prompt = Scorer(model, TOKENIZER), read(model, PROMPT)
    each = [any_spelling(model, TOKENIZER, PROMPT, text) for text in branch.texts]
    masses = [
        scorer.tightened(prompt, branch, tolerance=0.0, max_passes=passes).mass
        for passes in (1, 2, 3, 60)
    ]
    assert masses[0] == scorer.score(prompt, [branch])[0].mass
    for (low, high), (lower, higher) in pairwise(masses):
        assert low <= lower * (1 + CLOSE)
        assert higher <= high * (1 + CLOSE)
    for low, high in masses:
        assert low <= sum(each) * (1 + CLOSE)
        assert sum(each) <= high * (1 + CLOSE)
    assert masses[-1] == pytest.approx((sum(each), sum(each)), rel=1e-3)
    exact = scorer.tightened(prompt, branch, tolerance=0.0, max_passes=60).log_probs.exp()
    assert exact.tolist() == pytest.approx(each, rel=1e-3)


def test_ten_thousand_options_are_scored_in_stages(tiny):
    """Likely beginnings are followed, the rest is never looked at: few rows, and honest bounds."""
    texts = tuple(quoted(f"bug {number}") for number in range(10_000))
    branch, rows = Branch(prefix=(), texts=texts), []

    class Counting:
        vocab_size, max_positions = tiny.vocab_size, tiny.max_positions

        def forward(self, ids, past, *, parents=None):
            rows.append(len(ids))
            return tiny.forward(ids, past, parents=parents)

        logits = staticmethod(tiny.logits)

    (scores,) = Scorer(Counting(), TOKENIZER).score(read(tiny, PROMPT), [branch])
    assert max(rows) <= 2 * scoring.MAX_ROWS
    assert sum(rows) < 6_000
    low, high = scores.mass
    assert 0 < low < high <= 1
    seen = scores.log_probs > -torch.inf
    assert 0 < int(seen.sum()) < len(texts)
    assert scores.dropped == high - low
    assert bool(scores.estimates.isfinite().all())
    assert scores.estimates.exp().sum().item() == pytest.approx(high, rel=1e-6)
    for index in seen.nonzero().flatten()[:3].tolist():
        marginal = any_spelling(tiny, TOKENIZER, PROMPT, texts[index])
        assert scores.log_probs[index].exp().item() <= marginal * (1 + CLOSE)


@given(seed=st.integers(0, 20))
@settings(max_examples=5)
def test_stages_agree_with_the_whole_tree(seed):
    """Of options that both look at the bounds overlap, and the truth is in both."""
    model = tiny_llama(seed)
    texts = tuple(quoted(f"bug {number}") for number in range(60))
    branch = Branch(prefix=(), texts=texts)
    (whole,) = packed(model, TOKENIZER, PROMPT, [branch])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spellings, "MAX_WHOLE", 10)
        (staged,) = packed(model, TOKENIZER, PROMPT, [branch])
    assert staged.mass[0] <= whole.mass[1] * (1 + CLOSE)
    assert whole.mass[0] <= staged.mass[1] * (1 + CLOSE)
    exact = Scorer(model, TOKENIZER).tightened(
        read(model, PROMPT), branch, tolerance=0.0, max_passes=99
    )
    truth = exact.mass[0]
    assert staged.mass[0] * (1 - CLOSE) <= truth <= staged.mass[1] * (1 + CLOSE)
    assert bool((staged.log_probs <= exact.log_probs + 1e-3).all())
    assert whole.dropped == 0.0


def test_logits_that_are_no_numbers_are_an_error(tiny):
    """Damaged weights never turn into a probability."""
    cache = read(tiny, PROMPT).cache
    prompt = Prompt(cache, logits=torch.full((TOKENIZER.vocab_size,), torch.nan))
    with pytest.raises(EngineError, match="not finite"):
        Scorer(tiny, TOKENIZER).score(prompt, [Branch(prefix=(), texts=(quoted("bug"),))])


def test_option_without_tokens_is_an_error(tiny):
    """An option that cannot come is not scored as unlikely."""
    tokenizer = tiny_tokenizer(missing="z")
    with pytest.raises(EngineError, match="cannot spell option 1"):
        Scorer(tiny, tokenizer).score(
            read(tiny, PROMPT), [Branch(prefix=(), texts=(quoted("oil"), quoted("zoo")))]
        )


@pytest.fixture(scope="module")
def triage_prompt(exact_models):
    task = Task.triage()
    chat, encode = exact_models.chat, exact_models.vocabulary.encode
    ticket = encode("I was charged twice for the Team plan. Refund please.")
    first = task.language.parts[0]
    assert isinstance(first, Literal)
    before, after = chat.before_user(task.system), chat.after_user(task.system)
    return [*before, *ticket, *after, *encode(first.text)]


@pytest.mark.models
@pytest.mark.slow  # the reference reads the whole prompt anew for every node
def test_all_objects_of_the_triage_task_are_scored_like_alone(exact_models, triage_prompt):
    """The 24 objects: every category, and every priority behind every category."""
    first, literal, second = Task.triage().language.parts[1:4]
    texts = [tuple(Text(o.stem, o.closer) for o in choice.options) for choice in (first, second)]
    encode = exact_models.vocabulary.encode
    branches = [Branch(prefix=(), texts=texts[0])]
    for option in first.options:
        behind = option.text.removeprefix(option.stem) + literal.text
        prefix = (*encode(option.stem), *encode(behind))
        branches.append(Branch(prefix=prefix, texts=texts[1]))
    assert sum(len(branch.texts) for branch in branches[1:]) == 24
    model, tokenizer = exact_models.model, exact_models.vocabulary
    assert_like_naive(model, tokenizer, triage_prompt, branches, atol=1e-3)


@pytest.mark.models
@pytest.mark.slow  # the reference reads the whole prompt anew for every node
def test_twenty_banking_labels_are_scored_like_alone(exact_models, tickets):
    names = json.loads((tickets / "banking77-draw0" / "labels.json").read_text("utf-8"))
    words = language({"enum": names})
    assert words is not None
    options = words.choices[0].options
    turns = [Message("system", "Sort it."), Message("user", "My card is gone")]
    prompt = exact_models.chat.render(turns)
    prompt += exact_models.vocabulary.encode('{"category": "')
    branch = Branch(prefix=(), texts=tuple(Text(o.stem, o.closer) for o in options))
    assert_like_naive(exact_models.model, exact_models.vocabulary, prompt, [branch], atol=1e-3)


@pytest.mark.models
def test_awkward_labels_are_scored_like_alone_by_the_real_model(exact_models):
    """The real vocabulary has merges of its own, such as a full stop with a quote."""
    branch = Branch(prefix=(), texts=tuple(quoted(label) for label in AWKWARD))
    prompt = exact_models.vocabulary.encode('The label is: "')
    assert_like_naive(exact_models.model, exact_models.vocabulary, prompt, [branch], atol=1e-3)
