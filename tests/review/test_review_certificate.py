from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from labelled import KEY, LATER, NOTHING, labels, many_labels, open_shares
from scipy import special

from weighbridge.review.statistics.certificate import (
    GRID,
    Certificate,
    Walk,
    certify,
    delta_of_round,
    most_errors,
    plan,
    sample_size,
    walked,
)
from weighbridge.review.statistics.intervals import binomial_tail, clopper_pearson_upper
from weighbridge.review.statistics.labels import Labels, NotYet

EXAMPLE = Walk(
    alpha=0.03,
    delta=0.10,
    thresholds=(0.99, 0.97, 0.95, 0.90, 0.85, 0.80),
    coverage=(0.15, 0.24, 0.33, 0.45, 0.56, 0.64),
)
EXAMPLE_TALLIES = ((0, 150), (1, 240), (2, 330), (6, 450), (14, 560), (26, 640))


def labels_of(thresholds, counts) -> Labels:
    """Labels that have these (errors, accepted) at these thresholds."""
    confidences: list[float] = []
    correct: list[bool] = []
    for threshold, (errors, accepted) in zip(thresholds, counts, strict=True):
        more, wrong = accepted - len(correct), errors - correct.count(False)
        confidences += [threshold] * more
        correct += [False] * wrong + [True] * (more - wrong)
    return Labels(confidences=confidences, correct=correct)


def slow(values: tuple[object, ...]) -> object:
    return pytest.param(*values, marks=pytest.mark.slow)


def single(errors: int, accepted: int) -> Labels:
    return labels_of([0.9], [(errors, accepted)])


def walk_of(alpha: float, delta: float) -> Walk:
    """One threshold that all of the traffic reaches."""
    return Walk(alpha=alpha, delta=delta, thresholds=(0.9,), coverage=(1.0,))


def certified(some: Labels, walk: Walk) -> Certificate | NotYet:
    return certify(some, walk, key=KEY, expires_at=LATER)


# --- the promise -----------------------------------------------------------------------------


def true_risk(threshold: float, a: float, b: float) -> float:
    """Error among accepted, where confidence is Beta(a, b) and honest."""
    kept = special.betaincc(a, b, threshold)
    return 1 - a / (a + b) * special.betaincc(a + 1, b, threshold) / kept


@pytest.mark.parametrize(
    ("population", "num_labels", "naive", "walked", "bonferroni"),
    [
        ((12, 0.5), 300, (0.467, 0.90), (0.041, 0.46), (0.003, 0.17)),
        ((12, 0.5), 1000, (0.422, 0.91), (0.062, 0.82), (0.003, 0.71)),
        ((6, 1), 300, (0.374, 0.31), (0.014, 0.006), (0, 0)),
        slow(((12, 0.5), 3000, (0.399, 0.91), (0.063, 0.87), (0.006, 0.83))),
        slow(((6, 1), 1000, (0.220, 0.29), (0.009, 0.067), (0.001, 0.016))),
        slow(((6, 1), 3000, (0.099, 0.29), (0.001, 0.18), (0, 0.10))),
    ],
)
def test_walking_keeps_the_promise_that_the_naive_rule_breaks(
    population, num_labels, naive, walked, bonferroni
):
    """1 500 times over: how often the true risk is above 3 %, and how much is accepted.

    The naive rule takes the loosest threshold whose observed error is at most 3 %; Bonferroni
    tests each threshold at a twelfth of delta.
    """
    alpha, delta, repeats = 0.03, 0.10, 1500
    rng = np.random.default_rng([2026, *map(int, population), num_labels])
    risk = {threshold: true_risk(threshold, *population) for threshold in GRID}
    share = {threshold: special.betaincc(*population, threshold) for threshold in GRID}
    walk = plan(
        rng.beta(*population, 20_000).tolist(), num_labels=num_labels, alpha=alpha, delta=delta
    )
    chosen: dict[str, list[float | None]] = {"naive": [], "walked": [], "bonferroni": []}
    for _ in range(repeats):
        confidence = rng.beta(*population, num_labels)
        right = rng.random(num_labels) < confidence
        some = Labels(confidences=confidence.tolist(), correct=right.tolist())
        found = certified(some, walk)
        chosen["walked"].append(found.threshold if isinstance(found, Certificate) else None)
        rows = list(zip(GRID, some.tallies(GRID), strict=True))
        chosen["naive"].append(min((t for t, (n, k) in rows if n and k / n <= alpha), default=None))
        chosen["bonferroni"].append(
            min(
                (t for t, (n, k) in rows if binomial_tail(k, n, alpha) <= delta / len(GRID)),
                default=None,
            )
        )
    for rule, (expected, expected_coverage) in zip(
        chosen, (naive, walked, bonferroni), strict=True
    ):
        broken = np.mean([t is not None and risk[t] > alpha for t in chosen[rule]])
        coverage = [0 if t is None else share[t] for t in chosen[rule]]
        # Both figures come of 1 500 repeats: three standard errors of their difference. Without
        # rounding, 15 000 repeats say .483 where the first row has .46.
        slack = 3 * math.sqrt(2 * max(expected * (1 - expected), 1 / repeats) / repeats)
        assert broken == pytest.approx(expected, abs=slack), rule
        slack = 3 * math.sqrt(2 / repeats) * np.std(coverage) + 0.005  # and two digits
        assert np.mean(coverage) == pytest.approx(expected_coverage, abs=slack), rule
        if rule != "naive":
            assert broken <= delta


