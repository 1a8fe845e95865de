"""Whereabouts: whether a database file that is open still lies where it was opened.

SQLite goes on writing to a file that was deleted or moved away: nobody else sees what it writes,
and with the process it is gone. The same holds for the write-ahead log and its index beside it.
A `stat` of each tells, for some microseconds.

An alarm that is false would keep tickets from the queue, so only what is certain counts. A name
that leads nowhere is; an error of the file system is not. The numbers of files are compared where
a file keeps its number for life, and not over a network, in FUSE or behind a virtual machine, where
they may be made up anew. A file that is overwritten in place is the same file.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from weighbridge.errors import QueueUnavailable
from weighbridge.store.mounts import keeps_file_numbers

_SIDE_FILES: Final = ("-wal", "-shm")  # https://sqlite.org/walformat.html
_GONE: Final = (
    "its file is gone from there, deleted or moved while in use, and what is written now would be"
    " lost; put it or a backup back, then restart: a restart without it begins with an empty one"
)
_REPLACED: Final = (
    "another file has taken its place while it was in use, and what is written now would be lost;"
    " put the old one back, or restart to go on with the new one"
)
_SIDE_FILE_GONE: Final = (
    "its file {} was deleted or replaced while in use, and what is written now could be lost; stop"
    " all that use the database, without killing them: whoever is last saves what was in it"
)

_Number: TypeAlias = tuple[int, int]


class Whereabouts:
    """The place of one database file, and which file was there when it was opened.

    Args:
        path: absolute; links in it are followed anew each time.
        shown: the URL of the database in an error.
        table: as `mount_table` gives it.
    """

    def __init__(self, path: Path, shown: str, table: str) -> None:
        self._path, self._shown = str(path), shown
        # SQLite resolves links once, and puts its side files beside the file itself.
        real = path.resolve()
        self._side_files = [(suffix, f"{real}{suffix}") for suffix in _SIDE_FILES]
        self._has_numbers = keeps_file_numbers(real, table)
        self._number: _Number | None = None
        self._had_name = False

    def remember(self) -> None:
        """Take what lies there for the database; called once it is open, and counts once."""
        if self._number is None:
            with suppress(OSError):
                found = os.stat(self._path)
                self._number, self._had_name = (found.st_dev, found.st_ino), found.st_nlink > 0

    def check(self) -> None:
        """Do nothing if the database still lies there, or nothing is remembered.

        Raises:
            QueueUnavailable: it does not; with what to do about it.
        """
        if self._number is None:
            return
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            raise QueueUnavailable(self._shown, _GONE) from None
        except OSError:
            return
        if not self._has_numbers:
            return
        if (found.st_dev, found.st_ino) != self._number:
            raise QueueUnavailable(self._shown, _REPLACED)
        if self._had_name and found.st_nlink == 0:
            # A file that is mounted by itself, into a container, is seen when it is deleted too.
            raise QueueUnavailable(self._shown, _GONE)

    def check_side_files(self, known: MutableMapping[str, Any]) -> None:
        """Do nothing if a connection's side files are those that it had before.

        While it is open nobody else has a reason to remove them.

        Args:
            known: of this connection; it is kept here which they were. Called within a transaction,
                when SQLite has opened them.

        Raises:
            QueueUnavailable: they are not.
        """
        for suffix, path in self._side_files:
            before = known.get(suffix)
            try:
                found = os.stat(path)
            except FileNotFoundError:
                if before is not None:
                    raise QueueUnavailable(self._shown, _SIDE_FILE_GONE.format(suffix)) from None
                continue
            except OSError:
                continue
            if before is None:
                known[suffix] = found.st_dev, found.st_ino
            elif self._has_numbers and (found.st_dev, found.st_ino) != before:
                raise QueueUnavailable(self._shown, _SIDE_FILE_GONE.format(suffix))
