from __future__ import annotations

from datetime import datetime
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import CHECK_SET, KEY, LATER, NOTHING, labels, open_shares
from scipy import special

from weighbridge.review.statistics.joint_risk import (
    JointGuarantee,
    allowed_errors,
    control_joint_risk,
)
from weighbridge.review.statistics.labels import Labels, NotYet


def controlled(some: Labels, alpha: float) -> JointGuarantee | NotYet:
    return control_joint_risk(some, alpha=alpha, key=KEY, expires_at=LATER)


@given(st.integers(0, 5000), st.integers(1, 999))
def test_allowed_errors_are_the_most_that_keep_the_bound(num_labels, thousandths):
    """(k + 1) / (n + 1) ≤ alpha, and one more would break it; -1 says not even none is allowed."""
    allowed = allowed_errors(num_labels, alpha=thousandths / 1000)
    alpha = Fraction(thousandths / 1000)  # of the float that was given
    assert Fraction(allowed + 1, num_labels + 1) <= alpha * (1 + Fraction(1, 2**50))
    assert Fraction(allowed + 2, num_labels + 1) > alpha * (1 - Fraction(1, 2**50))


def test_check_values_of_the_allowed_errors():
    assert [allowed_errors(n, alpha=0.02) for n in (200, 500, 1000)] == [3, 9, 19]
    assert [allowed_errors(n, alpha=0.02) for n in (0, 48, 49)] == [-1, -1, 0]


@given(labels(max_size=80), open_shares)
def test_threshold_is_the_loosest_that_occurs_and_keeps_the_bound(some, alpha):
    """Never 0: an answer without evidence is not accepted."""
    found = controlled(some, alpha)
    allowed = allowed_errors(len(some), alpha=alpha)
    candidates = {c for c in some.confidences if c > 0}
    keeping = [c for c in candidates if some.tallies([c])[0][1] <= allowed]
    if isinstance(found, JointGuarantee):
        assert found.threshold == min(keeping)
        assert (found.num_accepted, found.num_errors) == some.tallies([found.threshold])[0]
        assert found.num_errors <= allowed
    else:
        assert not keeping


@given(labels(max_size=60), open_shares, open_shares)
def test_higher_risk_never_tightens_the_threshold(some, one, other):
    low, high = (controlled(some, alpha) for alpha in sorted((one, other)))
    if isinstance(low, JointGuarantee):
        assert high.threshold <= low.threshold


@pytest.mark.parametrize(
    ("some", "reason", "needed"),
    [
        (NOTHING, "too_few_labels", 49),
        (Labels(confidences=[0.9] * 48, correct=[True] * 48), "too_few_labels", 1),
        (Labels(confidences=[0.9] * 49, correct=[False] * 49), "too_many_errors", 2450),
        (Labels(confidences=[0.0] * 99, correct=[True] * 99), "nothing_accepted", None),
    ],
)
def test_labels_that_allow_nothing_get_an_answer_and_no_threshold(some, reason, needed):
    assert controlled(some, 0.02) == NotYet(what="certifiable", reason=reason, needed=needed)


@given(labels(max_size=60), st.sampled_from([0.02, 0.05, 0.3]))
def test_as_many_right_answers_as_it_asks_for_are_enough(some, alpha):
    """The strictest threshold then passes, whatever the first labels were."""
    found = controlled(some, alpha)
    if isinstance(found, NotYet) and found.needed:
        more = Labels(
            confidences=[*some.confidences, *[0.0] * found.needed],
            correct=[*some.correct, *[True] * found.needed],
        )
        less = Labels(confidences=more.confidences[:-1], correct=more.correct[:-1])
        if any(some.confidences):
            assert isinstance(controlled(more, alpha), JointGuarantee)
        assert isinstance(controlled(less, alpha), NotYet)


def test_joint_risk_is_kept_on_average_with_few_labels():
    """150 labels, 2 000 times over; no conditional certificate could be had from so few."""
    alpha, rng, losses = 0.02, np.random.default_rng(8), []
    for _ in range(2000):
        confidence = rng.beta(6, 1, 150)
        right = rng.random(150) < confidence
        found = controlled(Labels(confidences=confidence.tolist(), correct=right.tolist()), alpha)
        assert isinstance(found, JointGuarantee)
        # P(accepted and wrong) with confidences from Beta(6, 1) that are honest.
        t = found.threshold
        losses.append(special.betaincc(6, 1, t) - 6 / 7 * special.betaincc(7, 1, t))
    standard_error = np.std(losses) / 2000**0.5
    assert np.mean(losses) <= alpha + 3 * standard_error
    # It is not kept by accepting nothing: the bound is used up to 2 / (n + 1).
    assert np.mean(losses) >= alpha - 2 / 151 - 3 * standard_error


@pytest.mark.parametrize("alpha", [0, 1, -1, 2, float("nan")])
def test_risk_that_is_no_share_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha above 0 and below 1"):
        controlled(CHECK_SET, alpha)


def test_expiry_needs_its_time_zone_and_labels_cannot_be_fewer_than_none():
    with pytest.raises(ValueError, match="time zone"):
        control_joint_risk(
            CHECK_SET,
            alpha=0.1,
            key=KEY,
            expires_at=datetime(2027, 1, 1),  # noqa: DTZ001
        )
    with pytest.raises(ValueError, match="at least 0"):
        allowed_errors(-1, alpha=0.1)
