"""Versions of the schema: the way up, the way down, and what they end in."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing, nullcontext

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from databases import migrated_once, server
from sqlalchemy import create_engine, inspect

from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
from weighbridge.store.dialect import is_postgresql
from weighbridge.store.migrations import HEAD, REVISIONS
from weighbridge.store.schema import metadata

# What the versions up to 0004 could hold: every table, every column.
POPULATION = [
    """INSERT INTO item VALUES ('i1', 'k1', 't1', 'triage', '{"id": "t1", "body": "Help"}', '{}',
    '[]', '["low_mass"]', 'open', 0.5, 0, 1, NULL, NULL, NULL, 1000, NULL)""",
    """INSERT INTO item VALUES ('i2', 'k2', 't2', 'triage', '{"id": "t2", "body": "Help"}', '{}',
    '[]', '[]', 'leased', 0.5, 0, 2, 'ann', 'token', 5000, 1001, NULL)""",
    """INSERT INTO item VALUES ('i3', 'k3', 't3', 'triage', '{"id": "t3", "body": "Help"}', '{}',
    '[]', '[]', 'done', 0.9, 0, 3, NULL, NULL, NULL, 1002, 2000)""",
    """INSERT INTO verdict (item_id, reviewer, kind, values_json, machine_json, idem_key,
    lease_token, submitted_at, note) VALUES ('i3', 'ann', 'correct', '{"category": "bug"}',
    '{"category": "bug"}', 'form-1', 'token', 2000, '')""",
    """INSERT INTO event (item_id, at, actor, kind, detail_json) VALUES ('i3', 2000, 'ann',
    'answered', '{}')""",
    """INSERT INTO capabilities VALUES ('https://h/v1', 'm', 'seed', 'supported', 'probed', 1.5,
    NULL, '', '', 1000, NULL, '')""",
    "INSERT INTO spending VALUES ('day', 'day', 20000, 7, 9000000000)",
    "INSERT INTO cached_decision VALUES ('k', '{}', 1000, 2000)",
    "INSERT INTO cooldown VALUES ('p', 'cooling', 1000, 9000000000000000, 'mark')",
]
POPULATED = ("item", "verdict", "event", "capabilities", "spending", "cached_decision", "cooldown")


@pytest.fixture(autouse=True, scope="module")
def migrations() -> None:
    """Are made in earnest here."""


def alembic(connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "weighbridge.store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def schema(connection) -> dict[str, object]:
    """What Alembic does not compare: CHECK constraints, and the conditions of indexes."""
    if is_postgresql(connection):
        found = connection.exec_driver_sql(
            "SELECT conname, conrelid::regclass || ' ' || pg_get_constraintdef(oid)"
            " FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
            " UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        )
        pairs = [(name, text) for name, text in found if not name.startswith("alembic")]
        return {name: text for name, text in pairs if "_not_null" not in name}
    found = connection.exec_driver_sql(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
    )
    return {name: sorted(sql.replace(",", "").split()) for name, sql in found}


def counts(connection) -> dict[str, int]:
    return {
        name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar()
        for name in POPULATED
    }


@pytest.fixture
def bare_engine(database_kind, tmp_path):
    """Of a database without any schema."""
    if database_kind == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path}/bare.db")
        yield engine
        engine.dispose()
        return
    with server().database() as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


def test_migrations_make_what_the_tables_say(any_database):
    """Alembic, asked to compare the two, finds nothing to do."""
    with any_database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_migrated_and_created_schema_have_the_same_checks(any_database, bare_engine):
    """And the same indexes, under the same conditions."""
    metadata.create_all(bare_engine)
    with any_database.reading() as migrated, bare_engine.connect() as created:
        assert schema(migrated) == schema(created)


def test_populated_database_goes_up_and_down_without_losing_a_row(bare_engine):
    """From the version before teams to the newest, back, and up once more."""
    with bare_engine.begin() as connection:
        command.upgrade(alembic(connection), "0004")
        for statement in POPULATION:
            connection.exec_driver_sql(statement)
        before = counts(connection)
    for revision in (HEAD, "0004", HEAD):
        with bare_engine.begin() as connection:
            move = command.upgrade if revision == HEAD else command.downgrade
            move(alembic(connection), revision)
            assert counts(connection) == before
    with bare_engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_way_down_to_nothing_leaves_nothing(bare_engine):
    """Step by step, so that every version can be left for the one before it."""
    with bare_engine.begin() as connection:
        command.upgrade(alembic(connection), HEAD)
    for revision in [*reversed(REVISIONS[:-1]), "base"]:
        with bare_engine.begin() as connection:
            command.downgrade(alembic(connection), revision)
    assert inspect(bare_engine).get_table_names() == ["alembic_version"]


def test_list_of_revisions_is_that_of_the_scripts():
    """Opening compares with this list, so that it need not import Alembic."""
    scripts = ScriptDirectory.from_config(alembic(None))
    assert [script.revision for script in scripts.walk_revisions()] == [*reversed(REVISIONS)]
    assert scripts.get_heads() == [HEAD]


def test_current_database_opens_without_alembic(database_url):
    Database(database_url).close()
    script = (
        "import sys; from weighbridge.store.database import Database; Database(sys.argv[1]);"
        " sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script, database_url], check=False).returncode == 0


def test_reopening_keeps_the_data(database_url):
    database = Database(database_url)
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE kept (x INTEGER)")
    database.close()
    with closing(Database(database_url)) as database, database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM kept").scalar() == 0


def test_newer_database_is_refused_untouched(database_url):
    database = Database(database_url)
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    for _ in range(2):
        with pytest.raises(QueueUnavailable, match=r"'9999'.*newer weighbridge"):
            Database(database_url)


def test_what_other_tests_are_given_is_what_migrating_makes(tmp_path):
    """Down to the order of columns, and the version."""
    dumps = []
    for name, how in (("quick", migrated_once), ("slow", nullcontext)):
        with how():
            Database(f"sqlite:///{tmp_path}/{name}.db").close()
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as raw:
            dumps.append([*raw.iterdump()])
    assert dumps[0] == dumps[1]
    assert any("alembic_version" in line and HEAD in line for line in dumps[0])
