"""For all tests: new databases of both kinds, threads, Ctrl-C, and a loud word about skips."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache

import pytest
from databases import KINDS, NOT_TESTED, fresh_url, migrated_once, server

import weighbridge.local_engine  # noqa: F401 - before torch: it says how torch's threads wait
from weighbridge.store.database import Database


def pytest_configure() -> None:
    """Some tests press Ctrl-C, which all that a shell starts in the background ignores."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item) -> None:
    """Tiny models are all waiting where threads share a busy machine; real ones have all cores."""
    torch = sys.modules.get("torch")
    if torch is not None:
        all_threads = _all_threads()
        torch.set_num_threads(all_threads if item.get_closest_marker("models") else 1)


@pytest.fixture(autouse=True, scope="session")
def _data_folder(tmp_path_factory) -> Iterator[None]:
    """Whoever runs the tests keeps a review database: what needs none of its own gets another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True, scope="module")
def migrations() -> Iterator[None]:
    """Are made once for all. Where migrating is what is tested, a file has its own `migrations`."""
    with migrated_once():
        yield


@pytest.fixture(params=KINDS)
def database_kind(request) -> str:
    """Whoever asks for it runs once on each kind of database."""
    return request.param


@pytest.fixture
def database_url(database_kind, tmp_path) -> Iterator[str]:
    """Of a new database; other processes may open it too."""
    with fresh_url(database_kind, tmp_path) as url:
        yield url


@pytest.fixture
def any_database(database_url) -> Iterator[Database]:
    """A new database, waiting for locks hardly at all."""
    with closing(Database(database_url, busy_timeout_s=0.05)) as database:
        yield database


@pytest.fixture
def postgresql_url(tmp_path) -> Iterator[str]:
    """Of a new PostgreSQL database."""
    with fresh_url("postgresql", tmp_path) as url:
        yield url


@pytest.fixture
def bare_postgresql_url() -> Iterator[str]:
    """Of a new PostgreSQL database without any schema."""
    with server().database() as url:
        yield url


def pytest_terminal_summary(terminalreporter) -> None:
    """Say loudly what a skip would say softly."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    for reason in sorted(reason for reason in reasons if NOT_TESTED in reason):
        terminalreporter.write_line(reason, red=True, bold=True)


@cache
def _all_threads() -> int:
    """As many as torch takes by itself, or was told to by whoever started the tests."""
    return sys.modules["torch"].get_num_threads()
