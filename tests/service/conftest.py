from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher
from page_world import World

from weighbridge.service import passwords


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch):
    """Argon2 takes its time on purpose; here it need not."""
    passwords._hash_of_nobody.cache_clear()
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: quick)
    yield
    passwords._hash_of_nobody.cache_clear()
