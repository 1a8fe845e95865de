"""Names that load on first use: what they need may not be installed, and the error says so."""

from __future__ import annotations

import importlib
from typing import Any

from weighbridge.errors import ExtraMissing


def resolved(module: str, name: str) -> Any:
    """An attribute of a module of the engine.

    Raises:
        ExtraMissing: a package of the extra [local] is not installed.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"", "weighbridge"}:  # a mistake of ours is no missing extra
            raise
        raise ExtraMissing("local", package) from None
