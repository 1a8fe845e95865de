from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from weighbridge.review.statistics.agreement import (
    agreement_of,
    wrong_though_agreed,
    wrong_though_independent,
)
from weighbridge.review.statistics.labels import NotYet

options = st.sampled_from(["billing", "bug", "how_to", None, 3])
pairs = st.lists(st.tuples(options, options), min_size=1, max_size=60)


def pairs_of(matrix: list[list[int]]) -> list[tuple[int, int]]:
    return [
        (one, other)
        for one, row in enumerate(matrix)
        for other, count in enumerate(row)
        for _ in range(count)
    ]


@given(pairs)
def test_agreement_does_not_depend_on_who_comes_first(some):
    """Nor on the order of the items."""
    there, back = agreement_of(some), agreement_of([(b, a) for a, b in reversed(some)])
    assert there == back


@given(pairs)
def test_kappa_is_at_most_one_and_one_only_for_perfect_agreement(some):
    found = agreement_of(some)
    if not isinstance(found.kappa, NotYet):
        assert found.kappa <= 1
        assert (found.kappa == 1) == (found.raw == 1)
        assert (found.kappa < 0) == (found.raw < found.by_chance)


@given(pairs)
def test_kappa_is_that_of_scikit_learn(some):
    found = agreement_of(some)
    if isinstance(found.kappa, NotYet):
        return  # theirs is NaN
    names = [(str(one), str(other)) for one, other in some]
    theirs = cohen_kappa_score([one for one, _ in names], [other for _, other in names])
    assert found.kappa == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("num_items", [1, 3, 49, 1000])
def test_two_who_only_know_one_label_have_no_kappa(num_items):
    """They agree always, and would by chance: 0 / 0 is no number."""
    found = agreement_of([("bug", "bug")] * num_items)
    assert found.raw == found.by_chance == 1
    assert found.kappa == NotYet(what="estimable", reason="one_outcome", needed=1)


def test_no_items_give_no_agreement():
    assert agreement_of([]) == NotYet(what="estimable", reason="too_few_labels", needed=1)


def test_check_values_of_cohens_kappa():
    found = agreement_of(pairs_of([[40, 5, 1], [4, 30, 3], [1, 2, 14]]))
    assert (found.num_items, found.raw) == (100, 0.84)
    assert found.by_chance == pytest.approx(0.3745)
    assert found.kappa == pytest.approx(0.7442046, abs=5e-8)


def test_check_value_of_independent_agreement():
    assert wrong_though_independent(0.85, 6) == pytest.approx(0.0061898, abs=5e-8)


def test_check_value_of_agreement_in_error():
    """Ten times as often wrong as independence would have it."""
    found = wrong_though_agreed(both_right=0.79, both_wrong=0.09, same_error=0.60)
    assert found == pytest.approx(0.0639810, abs=5e-7)


@given(st.floats(0.01, 1), st.integers(2, 40))
def test_agreement_helps_wherever_guessing_is_beaten(accuracy, num_options):
    """Two that guess are worth one that guesses."""
    found = wrong_though_independent(accuracy, num_options)
    assert 0 <= found <= 1
    if accuracy > 1 / num_options + 1e-6:
        assert found <= 1 - accuracy + 1e-12
    guessing = wrong_though_independent(1 / num_options, num_options)
    assert guessing == pytest.approx(1 - 1 / num_options)


@pytest.mark.parametrize(
    "compute",
    [
        lambda: wrong_though_independent(0, 6),
        lambda: wrong_though_independent(float("nan"), 6),
        lambda: wrong_though_independent(0.9, 1),
        lambda: wrong_though_agreed(both_right=0.9, both_wrong=0.2, same_error=0.5),
        lambda: wrong_though_agreed(both_right=0.0, both_wrong=0.2, same_error=0.0),
        lambda: wrong_though_agreed(both_right=0.5, both_wrong=0.2, same_error=1.5),
        lambda: wrong_though_agreed(both_right=float("nan"), both_wrong=0.2, same_error=0.5),
    ],
)
def test_shares_that_cannot_be_are_refused(compute):
    with pytest.raises(ValueError, match="want"):
        compute()
