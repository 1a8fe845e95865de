"""Debian's Chromium, and the page on a loopback port; without a browser, tests skip loudly."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from page_world import World

from weighbridge.store.roles import Role

NOT_TESTED = "NOT TESTED: the review page in a browser, which needs "


class Site:
    """The page, served; and what browsers told us about breaches of its policy."""

    def __init__(self, world: World, port: int) -> None:
        self.world = world
        self.url = f"http://localhost:{port}"
        self.reports: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/reports":
            self.reports.append((await receive()).get("body", b""))
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
            return
        await self.world.app(scope, receive, send)


class Watched:
    """A browser page on which nothing may happen that is not ours."""

    def __init__(self, context: Any, site: Site) -> None:
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self._site = site
        context.on("request", self._note)
        self.page = context.new_page()
        self.page.on("dialog", self._dismiss)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._hear)

    def check(self) -> None:
        """No dialog, no error, no breach of the policy, no request to anywhere else."""
        assert (self.dialogs, self.errors, self.elsewhere) == ([], [], [])
        assert self._site.reports == []

    def _note(self, request: Any) -> None:
        if not request.url.startswith(f"{self._site.url}/"):
            self.elsewhere.append(request.url)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _hear(self, message: Any) -> None:
        if "Content Security Policy" in message.text:
            self.errors.append(message.text)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """For one file: while it runs this thread has an event loop, and runs no coroutine else."""
    api = pytest.importorskip("playwright.sync_api", reason=f"{NOT_TESTED}playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip(f"{NOT_TESTED}Debian's package chromium")
    with api.sync_playwright() as playwright:
        # Root has no sandbox; everybody else keeps it.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def site() -> Iterator[Site]:
    with World(report_uri="/reports") as world, serving(world) as site:
        yield site


@contextmanager
def serving(world: World) -> Iterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0))
    site = Site(world, listener.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(site, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield site
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def visit(chromium: Any, site: Site) -> Iterator[Any]:
    """Opens a page as somebody; options are those of a browser context."""
    contexts = []

    def open_page(name: str = "ada", role: Role = Role.REVIEWER, **options: Any) -> Watched:
        context = chromium.new_context(base_url=site.url, **options)
        contexts.append(context)
        context.set_default_timeout(10_000)
        cookies = site.world.browser(name, role).cookies if name else {}
        context.add_cookies(
            [{"name": key, "value": value, "url": site.url} for key, value in cookies.items()]
        )
        return Watched(context, site)

    yield open_page
    for context in contexts:
        context.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say loudly what a skip would say softly."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)}
    for reason in sorted(reason for reason in reasons if NOT_TESTED in reason):
        terminalreporter.write_line(reason, red=True, bold=True)
