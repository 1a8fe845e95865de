"""What a SQLite file needs beyond the contract of `Database`."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "folder" / "weighbridge.db"


@pytest.fixture
def database(path):
    database = Database(f"sqlite:///{path}", busy_timeout_s=0.05)
    yield database
    database.close()


def test_file_is_for_its_owner_alone(database, path):
    """The side files too: they hold the same tickets."""
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert len(modes) == 3
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_settings_hold_on_every_connection(database):
    with database.reading() as first, database.reading() as second:
        for connection in (first, second):
            pragmas = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "foreign_keys", "busy_timeout")
            ]
            assert pragmas == ["wal", 1, 50]


def test_writer_holds_the_lock_from_its_first_moment(database):
    """A second writer waits, and then says so; readers never wait."""
    with database.writing(), database.reading() as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM item").scalar() == 0
        with pytest.raises(QueueUnavailable, match="locked"), database.writing():
            pass


def test_memory_database_serves_threads_one_after_another():
    database = Database("sqlite:///:memory:")
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x)")

    def add() -> None:
        for number in range(50):
            with database.writing() as connection:
                connection.exec_driver_sql("INSERT INTO t VALUES (?)", (number,))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 200
    database.close()


def test_opening_waits_for_a_lock_that_sqlite_would_not_wait_for(tmp_path):
    """Turning the write-ahead log on fails at once while anybody else is writing."""
    path = tmp_path / "weighbridge.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(QueueUnavailable, match="locked"):
        Database(f"sqlite:///{path}", busy_timeout_s=0.05)
    release = threading.Timer(0.1, other.execute, ["COMMIT"])
    release.start()
    Database(f"sqlite:///{path}").close()
    release.join()
    other.close()


def test_relative_path_counts_from_the_folder_of_opening(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    database = Database("sqlite:///here.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with database.reading(), database.reading():
        assert (tmp_path / "here.db").exists()
    assert not (tmp_path / "elsewhere" / "here.db").exists()
    database.close()


def test_folder_and_other_files_are_no_database(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("These are notes, many of them, and no database. " * 40)
    for path in (tmp_path, text, text / "below.db"):
        with pytest.raises(QueueUnavailable) as refused:
            Database(f"sqlite:///{path}")
        assert str(path) in str(refused.value)
    assert text.read_text().startswith("These are notes")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="NOT TESTED: root may write into a read-only folder; run the tests as another user",
)
def test_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(QueueUnavailable, match="denied"):
            Database(f"sqlite:///{tmp_path}/weighbridge.db")
    finally:
        tmp_path.chmod(0o700)
