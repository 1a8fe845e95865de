from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled import open_shares, shares, tallies
from scipy import stats

from weighbridge.review.proving.audit import AuditCoin, Toss
from weighbridge.review.statistics.audited_error import error_rate, true_error
from weighbridge.review.statistics.labels import NotYet
from weighbridge.review.statistics.unequal_audits import Stratum, unequal_audit_error

SECRET = b"sixteen bytes or more"
ids = st.text(st.characters(), max_size=30)  # lone surrogates too

STRATA = (
    Stratum(num_tickets=600, rate=0.02, num_labels=12, num_errors=0),
    Stratum(num_tickets=300, rate=0.05, num_labels=15, num_errors=1),
    Stratum(num_tickets=100, rate=0.20, num_labels=20, num_errors=3),
)


@given(ids, shares)
def test_coin_falls_the_same_way_for_the_same_ticket(ticket_id, rate):
    """Its number is uniform in [0, 1) and an audit exactly when below the rate."""
    toss = AuditCoin(secret=SECRET, rate=rate).toss(ticket_id)
    assert toss == AuditCoin(secret=SECRET, rate=rate).toss(ticket_id)
    assert 0 <= toss.u < 1
    assert toss.is_audit == (toss.u < rate)


@given(ids, shares, shares)
def test_higher_rate_draws_the_same_tickets_and_more(ticket_id, one, other):
    low, high = sorted((one, other))
    few, many = (AuditCoin(secret=SECRET, rate=rate).toss(ticket_id) for rate in (low, high))
    assert few.u == many.u
    assert many.is_audit or not few.is_audit


@given(ids)
def test_rates_of_nothing_and_everything_are_kept(ticket_id):
    assert not AuditCoin(secret=SECRET, rate=0).toss(ticket_id).is_audit
    assert AuditCoin(secret=SECRET, rate=1).toss(ticket_id).is_audit


def test_number_equal_to_the_rate_is_no_audit():
    """Else a rate of 0 would draw one ticket in 2^53."""
    assert not Toss(u=0.0, rate=0.0).is_audit
    assert not Toss(u=0.5, rate=0.5).is_audit
    assert Toss(u=0.25, rate=0.5).is_audit


def test_coin_is_an_hmac_of_the_ticket_id():
    """Stored tosses can be checked with any other HMAC-SHA256."""
    digest = hmac.new(SECRET, b"ticket-7", hashlib.sha256).hexdigest()
    u = AuditCoin(secret=SECRET, rate=0.5).toss("ticket-7").u
    assert u == pytest.approx(int(digest[:13], 16) / 2**52, abs=1e-15)


def test_tosses_are_uniform_and_another_secret_tosses_anew():
    """Whatever the ids look like: these differ in their last digits only."""
    coins = AuditCoin(secret=SECRET, rate=0.1), AuditCoin(secret=SECRET[::-1], rate=0.1)
    one, other = ([coin.toss(f"ticket-{n:06}").u for n in range(20_000)] for coin in coins)
    assert stats.kstest(one, "uniform").pvalue > 0.001
    assert stats.pearsonr(one, other).pvalue > 0.001


def test_secret_is_not_shown():
    assert "sixteen" not in repr(AuditCoin(secret=SECRET, rate=0.1))


@pytest.mark.parametrize(
    ("secret", "rate", "wanted"),
    [
        (b"short", 0.1, "at least 16 bytes"),
        (SECRET, 1.5, "audit rate from 0 to 1"),
        (SECRET, -0.1, "audit rate from 0 to 1"),
        (SECRET, float("nan"), "audit rate from 0 to 1"),
    ],
)
def test_coin_that_cannot_be_fair_is_refused(secret, rate, wanted):
    with pytest.raises(ValueError, match=wanted) as refused:
        AuditCoin(secret=secret, rate=rate)
    assert "short" not in str(refused.value)


@given(tallies(), open_shares)
def test_observed_error_lies_within_all_its_intervals(tally, level):
    found = error_rate(*tally, level)
    assert found.rate == tally[0] / tally[1]
    for low, high in (found.shown, found.exact):
        assert low <= found.rate <= high
    assert found.upper <= found.exact.high


