"""Shared fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from loopback import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    """A misbehaving HTTP server on loopback."""
    with serving() as started:
        yield started
