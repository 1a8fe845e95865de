from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
from weighbridge.store.migrations import HEAD, REVISIONS
from weighbridge.store.schema import metadata


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/weighbridge.db"


def test_migrations_make_what_the_tables_say():
    """Alembic, asked to compare the two, finds nothing to do."""
    with closing(Database("sqlite://")) as database, database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_migrated_and_created_schema_have_the_same_checks():
    """Alembic does not compare CHECK constraints, nor the conditions of indexes."""

    def schema(connection):
        found = connection.exec_driver_sql(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
        )
        return {name: sorted(sql.replace(",", "").split()) for name, sql in found}

    created = create_engine("sqlite://")
    metadata.create_all(created)
    with (
        closing(Database("sqlite://")) as database,
        database.reading() as migrated,
        created.connect() as connection,
    ):
        assert schema(migrated) == schema(connection)
    created.dispose()


def test_list_of_revisions_is_that_of_the_scripts():
    """Opening compares with this list, so that it need not import Alembic."""
    config = Config()
    config.set_main_option("script_location", "weighbridge.store:migrations")
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in scripts.walk_revisions()] == [*reversed(REVISIONS)]
    assert scripts.get_heads() == [HEAD]


def test_current_database_opens_without_alembic(url):
    Database(url).close()
    script = (
        "import sys; from weighbridge.store.database import Database; Database(sys.argv[1]);"
        " sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script, url], check=False).returncode == 0


def test_reopening_keeps_the_data(url):
    database = Database(url)
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE kept (x)")
    database.close()
    with closing(Database(url)) as database, database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM kept").scalar() == 0


def test_newer_database_is_refused_untouched(url):
    database = Database(url)
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    for _ in range(2):
        with pytest.raises(QueueUnavailable, match=r"'9999'.*newer weighbridge"):
            Database(url)
