from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from databases import KINDS, fresh_url
from queue_entries import FakeClock, emptied

from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session", params=KINDS)
def lasting_database(request, tmp_path_factory) -> Iterator[Database]:
    """One database of each kind for all tests: emptying it is quicker than making it."""
    if request.param == "sqlite":
        with closing(Database("sqlite://")) as database:
            yield database
        return
    with (
        fresh_url(request.param, tmp_path_factory.mktemp("databases")) as url,
        closing(Database(url)) as database,
    ):
        yield database


@pytest.fixture
def database(lasting_database: Database) -> Database:
    """An empty database; whoever asks for it runs once on each kind."""
    return emptied(lasting_database)


@pytest.fixture
def queue(database: Database, clock: FakeClock) -> ReviewQueue:
    """Over an empty database, once on each kind. Not to be closed: the database is used again."""
    return ReviewQueue(database, clock=clock)