def test_no_audit_gives_no_error_rate():
    """0 of 0 is not 0 %."""
    assert error_rate(0, 0) == NotYet(what="estimable", reason="too_few_labels", needed=1)


@given(shares, st.floats(0.6, 1), st.floats(0.6, 1))
def test_true_error_undoes_what_reviewers_do(error, sensitivity, specificity):
    observed = error * sensitivity + (1 - error) * (1 - specificity)
    found = true_error(observed, sensitivity=sensitivity, specificity=specificity)
    assert found == pytest.approx(error, abs=1e-9)


def test_check_value_of_rogan_and_gladen():
    found = true_error(0.05, sensitivity=0.95, specificity=0.98)
    assert found == pytest.approx(0.0322581, abs=5e-8)
    # Fewer called wrong than such reviewers would by mistake: no negative rate comes out.
    assert true_error(0.0, sensitivity=0.95, specificity=0.98) == 0


@pytest.mark.parametrize(
    ("observed", "sensitivity", "specificity", "wanted"),
    [
        (0.1, 0.5, 0.5, "a coin does as well"),
        (0.1, 0.2, 0.3, "a coin does as well"),
        (1.1, 0.9, 0.9, "observed from 0 to 1"),
        (0.1, float("nan"), 0.9, "sensitivity from 0 to 1"),
    ],
)
def test_reviewers_without_skill_are_refused(observed, sensitivity, specificity, wanted):
    with pytest.raises(ValueError, match=wanted):
        true_error(observed, sensitivity=sensitivity, specificity=specificity)


def test_check_values_of_unequal_audits():
    """Three strata; unweighted they say .0851 and the normal interval falls below zero."""
    found = unequal_audit_error(STRATA)
    assert (found.rate, found.horvitz_thompson, found.hajek) == pytest.approx((0.035,) * 3)
    assert found.standard_error == pytest.approx(0.0208251, abs=5e-8)
    assert found.poisson_standard_error == pytest.approx(0.0209762, abs=5e-8)
    assert found.num_effective == pytest.approx(27.39726, abs=5e-6)
    assert found.interval == pytest.approx((0.000773, 0.184886), abs=5e-7)
    assert found.upper == pytest.approx(0.159558, abs=5e-7)
    naive = sum(s.num_errors for s in STRATA) / sum(s.num_labels for s in STRATA)
    assert naive == pytest.approx(0.0851064, abs=5e-8)
    normal = [found.rate + sign * 1.959964 * found.standard_error for sign in (-1, 1)]
    assert normal == pytest.approx([-0.00582, 0.07582], abs=5e-6)
    assert found.interval.low >= 0


@given(tallies(200), st.integers(1, 20))
def test_equal_audits_are_worth_what_they_count(tally, parts):
    """With one rate everywhere the weighted estimate is the plain one, and n_eff is n."""
    errors, num_labels = tally
    stratum = Stratum(
        num_tickets=10 * num_labels * parts, rate=0.1, num_labels=num_labels, num_errors=errors
    )
    found = unequal_audit_error([stratum])
    if num_labels < 2:
        assert found == NotYet(what="estimable", reason="too_few_labels", needed=1)
        return
    plain = error_rate(errors, num_labels)
    assert found.num_effective == pytest.approx(num_labels)
    assert found.rate == pytest.approx(plain.rate)
    assert found.interval == pytest.approx(plain.exact, abs=1e-6)


def test_stratum_without_enough_labels_gives_no_number():
    """The others cannot speak for it."""
    unseen = Stratum(num_tickets=50, rate=0.01, num_labels=0, num_errors=0)
    found = unequal_audit_error([*STRATA, unseen])
    assert found == NotYet(what="estimable", reason="too_few_labels", needed=2)


def test_stratum_that_is_known_whole_adds_no_variance():
    """Even one of a single ticket, where n - 1 is 0."""
    whole = Stratum(num_tickets=1, rate=1, num_labels=1, num_errors=1)
    found = unequal_audit_error([whole])
    assert (found.rate, found.standard_error, found.poisson_standard_error) == (1, 0, 0)


