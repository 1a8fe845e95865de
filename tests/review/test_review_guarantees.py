"""Certificates over a real database: what is looked at, spent, kept and taken back."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from audited import cancel, stock
from labelled import KEY
from scipy import special
from sqlalchemy import func, select

from weighbridge.decision import CalibrationKey
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.kept import Kept, alarm
from weighbridge.review.proving.looks import Look, Wanted
from weighbridge.review.statistics.certificate import Certificate, delta_of_round, sample_size
from weighbridge.review.statistics.joint_risk import JointGuarantee
from weighbridge.review.statistics.labels import NotYet
from weighbridge.store.database import Database
from weighbridge.store.guarantee_tables import look_table

WANTED = Wanted(risk=0.02)


@pytest.fixture
def guarantees(database) -> Guarantees:
    return Guarantees(database, audit_rate=0.1)


def num_looks(database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(look_table))


def right(number: int, confidence: float = 0.97) -> list[tuple[float, bool]]:
    return [(confidence, True)] * number


def proof(look: Look) -> Kept:
    assert isinstance(look.result, Kept), look.result
    return look.result


def test_labels_enough_are_certified_and_kept(database, guarantees):
    """All of it comes back as it was made."""
    stock(database, KEY, right(300), [0.97] * 300)
    look = guarantees.certify(KEY, WANTED)
    kept = proof(look)
    assert isinstance(kept.proof, Certificate)
    assert kept.proof.threshold == 0.50
    assert (kept.confidence, kept.proof.delta) == (0.95, pytest.approx(0.025))
    assert guarantees.certificates() == {KEY: kept}
    assert str(kept.guarantee) == "≤2 % at 95 %"
    assert kept.proof.expires_at - kept.made_at == timedelta(days=30)


def test_too_few_labels_spend_nothing_and_say_how_many_and_how_long(database, guarantees):
    """No outcome is looked at as long as none could prove anything."""
    stock(database, KEY, right(100), [0.97] * 900)
    for look in (guarantees.certify(KEY, WANTED), guarantees.certify(KEY, WANTED)):
        missing = sample_size(alpha=0.02, delta=0.025) - 100
        assert look.result == NotYet(what="certifiable", reason="too_few_labels", needed=missing)
        assert (look.round, look.tested) == (1, ())
        assert look.days == pytest.approx(missing / (1000 * 0.1))
    assert num_looks(database) == 0
    assert guarantees.certificates() == {}


def test_one_label_more_than_was_missing_is_enough(database, guarantees):
    """The number that is told is the number that is needed."""
    stock(database, KEY, right(100))
    needed = guarantees.certify(KEY, WANTED).result.needed
    stock(database, KEY, right(needed - 1))
    assert guarantees.certify(KEY, WANTED).result.needed == 1
    stock(database, KEY, right(1))
    assert proof(guarantees.certify(KEY, WANTED))


def test_every_look_at_outcomes_spends_its_share(database, guarantees):
    """Whether it proves anything or not, and so a later one needs more labels."""
    stock(database, KEY, right(300) + [(0.97, False)] * 30)
    for number in (1, 2, 3):
        look = guarantees.certify(KEY, WANTED)
        assert (look.round, look.delta) == (number, delta_of_round(1 - 0.95, number))
        assert isinstance(look.result, NotYet)
        assert look.result.reason == "too_many_errors"
        assert look.tested[-1].num_errors == 30
    assert num_looks(database) == 3


def test_foreseeing_looks_at_no_outcome(database, guarantees):
    """The plan is the same whatever people said, and tells what they must have said."""
    stock(database, KEY, right(300))
    before = guarantees.foresee(KEY, WANTED)
    stock(database, other := replace(KEY, model="m-2"), [(0.97, False)] * 300)
    after = guarantees.foresee(other, WANTED)
    assert replace(after, key=KEY) == before
    assert num_looks(database) == 0
    (step, *_) = before.steps
    assert (step.num_accepted, before.result) == (300, None)
    assert step.most_errors >= 0


def test_nothing_that_keeps_an_audit_from_being_a_blind_confirmation_is_left_out(
    database, guarantees
):
    """A cancelled audit is a wrong answer, unless its ticket has changed and comes anew."""
    stock(database, KEY, [*right(3), (0.9, None)])
    assert len(guarantees.sample(KEY).audits) == 3
    assert guarantees.sample(KEY).num_open == 1
    cancel(database, "i-2", "cancelled")
    sample = guarantees.sample(KEY)
    assert [audit.is_correct for audit in sample.audits] == [True, True, False]


def test_superseded_audit_speaks_through_its_successor(database, guarantees):
    stock(database, KEY, right(3))
    cancel(database, "i-2", "superseded")
    assert [audit.is_correct for audit in guarantees.sample(KEY).audits] == [True, True]


def test_certificate_rests_on_its_own_key_alone(database, guarantees):
    """Another model, prompt or source is another kind of number."""
    stock(database, KEY, right(300))
    for change in ({"model": "m-2"}, {"prompt": "p-2"}, {"source": "exact"}, {"field": "priority"}):
        other = replace(KEY, **change)
        stock(database, other, right(10))
        assert isinstance(guarantees.certify(other, WANTED).result, NotYet)
    assert list(guarantees.certificates()) == []
    assert len(guarantees.keys()) == 5


def test_starter_mode_needs_fewer_labels_and_promises_less(database, guarantees):
    """Of all tickets, on average: there is no confidence to tell."""
    stock(database, KEY, right(60), [0.97] * 60)
    assert isinstance(guarantees.certify(KEY, WANTED).result, NotYet)
    kept = proof(guarantees.certify(KEY, Wanted(risk=0.02, is_joint=True)))
    assert isinstance(kept.proof, JointGuarantee)
    assert guarantees.certificates() == {KEY: kept}
    assert str(kept.guarantee) == "≤2 % of all tickets on average"
    assert kept.proof.coverage == 1.0


@pytest.mark.parametrize("number", [0, 1, 48])
def test_starter_mode_says_how_many_labels_it_lacks(database, guarantees, number):
    stock(database, KEY, right(number), [0.97])
    look = guarantees.certify(KEY, Wanted(risk=0.02, is_joint=True))
    assert look.result == NotYet(what="certifiable", reason="too_few_labels", needed=49 - number)


def test_after_an_alarm_only_later_labels_count(database, guarantees):
    """And looks begin anew: no earlier one has seen these labels."""
    stock(database, KEY, right(300))
    kept = proof(guarantees.certify(KEY, WANTED))
    stock(database, KEY, right(50))
    with database.writing() as connection:
        connection.execute(alarm(kept.id, now=1, position=350))
    look = guarantees.certify(KEY, WANTED)
    assert (look.num_labels, look.round) == (0, 1)
    stock(database, KEY, right(200))
    again = guarantees.certify(KEY, WANTED)
    assert (again.num_labels, again.round) == (200, 1)
    assert proof(again).id > kept.id
    assert guarantees.certificates() == {KEY: again.result}


def test_certificate_can_be_taken_back_once(database, guarantees):
    stock(database, KEY, right(300))
    kept = proof(guarantees.certify(KEY, WANTED))
    assert guarantees.revoke(kept.guarantee.certificate)
    assert not guarantees.revoke(kept.guarantee.certificate)
    assert not guarantees.revoke("nonsense")
    assert guarantees.certificates()[KEY].standing(kept.made_at) == "uncertified"


def test_unknown_key_is_an_error(guarantees):
    for asked in (guarantees.certify, guarantees.foresee):
        with pytest.raises(KeyError):
            asked(KEY, WANTED)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"risk": 0.0}, "the risk above 0"),
        ({"risk": 1.0}, "the risk above 0 and below 1"),
        ({"risk": float("nan")}, "the risk"),
        ({"risk": 0.1, "confidence": 1.0}, "the confidence"),
        ({"risk": 0.1, "validity": timedelta()}, "lasts some time"),
    ],
)
def test_what_cannot_be_wanted_is_refused(given, wanted):
    with pytest.raises(ValueError, match=wanted):
        Wanted(**given)


# --- calibrators -----------------------------------------------------------------------------


def mixed(number: int, seed: int = 1) -> list[tuple[float, bool]]:
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.3, 1, number)
    outcomes = rng.random(number) < confidence
    return [(float(c), bool(r)) for c, r in zip(confidence, outcomes, strict=True)]


def test_calibrator_is_as_fine_as_its_labels_allow(database, guarantees):
    """A curve of few numbers, then one of many; both come back as they were fitted."""
    stock(database, KEY, mixed(150))
    assert type(guarantees.fit_calibrators()[KEY]).__name__ == "Platt"
    stock(database, KEY, mixed(900, seed=2))
    fitted = guarantees.fit_calibrators()[KEY]
    assert type(fitted).__name__ == "Isotonic"
    assert guarantees.calibrators() == {KEY: (fitted, False)}


def test_key_with_few_labels_borrows_from_its_kin(database, guarantees):
    """From answers to the same field and options by numbers of the same source; from no others."""
    young, stranger = replace(KEY, model="m-2"), replace(KEY, source="exact")
    stock(database, KEY, mixed(150))
    stock(database, young, mixed(5))
    stock(database, stranger, mixed(5))
    guarantees.fit_calibrators()
    kept = guarantees.calibrators()
    assert {key: is_pooled for key, (_, is_pooled) in kept.items()} == {KEY: False, young: True}


def test_calibrator_that_labels_no_longer_carry_is_gone(database, guarantees):
    """One that contradicts its labels would accept what the machine doubts."""
    stock(database, KEY, mixed(150))
    guarantees.fit_calibrators()
    stock(database, KEY, [(c, not r) for c, r in mixed(400, seed=3)])
    found = guarantees.fit_calibrators()[KEY]
    assert isinstance(found, NotYet)
    assert guarantees.calibrators() == {}


def test_answers_that_something_forbade_do_not_calibrate(database, guarantees):
    """A confidence of 0 is a veto, not a probability."""
    stock(database, KEY, mixed(99) + [(0.0, False)] * 50)
    assert isinstance(guarantees.fit_calibrators()[KEY], NotYet)
    stock(database, KEY, mixed(1))
    assert not isinstance(guarantees.fit_calibrators()[KEY], NotYet)


# --- the promise -----------------------------------------------------------------------------


def test_promise_holds_through_the_database():
    """20 models with 400 audits each: rarely a true risk above what was certified.

    Confidence is Beta(12, 0.5) and honest. Of 20, more than 3 broken promises have a chance below
    one in 500 at a delta of 0.025.
    """
    rng = np.random.default_rng(2026)
    broken = certified = 0
    with closing(Database("sqlite://")) as database:
        for number in range(20):
            key = replace(KEY, model=f"m-{number}")
            confidence = rng.beta(12, 0.5, 400)
            outcomes = rng.random(400) < confidence
            audits = [(float(c), bool(r)) for c, r in zip(confidence, outcomes, strict=True)]
            stock(database, key, audits, rng.beta(12, 0.5, 500).tolist())
            look = Guarantees(database, audit_rate=0.2).certify(key, Wanted(risk=0.03))
            if isinstance(look.result, Kept):
                certified += 1
                broken += true_risk(look.result.proof.threshold) > 0.03
    assert certified > 5
    assert broken <= 3


def true_risk(threshold: float) -> float:
    accepted = special.betaincc(12, 0.5, threshold)
    return 1 - 12 / 12.5 * special.betaincc(13, 0.5, threshold) / accepted


def test_keys_are_told_apart_by_every_part():
    """A key is its six parts, and one that lacks any is none."""
    for part in CalibrationKey.__slots__:
        with pytest.raises(ValueError, match=part):
            replace(KEY, **{part: ""})
