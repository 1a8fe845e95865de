"""Secrets that the configuration names: read from an environment variable or from a file."""

from __future__ import annotations

import os
from pathlib import Path

from weighbridge.errors import KeyMissing


def read_secret(where: str, key: str, source: str | Path, hint: str = "") -> str:
    """A secret without the blanks around it; never empty.

    Args:
        where: the section of the configuration that names it.
        key: of that section.
        source: the name of an environment variable, or a file.
        hint: what to do where there is none.

    Raises:
        KeyMissing: the variable is not set, or the file cannot be read or is empty.
    """
    if isinstance(source, Path):
        problem = f"{source} is empty"
        try:
            secret = source.expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeError, RuntimeError) as error:  # the last: whose home is `~name`?
            why = getattr(error, "strerror", None) or type(error).__name__
            problem = f"{source} cannot be read: {why}"
            raise KeyMissing(where, key, problem, hint) from None
    else:
        problem = f"the environment variable {source} is not set"
        secret = os.environ.get(source, "").strip()
    if not secret:
        raise KeyMissing(where, key, problem, hint)
    return secret