@pytest.mark.parametrize(
    ("num_labels", "expected"), [(300, 0.596), (1000, 0.510), slow((3000, 0.462))]
)
def test_finer_grid_makes_the_naive_rule_worse(num_labels, expected):
    """More thresholds to choose from are more chances to be lucky: .995 to .50 by .005."""
    alpha, repeats, population = 0.03, 1500, (6, 1)
    grid = [place / 200 for place in range(199, 99, -1)]
    rng = np.random.default_rng([2027, num_labels])
    broken = 0
    for _ in range(repeats):
        confidence = rng.beta(*population, num_labels)
        right = rng.random(num_labels) < confidence
        tallies = Labels(confidences=confidence.tolist(), correct=right.tolist()).tallies(grid)
        fits = [t for t, (n, k) in zip(grid, tallies, strict=True) if n and k / n <= alpha]
        broken += bool(fits) and true_risk(min(fits), *population) > alpha
    slack = 3 * math.sqrt(2 * expected * (1 - expected) / repeats)
    assert broken / repeats == pytest.approx(expected, abs=slack)


@given(labels() | many_labels, st.sampled_from([0.05, 0.1, 0.3]), open_shares)
def test_no_certificate_without_the_labels_that_the_sample_size_asks_for(some, alpha, delta):
    """Whatever the labels: what is certified has enough of them, and an upper bound that fits."""
    walk = Walk(alpha=alpha, delta=delta, thresholds=(0.9, 0.5), coverage=(0.5, 0.9))
    found = certified(some, walk)
    if isinstance(found, Certificate):
        for test in found.tested[: found.tested.index(found.chosen) + 1]:
            needed = sample_size(alpha=alpha, delta=delta, num_errors=test.num_errors)
            assert test.num_accepted >= needed >= sample_size(alpha=alpha, delta=delta)
            assert test.p_value <= delta
    else:
        first = some.tallies([0.9])[0]
        assert first[0] < sample_size(alpha=alpha, delta=delta, num_errors=first[1])
        assert found.needed > 0


@given(
    st.sampled_from([0.02, 0.05, 0.2]),
    st.sampled_from([0.05, 0.1, 0.5]),
    st.integers(0, 6),
    st.integers(0, 300),
)
def test_as_many_more_right_labels_as_it_asks_for_certify_and_one_less_does_not(
    alpha, delta, errors, right
):
    """ "N more needed" is exact where no more errors come and all traffic is accepted."""
    walk, accepted = walk_of(alpha, delta), errors + right
    found = certified(single(errors, accepted), walk)
    if isinstance(found, Certificate):
        return
    more = accepted + found.needed
    assert isinstance(certified(single(errors, more), walk), Certificate)
    assert isinstance(certified(single(errors, more - 1), walk), NotYet)
    rate = errors / accepted if accepted else 0
    assert found.reason == ("too_many_errors" if rate > alpha else "too_few_labels")


