"""Learning: which verdicts count, what a fit obeys, and what its report says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.cli.teaching import head_of, read_features
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.prior import PriorOpinion, without_opinion
from weighbridge.review.learning import baselines
from weighbridge.review.learning.examples import Example, Gathered, gather
from weighbridge.review.learning.fit import fit, losses, tempered
from weighbridge.review.learning.lesson import (
    Features,
    Learned,
    NotLearnable,
    Previous,
    learn,
    shortfall,
)
from weighbridge.review.queueing.twins import group_key
from weighbridge.schemas.task import Task

OPTIONS = ("bug", "billing", "how_to")
START = datetime(2026, 1, 1, tzinfo=UTC)


def example(text, value, *, is_audit=False, at=0) -> Example:
    return Example(
        text=text,
        value=value,
        group=group_key({"body": text}),
        is_audit=is_audit,
        at=START + timedelta(hours=at),
    )


def gathered(num, options=OPTIONS) -> Gathered:
    """So many texts, their labels taking turns."""
    words = ("red", "blue", "green", "black", "white")
    labels = [options[n % len(options)] for n in range(num)]
    texts = [f"{words[n % 5]} {words[n // 5 % 5]} {'abcdefgh'[n // 25]}" for n in range(num)]
    both = zip(texts, labels, strict=True)
    return gather(
        [example(f"{text} is {of}", of, at=n) for n, (text, of) in enumerate(both)], options
    )


def features(found: Gathered, *, apart=2.0, seed=0) -> Features:
    """Of labels that lie `apart`, and a prior that knows a little."""
    made = np.random.default_rng(seed)
    places = np.asarray(found.places, dtype=int)
    middle = made.normal(size=(len(found.num_by_label), 8)) * apart
    embeddings = middle[places] + made.normal(size=(len(places), 8))
    prior = made.normal(size=(len(places), len(found.num_by_label)))
    prior[np.arange(len(places)), places] += 0.5
    return Features(
        embeddings=embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True),
        hidden=made.normal(size=(len(places), 6)),
        zero_shot=prior - np.log(np.exp(prior).sum(1, keepdims=True)),
    )


def fitted(found: Gathered, of: Features):
    return fit(of, np.asarray(found.places), model_weight=0.05)


def test_audits_are_never_learned_from() -> None:
    """Nor is a text of the same words that was reviewed for another reason."""
    found = gather(
        [
            example("Refund order 17!", "billing", is_audit=True),
            example("refund ORDER 99", "billing"),
            example("The page is broken", "bug"),
        ],
        OPTIONS,
    )
    assert found.texts == ("The page is broken",)
    assert found.left_out == {"audit": 1, "the same text was audited": 1}


def test_texts_that_say_the_same_count_once() -> None:
    """In a cross-validation they would be known before they are asked for."""
    found = gather([example(f"Refund order {n}!", "billing", at=n) for n in (3, 1, 2)], OPTIONS)
    assert found.texts == ("Refund order 1!",)
    assert found.left_out == {"said again": 2}


@pytest.mark.parametrize(
    ("answers", "kept", "left_out"),
    [
        (["bug", "billing"], [], {"contradicted by others": 2}),
        (["bug", "billing", "bug"], ["bug"], {"contradicted by others": 1, "said again": 1}),
        (["bug", "billing", "how_to"], [], {"contradicted by others": 3}),
        (["bug", "bug"], ["bug"], {"said again": 1}),
    ],
)
def test_contradictions_are_settled_by_most_or_left_out(answers, kept, left_out) -> None:
    """Of answers given equally often none can be taken."""
    found = gather([example("The same.", answer) for answer in answers], OPTIONS)
    assert [OPTIONS[place] for place in found.places] == kept
    assert found.left_out == left_out


def test_answers_that_are_no_option_are_named() -> None:
    """A label may have been renamed; whoever reads the report can say so."""
    found = gather([example("one", "refunds"), example("two", "refunds")], OPTIONS)
    assert (len(found), found.unknown) == (0, {"refunds": 2})
    assert found.left_out == {"no option of the task": 2}


@pytest.mark.parametrize(
    ("renamed", "expected"),
    [
        ({"refunds": "billing"}, "billing"),
        ({"refunds": "money", "money": "billing"}, "billing"),
        ({"refunds": "money"}, None),
        ({"refunds": "money", "money": "refunds"}, None),
        ({}, None),
    ],
)
def test_renamed_labels_keep_their_verdicts(renamed, expected) -> None:
    """Through several names, and without an end only where they go in a circle."""
    found = gather([example("one", "refunds")], OPTIONS, renamed=renamed)
    assert [OPTIONS[place] for place in found.places] == ([expected] if expected else [])


def test_merged_labels_have_the_verdicts_of_both() -> None:
    """Two old names, one new."""
    both = {"refunds": "billing", "invoices": "billing"}
    found = gather([example("one", "refunds"), example("two", "invoices")], OPTIONS, renamed=both)
    assert found.num_by_label == {"bug": 0, "billing": 2, "how_to": 0}


def test_renaming_contradictions_away_makes_them_agree() -> None:
    """People who used an old and a new name said the same."""
    both = [example("The same.", "refunds"), example("The same.", "billing")]
    assert len(gather(both, (*OPTIONS, "refunds"))) == 0
    assert len(gather(both, OPTIONS, renamed={"refunds": "billing"})) == 1


@pytest.mark.parametrize("text", ["", "   ", "!?", "\n\n"])
def test_texts_without_words_are_left_out(text) -> None:
    """Erased ones too: nothing is there to learn from."""
    found = gather([example(text, "bug")], OPTIONS)
    assert found.left_out == {"no text: empty or erased": 1}


def test_one_true_and_their_texts_are_different_answers() -> None:
    """As in JSON, and not as in Python."""
    options = (1, "1", True)
    found = gather([example(f"text {'abc'[n]}", value) for n, value in enumerate(options)], options)
    assert sorted(found.places) == [0, 1, 2]


@given(st.permutations(range(12)))
def test_order_of_the_examples_does_not_matter(order) -> None:
    """What is gathered is the same to the letter."""
    many = [
        example(f"text {'abcd'[n % 4]}", OPTIONS[n % 3], at=n, is_audit=n == 5) for n in range(12)
    ]
    assert gather([many[n] for n in order], OPTIONS) == gather(many, OPTIONS)


@pytest.mark.parametrize(
    ("num", "options", "reason", "needed"),
    [
        (0, OPTIONS, "too_few_verdicts", 10),
        (7, OPTIONS, "too_few_verdicts", 3),
        (9, OPTIONS[:1], "one_label", 2),
        (40, OPTIONS[:1], "one_label", 2),
        (3, OPTIONS[:1], "one_label", 7),
    ],
)
def test_too_little_is_said_with_how_much_more(num, options, reason, needed) -> None:
    """And nothing is learned from it."""
    found = gathered(num, options)
    missing = shortfall(found)
    assert missing is not None
    assert (missing.reason, missing.needed) == (reason, needed)
    assert str(needed) in str(missing)
    assert learn(found, features(found), model_weight=0.05) == missing


def test_single_verdict_for_all_labels_but_one_is_too_little() -> None:
    """Two labels must be heard of twice."""
    found = gather(
        [example(f"text {'abcdefghijk'[n]}", "bug" if n else "billing") for n in range(11)], OPTIONS
    )
    missing = shortfall(found)
    assert missing is not None
    assert missing.needed == 1
    assert shortfall(gathered(10)) is None


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_labels_without_verdicts_keep_their_zero_shot_logits(seed) -> None:
    """And what is learned of the others sums to zero, so the two kinds stay comparable."""
    found = gathered(12, OPTIONS[:2])
    of = features(found, seed=seed)
    wide = Features(
        embeddings=of.embeddings,
        hidden=of.hidden,
        zero_shot=np.concatenate([of.zero_shot, np.full((12, 1), -1.5)], axis=1),
    )
    head = fit(wide, np.asarray(found.places), model_weight=0.05)
    change = head.logits(wide) - wide.zero_shot
    np.testing.assert_array_equal(head.learned, [0, 1])
    np.testing.assert_allclose(change[:, 2], 0.0, atol=1e-12)
    np.testing.assert_allclose(change.sum(1), 0.0, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_fit_is_no_worse_on_its_own_verdicts_than_what_it_keeps_of_the_prior(seed) -> None:
    """It starts from there and pays for every step."""
    found = gathered(15)
    of, places = features(found, seed=seed), np.asarray(found.places)
    head = fitted(found, of)
    start = losses(head.zero_shot_share * of.zero_shot, places).sum()
    assert losses(head.logits(of), places).sum() <= start + 1e-6


def test_names_say_less_the_more_verdicts_a_label_has() -> None:
    """All at none, half where verdicts tell as much, and never nothing."""
    shares = []
    for num in (3, 6, 12, 24, 48, 120):
        found = gathered(num)
        shares.append(fitted(found, features(found)).zero_shot_share)
    assert 1 > shares[0] > 0.8
    assert shares[3] == 0.5  # eight for each of three labels
    assert all(before > after > 0 for before, after in pairwise(shares))


def test_phrases_keep_their_say_however_many_verdicts_there_are() -> None:
    """They know more than names do; the folds of a cross-validation know of them too."""
    found = gathered(48)
    worded = replace(features(found), has_phrases=True)
    assert fitted(found, worded).zero_shot_share == 1.0
    assert worded.at(np.arange(24)).has_phrases


@pytest.mark.parametrize(
    ("task", "has_phrases"),
    [
        (Task.triage(priorities=[]), True),
        (Task.triage(categories=["billing", "refund"], priorities=[]), False),
    ],
)
def test_what_is_read_says_whether_labels_have_phrases(task, has_phrases) -> None:
    """The built-in labels have; bare names have not."""
    field = task.fields[0]

    def zero_shot(texts, spec):
        opinions = [without_opinion(len(spec.options)) for _ in texts]
        return torch.zeros(len(texts), 3), torch.zeros(len(texts), 2), opinions

    engine = cast(Engine, SimpleNamespace(zero_shot=zero_shot))
    found, _ = read_features(engine, field, ["one", "two"])
    assert found.has_phrases == has_phrases


def test_verdicts_about_few_labels_count_for_these_alone() -> None:
    """Labels that nobody used do not make those look less known that people did use."""
    found = gathered(16, OPTIONS[:2])
    of = features(found)
    wide = Features(
        embeddings=of.embeddings,
        hidden=of.hidden,
        zero_shot=np.concatenate([of.zero_shot, np.full((16, 5), -1.5)], axis=1),
    )
    share = fit(wide, np.asarray(found.places), model_weight=0.05).zero_shot_share
    assert share == fitted(found, of).zero_shot_share == 0.5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_engine_applies_what_was_fitted(seed) -> None:
    """Fit and head are two hands of one formula; options without verdicts included."""
    found = gathered(30)
    of = features(found, seed=seed)
    wide = Features(
        embeddings=of.embeddings,
        hidden=of.hidden,
        zero_shot=np.concatenate([of.zero_shot, np.full((30, 1), -1.5)], axis=1),
    )
    learned = replace(fit(wide, np.asarray(found.places), model_weight=0.05), temperature=1.25)
    [field] = Task.triage(categories=[*OPTIONS, "fresh"], priorities=[]).fields
    head = head_of(learned, field)
    wanted = learned.logits(wide) / learned.temperature
    for row in range(len(wide)):
        opinion = head.opinion(
            PriorOpinion(log_probs=torch.from_numpy(wide.zero_shot[row]), support=0.5),
            field.options,
            torch.from_numpy(wide.embeddings[row]).float(),
            torch.from_numpy(wide.hidden[row]).float(),
        )
        log_probs = wanted[row] - np.logaddexp.reduce(wanted[row])
        np.testing.assert_allclose(opinion.log_probs.numpy(), log_probs, atol=1e-4)


def test_more_verdicts_of_the_same_move_the_opinion_further() -> None:
    """From the prior towards what people say, little by little."""
    of = features(gathered(64), apart=0.0, seed=3)
    flat = Features(
        embeddings=of.embeddings * 0, hidden=of.hidden * 0, zero_shot=of.zero_shot * 0 - np.log(3)
    )
    shares = []
    for num in (2, 4, 8, 16, 32):
        places = np.asarray([0] * num + [1] * (num // 2) + [2] * (num // 2))
        head = fit(flat.at(np.arange(len(places))), places, model_weight=0.05)
        logits = head.logits(flat)[0]
        shares.append(float(np.exp(logits[0]) / np.exp(logits).sum()))
    assert all(before < after < 0.5 for before, after in pairwise(shares))
    assert shares[0] > 1 / 3


def test_cut_keeps_nineteen_of_twenty_texts() -> None:
    """By their distance to what others taught."""
    found = gathered(120)
    head = fitted(found, of := features(found, seed=5))
    assert head.cut is not None
    kept = head.distances(of.embeddings) <= head.cut
    assert 0.93 <= kept.mean() <= 1.0


def test_few_verdicts_say_nothing_of_distances() -> None:
    """Fewer than twenty leave support to the label prior."""
    few, enough = gathered(18), gathered(21)
    assert fitted(few, features(few)).cut is None
    assert fitted(enough, features(enough)).cut is not None


def test_overconfident_heads_are_cooled() -> None:
    """A temperature above one, where probabilities promise more than they hold."""
    found = gathered(90)
    head, places = fitted(found, of := features(found)), np.asarray(found.places)
    made = np.random.default_rng(0)
    honest = of.zero_shot
    drawn = np.asarray([made.choice(3, p=np.exp(row)) for row in honest])
    none = np.asarray([], dtype=int)
    bold, fair, shy = (
        tempered(head, honest * times, drawn, None, none).temperature for times in (3, 1, 1 / 3)
    )
    assert bold > 1.5
    assert bold > fair > shy
    few = tempered(head, (honest * 3)[:4], drawn[:4], None, none).temperature
    assert abs(few - 1) < abs(bold - 1)
    assert tempered(head, honest[:0], places[:0], None, none).temperature == pytest.approx(
        1, abs=1e-3
    )


def test_model_that_knows_the_answer_gets_weight_and_one_that_guesses_none() -> None:
    """Its weight is chosen by how much it helps."""
    found = gathered(90)
    head, places = fitted(found, of := features(found)), np.asarray(found.places)
    rows = np.arange(90)
    knowing, wrong = np.zeros((90, 3)), np.zeros((90, 3))
    knowing[rows, places] = 9.0
    wrong[rows, (places + 1) % 3] = 9.0
    assert tempered(head, of.zero_shot, places, knowing, rows).model_weight == 0.2
    assert tempered(head, of.zero_shot, places, wrong, rows).model_weight == 0.0
    assert tempered(head, of.zero_shot, places, None, rows).model_weight == 0.05


def test_report_stands_beside_what_is_cheaper() -> None:
    """Labels that lie apart are learned; the words of their names are in every text."""
    found = gathered(60)
    outcome = learn(found, features(found, apart=3.0), model_weight=0.05)
    assert isinstance(outcome, Learned)
    scores = outcome.report.scores
    assert list(scores) == ["majority", "lexical", "tf-idf", "names alone", "learned"]
    assert scores["learned"].accuracy > 0.9 > scores["names alone"].accuracy
    assert scores["majority"].accuracy <= 0.4
    assert scores["lexical"].accuracy == 1.0
    assert outcome.report.is_worth_keeping
    for score in scores.values():
        low, high = score.interval
        assert low <= score.accuracy <= high
        assert score.num == 60


def test_learning_noise_is_not_worth_keeping() -> None:
    """Where features tell nothing and the names tell all, the names are better left alone."""
    found = gathered(90)
    of = features(found, apart=0.0)
    sure = np.full((90, 3), -8.0)
    sure[np.arange(90), list(found.places)] = 0.0
    noise = Features(embeddings=of.embeddings, hidden=of.hidden, zero_shot=-sure[:, ::-1] * 0.2)
    wrong = learn(found, noise, model_weight=0.05)
    assert isinstance(wrong, Learned)
    assert not wrong.report.is_worth_keeping


def test_old_version_is_measured_on_newer_texts_alone() -> None:
    """Of older ones it may know the answers by heart."""
    found = gathered(60)
    previous = Previous(made_at=START + timedelta(hours=39), places=list(found.places))
    of = features(found, apart=3.0)
    outcome = learn(found, of, model_weight=0.05, previous=previous)
    assert isinstance(outcome, Learned)
    newer = outcome.report.newer
    assert (newer["old"].num, newer["old"].accuracy) == (20, 1.0)
    assert newer["new"].num == 20
    late = Previous(made_at=START + timedelta(days=99), places=list(found.places))
    without = learn(found, of, model_weight=0.05, previous=late)
    assert isinstance(without, Learned)
    assert without.report.newer == {}


def test_features_of_other_texts_are_refused() -> None:
    """Their number gives them away."""
    found = gathered(20)
    assert isinstance(learn(found, features(found), model_weight=0.05), Learned)
    with pytest.raises(ValueError, match="features of 20"):
        learn(found, features(gathered(19)), model_weight=0.05)


def test_report_holds_no_text() -> None:
    """It is stored for good, and a text can be erased."""
    found = gathered(20)
    outcome = learn(found, features(found), model_weight=0.05)
    assert isinstance(outcome, Learned)
    for shown in (repr(found), repr(outcome.report), str(outcome.report.to_json())):
        assert not any(text in shown for text in found.texts)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40), st.randoms())
def test_folds_follow_the_texts_and_not_their_order(places, order) -> None:
    """And every label is spread over them as evenly as can be."""
    texts = [f"text {n}" for n in range(len(places))]
    fold = dict(zip(texts, baselines.folds(texts, places), strict=True))
    both = list(zip(texts, places, strict=True))
    order.shuffle(both)
    again = baselines.folds([text for text, _ in both], [place for _, place in both])
    assert {text: number for (text, _), number in zip(both, again, strict=True)} == fold
    number = max(fold.values()) + 1
    assert 2 <= number <= baselines.MAX_FOLDS
    for label in set(places):
        of_label = [fold[text] for text, place in both if place == label]
        sizes = [of_label.count(each) for each in range(number)]
        assert max(sizes) - min(sizes) <= 1


def test_tfidf_baseline_answers_what_it_cannot_learn() -> None:
    """One label, or texts without a word, leave it the most frequent answer."""
    assert baselines.tfidf_says(["red car", "blue car"], [1, 1], ["x"]) == [1]
    assert baselines.tfidf_says(["?", "!", "…"], [1, 0, 1], ["x"]) == [1]
    texts = ["red car", "red bus", "blue sky", "blue sea"]
    assert baselines.tfidf_says(texts, [0, 0, 1, 1], ["a red one", "a blue one"]) == [0, 1]


def test_not_learnable_is_a_value_and_no_error() -> None:
    """Whoever asked can say what is missing."""
    found = gathered(3)
    assert isinstance(learn(found, features(found), model_weight=0.05), NotLearnable)
