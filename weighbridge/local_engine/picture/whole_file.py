"""A file that appears whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, over what is there, so that nobody ever sees it half written.

    Raises:
        OSError: it cannot be written; what was there is still there.
    """
    if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
        path.write_bytes(data)
        return
    aside = _aside(path)
    try:
        aside.write_bytes(data)
        os.replace(aside, path.resolve())  # through a link, to what it stands for
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """See that `write_whole` could write a file now, and leave nothing behind.

    Raises:
        OSError: it could not.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.exists() and not path.is_file():
        return
    aside = _aside(path)
    try:
        aside.touch(exist_ok=False)
    finally:
        aside.unlink(missing_ok=True)


def _aside(path: Path) -> Path:
    """A new name in the folder of a file, or of what a link stands for."""
    target = path.resolve()
    return target.with_name(f".{target.name[:64]}.{secrets.token_hex(4)}")