def test_labels_needed_count_tickets_that_are_not_accepted_too():
    """At a coverage of a half, every second label is of use."""
    walk = Walk(alpha=0.05, delta=0.05, thresholds=(0.9,), coverage=(0.5,))
    assert certified(NOTHING, walk).needed == 2 * 59
    assert "118 more audited labels needed" in str(certified(NOTHING, walk))


@given(many_labels, open_shares, open_shares)
def test_wanting_more_never_loosens_the_threshold(some, one, other):
    """A lower risk, or more certainty, gives a stricter threshold or none."""
    low, high = sorted((one, other))
    for strict, loose in (((low, 0.2), (high, 0.2)), ((0.2, low), (0.2, high))):
        tight, wide = (
            certified(
                some,
                Walk(alpha=a, delta=d, thresholds=(0.9, 0.7, 0.5, 0.3), coverage=(0.2,) * 4),
            )
            for a, d in (strict, loose)
        )
        if isinstance(tight, Certificate):
            assert isinstance(wide, Certificate)
            assert wide.threshold <= tight.threshold


@given(many_labels, st.data())
def test_one_more_error_never_loosens_the_threshold(some, data):
    place = data.draw(st.integers(0, len(some) - 1))
    assume(some.correct[place])
    worse = Labels(
        confidences=some.confidences,
        correct=[right and at != place for at, right in enumerate(some.correct)],
    )
    walk = Walk(alpha=0.2, delta=0.2, thresholds=(0.9, 0.7, 0.5), coverage=(0.2,) * 3)
    before, after = certified(some, walk), certified(worse, walk)
    if isinstance(after, Certificate):
        assert isinstance(before, Certificate)
        assert before.threshold <= after.threshold


def test_walk_ends_at_the_first_failure():
    """Even if a looser threshold would pass again: going on would need a correction."""
    walk = Walk(alpha=0.05, delta=0.1, thresholds=(0.9, 0.8, 0.7), coverage=(0.3, 0.4, 0.9))
    found = certified(labels_of(walk.thresholds, [(0, 100), (9, 110), (10, 900)]), walk)
    assert (found.threshold, len(found.tested)) == (0.9, 2)
    assert binomial_tail(10, 900, 0.05) < 0.1


@pytest.mark.parametrize(
    ("some", "reason"),
    [
        (NOTHING, "too_few_labels"),
        (single(0, 5), "too_few_labels"),
        (single(300, 300), "too_many_errors"),
        (single(30, 300), "too_many_errors"),
        (Labels(confidences=[0.0] * 300, correct=[True] * 300), "too_few_labels"),
    ],
)
def test_labels_that_prove_nothing_get_an_answer_and_no_number(some, reason):
    """Few, all wrong, mostly wrong, or right where nothing would be accepted."""
    found = certified(some, walk_of(0.02, 0.05))
    assert (found.what, found.reason) == ("certifiable", reason)
    assert found.needed >= 149 - some.tallies([0.9])[0][0]


def test_traffic_that_reaches_no_threshold_cannot_be_certified_by_any_labels():
    walk = plan([0.1, 0.2], num_labels=1000, alpha=0.05, delta=0.1)
    below = Labels(confidences=[0.2] * 1000, correct=[True] * 1000)
    assert certified(below, walk) == NotYet(what="certifiable", reason="nothing_accepted")


