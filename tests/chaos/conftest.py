from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

pytest.register_assert_rewrite("scene")

from scene import Met, Scene, meet  # noqa: E402 - only now: its assertions explain themselves
from servers import Market  # noqa: E402 - stands with the line above


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """An empty stage: vendors are added, then asked through a real router."""
    with Market() as market:
        yield Scene(tmp_path, market)


@pytest.fixture(scope="module")
def met(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Future[Met]]:
    """What came of each of the module's `ROWS`."""
    return meet(request.module.ROWS, tmp_path_factory.mktemp("rows"))
