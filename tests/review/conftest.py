from __future__ import annotations

from collections.abc import Iterator

import pytest
from queue_entries import FakeClock

from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database() -> Database:
    return Database("sqlite://")


@pytest.fixture
def queue(database: Database, clock: FakeClock) -> Iterator[ReviewQueue]:
    queue = ReviewQueue(database, clock=clock)
    yield queue
    queue.close()
