"""A SQLite file that is deleted, moved or replaced while in use is noticed, and nothing else is."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weighbridge.errors import QueueUnavailable
from weighbridge.store.database import Database
from weighbridge.store.mounts import keeps_file_numbers
from weighbridge.store.whereabouts import Whereabouts

LOCAL = "/dev/sda1 / ext4 rw 0 0"
NETWORK = "server:/export / nfs4 rw 0 0"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "folder" / "weighbridge.db"


@pytest.fixture
def database(path):
    with closing(Database(f"sqlite:///{path}", busy_timeout_s=5.0)) as database:
        with database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x)")
        yield database


def add(database: Database, number: int, **options: bool) -> None:
    with database.writing(**options) as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (?)", (number,))


def stored(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [x for (x,) in connection.execute("SELECT x FROM t")]


def refuses(database: Database, problem: str, *, is_fleeting: bool = False) -> None:
    with pytest.raises(QueueUnavailable, match=problem) as refused:
        add(database, -1, is_fleeting=is_fleeting)
    assert refused.value.database == database.url


def another(path: Path) -> Path:
    """A good database beside it, such as a backup."""
    aside = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(aside)) as target:
        source.backup(target)
    return aside


@pytest.mark.parametrize("is_fleeting", [False, True])
def test_deleted_file_is_noticed_by_the_next_transaction_that_writes(database, path, is_fleeting):
    add(database, 1)
    path.unlink()
    refuses(database, "deleted or moved.*restart", is_fleeting=is_fleeting)


def test_deleted_file_does_not_come_back_empty(database, path):
    """A new connection would create it, and then nobody would see that anything is amiss."""
    path.unlink()
    with database.reading(), pytest.raises(QueueUnavailable, match="gone"), database.reading():
        pass
    assert not path.exists()


def test_deleted_folder_is_noticed(database, path):
    shutil.rmtree(path.parent)
    refuses(database, "gone")
    assert not path.parent.exists()


def test_file_that_was_moved_away_and_comes_back_goes_on_and_has_lost_nothing(database, path):
    add(database, 1)
    aside = path.rename(path.with_name("aside.db"))
    refuses(database, "moved")
    aside.rename(path)
    add(database, 2)
    database.close()
    assert stored(path) == [1, 2]


def test_file_that_takes_its_place_is_noticed_and_left_alone(database, path):
    """By reading too, where a new connection would show what is not in the queue."""
    add(database, 1)
    another(path).replace(path)
    refuses(database, "another file.*restart")
    with (
        database.reading(),
        pytest.raises(QueueUnavailable, match="another file"),
        database.reading(),
    ):
        pass
    with closing(Database(f"sqlite:///{path}")) as restarted:
        add(restarted, 2)
    assert stored(path) == [1, 2]


def test_deleted_and_made_anew_is_another_file(database, path):
    path.unlink()
    path.touch()
    refuses(database, "another file")


def test_backup_that_is_restored_in_place_is_the_same_file(database, path):
    """As `sqlite3 weighbridge.db '.restore backup.db'` does it, beside a process that writes."""
    add(database, 1)
    backup = another(path)
    add(database, 2)
    with closing(sqlite3.connect(backup)) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
    add(database, 3)
    assert stored(path) == [1, 3]


def test_other_name_of_the_same_file_is_the_same_file(database, path):
    """A hard link here; a bind mount leads to a file of the same number as well."""
    name = path.with_name("other.db")
    os.link(path, name)
    path.unlink()
    os.link(name, path)
    add(database, 1)


@contextmanager
def linked(path: Path, link: Path) -> Iterator[Database]:
    link.symlink_to(path)
    with closing(Database(f"sqlite:///{link}")) as database:
        with database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE t (x)")
        yield database


def _delete_file(path: Path, _link: Path) -> None:
    path.unlink()


def _delete_link(_path: Path, link: Path) -> None:
    link.unlink()


def _lead_link_elsewhere(path: Path, link: Path) -> None:
    backup = another(path)
    link.unlink()
    link.symlink_to(backup)


def _delete_log(path: Path, _link: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_delete_file, "gone"),
        (_delete_link, "gone"),
        (_lead_link_elsewhere, "another file"),
        (_delete_log, "-wal"),
    ],
)
def test_link_is_followed_anew_each_time(tmp_path, change, problem):
    path, link = tmp_path / "file.db", tmp_path / "link.db"
    path.touch()
    with linked(path, link) as database:
        add(database, 1)
        change(path, link)
        refuses(database, problem)


def test_link_that_is_made_anew_to_the_same_file_is_no_change(tmp_path):
    path, link = tmp_path / "file.db", tmp_path / "link.db"
    path.touch()
    with linked(path, link) as database:
        add(database, 1)
        link.unlink()
        link.symlink_to(path)
        add(database, 2)
    assert stored(path) == [1, 2]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_side_file_that_is_deleted_alone_is_noticed_and_nothing_is_lost(database, path, suffix):
    """What SQLite holds of it goes into the file when the last connection is closed."""
    add(database, 1)
    side_file = path.with_name(path.name + suffix)
    side_file.unlink()
    refuses(database, f"{suffix} was deleted.*without killing")
    database.close()
    assert stored(path) == [1]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_side_file_of_somebody_else_is_not_taken_for_ours(database, path, suffix):
    add(database, 1)
    side_file = path.with_name(path.name + suffix)
    with side_file.open("rb") as held:  # else a new file could get the old one's number
        side_file.unlink()
        side_file.write_bytes(held.read())
        refuses(database, suffix)


def test_side_files_that_sqlite_itself_removes_are_no_loss(database, path):
    """It does when the last connection is closed; the next one has its own."""
    for number in range(3):
        add(database, number)
        assert path.with_name(f"{path.name}-wal").exists()
        database.close()
        assert not path.with_name(f"{path.name}-wal").exists()
    add(database, 3)
    database.close()
    assert stored(path) == [0, 1, 2, 3]


def _read(database: Database, _path: Path) -> None:
    with database.reading(), database.reading() as connection:
        connection.exec_driver_sql("SELECT * FROM t").all()


def _other_process(_database: Database, path: Path) -> None:
    with closing(Database(f"sqlite:///{path}")) as other:
        add(other, 0)


def _restore(_database: Database, path: Path) -> None:
    with (
        closing(sqlite3.connect(another(path))) as source,
        closing(sqlite3.connect(path)) as target,
    ):
        source.backup(target)


ORDINARY: dict[str, Callable[[Database, Path], None]] = {
    "write": lambda database, _: add(database, 0),
    "write_fleeting": lambda database, _: add(database, 0, is_fleeting=True),
    "read": _read,
    "close": lambda database, _: database.close(),
    "other": _other_process,
    "scrub": lambda database, _: database.scrub(),
    "rewrite": lambda database, _: database.scrub(rewrite=True),
    "restore": _restore,
    "permissions": lambda _, path: path.chmod(0o640),
    "touch": lambda _, path: os.utime(path, (0, 0)),
}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(sorted(ORDINARY)), max_size=8))
def test_nothing_ordinary_raises_an_alarm(database, path, names):
    for name in names:
        ORDINARY[name](database, path)
        add(database, 0)


def test_memory_is_nowhere():
    with closing(Database("sqlite://")) as database, database.writing() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM item").scalar() == 0


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "a?b#c&d.db", "é 😀.db", "file:x.db"])
def test_file_may_have_any_name(tmp_path, name):
    """To SQLite it is given as a URI, in which some signs mean something."""
    with closing(Database(f"sqlite:///{tmp_path}/{name.replace('?', '%3F')}")) as database:
        assert {file.name for file in tmp_path.iterdir()} >= {name}
        (tmp_path / name).unlink()
        refuses(database, "gone")


def remembered(path: Path, table: str) -> Whereabouts:
    where = Whereabouts(path, "sqlite:///shown", table)
    where.check()  # of nothing, it says nothing
    path.touch()
    where.remember()
    where.check()
    return where


def test_numbers_that_may_change_by_themselves_prove_nothing(tmp_path):
    """Over a network another number is no alarm, and a name that leads nowhere is one."""
    path, number = tmp_path / "file.db", tmp_path / "other"
    number.touch()
    where, local = remembered(path, NETWORK), remembered(path, LOCAL)
    number.replace(path)
    where.check()
    with pytest.raises(QueueUnavailable, match="another file"):
        local.check()
    path.unlink()
    with pytest.raises(QueueUnavailable, match="gone"):
        where.check()


def test_file_system_that_fails_proves_nothing(tmp_path):
    path = tmp_path / "file.db"
    where = remembered(path, LOCAL)
    known = {"-wal": (1, 1)}
    for name in ("file.db", "file.db-wal", "file.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to(tmp_path / name)  # in a circle
    where.check()
    where.check_side_files(known)
    assert known == {"-wal": (1, 1)}


def test_first_file_is_the_one_that_counts(tmp_path):
    """A connection that is opened later does not change what the database is."""
    path, other = tmp_path / "file.db", tmp_path / "other"
    other.touch()
    where = remembered(path, LOCAL)
    other.replace(path)
    where.remember()
    with pytest.raises(QueueUnavailable, match="another file"):
        where.check()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux shows open files so")
def test_file_that_is_reached_and_has_no_name_any_more_is_gone(tmp_path):
    """As in a container that a single file is mounted into, and that is deleted outside."""
    path = tmp_path / "file.db"
    with path.open("wb") as file:
        where = Whereabouts(Path(f"/proc/self/fd/{file.fileno()}"), "shown", LOCAL)
        where.remember()
        where.check()
        path.unlink()
        with pytest.raises(QueueUnavailable, match="gone"):
            where.check()


@pytest.mark.parametrize(
    ("mount", "keeps"),
    [
        ("/dev/sda1 / ext4", True),
        ("/dev/sda1 / xfs", True),
        ("tmpfs / tmpfs", True),
        ("overlay / overlay", True),
        ("server:/x / nfs4", False),
        ("a@b: / fuse.sshfs", False),
        ("mergerfs / fuse.mergerfs", False),
        ("share / virtiofs", False),
        ("root / 9p", False),
        ("/dev/sda1 / vfat", False),
        ("", False),
    ],
)
def test_file_systems_whose_numbers_can_be_trusted(mount, keeps):
    """The others are taken for unknown, as is all where there is no table of mounts."""
    assert keeps_file_numbers(PurePosixPath("/folder/file.db"), f"{mount} rw 0 0") is keeps
