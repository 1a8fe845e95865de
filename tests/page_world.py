"""The page over a database in memory, with people in every role, and browsers without windows."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Self

import httpx

from weighbridge.decision import Decision, FieldEvidence, Question, Reason, ReviewEntry, Toss
from weighbridge.review.items import Item
from weighbridge.review.queue import ReviewQueue
from weighbridge.service import create_app
from weighbridge.store.credentials import Credentials
from weighbridge.store.database import Database
from weighbridge.store.login_throttle import LoginThrottle
from weighbridge.store.people import People
from weighbridge.store.roles import Role

CATEGORIES = ("billing", "bug", "how_to")
MASS = 0.0007
URL = "http://localhost:8710"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now_s


def entry(key: str = "a", *, is_audit: bool = False, **ticket: Any) -> ReviewEntry:
    """A ticket that asks for a category, and for a priority if one can tell."""
    decision = Decision(
        ticket_id=f"ticket-{key}",
        task="triage",
        status="review",
        value={"category": "bug", "priority": 2},
        fields={
            "category": FieldEvidence(
                value="bug",
                source="exact",
                probability=0.41,
                mass=(MASS, MASS),
                options={"billing": 0.39, "bug": 0.41, "how_to": 0.2},
            ),
            "priority": FieldEvidence(value=2, source="vendor", probability=0.5, required=False),
        },
        reasons=(Reason.AUDIT,) if is_audit else (Reason.LOW_MASS, Reason.LOW_PROBABILITY),
        provider="the-provider",
        model="the-model",
    )
    meanings = {"billing": "Charges and invoices", "bug": "It does not work"}
    return ReviewEntry(
        dedupe_key=key,
        decision=decision,
        ticket={
            "id": f"ticket-{key}",
            "subject": f"Subject {key}",
            "body": f"Text of {key}",
            "metadata": {},
            **ticket,
        },
        questions=(
            Question(field="category", options=CATEGORIES, descriptions=meanings, machine="bug"),
            Question(field="priority", options=(1, 2, 3), machine=2, required=False),
        ),
        toss=Toss(u=0.0, rate=0.1) if is_audit else None,
    )


class Browser:
    """Keeps cookies and follows nothing by itself; its requests come from our own pages."""

    def __init__(self, app: Any, headers: dict[str, str] | None = None) -> None:
        self._app = app
        self.cookies = httpx.Cookies()
        self.headers = {"sec-fetch-site": "same-origin"} if headers is None else headers

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.send("GET", path, **options)

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        return self.send("POST", path, data=data, **options)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._send(method, path, **options))

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self.headers, **options.pop("headers", {})}
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=URL, cookies=self.cookies
        ) as client:
            response = await client.request(method, path, headers=headers, **options)
            self.cookies = httpx.Cookies(client.cookies)
            return response


class World:
    """Everything behind the page, in one place.

    Args:
        needed: how many people judge each ticket.
        options: of `create_app`.
    """

    def __init__(self, *, needed: int = 1, **options: Any) -> None:
        self.clock = Clock()
        self.database = Database("sqlite://")
        self.queue = ReviewQueue(self.database, clock=self.clock, needed=needed)
        self.people = People(self.database, clock=self.clock)
        self.credentials = Credentials(self.database, clock=self.clock)
        self.app = create_app(
            queue=self.queue,
            people=self.people,
            credentials=self.credentials,
            throttle=LoginThrottle(self.database, clock=self.clock),
            **options,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.close()

    def browser(self, name: str = "", role: Role = Role.REVIEWER) -> Browser:
        """The browser of somebody who is logged in; of nobody without a name."""
        browser = Browser(self.app)
        if name:
            if self.people.get(name) is None:
                self.people.add(name, role)
            secret = self.credentials.issue("session", name, scope=Role.ADMIN, lifetime_s=3600)
            browser.cookies.set("weighbridge_session", secret)
        return browser

    def program(self, name: str, *, scope: Role) -> Browser:
        """A program with an API token."""
        secret = self.credentials.issue("token", name, scope=scope, lifetime_s=3600)
        return Browser(self.app, {"authorization": f"Bearer {secret}"})

    def add(self, *keys: str, **options: Any) -> list[str]:
        return [self.queue.enqueue(entry(key, **options)) for key in keys]

    def take(self, browser: Browser) -> tuple[str, dict[str, str]]:
        """Take the next ticket; its id, and the hidden fields of its form."""
        path = browser.post("/next").headers["location"]
        return path.removeprefix("/items/").partition("?")[0], hidden(browser.get(path).text)

    def item(self, item_id: str) -> Item:
        return self.queue.get(item_id)


def hidden(html: str) -> dict[str, str]:
    """The hidden fields of the form that holds the verdict."""
    form = html.partition('<form id="verdict"')[2].partition("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))
