"""Login: who sits at this terminal."""

from __future__ import annotations

import getpass


def login_name() -> str | None:
    """The name of the login; None for a user who has none, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
