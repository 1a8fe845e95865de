from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import labels, shares

from weighbridge.errors import ExtraMissing
from weighbridge.review.statistics.distributions import (
    entropy,
    margin,
    normalised,
    tempered,
    without_habit,
)
from weighbridge.review.statistics.labels import Labels, NotYet
from weighbridge.review.statistics.learn_extra import learn_module

weights = st.lists(st.floats(1e-6, 1), min_size=1, max_size=8)
distributions = weights.map(normalised)


@given(labels(min_size=0), st.lists(shares, unique=True, max_size=5))
def test_tallies_count_what_reaches_each_threshold(some, thresholds):
    """One sorted pass counts what a count for each threshold would."""
    thresholds = sorted(thresholds, reverse=True)
    rows = list(zip(some.confidences, some.correct, strict=True))
    assert some.tallies(thresholds) == [
        (
            sum(confidence >= threshold for confidence, _ in rows),
            sum(confidence >= threshold and not right for confidence, right in rows),
        )
        for threshold in thresholds
    ]


@pytest.mark.parametrize(
    ("confidences", "correct", "wanted"),
    [
        ([0.5], [], "one outcome for each"),
        ([float("nan")], [True], "confidences from 0 to 1, got nan at 0"),
        ([0.5, 1.01], [True, True], "confidences from 0 to 1, got 1.01 at 1"),
        ([-0.1], [True], "confidences from 0 to 1"),
        ([0.5], [None], "true or false, got another at 0"),
        ([0.5], [float("nan")], "true or false, got another at 0"),
        ([0.5], ["yes"], "true or false, got another at 0"),
        ([0.5], [2], "true or false, got another at 0"),
    ],
)
def test_what_is_no_label_is_refused(confidences, correct, wanted):
    """The message says what was wanted; a missing verdict never passes for a right answer."""
    with pytest.raises(ValueError, match=wanted):
        Labels(confidences=confidences, correct=correct)


def test_labels_may_come_as_lists_or_arrays():
    """Outcomes 0 and 1 are as good as false and true."""
    listed = Labels(confidences=[0.25, 1.0], correct=[True, False])
    assert Labels(confidences=np.array([0.25, 1.0]), correct=np.array([True, False])) == listed
    assert Labels(confidences=(0.25, 1), correct=(1, 0)) == listed
    assert (len(listed), listed.num_errors) == (2, 1)


@pytest.mark.parametrize(
    ("reason", "needed", "text"),
    [
        ("too_few_labels", 1, "not certifiable yet (too few labels): 1 more audited label needed"),
        (
            "too_many_errors",
            60,
            "not certifiable yet (too many errors): at least 60 more audited labels needed",
        ),
        (
            "too_little_traffic",
            9,
            "not certifiable yet (too little traffic): at least 9 more tickets needed",
        ),
        ("contradicting", None, "not certifiable yet (contradicting)"),
    ],
)
def test_missing_labels_are_told_in_words(reason, needed, text):
    assert str(NotYet(what="certifiable", reason=reason, needed=needed)) == text


def test_only_promises_ask_for_audits():
    """How often people agree is estimated from everything that they judged."""
    agreement = NotYet(what="estimable", reason="too_few_labels", needed=2)
    assert str(agreement) == "not estimable yet (too few labels): 2 more labels needed"


def test_missing_package_is_told_with_its_extra(monkeypatch):
    """The error names what to install by the name it is installed by."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "sklearn.isotonic", raising=False)
    with pytest.raises(ExtraMissing) as missing:
        learn_module("sklearn.isotonic")
    assert "'scikit-learn' of the extra [learn]" in str(missing.value)
    assert missing.value.hint == "pip install 'weighbridge[learn]'"


@given(distributions, st.floats(0.05, 20))
def test_temperature_keeps_the_order_of_options(options, temperature):
    """It only flattens or sharpens, and what comes out is a distribution."""
    after = tempered(options, temperature)
    assert sum(after) == pytest.approx(1)
    ordered = [new for _, new in sorted(zip(options, after, strict=True))]
    assert ordered == sorted(ordered)


@given(distributions)
def test_temperature_of_one_changes_nothing(options):
    assert tempered(options, 1) == pytest.approx(options)


@given(distributions)
def test_habit_that_is_no_habit_changes_nothing(options):
    """A model that knows nothing without content has nothing to be freed of."""
    even = [1 / len(options)] * len(options)
    assert without_habit(options, even) == pytest.approx(options)
    assert without_habit(options, options) == pytest.approx(even)


@given(distributions)
def test_margin_and_entropy_stay_within_their_ends(options):
    assert 0 <= margin(options) <= max(options)
    assert -1e-9 <= entropy(options) <= np.log(len(options)) + 1e-9


def test_check_values_of_temperature_and_contextual_calibration():
    assert tempered([0.7, 0.2, 0.1], 2) == pytest.approx([0.5229, 0.2795, 0.1976], abs=5e-5)
    assert tempered([1.0, 0.0], 0.05) == (1.0, 0.0)
    freed = without_habit([0.6, 0.3, 0.1], [0.5, 0.3, 0.2])
    assert freed == pytest.approx([0.4444, 0.3704, 0.1852], abs=5e-5)


def test_check_values_of_the_trie():
    """Sequence probabilities over their sum; renormalising each step would give bill .6000."""
    paths = [0.30 * 0.98, 0.12 * 0.90, 0.06 * 0.95, 0.02 * 0.90]
    assert sum(paths) == pytest.approx(0.477)
    options = normalised(paths)
    assert options == pytest.approx([0.6164, 0.2264, 0.1195, 0.0377], abs=5e-5)
    assert margin(options) == pytest.approx(0.389937, abs=5e-7)
    assert entropy(options) == pytest.approx(1.012122, abs=5e-7)
    assert entropy(options) / np.log(4) == pytest.approx(0.730092, abs=5e-7)
    assert normalised([0.30, 0.12, 0.06, 0.02])[0] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("compute", "wanted"),
    [
        (lambda: tempered([0.5, 0.5], 0), "temperature above 0"),
        (lambda: tempered([0.5, 0.5], float("nan")), "temperature above 0"),
        (lambda: tempered([0.5, 0.4], 1), "sum to 1"),
        (lambda: tempered([], 1), "sum to 1"),
        (lambda: without_habit([0.5, 0.5], [1.0, 0.0]), "above 0 for each option"),
        (lambda: without_habit([0.5, 0.5], [1.0]), "above 0 for each option"),
        (lambda: normalised([0.0, 0.0]), "finite sum above 0"),
        (lambda: normalised([-1.0, 2.0]), "at least 0"),
        (lambda: normalised([float("nan")]), "at least 0"),
        (lambda: margin([float("nan"), 1.0]), "sum to 1"),
        (lambda: entropy([2.0, -1.0]), "sum to 1"),
    ],
)
def test_what_is_no_distribution_is_refused(compute, wanted):
    with pytest.raises(ValueError, match=wanted):
        compute()