@pytest.mark.parametrize(
    ("num_tickets", "rate", "num_labels", "num_errors", "wanted"),
    [
        (10, 0.5, 11, 0, "no more labels than that"),
        (0, 0.5, 0, 0, "at least one ticket"),
        (10, 0.0, 5, 1, "audit rate above 0"),
        (10, float("nan"), 5, 1, "audit rate above 0"),
        (10, 0.5, 5, 6, "errors"),
    ],
)
def test_impossible_stratum_is_refused(num_tickets, rate, num_labels, num_errors, wanted):
    with pytest.raises(ValueError, match=wanted):
        Stratum(num_tickets=num_tickets, rate=rate, num_labels=num_labels, num_errors=num_errors)


def test_no_stratum_is_refused():
    with pytest.raises(ValueError, match="at least one stratum"):
        unequal_audit_error([])


def share_and_errors(low: float, high: float) -> np.ndarray:
    """Share of tickets in a range of confidences, and of wrong ones in it; Beta(6, 1), honest."""
    share, right = (high**power - low**power for power in (6, 7))
    return np.array([share, share - 6 / 7 * right])


def test_only_weighted_or_uniform_audits_find_the_error_of_accepted_tickets():
    """20 000 tickets, 400 times over: what each way of counting says of a true error of .0456.

    Tickets from .9 are accepted; audited are 5 % of those below .95 and 1 % of those above.
    """
    rng = np.random.default_rng(37)
    said = {"pooled": [], "unweighted": [], "weighted": [], "uniform": []}
    held, uniform_held = [], []
    doubted, less_sure, surest = map(share_and_errors, (0, 0.9, 0.95), (0.9, 0.95, 1))
    truth = (less_sure + surest)[1] / (less_sure + surest)[0]
    for _ in range(400):
        confidence = rng.beta(6, 1, 20_000)
        wrong = rng.random(20_000) >= confidence
        accepted, sure = confidence >= 0.9, confidence >= 0.95
        u = rng.random(20_000)
        audited = accepted & (u < np.where(sure, 0.01, 0.05))
        said["pooled"].append(wrong[audited | ~accepted].mean())
        said["unweighted"].append(wrong[audited].mean())
        strata = [
            Stratum(
                num_tickets=int(group.sum()),
                rate=rate,
                num_labels=int((group & audited).sum()),
                num_errors=int((group & audited & wrong).sum()),
            )
            for group, rate in ((accepted & ~sure, 0.05), (sure, 0.01))
        ]
        found = unequal_audit_error(strata)
        said["weighted"].append(found.horvitz_thompson)
        held.append(found.interval.low <= truth <= found.interval.high)
        drawn = accepted & (u < 0.02)
        plain = error_rate(int((drawn & wrong).sum()), int(drawn.sum()))
        said["uniform"].append(plain.rate)
        uniform_held.append(plain.exact.low <= truth <= plain.exact.high)
    audits = 0.05 * less_sure + 0.01 * surest
    expected = {
        "pooled": (doubted + audits)[1] / (doubted + audits)[0],
        "unweighted": audits[1] / audits[0],
        "weighted": truth,
        "uniform": truth,
    }
    # In one population of 20 000 the four were .2257, .0624, .0456 and a truth of .0446.
    assert [*expected.values()] == pytest.approx([0.2247, 0.0636, 0.0456, 0.0456], abs=5e-5)
    for way, rates in said.items():
        assert np.mean(rates) == pytest.approx(expected[way], abs=3 * np.std(rates) / 20), way
    assert np.std(said["weighted"]) == pytest.approx(0.0156, rel=3 * (2 / 800) ** 0.5)
    # Three standard errors below the level, with 400 tries.
    assert np.mean(held) > 0.95 - 3 * (0.95 * 0.05 / 400) ** 0.5
    assert np.mean(uniform_held) > 0.95 - 3 * (0.95 * 0.05 / 400) ** 0.5