# --- the plan --------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=50),
    st.integers(0, 5000),
    st.sampled_from([0.01, 0.05, 0.2]),
)
def test_walk_starts_at_the_strictest_threshold_with_labels_enough(traffic, num_labels, alpha):
    """Enough is 1.3 times the fewest that can pass; without any such, the loosest alone is left."""
    walk = plan(traffic, num_labels=num_labels, alpha=alpha, delta=0.1)
    enough = 1.3 * sample_size(alpha=alpha, delta=0.1)
    share = [np.mean(np.array(traffic) >= threshold) for threshold in GRID]
    start = len(GRID) - len(walk.thresholds)
    assert walk.thresholds == GRID[start:]
    assert walk.coverage == pytest.approx(share[start:])
    assert all(part * num_labels < enough + 1e-6 for part in share[:start])
    assert walk.coverage[0] * num_labels >= enough - 1e-6 or len(walk.thresholds) == 1


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"alpha": 0}, "alpha above 0"),
        ({"alpha": 2}, "alpha above 0"),
        ({"delta": 1}, "delta above 0"),
        ({"delta": float("nan")}, "delta above 0"),
        ({"thresholds": (0.8, 0.9)}, "thresholds that fall"),
        ({"thresholds": (0.9, 0.9)}, "thresholds that fall"),
        ({"thresholds": (0.9, 0.0)}, "thresholds that fall"),
        ({"thresholds": (1.1, 0.9)}, "thresholds that fall"),
        ({"thresholds": (float("nan"), 0.9)}, "thresholds that fall"),
        ({"thresholds": ()}, "thresholds that fall"),
        ({"coverage": (0.1,)}, "one coverage for each"),
        ({"coverage": (0.1, float("nan"))}, "coverage from 0 to 1"),
    ],
)
def test_walk_that_leads_nowhere_is_refused(change, wanted):
    good = {"alpha": 0.05, "delta": 0.1, "thresholds": (0.9, 0.8), "coverage": (0.1, 0.2)}
    assert Walk(**good)
    with pytest.raises(ValueError, match=wanted):
        Walk(**good | change)


@pytest.mark.parametrize("traffic", [[], [0.5, float("nan")], [1.5]])
def test_plan_without_traffic_is_refused(traffic):
    with pytest.raises(ValueError, match="want traffic"):
        plan(traffic, num_labels=100, alpha=0.05, delta=0.1)


def test_expiry_needs_its_time_zone():
    with pytest.raises(ValueError, match="time zone"):
        certify(NOTHING, EXAMPLE, key=KEY, expires_at=datetime(2027, 1, 1))  # noqa: DTZ001


@given(open_shares, st.integers(1, 200))
def test_rounds_together_spend_no_more_than_delta(delta, rounds):
    """However often one certifies anew."""
    spent = math.fsum(delta_of_round(delta, k) for k in range(1, rounds + 1))
    assert spent <= delta
    assert spent == pytest.approx(delta * rounds / (rounds + 1))
    with pytest.raises(ValueError, match="round of at least 1"):
        delta_of_round(delta, 0)


# --- check values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "by_delta", "by_errors"),
    [
        (0.01, (230, 299, 459), (230, 388, 531, 667)),
        (0.02, (114, 149, 228), (114, 194, 265, 333)),
        (0.03, (76, 99, 152), (76, 129, 176, 221)),
        (0.05, (45, 59, 90), (45, 77, 105, 132)),
        (0.10, (22, 29, 44), (22, 38, 52, 65)),
    ],
)
def test_check_values_of_the_sample_size(alpha, by_delta, by_errors):
    assert by_delta == tuple(sample_size(alpha=alpha, delta=d) for d in (0.10, 0.05, 0.01))
    assert by_errors == tuple(sample_size(alpha=alpha, delta=0.10, num_errors=k) for k in range(4))


@given(open_shares, open_shares, st.integers(0, 20))
def test_sample_size_is_the_smallest_that_passes(alpha, delta, errors):
    size = sample_size(alpha=alpha, delta=delta, num_errors=errors)
    assert binomial_tail(errors, size, alpha) <= delta
    assert size == errors + 1 or binomial_tail(errors, size - 1, alpha) > delta
    with pytest.raises(ValueError, match="at least 0"):
        sample_size(alpha=alpha, delta=delta, num_errors=-1)


