"""Scene: vendors, a real router in front of them, and what must hold however they behave.

After every question: an accepted answer, or an item in the queue on disk; within the deadline plus
one second; and when the router is closed, no socket is left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import Behaviour, Market, Vendor, answers

from weighbridge import Router, Triage
from weighbridge.decision import Decision
from weighbridge.review.queue import ReviewQueue
from weighbridge.schemas.task import Task
from weighbridge.store.database import Database

TICKET = "I was charged twice, refund please"
ANSWER = Triage(category="billing", priority="high")
GRACE_S = 1.0  # beyond the deadline, for a machine that is busy with other things


@dataclass
class Scene:
    """What is configured so far.

    Args:
        folder: of the queue's file.
        market: where the vendors are.
        deadline_s: of every ticket.
        queue_url: of the queue, where it is not a file in the folder.
        without_evidence: of the gate; "accept" lets answers count that nobody has weighed.
        providers: their settings, in the order in which they are asked.
    """

    folder: Path
    market: Market
    deadline_s: float = 4.0
    queue_url: str = ""
    without_evidence: str = "accept"
    providers: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, behaviour: Behaviour, **settings: Any) -> Vendor:
        """Another vendor at the end of the chain, speaking plain OpenAI unless told otherwise."""
        certificate = settings.pop("certificate", None)
        scheme = settings.pop("scheme", "http" if certificate is None else "https")
        vendor = self.market.open(behaviour, certificate=certificate)
        settings.setdefault("base_url", f"{scheme}://127.0.0.1:{vendor.port}/v1")
        self.add_url(name, **settings)
        return vendor

    def add_url(self, name: str, base_url: str, **settings: Any) -> None:
        """Another provider at an address where no vendor may be."""
        usual = {"name": name, "kind": "openai", "base_url": base_url, "model": "m"}
        self.providers.append({**usual, "timeout": "1s", **settings})

    @property
    def config(self) -> dict[str, Any]:
        return {
            "provider": self.providers,
            "router": {"deadline": f"{self.deadline_s}s"},
            "gate": {"without_evidence": self.without_evidence},
            "review": {"database": self.database, "audit_rate": 0.0},
        }

    @property
    def database(self) -> str:
        return self.queue_url or f"sqlite:///{self.folder}/queue.db"

    @contextmanager
    def router(self, **limits: Any) -> Iterator[Router]:
        """A router over all vendors; nothing is left open when the block ends."""
        config = self.config
        config["router"] |= limits
        with Router.from_config(config) as router:
            yield router
        self.check_nothing_is_open()

    def file(self) -> Path:
        """The configuration as a file, for a process of its own."""
        sections = [("[[provider]]", provider) for provider in self.providers]
        sections += [(f"[{key}]", self.config[key]) for key in ("router", "gate", "review")]
        path = self.folder / "weighbridge.toml"
        with path.open("w", encoding="utf-8") as file:
            for title, content in sections:
                lines = (f"{key} = {json.dumps(value)}" for key, value in content.items())
                file.write("\n".join([title, *lines, ""]))
        return path

    def ask(self, router: Router, ticket: Any = TICKET, *, task: Task | None = None) -> Decision:
        """One decision, in time and never lost."""
        started = time.monotonic()
        decision = router.ask(task or router.task, ticket)
        assert time.monotonic() - started < self.deadline_s + GRACE_S
        self.check_not_lost(decision)
        return decision

    def decide(self, **limits: Any) -> Decision:
        """The decision of a router that is asked once."""
        with self.router(**limits) as router:
            return self.ask(router)

    def check_not_lost(self, *decisions: Decision) -> None:
        """Accepted with an answer, or in the queue on disk with a reason."""
        with closing(ReviewQueue(Database(self.database))) as queue:
            for decision in decisions:
                if decision.status == "accepted":
                    assert decision.value is not None
                    assert decision.review_id is None
                else:
                    assert decision.reasons
                    assert decision.review_id is not None
                    assert queue.get(decision.review_id).ticket_id == decision.ticket_id

    def check_nothing_is_open(self) -> None:
        """No socket leads to a vendor any more; the kernel is given a moment."""
        assert settles(lambda: self.market.held_sockets() == 0)


def settles(holds: Callable[[], bool], within_s: float = 2.0) -> bool:
    """Whether something comes to hold soon."""
    until = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def failures(decision: Decision, name: str = "a") -> list[str | None]:
    """What became of each attempt at a provider, in order."""
    return [attempt.failure for attempt in decision.trail if attempt.provider == name]


@dataclass(frozen=True)
class Row:
    """A misbehaves, B is well: a line in a table of scenarios.

    Args:
        name: of the scenario.
        a: what A does to every request.
        failure: what becomes of each attempt at A; None is an answer.
        times: attempts at A.
        by: who gives the decision, "a" or "b".
        hits: requests that A reads; None: one for each attempt.
        settings: of A.
    """

    name: str
    a: Behaviour
    failure: str | None
    times: int = 1
    by: str = "b"
    hits: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def check(self, met: Met) -> None:
        """The right answer, from the right one, for no more requests than can help."""
        decision = met.decision
        assert (decision.status, decision.value) == ("accepted", ANSWER)
        assert decision.provider == self.by
        assert failures(decision) == [self.failure] * self.times
        hits = self.times if self.hits is None else self.hits
        assert (met.a.hits, met.b.hits) == (hits, int(self.by == "b"))


@dataclass(frozen=True)
class Met:
    """What came of a row."""

    decision: Decision
    a: Vendor
    b: Vendor


def meet(rows: Sequence[Row], folder: Path) -> dict[str, Future[Met]]:
    """Every row, each with a router and vendors of its own, several at once: most only wait."""

    def one(row: Row) -> Met:
        own = folder / row.name
        own.mkdir()
        with Market() as market:
            scene = Scene(own, market)
            a, b = scene.add("a", row.a, **row.settings), scene.add("b", answers())
            return Met(scene.decide(), a, b)

    with ThreadPoolExecutor(16) as pool:
        return {row.name: pool.submit(one, row) for row in rows}
