"""Laws that hold for every ledger, wherever it keeps its facts."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete

from weighbridge.capability import Fact, Feature, Ledger, Origin, Status
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.store.database import Database
from weighbridge.store.ledger import CapabilityLedger
from weighbridge.store.tables import capability_table

NOW = datetime(2026, 11, 30, tzinfo=UTC)
URL, MODEL, FEATURE = "https://h/v1", "m", Feature.LOGPROBS.value


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


Make = Callable[[Clock], Ledger]

facts = st.builds(
    Fact,
    status=st.sampled_from(Status),
    origin=st.sampled_from(Origin),
    limit=st.none() | st.integers(0, 20).map(float),
    value=st.none() | st.sampled_from(["before_mask", "after_mask"]),
    checked=st.integers(0, 3).map(lambda days: NOW - timedelta(days=days)),
    expires=st.none() | st.integers(-1, 3).map(lambda days: NOW + timedelta(days=days)),
)


def weight(fact: Fact) -> tuple[int, datetime]:
    assert fact.checked is not None
    return list(Origin).index(fact.origin), fact.checked


def is_believed(fact: Fact, now: datetime) -> bool:
    return fact.expires is None or now < fact.expires


class Reopened:
    """What one process wrote and another, begun later, reads."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._open = lambda: CapabilityLedger(database, clock)

    def facts(self, base_url: str, model: str) -> Mapping[str, Fact]:
        with closing(self._open()) as ledger:
            return ledger.facts(base_url, model)

    def record(self, base_url: str, model: str, feature: str, fact: Fact) -> None:
        with closing(self._open()) as ledger:
            ledger.record(base_url, model, feature, fact)


@pytest.fixture(params=["memory", "database", "reopened"], scope="module")
def make(request) -> Iterator[Make]:
    """Makes an empty ledger."""
    if request.param == "memory":
        yield MemoryLedger
        return
    open_ledgers = []
    with closing(Database("sqlite://")) as database:

        def made(clock: Clock) -> Ledger:
            while open_ledgers:
                open_ledgers.pop().close()
            with database.writing() as connection:
                connection.execute(delete(capability_table))
            if request.param == "reopened":
                return Reopened(database, clock)
            open_ledgers.append(CapabilityLedger(database, clock))
            return open_ledgers[0]

        yield made
        for ledger in open_ledgers:
            ledger.close()


@given(fact=facts, days=st.integers(0, 4))
def test_fact_is_kept_whole_until_it_expires(make, fact, days):
    """Nothing of it is lost on the way, and at the moment of its end it is gone."""
    clock = Clock()
    ledger = make(clock)
    ledger.record(URL, MODEL, FEATURE, fact)
    clock.now += timedelta(days=days)
    expected = {FEATURE: fact} if is_believed(fact, clock.now) else {}
    assert dict(ledger.facts(URL, MODEL)) == expected


@given(older=facts, newer=facts)
def test_weightier_fact_stands(make, older, newer):
    """A later origin overrides, whatever the dates; of one origin, the later date."""
    ledger = make(Clock())
    ledger.record(URL, MODEL, FEATURE, older)
    ledger.record(URL, MODEL, FEATURE, newer)
    candidates = [fact for fact in (newer, older) if is_believed(fact, NOW)]  # of equals, the first
    expected = max(candidates, key=weight, default=None)
    assert ledger.facts(URL, MODEL).get(FEATURE) == expected


@given(some=st.lists(facts, max_size=3, unique_by=weight))
def test_order_of_arrival_decides_nothing(make, some):
    """Two processes that learn the same things in another order end up alike."""
    forever = [replace(fact, expires=None) for fact in some]
    ends = []
    for order in itertools.permutations(forever):
        ledger = make(Clock())
        for fact in order:
            ledger.record(URL, MODEL, FEATURE, fact)
        ends.append(dict(ledger.facts(URL, MODEL)))
    assert all(end == ends[0] for end in ends)


