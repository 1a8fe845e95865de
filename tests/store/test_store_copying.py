"""Copies of whole databases: everything arrives as it was, or nothing does."""

from __future__ import annotations

from contextlib import closing, contextmanager

import pytest
from databases import KINDS, fresh_url, server
from sqlalchemy import JSON, func, insert, select

from weighbridge.errors import QueueUnavailable
from weighbridge.store.copying import copy_database
from weighbridge.store.database import Database
from weighbridge.store.queue_tables import event_table, item_table, skip_table
from weighbridge.store.schema import metadata
from weighbridge.store.tables import cached_decision_table, capability_table

ROUTES = [(source, target) for source in KINDS for target in KINDS]
# What two databases might order, round or escape differently.
TEXTS = ["", "a", "B", "ä", "Z", "\u2028", "😀", "\\", "'", '"', "\ufffd", "_%"]
NUM_EVENTS = 1100  # more than go in one batch
NUMBERS = [0.1, 1e-300, 1.0, 1e16 + 2, 123456789.123456789]


def item(number: int, text: str) -> dict[str, object]:
    return {
        "id": f"item {number}",
        "dedupe_key": f"key {number}",
        "ticket_id": text,
        "task": "triage",
        "state": "open",
        "reasons": "low_mass",
        "is_audit": number % 2 == 0,
        "needed": 1,
        "round": 1,
        "uncertainty": NUMBERS[number % len(NUMBERS)] % 1.0,
        "sort_key": 2**60 + number,
        "group_key": "",
        "version": 1,
        "created_at": 1_796_000_000_000_000 + number,
        "ticket_json": {"b": text, "a": ["\0", "\ud800", 2**70, None]},
        "decision_json": None,
        "questions_json": [],
        "resolution_json": None,
    }


def fill(database: Database) -> None:
    """Rows in tables that refer to each other."""
    items = [item(number, text) for number, text in enumerate(TEXTS)]
    with database.writing() as connection:
        connection.execute(insert(item_table), items)
        connection.execute(
            insert(event_table),
            [
                {
                    "item_id": f"item {number % len(TEXTS)}",
                    "at": number,
                    "actor": "ann",
                    "kind": "noted",
                    "detail_json": {"number": number},
                }
                for number in range(NUM_EVENTS)
            ],
        )
        connection.execute(
            insert(skip_table), {"item_id": "item 0", "reviewer": "ä", "at": 1, "reason": ""}
        )
        connection.execute(
            insert(capability_table),
            [
                {
                    "base_url": "https://h",
                    "model": "m",
                    "feature": str(number),
                    "status": "supported",
                    "origin": "probed",
                    "at_most": number,
                    "note": "",
                    "source": "",
                    "checked_at": 1,
                    "server": "",
                }
                for number in NUMBERS
            ],
        )


@pytest.fixture
def opened(tmp_path_factory):
    """Opens databases, each in a folder of its own."""

    @contextmanager
    def opened(kind: str):
        folder = tmp_path_factory.mktemp(kind)
        with fresh_url(kind, folder) as url, closing(Database(url)) as database:
            yield database

    return opened


def rows(database: Database, table) -> list[tuple[object, ...]]:
    with database.reading() as connection:
        return sorted((tuple(row) for row in connection.execute(select(table))), key=repr)


@pytest.mark.parametrize(("source_kind", "target_kind"), ROUTES)
def test_every_row_of_every_table_arrives_as_it_was(opened, source_kind, target_kind):
    """In numbers, texts, JSON and what is missing alike; and is told table by table."""
    with opened(source_kind) as source, opened(target_kind) as target:
        fill(source)
        copied = {table.name: table for table in copy_database(source, target)}
        assert copied.keys() == metadata.tables.keys()
        for table in metadata.sorted_tables:
            assert rows(source, table) == rows(target, table)
            assert copied[table.name].num_rows == len(rows(source, table))
        assert copied["event"].num_rows == NUM_EVENTS
        # The other way round, everything comes to the same digests.
        with opened(source_kind) as again:
            assert copy_database(target, again) == [*copied.values()]


@pytest.mark.parametrize("target_kind", KINDS)
def test_ids_go_on_after_the_copied_ones(opened, target_kind):
    with opened("sqlite") as source, opened(target_kind) as target:
        fill(source)
        copy_database(source, target)
        with target.writing() as connection:
            event = {"item_id": "item 0", "at": 0, "actor": "a", "kind": "k", "detail_json": {}}
            new = connection.execute(insert(event_table).returning(event_table.c.id), event)
            assert new.scalar_one() == NUM_EVENTS + 1


def test_empty_database_is_copied_too(opened, database_kind):
    """Into a database that then counts from 1 as if nothing had been."""
    with opened("sqlite") as source, opened(database_kind) as target:
        assert {table.num_rows for table in copy_database(source, target)} == {0}


