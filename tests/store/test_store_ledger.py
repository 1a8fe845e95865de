"""What holds for the ledger in a database alone; the laws of all ledgers are tests/providers'."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from databases import locked, refuse_inserts
from sqlalchemy import event, func, select

from weighbridge.capability import Fact, Feature, Origin, Status
from weighbridge.store.database import Database
from weighbridge.store.ledger import REFRESHED_AFTER, CapabilityLedger
from weighbridge.store.tables import capability_table

NOW = datetime(2026, 11, 30, tzinfo=UTC)
PLACE = ("https://h/v1", "m")
YES = Fact(status=Status.SUPPORTED, origin=Origin.PROBED, checked=NOW)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def settled(ledger: CapabilityLedger) -> CapabilityLedger:
    """The ledger when its thread has nothing more to do."""
    ledger._exchanger._worker.submit(lambda: None).result()
    return ledger


def num_rows(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(capability_table))


def test_fact_of_another_process_shows_after_the_refresh(database, clock):
    """Not before: a ticket never waits for the database."""
    with closing(CapabilityLedger(database, clock)) as mine:
        with closing(CapabilityLedger(database, clock)) as theirs:
            theirs.record(*PLACE, Feature.SEED, YES)
        clock.now += REFRESHED_AFTER - timedelta(microseconds=1)
        mine.facts(*PLACE)
        assert dict(settled(mine).facts(*PLACE)) == {}
        clock.now += timedelta(microseconds=1)
        mine.facts(*PLACE)
        assert settled(mine).facts(*PLACE) == {Feature.SEED: YES}


def test_clock_that_is_put_back_delays_no_refresh(database, clock):
    """By an hour, which would else pass before anything is heard of the others."""
    with closing(CapabilityLedger(database, clock)) as mine:
        clock.now -= timedelta(hours=1)
        with closing(CapabilityLedger(database, clock)) as theirs:
            theirs.record(*PLACE, Feature.SEED, YES)
        mine.facts(*PLACE)
        assert Feature.SEED in settled(mine).facts(*PLACE)


def test_own_record_fetches_what_others_know(database, clock):
    with closing(CapabilityLedger(database, clock)) as mine:
        with closing(CapabilityLedger(database, clock)) as theirs:
            theirs.record(*PLACE, Feature.SEED, YES)
        mine.record(*PLACE, Feature.LOGPROBS, YES)
        assert settled(mine).facts(*PLACE).keys() == {Feature.SEED, Feature.LOGPROBS}


def test_facts_are_asked_for_without_the_database(database, clock):
    """Nothing is read between two refreshes, however many tickets come."""
    statements = []
    with closing(CapabilityLedger(database, clock)) as ledger:
        event.listen(
            database._engine, "before_cursor_execute", lambda *given: statements.append(given[2])
        )
        for _ in range(1000):
            ledger.facts(*PLACE)
        assert settled(ledger).facts(*PLACE) == {}
    assert statements == []


def test_refresh_without_news_keeps_the_same_object(database, clock):
    with closing(CapabilityLedger(database, clock)) as ledger:
        ledger.record(*PLACE, Feature.SEED, YES)
        before = settled(ledger).facts(*PLACE)
        clock.now += REFRESHED_AFTER
        ledger.facts(*PLACE)
        assert settled(ledger).facts(*PLACE) is before


def test_record_does_not_wait_for_a_lock(database_url, clock):
    """The lock is let go only after `record` has come back; waiting would never end."""
    with (
        closing(Database(database_url)) as other,
        closing(Database(database_url, busy_timeout_s=600)) as database,
        closing(CapabilityLedger(database, clock)) as ledger,
    ):
        with locked(other, capability_table):
            ledger.record(*PLACE, Feature.SEED, YES)
            assert ledger.facts(*PLACE) == {Feature.SEED: YES}
        settled(ledger)
        assert num_rows(other) == 1


def test_locked_database_costs_one_warning_and_no_fact(database, clock, caplog):
    """What could not be written is written by the first refresh that can."""
    with closing(CapabilityLedger(database, clock)) as ledger:
        with locked(database, capability_table):
            for feature in (Feature.SEED, Feature.LOGPROBS):
                ledger.record(*PLACE, feature, YES)
                settled(ledger)
        assert ledger.facts(*PLACE).keys() == {Feature.SEED, Feature.LOGPROBS}
        assert num_rows(database) == 0
        clock.now += REFRESHED_AFTER
        ledger.facts(*PLACE)
        settled(ledger)
        assert num_rows(database) == 2
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "lock" in warning.getMessage()


def test_database_that_takes_no_writes_is_still_read(database, clock, caplog):
    with database.writing() as connection:
        refuse_inserts(connection, capability_table, when="new.feature = 'seed'")
    with closing(CapabilityLedger(database, clock)) as ledger:
        ledger.record(*PLACE, Feature.SEED, YES)
        settled(ledger)
        with closing(CapabilityLedger(database, clock)) as theirs:
            theirs.record(*PLACE, Feature.LOGPROBS, YES)
        clock.now += REFRESHED_AFTER
        ledger.facts(*PLACE)
        assert settled(ledger).facts(*PLACE).keys() == {Feature.SEED, Feature.LOGPROBS}
    assert len(caplog.records) == 1


def test_database_that_fails_altogether_leaves_the_last_snapshot(database, clock, caplog):
    with closing(CapabilityLedger(database, clock)) as ledger:
        ledger.record(*PLACE, Feature.SEED, YES)
        settled(ledger)
        with database.writing() as connection:
            connection.exec_driver_sql("DROP TABLE capabilities")
        ledger.record(*PLACE, Feature.LOGPROBS, YES)
        assert settled(ledger).facts(*PLACE).keys() == {Feature.SEED, Feature.LOGPROBS}
        with closing(CapabilityLedger(database, clock)) as empty:
            assert dict(empty.facts(*PLACE)) == {}
    assert len(caplog.records) == 2  # one of each ledger


def test_closed_ledger_remembers_and_stays_silent(database, clock, caplog):
    ledger = CapabilityLedger(database, clock)
    ledger.close()
    ledger.close()
    ledger.record(*PLACE, Feature.SEED, YES)
    clock.now += REFRESHED_AFTER
    assert ledger.facts(*PLACE) == {Feature.SEED: YES}
    assert num_rows(database) == 0
    assert caplog.records == []


def test_row_in_words_of_a_newer_version_is_passed_over(database, clock):
    with closing(CapabilityLedger(database, clock)) as ledger:
        ledger.record(*PLACE, Feature.SEED, YES)
        ledger.record(*PLACE, Feature.LOGPROBS, YES)
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE capabilities SET origin = 'x' WHERE feature = 'seed'")
    with closing(CapabilityLedger(database, clock)) as ledger:
        assert ledger.facts(*PLACE).keys() == {Feature.LOGPROBS}


def test_expired_rows_leave_with_the_next_write(database, clock):
    until_tomorrow = Fact(status=Status.SUPPORTED, expires=NOW + timedelta(days=1))
    with closing(CapabilityLedger(database, clock)) as ledger:
        ledger.record(*PLACE, Feature.SEED, until_tomorrow)
        settled(ledger)
        clock.now += timedelta(days=1)
        ledger.record(*PLACE, Feature.LOGPROBS, YES)
        settled(ledger)
    assert num_rows(database) == 1


def test_time_zones_are_one_time_in_the_end(database, clock):
    """To the microsecond."""
    east = timezone(timedelta(hours=5, minutes=45))
    fact = Fact(
        status=Status.CONDITIONAL,
        limit=5,
        note="n",
        source="s",
        checked=datetime(2026, 11, 29, 1, 2, 3, 456789, tzinfo=east),
        expires=datetime(2027, 1, 1, tzinfo=east),
        server="vllm-0.30",
    )
    with closing(CapabilityLedger(database, clock)) as ledger:
        ledger.record(*PLACE, Feature.TOP_LOGPROBS, fact)
    with closing(CapabilityLedger(database, clock)) as ledger:
        assert ledger.facts(*PLACE) == {Feature.TOP_LOGPROBS: fact}