@pytest.mark.parametrize(
    "other",
    [("https://h/v2", MODEL, FEATURE), (URL, "n", FEATURE), (URL, MODEL, f"{FEATURE}:1f0c")],
)
def test_facts_are_told_apart_by_endpoint_model_and_feature(make, other):
    ledger = make(Clock())
    mine, theirs = Fact(status=Status.SUPPORTED, checked=NOW), Fact(status=Status.IGNORED)
    ledger.record(URL, MODEL, FEATURE, mine)
    ledger.record(*other, theirs)
    assert ledger.facts(URL, MODEL)[FEATURE] == mine
    assert ledger.facts(*other[:2])[other[2]].status is Status.IGNORED


def test_expired_fact_stands_in_nobodys_way(make):
    """A refusal that is no longer believed yields to the table's word."""
    clock = Clock()
    ledger = make(clock)
    refusal = Fact(
        status=Status.UNSUPPORTED, origin=Origin.LEARNED, expires=NOW + timedelta(days=1)
    )
    ledger.record(URL, MODEL, FEATURE, refusal)
    probe = Fact(status=Status.SUPPORTED, origin=Origin.PROBED, checked=NOW)
    ledger.record(URL, MODEL, FEATURE, probe)
    assert ledger.facts(URL, MODEL)[FEATURE].status is Status.UNSUPPORTED
    clock.now += timedelta(days=1)
    ledger.record(URL, MODEL, FEATURE, probe)
    assert ledger.facts(URL, MODEL)[FEATURE] == probe


def test_fact_without_a_date_is_dated_by_the_ledger(make):
    ledger = make(Clock())
    ledger.record(URL, MODEL, FEATURE, Fact(status=Status.SUPPORTED))
    assert ledger.facts(URL, MODEL)[FEATURE].checked == NOW


def test_clock_that_runs_ahead_elsewhere_makes_no_fact_last_longer(make):
    clock = Clock()
    ledger = make(clock)
    ledger.record(
        URL, MODEL, FEATURE, Fact(status=Status.IGNORED, checked=NOW + timedelta(days=900))
    )
    clock.now += timedelta(seconds=1)
    ledger.record(URL, MODEL, FEATURE, Fact(status=Status.SUPPORTED, checked=clock.now))
    assert ledger.facts(URL, MODEL)[FEATURE].status is Status.SUPPORTED


def test_same_object_comes_back_until_something_changes(make):
    """Whoever derives something from the facts need not compare them for every ticket."""
    clock = Clock()
    ledger = make(clock)
    if isinstance(ledger, Reopened):
        pytest.skip("two processes share no objects")
    assert ledger.facts(URL, MODEL) is ledger.facts(URL, MODEL)
    ledger.record(
        URL, MODEL, FEATURE, Fact(status=Status.SUPPORTED, expires=NOW + timedelta(days=1))
    )
    first = ledger.facts(URL, MODEL)
    assert first is ledger.facts(URL, MODEL)
    ledger.record(URL, MODEL, Feature.SEED, Fact(status=Status.SUPPORTED))
    second = ledger.facts(URL, MODEL)
    clock.now += timedelta(days=1)
    third = ledger.facts(URL, MODEL)
    assert [set(facts) for facts in (first, second, third)] == [
        {"logprobs"},
        {"logprobs", "seed"},
        {"seed"},
    ]


def test_facts_cannot_be_changed_from_outside(make):
    ledger = make(Clock())
    ledger.record(URL, MODEL, FEATURE, Fact(status=Status.SUPPORTED))
    with pytest.raises(TypeError):
        ledger.facts(URL, MODEL)[FEATURE] = Fact(status=Status.UNSUPPORTED)


def test_threads_lose_nothing_to_each_other(make):
    clock = Clock()
    ledger = make(clock)

    def record(thread: int) -> None:
        for number in range(40):
            fact = Fact(status=Status.SUPPORTED, expires=NOW + timedelta(seconds=1))
            ledger.record(URL, MODEL, f"expiring:{thread}.{number}", fact)
            ledger.record(URL, MODEL, f"{thread}.{number}", Fact(status=Status.SUPPORTED))
            ledger.facts(URL, MODEL)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    clock.now += timedelta(seconds=2)
    for thread in threads:
        thread.join()
    assert set(ledger.facts(URL, MODEL)) == {f"{t}.{n}" for t in range(4) for n in range(40)}
