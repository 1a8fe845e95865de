from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from labelled import CHECK_SET, KEY, NOTHING, labels, shares
from sklearn.isotonic import IsotonicRegression

from weighbridge.decision import CalibrationKey
from weighbridge.review.statistics.calibration import (
    Isotonic,
    Platt,
    Temperature,
)
from weighbridge.review.statistics.calibration_fits import (
    MIN_LABELS,
    MIN_LABELS_ISOTONIC,
    fit_isotonic,
    fit_platt,
    fit_temperature,
    fit_temperature_of,
)
from weighbridge.review.statistics.labels import Labels, NotYet
from weighbridge.review.statistics.reliability import scores

FITS = (fit_temperature, fit_platt, fit_isotonic)


def mean_log_loss(calibrator, some: Labels) -> float:
    found = [calibrator.probability(confidence) for confidence in some.confidences]
    return -np.mean(np.log(np.where(some.correct, found, 1 - np.array(found))))


@pytest.mark.parametrize("fit", FITS)
@settings(max_examples=40, deadline=None)
@given(some=labels(), one=shares, other=shares)
def test_surer_answers_stay_surer(fit, some, one, other):
    """A calibrator that turned the order round would accept what the machine doubts."""
    calibrator = fit(some, at_least=1)
    if not isinstance(calibrator, NotYet):
        low, high = sorted((one, other))
        assert calibrator.probability(low) <= calibrator.probability(high) + 1e-12


@pytest.mark.parametrize("fit", FITS)
@settings(max_examples=40, deadline=None)
@given(some=labels(min_size=0), confidence=shares)
def test_fit_gives_a_probability_or_says_why_not(fit, some, confidence):
    """Never a NaN, whatever the labels."""
    calibrator = fit(some, at_least=1)
    if isinstance(calibrator, NotYet):
        assert calibrator.what == "calibrated"
        assert calibrator.needed is None or calibrator.needed > 0
    else:
        assert 0 <= calibrator.probability(confidence) <= 1
        assert calibrator.num_labels == len(some)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("some", "reason"),
    [
        (NOTHING, "too_few_labels"),
        (Labels(confidences=[0.1, 0.9], correct=[True, True]), "one_outcome"),
        (Labels(confidences=[0.1, 0.9], correct=[False, False]), "one_outcome"),
        (Labels(confidences=[0.7] * 4, correct=[True, False] * 2), "one_confidence"),
        (Labels(confidences=[1.0, 1 - 1e-9], correct=[True, False]), "one_confidence"),
    ],
)
def test_labels_that_say_nothing_calibrate_nothing(fit, some, reason):
    assert fit(some, at_least=1).reason == reason


@pytest.mark.parametrize("fit", FITS)
def test_contradicting_labels_calibrate_nothing(fit):
    """Where the surest answers are the wrong ones, the confidence is of no use."""
    against = Labels(
        confidences=[*np.linspace(0.6, 0.9, 20), *np.linspace(0.8, 0.99, 20)],
        correct=[True] * 20 + [False] * 20,
    )
    assert fit(against, at_least=1) == NotYet(what="calibrated", reason="contradicting")


@pytest.mark.parametrize(
    ("fit", "least"),
    [
        (fit_temperature, MIN_LABELS),
        (fit_platt, MIN_LABELS),
        (fit_isotonic, MIN_LABELS_ISOTONIC),
    ],
)
def test_ten_labels_are_too_few_and_it_says_how_many_are_missing(fit, least):
    """Unless somebody asks for less."""
    assert fit(CHECK_SET).needed == least - 10
    assert not isinstance(fit(CHECK_SET, at_least=10), NotYet)
    assert fit(CHECK_SET, at_least=11).needed == 1


@pytest.mark.parametrize("temperature", [0.25, 0.8, 3])
def test_temperature_finds_the_temperature_that_was(temperature):
    """Answers drawn at a known temperature give it back."""
    rng = np.random.default_rng(11)
    true = rng.beta(4, 1.5, 1500)
    logits = np.log(true / (1 - true)) * temperature
    stated = 1 / (1 + np.exp(-logits))
    some = Labels(confidences=stated.tolist(), correct=(rng.random(1500) < true).tolist())
    at_one = fit_temperature(Labels(confidences=true.tolist(), correct=some.correct))
    found = fit_temperature(some)
    # What was only sharpened is flattened by exactly as much.
    assert found.temperature == pytest.approx(at_one.temperature * temperature, rel=1e-2)
    assert at_one.temperature == pytest.approx(1, abs=3 * 0.05)  # standard error of 1 500


def test_temperature_of_whole_distributions_may_favour_any_option():
    """Ten draws that follow the distribution exactly need no temperature."""
    options, truths = [(0.7, 0.2, 0.1)] * 10, [0] * 7 + [1] * 2 + [2]
    assert fit_temperature_of(options, truths) == pytest.approx(1, abs=1e-6)
    assert fit_temperature_of(options, [0] * 10) is None  # no end to becoming surer
    assert fit_temperature_of(options, [2] * 10) is None  # nor to becoming less sure


@pytest.mark.parametrize(
    ("distributions", "truths"),
    [([], []), ([(0.5, 0.5)], []), ([(0.5, 0.4)], [0]), ([(0.5, 0.5)], [2]), ([()], [0])],
)
def test_distribution_without_its_truth_is_refused(distributions, truths):
    with pytest.raises(ValueError, match="want"):
        fit_temperature_of(distributions, truths)


