"""The review page: people judge what a machine may not decide alone, in a browser or by JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weighbridge.service.app import create_app as create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    """`create_app`, with which FastAPI is loaded; the rest of the part can do without it."""
    if name in __all__:
        from weighbridge.service import app

        return getattr(app, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
