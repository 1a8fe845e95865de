from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from databases import KINDS, fresh_url, server

from weighbridge.store.database import Database


@pytest.fixture
def database(any_database: Database) -> Database:
    return any_database


@pytest.fixture(scope="module", params=KINDS)
def shared_database(request, tmp_path_factory) -> Iterator[Database]:
    """One of each kind for all examples of a law, which empty it."""
    if request.param == "sqlite":
        with closing(Database("sqlite://")) as database:
            yield database
        return
    with (
        fresh_url(request.param, tmp_path_factory.mktemp("shared")) as url,
        closing(Database(url)) as database,
    ):
        yield database


@pytest.fixture
def fresh_urls(database_kind, tmp_path) -> Iterator[Iterator[str]]:
    """Of databases that nobody has opened, so that they have no schema yet."""
    if database_kind == "sqlite":
        yield (f"sqlite:///{tmp_path}/{number}.db" for number in range(20))
        return
    names = [server().create() for _ in range(3)]
    yield (server().url(name) for name in names)
    for name in names:
        server().drop(name)
