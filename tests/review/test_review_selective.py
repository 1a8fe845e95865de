from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import CHECK_SET, NOTHING, labels, shares

from weighbridge.review.statistics.labels import Labels, NotYet
from weighbridge.review.statistics.selective import aurc, reviews_per_day, risk_coverage


@given(labels())
def test_looser_thresholds_accept_more(some):
    """Thresholds fall, coverage rises to everything, and the last risk is the overall error."""
    table = risk_coverage(some)
    thresholds = [row.threshold for row in table]
    accepted = [row.num_accepted for row in table]
    assert thresholds == sorted(set(some.confidences), reverse=True)
    assert all(few < more for few, more in pairwise(accepted))
    assert all(row.risk == row.num_errors / row.num_accepted for row in table)
    assert table[-1].coverage == 1
    assert table[-1].num_errors == some.num_errors


@given(labels())
def test_ranking_can_only_cost(some):
    """The area lies between that of the best ranking and that of the worst."""
    found = aurc(some)
    worst = Labels(
        confidences=[0.5] * len(some), correct=sorted(some.correct)
    )  # wrong ones first, as given
    assert -1e-12 <= found.excess <= aurc(worst).area - found.optimal + 1e-12


@given(st.lists(shares, min_size=1, unique=True), shares)
def test_area_of_a_perfect_ranking_is_optimal(confidences, cut):
    perfect = Labels(confidences=confidences, correct=[c >= cut for c in confidences])
    assert aurc(perfect).excess == 0


def test_without_labels_there_is_nothing_to_look_at():
    assert risk_coverage(NOTHING) == ()
    assert aurc(NOTHING) == NotYet(what="estimable", reason="too_few_labels", needed=1)


def test_check_values_of_risk_by_threshold():
    """By distinct values: a threshold between two equal confidences does not exist."""
    assert [
        (row.threshold, row.num_errors, row.num_accepted) for row in risk_coverage(CHECK_SET)
    ] == [
        (0.95, 0, 1),
        (0.90, 0, 3),
        (0.85, 0, 4),
        (0.80, 1, 6),
        (0.70, 1, 7),
        (0.65, 2, 8),
        (0.60, 2, 9),
        (0.55, 3, 10),
    ]
    assert [row.risk for row in risk_coverage(CHECK_SET)[3:]] == pytest.approx(
        [0.1667, 0.1429, 0.25, 0.2222, 0.3], abs=5e-5
    )


def test_check_values_of_the_area():
    found = aurc(CHECK_SET)
    assert found.area == pytest.approx(0.1081746, abs=5e-8)
    assert found.optimal == pytest.approx(0.0647222, abs=5e-8)
    assert found.excess == pytest.approx(0.0434524, abs=5e-8)


@given(shares, shares)
def test_people_see_what_is_not_accepted_and_what_is_audited(coverage, audit_rate):
    seen = reviews_per_day(tickets_per_day=1000, coverage=coverage, audit_rate=audit_rate)
    assert seen == pytest.approx(1000 * (1 - coverage) + 1000 * coverage * audit_rate)


def test_check_value_of_reviews_per_day():
    """Of 2 000 tickets 400 are below the threshold, and 32 of the others are audited."""
    seen = reviews_per_day(tickets_per_day=2000, coverage=0.8, audit_rate=0.02)
    assert seen == pytest.approx(400 + 32)


@pytest.mark.parametrize(
    ("tickets_per_day", "coverage", "audit_rate"),
    [(-1, 0.5, 0.5), (float("nan"), 0.5, 0.5), (1, 2, 0.5), (1, 0.5, float("nan"))],
)
def test_reviews_of_nonsense_are_refused(tickets_per_day, coverage, audit_rate):
    with pytest.raises(ValueError, match="want"):
        reviews_per_day(tickets_per_day=tickets_per_day, coverage=coverage, audit_rate=audit_rate)
