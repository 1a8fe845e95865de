from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import KEY, LATER, NOW, open_shares, shares

from weighbridge.review.statistics.certificate import Certificate
from weighbridge.review.statistics.distributions import normalised
from weighbridge.review.statistics.drift import confidence_drift, drift_of, population_stability
from weighbridge.review.statistics.joint_risk import JointGuarantee
from weighbridge.review.statistics.labels import NotYet
from weighbridge.review.statistics.monitor import Watch, log_factors, standing, watch


def certificate(alpha: float = 0.02) -> Certificate:
    return Certificate(
        key=KEY,
        alpha=alpha,
        delta=0.05,
        threshold=0.9,
        coverage=0.5,
        num_labels=400,
        tested=(),
        expires_at=LATER,
    )


def seen(errors: set[int], num_audits: int) -> list[Watch]:
    """The watch before the first audit and after each, with these ones wrong."""
    watched = [watch(certificate(), worse=0.06)]
    for audit in range(1, num_audits + 1):
        watched.append(watched[-1].after(is_correct=audit not in errors))
    return watched


alphas = st.tuples(open_shares, open_shares).filter(lambda two: two[0] < two[1])


@given(alphas, shares)
def test_fortune_does_not_grow_on_average_while_the_risk_is_kept(two, share):
    """A supermartingale under the null, whatever the risk below alpha; growing above `worse`."""
    alpha, worse = two
    wrong, right = (math.exp(log) for log in log_factors(alpha=alpha, worse=worse))
    risk = share * alpha
    assert risk * wrong + (1 - risk) * right <= 1 + 1e-9
    assert worse * wrong + (1 - worse) * right >= 1 - 1e-9


@given(st.lists(st.booleans(), max_size=80))
def test_watch_remembers_every_audit_and_its_alarm(outcomes):
    """The fortune is a product over outcomes, and an alarm lasts whatever comes after it."""
    watched = watch(certificate(), worse=0.06)
    reached = False
    for is_correct in outcomes:
        watched = watched.after(is_correct=is_correct)
        reached |= watched.e_value >= 20 - 1e-9
    wrong = outcomes.count(False)
    assert (watched.num_audits, watched.num_errors) == (len(outcomes), wrong)
    product = 3.0**wrong * (0.94 / 0.98) ** (len(outcomes) - wrong)
    assert watched.e_value == pytest.approx(product)
    assert watched.is_alarmed == reached


def test_check_values_of_the_fortune():
    """Errors at audits 5, 12, 20, 31 and 38; the alarm is at 31 and stays."""
    wrong, right = log_factors(alpha=0.02, worse=0.06)
    assert (math.exp(wrong), math.exp(right)) == pytest.approx((3, 0.9591837), abs=5e-8)
    watched = seen({5, 12, 20, 31, 38}, 40)
    assert [watched[audit].e_value for audit in (5, 12, 20, 31, 38, 40)] == pytest.approx(
        [2.5394, 5.9328, 13.2952, 26.2926, 61.4278, 56.5156], abs=5e-5
    )
    assert [now.is_alarmed for now in watched].index(True) == 31
    assert all(now.is_alarmed for now in watched[31:])


@pytest.mark.parametrize(
    ("risk", "alarm_share", "median"),
    [
        (0.02, 0.0305, None),
        (0.04, 0.905, 327.5),  # 40 000 runs say .893 and 307
        (0.06, 1, 89),
        (0.10, 1, 36),
    ],
)
def test_alarms_come_as_often_and_as_soon_as_simulated(risk, alarm_share, median):
    """2 000 runs of 2 000 audits: hardly any alarm at alpha, soon where the risk is above it.

    The median is over all runs, those without an alarm the latest. Expected figures come of 2 000
    runs as well: each slack is three standard errors of the difference.
    """
    rng = np.random.default_rng(round(risk * 1000))
    wrong, right = log_factors(alpha=0.02, worse=0.06)
    log_e = np.where(rng.random((2000, 2000)) < risk, wrong, right).cumsum(1)
    reached = log_e >= math.log(20)
    alarmed = reached.any(1)
    slack = 3 * math.sqrt(2 * max(alarm_share * (1 - alarm_share), 1 / 2000) / 2000)
    assert alarmed.mean() == pytest.approx(alarm_share, abs=slack)
    if median is None:
        assert alarmed.mean() <= 0.05
        # A supermartingale: the mean fortune after 100 audits is at most 1, but for chance.
        fortune = np.exp(log_e[:, 99])
        assert fortune.mean() <= 1 + 3 * fortune.std() / 2000**0.5
    else:
        # By shares, not by distance: hardly any alarm can come from the 38th audit to the 42nd, so
        # that a median may jump over them.
        times = np.where(alarmed, reached.argmax(1) + 1, np.inf)
        half_slack = 3 * math.sqrt(2 * 0.25 / 2000)
        assert (times < median).mean() <= 0.5 + half_slack
        assert (times <= median).mean() >= 0.5 - half_slack


def test_watch_of_a_risk_sees_only_what_is_accepted():
    """Answers below the threshold go to a person anyway, right or wrong."""
    watched = watch(certificate())
    assert watched.seeing(0.899, is_correct=False) is watched
    assert watched.seeing(0.9, is_correct=False) == watched.after(is_correct=False)


def test_watch_of_a_joint_risk_sees_every_ticket():
    """What is not accepted is not accepted and wrong, which speaks for the certificate."""
    proof = JointGuarantee(
        key=KEY,
        alpha=0.02,
        threshold=0.9,
        num_labels=200,
        num_accepted=100,
        num_errors=1,
        expires_at=LATER,
    )
    watched = watch(proof)
    assert watched.seeing(0.1, is_correct=False) == watched.after(is_correct=True)
    assert watched.seeing(0.9, is_correct=False) == watched.after(is_correct=False)
    assert watched.seeing(0.9, is_correct=True) == watched.after(is_correct=True)


