"""From configuration to decision over real HTTP, with a real queue file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Server, serving

from weighbridge import Router, Triage
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database

CANARY = "sk-canary-0123456789"
TICKET = {"id": "t-1", "body": "I was charged twice, refund please"}


@pytest.fixture
def server() -> Iterator[Server]:
    """A misbehaving HTTP server on loopback."""
    with serving() as started:
        yield started


def settings(folder: Path, *providers: dict[str, Any], accept: bool = True) -> dict[str, Any]:
    return {
        "provider": list(providers),
        "router": {"deadline": "120s"},
        "gate": {"without_evidence": "accept" if accept else "review"},
        "review": {"database": f"sqlite:///{folder}/queue.db", "audit_rate": 0.0},
    }


def test_two_outages_then_a_valid_answer(server: Server, tmp_path: Path) -> None:
    with Router.from_config(settings(tmp_path, server.provider("flaky"))) as router:
        decision = router.triage(TICKET)
    assert (decision.status, decision.value) == (
        "accepted",
        Triage(category="billing", priority="high"),
    )
    assert server.hits["flaky"] == 3
    assert [attempt.status for attempt in decision.trail] == [503, 503, 200]


def test_answer_without_evidence_waits_in_the_queue_file(server: Server, tmp_path: Path) -> None:
    """And another process finds it there."""
    with Router.from_config(settings(tmp_path, server.provider("ok"), accept=False)) as router:
        decision = router.triage(TICKET)
    assert (decision.status, decision.reasons) == ("review", ("no_evidence",))
    assert decision.review_id is not None
    item = ReviewQueue(Database(f"sqlite:///{tmp_path}/queue.db")).get(decision.review_id)
    assert (item.ticket_id, item.decision["value"]) == (
        "t-1",
        {"category": "billing", "priority": "high"},
    )


@pytest.mark.parametrize(
    ("behaviour", "hits"),
    [("refuses", 1), ("hangs", 1), ("trickles", 1), ("prose", 2), ("down", 1)],
)
def test_provider_that_fails_is_followed_by_the_next(
    server: Server, tmp_path: Path, behaviour: str, hits: int
) -> None:
    chain = server.provider(behaviour, timeout="300ms"), server.provider("ok")
    with Router.from_config(settings(tmp_path, *chain)) as router:
        decision = router.triage(TICKET)
    assert (decision.status, decision.provider) == ("accepted", "ok")
    assert (server.hits[behaviour], server.hits["ok"]) == (hits, 1)


def test_key_goes_to_its_own_origin_even_when_sent_away(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect is not followed; each provider gets its own key or none."""
    monkeypatch.setenv("AWAY_KEY", CANARY)
    away = server.provider("away", api_key_env="AWAY_KEY")
    with serving() as other:
        server.other_port = other.port
        chain = settings(tmp_path, away, other.provider("prose"))
        with Router.from_config(chain) as router:
            decision = router.triage(TICKET)
        assert (other.hits["ok"], other.keys) == (0, {("prose", None)})
    assert server.keys == {("away", f"Bearer {CANARY}")}
    assert (decision.status, decision.value) == ("review", None)


def test_neither_key_nor_ticket_nor_answer_is_logged_or_shown(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Through the whole real stack, with everybody logging as much as they can."""
    monkeypatch.setenv("SOME_KEY", CANARY)
    caplog.set_level(logging.DEBUG)
    chain = [server.provider(name, api_key_env="SOME_KEY") for name in ("prose", "down", "ok")]
    with Router.from_config(settings(tmp_path, *chain, accept=False)) as router:
        decision = router.triage(TICKET)
        written = f"{caplog.text} {router!r} {router._providers!r} {decision.trail!r}"
    assert server.hits["ok"] == 1
    assert "httpcore" in caplog.text, "the lowest layer is listened to"
    for secret in (CANARY, "charged twice", "billing matter"):
        assert secret not in written
    stored = (tmp_path / "queue.db").read_bytes()
    assert CANARY.encode() not in stored


@pytest.mark.models
def test_local_engine_answers_when_all_others_fail(server: Server, tmp_path: Path) -> None:
    """Weighed by itself: it needs nobody's trust."""
    remote = [
        server.provider(behaviour, timeout="300ms")
        for behaviour in ("down", "refuses", "hangs", "prose")
    ]
    with Router.from_config(
        settings(tmp_path, *remote, {"kind": "local", "timeout": "100s"}, accept=False)
    ) as router:
        decision = router.triage(TICKET)
    assert (decision.status, decision.provider) == ("accepted", "local")
    assert decision.value.category == "billing"
    category = decision.fields["category"]
    assert category.source == "combined"
    assert sum(category.options.values()) == pytest.approx(1.0)
    assert category.mass is not None
    assert 0.0 < category.mass[0] < category.mass[1] <= 1.0
    assert [attempt.failure for attempt in decision.trail] == [
        "transient",
        "refusal",
        "transient",
        "invalid",
        "invalid",
        None,
    ]


@pytest.mark.models
def test_without_a_prior_the_model_claims_nothing(tmp_path: Path) -> None:
    """A 135M model's low mass says that it does not know the task."""
    chain = {"kind": "local", "prior": "off", "timeout": "100s"}
    with Router.from_config(settings(tmp_path, chain)) as router:
        decision = router.triage(TICKET)
    assert (decision.status, decision.reasons) == ("review", ("low_mass",))
