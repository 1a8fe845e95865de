"""Cooldowns that processes share: whatever the wall clock does, each decides on its own time."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from databases import locked
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, event, func, select

from weighbridge.decision import FailureKind
from weighbridge.router.health import ProviderHealth
from weighbridge.store.database import Database
from weighbridge.store.health import (
    BUSY_S,
    FORGOTTEN_AFTER_S,
    QUIET_S,
    SharedHealth,
)
from weighbridge.store.tables import cooldown_table

WAITS_S = st.integers(0, 4000)
JUMPS_S = st.integers(-100_000, 100_000)


@dataclass
class Time:
    """True time, and a wall clock that can be set wrong; monotonic clocks begin anywhere."""

    true: float = 0.0
    wrong_by: float = 0.0

    def wall(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self.true + self.wrong_by)

    def process(self, database: Database, *, began: float = 0.0) -> SharedHealth:
        """The health of another process, whose monotonic clock began at another time."""
        return SharedHealth(database, self.wall, monotonic=lambda: self.true - began)


@pytest.fixture
def time() -> Time:
    return Time()


def emptied(database: Database) -> Database:
    with database.writing() as connection:
        connection.execute(delete(cooldown_table))
    return database


def left(health: SharedHealth) -> dict[str, float]:
    """Seconds that are left, by identity; 0 where nobody has been answered since."""
    known = health.known().items()
    return {who: max(0.0, each.until - health._monotonic()) for who, each in known}


def settled(health: SharedHealth) -> SharedHealth:
    """The same when its thread has nothing more to do."""
    health._exchanger._worker.submit(lambda: None).result()
    return health


def looked(health: SharedHealth) -> dict[str, float]:
    """What it knows once it has looked into the database."""
    health._asked_at = float("-inf")
    left(health)
    return left(settled(health))


def num_rows(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(cooldown_table))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["told", "recovered"]), WAITS_S, st.sampled_from([0, 1, 50, 900]))
)


@settings(deadline=None)  # a database may be busy
@given(events=EVENTS)
def test_processes_know_what_one_process_would_know(shared_database, events) -> None:
    """Holds for every history, whoever of two processes is told and whenever a third looks."""
    time = Time()
    alone = ProviderHealth(lambda: time.true)
    with (
        closing(time.process(emptied(shared_database))) as one,
        closing(time.process(shared_database, began=-700.0)) as other,
        closing(time.process(shared_database, began=500.0)) as third,
    ):
        told = [(one, 0.0), (other, -700.0)]
        for number, (what, seconds, passed_s) in enumerate(events):
            health, began = told[number % 2]
            if what == "told":
                alone.cool("a", seconds)
                health.told("a", seconds)
            else:
                asked_at = time.true - seconds / 100
                alone.recovered("a", asked_at)
                health.recovered("a", asked_at - began)
            settled(health)
            for known in (looked(one), looked(other), looked(third)):
                assert known.get("a", 0.0) == pytest.approx(alone.left_s("a"), abs=1e-3)
            time.true += passed_s


@settings(deadline=None)  # a database may be busy
@given(wait_s=WAITS_S, passed_s=WAITS_S, before_s=JUMPS_S, after_s=JUMPS_S)
def test_jump_of_the_wall_clock_costs_at_most_the_cooldown_and_frees_at_most_by_itself(
    shared_database, wait_s, passed_s, before_s, after_s
) -> None:
    """A jump before the first look is clamped, and one after it is not even noticed."""
    time = Time()
    with (
        closing(time.process(emptied(shared_database))) as told,
        closing(time.process(shared_database)) as other,
    ):
        told.told("a", wait_s)
        settled(told)
        time.true += passed_s
        time.wrong_by += before_s
        first = looked(other).get("a", 0.0)
        own = wait_s - passed_s
        assert own - max(0, before_s) - 1e-3 <= first <= wait_s
        time.true += 1.0
        time.wrong_by += after_s
        if min(own, own - before_s) > 1 - FORGOTTEN_AFTER_S:  # otherwise one of them forgets it
            assert looked(other)["a"] == pytest.approx(max(0.0, first - 1.0), abs=1e-3)
            assert looked(told)["a"] == pytest.approx(max(0.0, own - 1.0), abs=1e-3)


@settings(deadline=None)  # a database may be busy
@given(wait_s=st.integers(1, 4000), back_s=st.integers(0, 100_000), num_runs=st.integers(1, 4))
def test_short_lived_processes_do_not_each_begin_the_wait_anew(
    shared_database, wait_s, back_s, num_runs
) -> None:
    """After a jump back the first one dates the cooldown anew, and later ones find it shrink."""
    time = Time()
    with closing(time.process(emptied(shared_database))) as told:
        told.told("a", wait_s)
    time.wrong_by -= back_s
    step_s = wait_s / num_runs
    for run in range(num_runs):
        with closing(time.process(shared_database, began=time.true)) as other:
            late_s = min(1.0, back_s)  # a row that is less than a second ahead is left as it is
            assert left(other)["a"] <= wait_s - run * step_s + late_s + 1e-3
        time.true += step_s


def test_own_word_counts_at_once_and_that_of_another_process_after_a_look(database, time):
    """Within `QUIET_S` while nobody is cooling, within `BUSY_S` while somebody is."""
    with (
        closing(time.process(database)) as mine,
        closing(time.process(database, began=-50.0)) as theirs,
    ):
        theirs.told("a", 60.0)
        assert left(theirs) == {"a": 60.0}
        settled(theirs)
        time.true += QUIET_S - 0.001
        left(mine)
        assert left(settled(mine)) == {}
        time.true += 0.001
        left(mine)
        assert left(settled(mine)) == {"a": pytest.approx(55.0)}
        theirs.recovered("a", 49.0 + time.true)
        assert left(theirs) == {}
        settled(theirs)
        time.true += BUSY_S - 0.001
        left(mine)
        assert left(settled(mine)) != {}
        time.true += 0.001
        left(mine)
        assert left(settled(mine)) == {}
        assert num_rows(database) == 0


def test_nothing_is_read_between_two_looks(database, time):
    statements = []
    with closing(time.process(database)) as health:
        health.told("a", 60.0)
        settled(health)
        event.listen(
            database._engine, "before_cursor_execute", lambda *given: statements.append(given[2])
        )
        for _ in range(1000):
            left(health)
            health.recovered("b", time.true)
        settled(health)
    assert statements == []


def test_answer_ends_even_what_nobody_here_has_heard_of_yet(database, time):
    """It was asked for after the other process had been told; the row goes with the next look."""
    with closing(time.process(database)) as mine, closing(time.process(database)) as theirs:
        theirs.told("a", 60.0)
        theirs.told("a", 60.0, FailureKind.QUOTA)
        settled(theirs)
        mine.recovered("a", time.true + 1.0)
        assert looked(mine) == {}
        assert num_rows(database) == 0
        assert looked(theirs) == {}


def test_answer_that_was_asked_for_earlier_ends_nothing(database, time):
    time.true = 10.0
    with closing(time.process(database)) as mine, closing(time.process(database)) as theirs:
        theirs.told("a", 60.0)
        settled(theirs)
        mine.recovered("a", 9.0)
        mine.recovered("a", 8.0)
        assert looked(mine) == looked(theirs) == {"a": pytest.approx(60.0)}


def test_cooldown_that_is_over_waits_for_an_answer_and_is_forgotten_in_the_end(database, time):
    """Nothing is left of it, and yet it shows: who knows of it lets one ticket go first."""
    with closing(time.process(database)) as health:
        health.told("a", 60.0)
        settled(health)
        time.true += 60.0 + FORGOTTEN_AFTER_S - 0.001
        assert looked(health) == {"a": 0.0}
        assert health.entries() == []
        time.true += 0.001
        assert looked(health) == {}
    assert num_rows(database) == 0


def test_kinds_are_kept_apart_and_the_longer_one_counts(database, time):
    with closing(time.process(database)) as told:
        told.told("b", 3600.0, FailureKind.QUOTA)
        time.true += 5.0
        told.told("b", 7200.0)
        told.told("a", 10.0, FailureKind.RATE_LIMIT, is_asked=True)
        told.told("c", 0.0)
    with closing(time.process(database, began=1.0)) as health:
        assert left(health) == {"a": 10.0, "b": 7200.0, "c": 0.0}
        assert [(e.identity, e.kind, e.is_asked, e.left_s) for e in health.entries()] == [
            ("a", FailureKind.RATE_LIMIT, True, 10.0),
            ("b", FailureKind.QUOTA, False, 3595.0),
            ("b", FailureKind.TRANSIENT, False, 7200.0),
        ]
        known = health.known()
        assert (known["a"].kind, known["a"].is_asked) == (FailureKind.RATE_LIMIT, True)
        assert (known["b"].kind, known["b"].is_asked) == (FailureKind.TRANSIENT, False)
        assert health.entries()[1].began == time.wall() - timedelta(seconds=5)


def test_telling_does_not_wait_for_a_lock(database_url, time):
    """The lock is let go only after all has come back; waiting would never end."""
    with (
        closing(Database(database_url)) as other,
        closing(Database(database_url, busy_timeout_s=600)) as database,
        closing(time.process(database)) as health,
    ):
        with locked(other, cooldown_table):
            health.told("a", 60.0)
            assert left(health) == {"a": 60.0}
            health.recovered("b", time.true)
        settled(health)
        assert num_rows(other) == 1


def test_locked_database_costs_one_warning_and_no_cooldown(database, time, caplog):
    """What could not be written is written by the first look that can."""
    with closing(time.process(database)) as health:
        with locked(database, cooldown_table):
            for identity in ("a", "b"):
                health.told(identity, 60.0)
                settled(health)
        assert left(health) == {"a": 60.0, "b": 60.0}
        assert num_rows(database) == 0
        time.true += BUSY_S
        assert looked(health) == {"a": 59.0, "b": 59.0}
        assert num_rows(database) == 2
    (warning,) = caplog.records
    assert "lock" in warning.getMessage()


def test_database_that_fails_altogether_leaves_what_is_known(database, time, caplog):
    with closing(time.process(database)) as theirs, closing(time.process(database)) as health:
        theirs.told("a", 60.0)
        settled(theirs)
        looked(health)
        with database.writing() as connection:
            connection.exec_driver_sql("DROP TABLE cooldown")
        health.told("b", 60.0)
        assert looked(health) == {"a": 60.0, "b": 60.0}
        health.recovered("a", time.true + 1.0)
        assert looked(health) == {"b": 60.0}
    assert len(caplog.records) == 1


def test_what_was_told_and_answered_before_it_was_written_is_never_written(database, time):
    with closing(time.process(database)) as health:
        with locked(database, cooldown_table):
            health.told("a", 60.0)
            settled(health)
            health.recovered("a", time.true + 1.0)
            settled(health)
        assert looked(health) == {}
    assert num_rows(database) == 0


def test_closed_health_remembers_and_stays_silent(database, time, caplog):
    health = time.process(database)
    health.close()
    health.close()
    health.told("a", 60.0)
    time.true += QUIET_S
    assert left(health) == {"a": 55.0}
    assert num_rows(database) == 0
    assert caplog.records == []


def test_kind_of_a_newer_version_is_passed_over_and_left_alone(database, time):
    with closing(time.process(database)) as health:
        health.told("a", 60.0)
        health.told("b", 60.0)
        settled(health)
        with database.writing() as connection:
            connection.exec_driver_sql("UPDATE cooldown SET kind = 'resting' WHERE identity = 'a'")
    with closing(time.process(database)) as health:
        assert left(health) == {"b": 60.0}
        health.told("a", 5.0)
        assert looked(health) == {"a": 5.0, "b": 60.0}
    assert num_rows(database) == 3


def test_another_process_knows(database_url):
    """A real one, with the real clocks."""
    teller = (
        "import sys; from weighbridge.store.database import Database;"
        " from weighbridge.store.health import SharedHealth; database = Database(sys.argv[1]);"
        " health = SharedHealth(database); health.told('a', 1000.0); health.close()"
    )
    subprocess.run([sys.executable, "-c", teller, database_url], check=True)
    with closing(Database(database_url)) as database, closing(SharedHealth(database)) as health:
        (entry,) = health.entries()
        assert (entry.identity, entry.kind) == ("a", FailureKind.TRANSIENT)
        assert 0.0 < entry.left_s <= 1000.0
