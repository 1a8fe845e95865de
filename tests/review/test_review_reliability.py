from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import CHECK_SET, NOTHING, labels, shares

from weighbridge.review.statistics.labels import Labels, NotYet
from weighbridge.review.statistics.reliability import (
    calibration_error,
    equal_mass_edges,
    equal_width_edges,
    reliability_table,
    scores,
)

num_bins = st.integers(1, 12)


@given(labels(min_size=0), num_bins)
def test_table_holds_every_label_once(some, bins):
    """In bins of equal mass and of equal width alike."""
    for edges in (equal_mass_edges(some.confidences, bins), equal_width_edges(bins)):
        table = reliability_table(some, edges)
        assert sum(row.num_labels for row in table) == len(some)
        assert sum(row.num_correct for row in table) == sum(some.correct)
        for row in table:
            if row.num_labels:
                assert row.low - 1e-9 <= row.mean_confidence <= row.high + 1e-9
                assert row.interval.low <= row.accuracy <= row.interval.high
            else:
                assert (row.mean_confidence, row.accuracy) == (None, None)


@given(st.lists(shares, min_size=1, max_size=60, unique=True), num_bins)
def test_equal_mass_bins_are_equally_full(confidences, bins):
    """As far as whole labels go; the ends 0 and 1 may take one more."""
    some = Labels(confidences=confidences, correct=[True] * len(confidences))
    counts = [
        row.num_labels for row in reliability_table(some, equal_mass_edges(confidences, bins))
    ]
    assert len(counts) <= bins
    if not {0.0, 1.0} & {*confidences} and len(confidences) >= bins:
        assert max(counts) - min(counts) <= 1


@given(labels(), num_bins)
def test_scores_stay_within_their_ends(some, bins):
    """Whatever the labels: one outcome, one confidence, or any other."""
    found = scores(some, bins)
    assert found.accuracy == pytest.approx(np.mean(some.correct))
    assert found.mean_confidence == pytest.approx(np.mean(some.confidences))
    squares = (np.array(some.confidences) - np.array(some.correct)) ** 2
    assert found.brier == pytest.approx(squares.mean())
    assert 0 <= found.calibration_error <= 1
    assert found.log_loss >= -1e-9


@given(labels())
def test_single_bin_compares_the_means(some):
    """The least that a calibration error can be is the error of the average."""
    gap = abs(np.mean(some.correct) - np.mean(some.confidences))
    assert scores(some, 1).calibration_error == pytest.approx(gap)
    assert scores(some, 7).calibration_error >= gap - 1e-9


def test_honest_confidences_have_hardly_any_calibration_error():
    rng = np.random.default_rng(2)
    stated = rng.beta(4, 2, 20_000)
    honest = Labels(confidences=stated.tolist(), correct=(rng.random(20_000) < stated).tolist())
    boastful = Labels(confidences=(stated**0.25).tolist(), correct=honest.correct)
    assert scores(honest).calibration_error < 0.02
    assert scores(boastful).calibration_error > 0.15


def test_without_labels_there_are_no_scores():
    wanted = NotYet(what="estimable", reason="too_few_labels", needed=1)
    assert scores(NOTHING) == wanted
    assert calibration_error(reliability_table(NOTHING, equal_width_edges(5))) == wanted


def test_check_values_of_the_scores():
    found = scores(CHECK_SET)
    assert (found.num_labels, found.accuracy) == (10, 0.7)
    assert found.mean_confidence == pytest.approx(0.77)
    assert found.brier == pytest.approx(0.17)
    assert found.log_loss == pytest.approx(0.4972945, abs=5e-8)


def test_check_values_of_five_equal_bins():
    table = reliability_table(CHECK_SET, equal_width_edges(5))
    assert [row.num_labels for row in table] == [0, 0, 2, 4, 4]
    assert [row.mean_confidence for row in table[2:]] == pytest.approx([0.575, 0.7375, 0.9])
    assert [row.accuracy for row in table[2:]] == pytest.approx([0.5, 0.5, 1])
    assert calibration_error(table) == pytest.approx(0.15)


def test_bins_take_their_upper_edge():
    """(a, b], and the first one 0 too."""
    ends = Labels(confidences=[0.0, 0.2, 0.4, 1.0], correct=[True] * 4)
    assert [r.num_labels for r in reliability_table(ends, equal_width_edges(5))] == [2, 1, 0, 0, 1]


@pytest.mark.parametrize("edges", [(), (0.0,), (0, 0.5), (0.1, 1), (0, 0.5, 0.5, 1), (0, 2, 1)])
def test_edges_that_do_not_rise_from_0_to_1_are_refused(edges):
    with pytest.raises(ValueError, match="rise from 0 to 1"):
        reliability_table(CHECK_SET, edges)


@pytest.mark.parametrize("compute", [equal_width_edges, lambda bins: scores(CHECK_SET, bins)])
def test_no_bins_are_refused(compute):
    with pytest.raises(ValueError, match="at least one bin"):
        compute(0)