def test_check_value_of_the_binary_temperature():
    found = fit_temperature(CHECK_SET, at_least=10)
    assert found.temperature == pytest.approx(1.0319650, abs=1e-6)
    assert mean_log_loss(found, CHECK_SET) == pytest.approx(0.4971677, abs=5e-8)


def test_check_value_of_platt_without_regularisation():
    found = fit_platt(CHECK_SET, l2=0, at_least=10)
    assert found.a == pytest.approx(1.8686675, abs=1e-6)
    assert found.b == pytest.approx(-1.3002804, abs=1e-6)
    assert mean_log_loss(found, CHECK_SET) == pytest.approx(0.4563161, abs=5e-8)
    assert found.probability(0.80) == pytest.approx(0.7841883, abs=5e-8)


def test_check_values_of_isotonic_steps():
    found = fit_isotonic(CHECK_SET, at_least=10)
    after = [found.probability(c) for c in (0.55, 0.60, 0.65, 0.70, 0.80, 0.85, 0.90, 0.95)]
    assert after == pytest.approx([0, 0.5, 0.5, 2 / 3, 2 / 3, 1, 1, 1])
    assert (found.probability(0), found.probability(1)) == (0, 1)


@given(some=labels(min_size=2), confidence=shares)
def test_isotonic_map_is_that_of_scikit_learn(some, confidence):
    """Ours is applied without it."""
    found = fit_isotonic(some, at_least=1)
    if not isinstance(found, NotYet):
        theirs = IsotonicRegression(out_of_bounds="clip")
        theirs.fit(some.confidences, [float(right) for right in some.correct])
        expected = float(theirs.predict([confidence])[0])
        assert found.probability(confidence) == pytest.approx(expected, abs=1e-9)


def test_regularised_platt_is_less_steep():
    """With few labels the slope is mostly luck."""
    plain, held = (fit_platt(CHECK_SET, l2=l2, at_least=10) for l2 in (0, 1))
    assert 0 < held.a < plain.a


@pytest.mark.parametrize("l2", [0.1, 4, 30])
def test_regularised_platt_is_the_least_of_its_objective(l2):
    """Summed log loss and ½·l2·a²: the slopes of both cancel, the intercept's alone vanishes."""
    found = fit_platt(CHECK_SET, l2=l2, at_least=10)
    stated = np.array(CHECK_SET.confidences)
    excess = [found.probability(c) for c in stated] - np.array(CHECK_SET.correct)
    logits = np.log(stated / (1 - stated))
    assert excess @ logits + l2 * found.a == pytest.approx(0, abs=1e-6)
    assert excess.sum() == pytest.approx(0, abs=1e-6)


def test_plain_slope_that_has_no_end_is_not_fitted():
    """A threshold parts right from wrong; regularised it is a number all the same."""
    parted = Labels(confidences=[0.6, 0.7, 0.8, 0.9], correct=[False, False, True, True])
    assert fit_platt(parted, l2=0, at_least=1).reason == "separated"
    assert fit_platt(parted, at_least=1).a > 0


def test_negative_regularisation_is_refused():
    with pytest.raises(ValueError, match="l2 of at least 0"):
        fit_platt(CHECK_SET, l2=-1)


def test_calibration_makes_an_overconfident_machine_honest():
    """Fitted on one half, every map brings the log loss of the other half down."""
    rng = np.random.default_rng(5)
    true = rng.beta(6, 2, 6000)
    stated = 1 / (1 + np.exp(-2.5 * np.log(true / (1 - true))))
    right = rng.random(6000) < true
    fitted, held_out = (
        Labels(confidences=stated[part].tolist(), correct=right[part].tolist())
        for part in (slice(0, 3000), slice(3000, 6000))
    )
    before = scores(held_out)
    for fit in FITS:
        calibrator = fit(fitted)
        after = scores(
            Labels(
                confidences=[calibrator.probability(c) for c in held_out.confidences],
                correct=held_out.correct,
            )
        )
        assert after.brier < before.brier
        assert after.calibration_error < before.calibration_error / 2


CALIBRATORS = (
    Temperature(temperature=2, num_labels=100),
    Platt(a=1, b=0, num_labels=100),
    Isotonic(knots=((0.2, 0.1), (0.8, 0.9)), num_labels=1000),
)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
@pytest.mark.parametrize("confidence", [float("nan"), -0.1, 1.1, float("inf")])
def test_what_is_no_confidence_has_no_probability(calibrator, confidence):
    with pytest.raises(ValueError, match="confidence from 0 to 1"):
        calibrator.probability(confidence)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_certainty_at_either_end_is_no_error(calibrator):
    """A probability of exactly 1 is what rounding makes of a very sure model."""
    assert 0 <= calibrator.probability(0.0) < calibrator.probability(1.0) <= 1


@pytest.mark.parametrize("part", ["provider", "model", "prompt", "schema", "field"])
def test_every_part_of_the_key_tells_calibrations_apart(part):
    assert dataclasses.replace(KEY, **{part: "other"}) != KEY
    with pytest.raises(ValueError, match=f"with a {part}"):
        dataclasses.replace(KEY, **{part: ""})
    assert CalibrationKey(**dataclasses.asdict(KEY)) == KEY
