"""A file that appears whole or not at all."""

from __future__ import annotations

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
    target = path.resolve()  # through a link, to what it stands for
    aside = target.with_name(f".{target.name[:64]}.{secrets.token_hex(4)}")
    try:
        aside.write_bytes(data)
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
