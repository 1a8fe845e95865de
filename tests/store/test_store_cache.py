"""Records that processes share: bounded, quick, and never worth an exception."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from databases import locked
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from weighbridge.router.cache import Cache, MemoryCache
from weighbridge.store.cache import SharedCache
from weighbridge.store.database import Database
from weighbridge.store.tables import cached_decision_table

DAY_S = 86_400.0


@dataclass
class Clock:
    """Seconds that are set by hand."""

    now: float = 0.0

    def wall(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def written(cache: Cache) -> Cache:
    """The same when its writer has nothing more to do."""
    if isinstance(cache, SharedCache):
        cache._writer.submit(lambda: None).result()
    return cache


def got(cache: Cache, *keys: str) -> list[str | None]:
    async def ask() -> list[str | None]:
        return [await cache.get(key) for key in keys]

    return asyncio.run(ask())


def num_rows(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(cached_decision_table))


STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abcde"), st.sampled_from([1, 1, 1, 40])), max_size=30
)


@pytest.mark.parametrize("kind", ["memory", "database", "reopened"])
@given(steps=STEPS, max_entries=st.integers(1, 4))
def test_what_is_kept_is_the_newest_the_young_and_the_lately_used(
    shared_database, kind, steps, max_entries
) -> None:
    """A model of a dozen lines says of every history what must be there, and what must not."""
    clock, max_age_s = Clock(), 100.0
    model: OrderedDict[str, tuple[str, float]] = OrderedDict()
    with shared_database.writing() as connection:
        connection.execute(delete(cached_decision_table))

    def opened() -> Cache:
        if kind == "memory":
            return MemoryCache(
                max_entries=max_entries, max_age_s=max_age_s, clock=lambda: clock.now
            )
        return SharedCache(
            shared_database,
            clock.wall,
            max_entries=max_entries,
            max_age_s=max_age_s,
            patience_s=600,
        )

    cache = opened()
    for number, (is_put, key, passed_s) in enumerate(steps):
        if is_put:
            cache.put(key, f"record {number}")
            written(cache)
            model[key] = f"record {number}", clock.now
            model.move_to_end(key)
            for old in [name for name, (_, at) in model.items() if clock.now - at >= max_age_s]:
                if kind != "memory":  # which looks at the age of what it is asked for alone
                    del model[old]
            while len(model) > max_entries:
                model.popitem(last=False)
        else:
            record, put_at = model.get(key, (None, clock.now))
            expected = record if clock.now - put_at < max_age_s else None
            assert got(cache, key) == [expected]
            if expected is not None:
                model.move_to_end(key)
        if kind == "reopened":
            cache.close()
            cache = opened()
        clock.now += passed_s
    cache.close()


def test_another_process_finds_what_was_kept(database_url):
    """A real one; the record comes back letter by letter."""
    record = '{"value": "\\ud800 \\u0000 é"}'
    keeper = (
        "import sys; from weighbridge.store.database import Database;"
        " from weighbridge.store.cache import SharedCache; database = Database(sys.argv[1]);"
        " cache = SharedCache(database); cache.put('k', sys.argv[2]); cache.close()"
    )
    subprocess.run([sys.executable, "-c", keeper, database_url, record], check=True)
    with closing(Database(database_url)) as database, closing(SharedCache(database)) as cache:
        assert got(cache, "k", "other") == [record, None]


def test_putting_does_not_wait_for_a_lock_and_is_read_at_once(database_url, clock):
    """The lock is let go only after all has come back; waiting would never end."""
    with (
        closing(Database(database_url)) as other,
        closing(Database(database_url, busy_timeout_s=600)) as database,
        closing(SharedCache(database, clock.wall, patience_s=600)) as cache,
    ):
        with locked(other, cached_decision_table):
            cache.put("k", "record")
            assert got(cache, "k", "other") == ["record", None]
        written(cache)
        assert num_rows(other) == 1


def test_database_that_nobody_else_may_read_is_a_miss_until_it_may_be_read_again(tmp_path, clock):
    """The first tickets wait as long as they have patience, the others not at all."""
    path = tmp_path / "weighbridge.db"
    with closing(Database(f"sqlite:///{path}", busy_timeout_s=60)) as database:
        with closing(SharedCache(database, clock.wall)) as cache:
            cache.put("k", "record")
        database.close()
        cache = SharedCache(database, clock.wall, patience_s=0.05)
        with closing(sqlite3.connect(path, isolation_level=None)) as owner:
            owner.execute("PRAGMA locking_mode = EXCLUSIVE")
            owner.execute("BEGIN EXCLUSIVE")

            async def three() -> list[str | None]:
                return await asyncio.gather(*(cache.get("k") for _ in range(3)))

            assert asyncio.run(three()) == [None] * 3
            late = list(cache._late)
            assert len(late) == 2, "the third one's read had no thread to begin in, and never will"
            assert got(cache, "k", "other") == [None, None]
            assert len(cache._late) == 2, "nobody else has tried"
        assert [reading.result(60) for reading in late] == ["record", "record"]
        while cache._late:
            time.sleep(0.001)
        cache._patience_s = 600
        assert got(cache, "k") == ["record"]
        cache.close()


def test_ticket_that_is_cancelled_leaves_the_cache_as_it_was(tmp_path, clock, caplog):
    """The read ends after the loop that wanted it, and nobody complains."""
    path = tmp_path / "weighbridge.db"
    with closing(Database(f"sqlite:///{path}", busy_timeout_s=60)) as database:
        with closing(SharedCache(database, clock.wall)) as cache:
            cache.put("k", "record")
        database.close()
        cache = SharedCache(database, clock.wall, patience_s=600)
        with closing(sqlite3.connect(path, isolation_level=None)) as owner:
            owner.execute("PRAGMA locking_mode = EXCLUSIVE")
            owner.execute("BEGIN EXCLUSIVE")

            async def give_up() -> None:
                asking = asyncio.create_task(cache.get("k"))
                await asyncio.sleep(0)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking

            asyncio.run(give_up())
        assert got(cache, "k") == ["record"]
        cache.close()
    assert caplog.records == []


def test_broken_database_costs_one_warning_and_every_record(database, clock, caplog):
    with closing(SharedCache(database, clock.wall)) as cache:
        cache.put("k", "record")
        written(cache)
        with database.writing() as connection:
            connection.exec_driver_sql("DROP TABLE cached_decision")
        assert got(cache, "k") == [None]
        cache.put("k", "record")
        assert got(written(cache), "k") == [None]
    (warning,) = caplog.records
    assert "cached_decision" in warning.getMessage()


def test_locked_database_loses_what_cannot_be_written_and_nothing_else(database, clock, caplog):
    """A second is not held up by the first: what waits is bounded, and in the end it is lost."""
    with closing(SharedCache(database, clock.wall)) as cache:
        with locked(database, cached_decision_table):
            for number in range(1500):
                cache.put(str(number), "record")
            assert len(cache._unsaved) <= 1000
            written(cache)
            written(cache)
        assert num_rows(database) == 0
        cache.put("k", "record")
        assert got(written(cache), "k") == ["record"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("wrong_by_s", "is_kept"), [(DAY_S - 1, True), (DAY_S, False)])
def test_record_from_a_future_as_far_off_as_its_age_counts_for_nothing(
    database, clock, wrong_by_s, is_kept
):
    """The clock that dated it was wrong; it goes with the next record."""
    clock.now = wrong_by_s
    with closing(SharedCache(database, clock.wall)) as cache:
        cache.put("k", "record")
        written(cache)
        clock.now = 0.0
        assert got(cache, "k") == ["record" if is_kept else None]
        cache.put("other", "record")
        written(cache)
    assert num_rows(database) == 1 + is_kept


@pytest.mark.parametrize(("num_uses", "is_closed"), [(100, False), (1, True)])
def test_uses_are_written_though_nothing_is_put(database, clock, num_uses, is_closed):
    """Many at once, and the last ones: no process throws away what another one only reads."""
    names = [str(number) for number in range(100)]
    with closing(SharedCache(database, clock.wall)) as cache:
        for name in names:
            cache.put(name, "record")
        written(cache)
        clock.now += 1.0
        assert got(cache, *names[:num_uses]) == ["record"] * num_uses
        if is_closed:
            cache.close()
        else:
            written(cache)
        table = cached_decision_table.c
        with database.reading() as connection:
            used = connection.scalars(select(table.key).where(table.used_at > table.made_at)).all()
    assert set(used) == set(names[:num_uses])


def test_closed_cache_is_empty_and_stays_silent(database, clock, caplog):
    cache = SharedCache(database, clock.wall)
    cache.put("k", "record")
    cache.close()
    cache.close()
    assert num_rows(database) == 1
    assert got(cache, "k") == [None]
    cache.put("other", "record")
    assert num_rows(database) == 1
    assert caplog.records == []