@pytest.mark.parametrize("table", [cached_decision_table, item_table], ids=lambda table: table.name)
def test_target_with_a_single_row_is_refused_and_left_alone(opened, database_kind, table):
    row = {"key": "k", "record": "r", "made_at": 1, "used_at": 1}
    with opened("sqlite") as source, opened(database_kind) as target:
        fill(source)
        with target.writing() as connection:
            connection.execute(insert(table), row if "key" in table.c else item(1, "t"))
        with pytest.raises(QueueUnavailable, match=f"not empty.*{table.name}") as refused:
            copy_database(source, target)
        assert "new database" in refused.value.hint
        assert [
            len(rows(target, each)) for each in metadata.sorted_tables if each is not table
        ] == ([0] * (len(metadata.tables) - 1))


def test_what_arrives_changed_is_noticed_and_taken_back(opened, database_kind):
    """By a trigger here, as by a type that holds less there."""
    with opened("sqlite") as source, opened(database_kind) as target:
        fill(source)
        with target.writing() as connection:
            if target.is_postgresql:
                connection.exec_driver_sql(
                    "CREATE FUNCTION round_it() RETURNS trigger LANGUAGE plpgsql AS"
                    " $$ BEGIN new.at_most = round(new.at_most); RETURN new; END $$"
                )
                connection.exec_driver_sql(
                    "CREATE TRIGGER t BEFORE INSERT ON capabilities"
                    " FOR EACH ROW EXECUTE FUNCTION round_it()"
                )
            else:
                connection.exec_driver_sql(
                    "CREATE TRIGGER t AFTER INSERT ON capabilities BEGIN"
                    " UPDATE capabilities SET at_most = round(at_most); END"
                )
        with pytest.raises(QueueUnavailable, match="'capabilities' arrived changed: 5 rows"):
            copy_database(source, target)
        assert rows(target, capability_table) == rows(target, item_table) == []


def test_row_that_is_refused_ends_the_copy_with_nothing(opened):
    """PostgreSQL has no NUL in texts; SQLite took it from another program."""
    with opened("sqlite") as source, opened("postgresql") as target:
        fill(source)
        with source.writing() as connection:
            connection.exec_driver_sql(
                "UPDATE item SET reasons = 'x' || char(0) WHERE id = 'item 3'"
            )
        with pytest.raises(QueueUnavailable, match="DataError"):
            copy_database(source, target)
        assert rows(target, item_table) == []


def test_progress_tells_every_table_and_every_batch(opened):
    told = []
    with opened("sqlite") as source, opened("sqlite") as target:
        fill(source)
        copy_database(source, target, progress=lambda *step: told.append(step))
    assert [step for step in told if step[0] == "event"] == [
        ("event", 1000, NUM_EVENTS),
        ("event", NUM_EVENTS, NUM_EVENTS),
    ]
    assert {name for name, done, total in told if done == total} == metadata.tables.keys()


def test_source_is_copied_as_it_is_at_one_moment(opened):
    """A row that comes meanwhile would else refer to one that was not there yet."""
    with opened("sqlite") as source, opened("postgresql") as target:
        fill(source)

        def add(name: str, _done: int, _total: int) -> None:
            if name == "item":
                with source.writing() as connection:
                    connection.execute(insert(item_table), item(99, "late"))
                    event = {"item_id": "item 99", "at": 0, "actor": "a", "kind": "k"}
                    connection.execute(insert(event_table), event | {"detail_json": {}})

        copied = {
            table.name: table.num_rows for table in copy_database(source, target, progress=add)
        }
        assert (copied["item"], copied["event"]) == (len(TEXTS), NUM_EVENTS)


def test_missing_json_is_never_written_as_a_null_of_json():
    """Both are read as None; a copy, which reads and writes, could not tell them apart."""
    columns = [column for table in metadata.sorted_tables for column in table.columns]
    nullable = [each for each in columns if isinstance(each.type, JSON) and each.nullable]
    assert [each for each in nullable if not each.type.none_as_null] == []


def test_sequences_are_set_on_postgresql(opened):
    """Also where the table's highest id is not its last."""
    with opened("sqlite") as source, opened("postgresql") as target:
        fill(source)
        with source.writing() as connection:
            event = {"item_id": "item 0", "at": 0, "actor": "a", "kind": "k", "detail_json": {}}
            connection.execute(insert(event_table), event | {"id": 10_000})
            connection.execute(insert(event_table), event | {"id": 5_000})
        copy_database(source, target)
        name = target.url.rpartition("/")[2]
        assert server().execute("SELECT last_value FROM event_id_seq", name) == [(10_000,)]
        with target.reading() as connection:
            assert connection.scalar(select(func.max(event_table.c.id))) == 10_000