def test_check_values_of_the_walk():
    """The certified threshold is .90; Bonferroni over six would have stopped at .95."""
    found = certified(labels_of(EXAMPLE.thresholds, EXAMPLE_TALLIES), EXAMPLE)
    assert (found.threshold, found.coverage, found.num_labels) == (0.90, 0.45, 640)
    assert (found.chosen.num_errors, found.chosen.num_accepted) == (6, 450)
    assert found.chosen.upper == pytest.approx(0.02329, abs=5e-6)
    assert [test.p_value for test in found.tested] == pytest.approx(
        [0.01037, 0.005632, 0.002722, 0.01797, 0.2936], rel=5e-4
    )
    assert [test.upper for test in found.tested] == pytest.approx(
        [0.01523, 0.01611, 0.01605, 0.02329, 0.03575], abs=5e-6
    )
    sixth = [clopper_pearson_upper(*tally, 0.10 / 6) for tally in EXAMPLE_TALLIES]
    assert sixth == pytest.approx([0.02693, 0.02493, 0.02329, 0.03027, 0.04312, 0.06062], abs=5e-6)
    assert [bound <= 0.03 for bound in sixth] == [True, True, True, False, False, False]
    assert binomial_tail(26, 640, 0.03) == pytest.approx(0.9491, abs=5e-5)
    assert clopper_pearson_upper(26, 640, 0.10) == pytest.approx(0.05254, abs=5e-6)


def test_check_values_of_the_hoeffding_test_are_never_below_the_exact_ones():
    """exp(-n·KL(k/n, alpha)): equal without errors, weaker with any."""
    found = []
    for errors, accepted in EXAMPLE_TALLIES:
        rate = errors / accepted
        divergence = special.rel_entr(rate, 0.03) + special.rel_entr(1 - rate, 0.97)
        found.append(math.exp(-accepted * divergence) if rate <= 0.03 else 1.0)
        assert found[-1] >= binomial_tail(errors, accepted, 0.03) - 1e-12
    assert found == pytest.approx([0.01037, 0.01346, 0.008247, 0.06731, 0.7751, 1], rel=5e-4)


def test_check_values_of_the_bisection_that_pays_for_every_step():
    """SGR spends delta over log2(m) thresholds, and its bound for 2 of 330 is looser for it."""
    assert math.ceil(math.log2(500)) == math.ceil(math.log2(330)) == 9
    assert 0.05 / math.ceil(math.log2(500)) == pytest.approx(0.0055556, abs=5e-8)
    assert clopper_pearson_upper(2, 330, 0.1) == pytest.approx(0.016047, abs=5e-7)
    assert clopper_pearson_upper(2, 330, 0.1 / 9) == pytest.approx(0.024830, abs=5e-7)


@given(st.integers(0, 400), open_shares, open_shares)
def test_most_errors_pass_and_one_more_does_not(num_labels, alpha, delta):
    """What is said before any outcome is looked at is what the test then says."""
    most = most_errors(num_labels, alpha=alpha, delta=delta)
    assert -1 <= most <= num_labels
    assert most == -1 or binomial_tail(most, num_labels, alpha) <= delta
    assert most == num_labels or binomial_tail(most + 1, num_labels, alpha) > delta


@given(many_labels, open_shares, open_shares)
def test_walk_ends_with_its_first_failure(some, alpha, delta):
    """All tests but the last passed; the certified threshold is the last that did."""
    walk = plan(some.confidences, num_labels=len(some), alpha=alpha, delta=delta)
    tested = walked(some, walk)
    passed = [test.p_value <= delta for test in tested]
    assert all(passed[:-1])
    assert len(tested) == len(walk.thresholds) or not passed[-1]
    found = certified(some, walk)
    if isinstance(found, Certificate):
        assert found.tested == tested
        assert found.threshold == tested[sum(passed) - 1].threshold
    else:
        assert passed == [False]