def test_alarm_reviews_everything_until_there_is_a_new_certificate():
    """Good audits after it do not end it; a new certificate's watch begins without it."""
    calm, alarmed = seen({1}, 1)[-1], seen({1, 2, 3}, 3)[-1]
    for _ in range(500):
        alarmed = alarmed.after(is_correct=True)
    assert alarmed.e_value < 1
    assert standing(calm, KEY, NOW) == "in_force"
    assert standing(alarmed, KEY, NOW) == "alarm"
    assert standing(watch(certificate()), KEY, NOW) == "in_force"


@pytest.mark.parametrize("part", ["provider", "model", "prompt", "schema", "field"])
def test_other_key_is_uncertified(part):
    """A new model, prompt or schema begins without a guarantee."""
    other = dataclasses.replace(KEY, **{part: "new"})
    assert standing(watch(certificate()), other, NOW) == "uncertified"


def test_certificate_ends_with_its_time():
    watched = watch(certificate())
    assert standing(watched, KEY, LATER - timedelta(seconds=1)) == "in_force"
    assert standing(watched, KEY, LATER) == "expired"
    assert standing(None, KEY, NOW) == "uncertified"
    with pytest.raises(ValueError, match="time zone"):
        standing(watched, KEY, datetime(2026, 11, 30))  # noqa: DTZ001


@given(open_shares)
def test_risk_to_notice_lies_between_alpha_and_one(alpha):
    """Three times alpha where that leaves room."""
    worse = watch(certificate(alpha)).worse
    assert alpha < worse < 1
    if alpha <= 0.2:
        assert worse == pytest.approx(3 * alpha)


def test_endless_errors_do_not_overflow():
    watched = watch(certificate(0.001), worse=0.9)
    for _ in range(200):
        watched = watched.after(is_correct=False)
    assert watched.e_value == math.inf
    assert watched.is_alarmed


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"worse": 0.02}, "alpha < worse"),
        ({"worse": 0.01}, "alpha < worse"),
        ({"worse": 1.0}, "worse < 1"),
        ({"worse": math.nan}, "alpha < worse"),
        ({"false_alarm": 0}, "false_alarm above 0"),
        ({"false_alarm": 20}, "false_alarm above 0"),
    ],
)
def test_watch_that_could_not_tell_is_refused(change, wanted):
    with pytest.raises(ValueError, match=wanted):
        watch(certificate(), **change)


weights = st.lists(st.floats(0.001, 1), min_size=2, max_size=10)


@given(weights)
def test_stability_of_what_did_not_change_is_zero(some):
    expected = normalised(some)
    assert population_stability(expected, expected) == 0


@given(
    st.integers(2, 10).flatmap(lambda n: st.tuples(*[st.lists(shares, min_size=n, max_size=n)] * 2))
)
def test_stability_is_the_same_both_ways_and_finite(two):
    """Empty bins too."""
    if not all(sum(some) > 0.01 for some in two):
        return
    then, now = map(normalised, two)
    there = population_stability(then, now)
    assert 0 <= there < math.inf
    assert there == pytest.approx(population_stability(now, then))


def test_check_value_of_population_stability():
    found = population_stability([0.1, 0.2, 0.3, 0.4], [0.15, 0.25, 0.3, 0.3])
    assert found == pytest.approx(0.0601986, abs=5e-8)


def test_drift_is_seen_where_there_is_one_and_hardly_ever_where_there_is_none():
    """Samples of five hundred, a hundred times over."""
    rng = np.random.default_rng(4)
    same, moved = (
        [
            drift_of(confidence_drift(rng.beta(6, 1, 500).tolist(), rng.beta(a, 1, 500).tolist()))
            for _ in range(100)
        ]
        for a in (6, 3)
    )
    assert same.count("steady") >= 97
    assert moved.count("act") >= 97


def test_confidences_that_fall_together_are_drift():
    """The bins are those of then: of now there would be one only, and nothing to see."""
    spread = [place / 500 for place in range(500)]
    assert drift_of(confidence_drift(spread, [0.999] * 500)) == "act"


def test_small_samples_say_nothing_about_drift():
    found = confidence_drift([0.5] * 500, [0.5] * 499)
    assert found == NotYet(what="estimable", reason="too_little_traffic", needed=1)
    assert confidence_drift([0.5] * 500, [0.5] * 500) == 0


@pytest.mark.parametrize(
    ("stability", "drift"), [(0, "steady"), (0.1, "steady"), (0.11, "look"), (0.26, "act")]
)
def test_stability_is_told_in_three_words(stability, drift):
    assert drift_of(stability) == drift


@pytest.mark.parametrize(
    "compute",
    [
        lambda: population_stability([0.5, 0.5], [1.0]),
        lambda: population_stability([0.5, 0.6], [0.5, 0.5]),
        lambda: population_stability([], []),
        lambda: confidence_drift([math.nan] * 500, [0.5] * 500),
        lambda: drift_of(-1),
        lambda: drift_of(math.nan),
    ],
)
def test_drift_of_nonsense_is_refused(compute):
    with pytest.raises(ValueError, match="want"):
        compute()


def test_accepting_answers_loads_neither_scipy_nor_scikit_learn():
    """They take seconds to load, and the gate stands before every ticket."""
    modules = "agreement, calibration, certificate, joint_risk, monitor, selective"
    heavy = {"numpy", "scipy", "sklearn", "sqlalchemy"}
    code = (
        "import sys; import weighbridge.review.proving.audit;"
        f" from weighbridge.review.statistics import {modules}; print({heavy} & {{*sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"
