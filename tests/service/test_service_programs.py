"""Programs at the review page: what they send as JSON, and what they and its log are told."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from databases import refuse_inserts

from weighbridge.store.queue_tables import event_table
from weighbridge.store.roles import Role

DOCS = (Path(__file__).parents[2] / "docs" / "review-page.md").read_text("utf-8")


def test_program_does_all_of_it_by_json(world):
    """Answers are plain values there, and a lease comes with its token."""
    world.browser("ada")
    program = world.program("ada", scope=Role.REVIEWER)
    world.add("a")
    lease = program.post("/next.json").json()["next"]
    sent = {
        "token": lease["token"],
        "idem_key": "1",
        "values": {"category": "bug", "priority": 3},
        "note": "by hand",
    }
    answer = program.send("POST", f"/items/{lease['item_id']}/answer.json", json=sent)
    assert answer.json() == {"answered": lease["item_id"], "next": None}
    (verdict,) = world.item(lease["item_id"]).verdicts
    assert (verdict.values, verdict.note) == ({"category": "bug", "priority": 3}, "by hand")
    told = program.get(f"/items/{lease['item_id']}.json").json()
    assert told["item"]["resolution"] == {"category": "bug", "priority": 3}
    assert json.dumps(told)


@pytest.mark.parametrize("off_s", [0, -3600, 3600, 400 * 86_400])
def test_time_that_is_left_is_told_by_the_clock_that_leases_go_by(world, off_s):
    """The database may be on a server whose clock is another than that of the page."""
    world.clock.now_s = time.time() + off_s
    world.browser("ada")
    (item_id,) = world.add("a")
    program = world.program("ada", scope=Role.REVIEWER)
    lease = program.post("/next.json").json()["next"]
    assert lease["left_s"] == pytest.approx(600, abs=1)
    world.clock.now_s += 200
    told = program.get(f"/items/{item_id}.json").json()
    assert told["left_s"] == pytest.approx(400, abs=1)


@pytest.mark.parametrize(
    ("path", "sent", "word"),
    [
        ("answer", {"kind": "unsure", "values": {"category": "bug"}}, "kind"),
        ("answer", {"answers": {"category": "bug"}}, "answers"),
        ("assign", {"name": "bob"}, "name"),
        ("cancel", {"because": "spam"}, "because"),
        ("reopen", {"people": 2}, "people"),
        ("skip", {"note": "later"}, "note"),
        ("note", {"note": "x"}, "note"),
        ("undo", {"key": "x"}, "key"),
    ],
)
def test_slip_of_a_program_is_told_and_does_nothing(world, path, sent, word):
    """Without the name that was meant, each of these would be another request than was wanted."""
    world.browser("root", Role.ADMIN)
    program = world.program("root", scope=Role.ADMIN)
    (item_id,) = world.add("a")
    token = program.post("/next.json").json()["next"]["token"]
    before = world.queue.history(item_id)
    if path in ("answer", "skip"):
        sent = {"token": token, **sent}
    told = program.send("POST", f"/items/{item_id}/{path}.json", json=sent)
    assert told.status_code == 422
    assert f"'{word}' is not known here; known: " in told.json()["text"]
    assert world.queue.history(item_id) == before


def test_database_that_fails_is_named_in_the_log_alone(world, caplog):
    """Whoever runs the page finds out why; whoever looks at it does not learn where it is."""
    ada = world.browser("ada")
    (item_id,) = world.add("a")
    with world.database.writing() as connection:
        refuse_inserts(connection, event_table)
    told = ada.post(f"/items/{item_id}/note", {"text": "canary"})
    assert told.status_code == 503
    assert "sqlite" not in told.text
    (line,) = [one.getMessage() for one in caplog.records if "review database" in one.getMessage()]
    assert "canary" not in line


def test_every_request_that_the_page_on_the_page_lists_is_taken(world):
    """Each address with its JSON; one that no longer fits the ticket is a conflict, not a slip."""
    listed = re.findall(r"^\| (`\w+\.json`.*?) \| `(\{.*?\})`", DOCS, re.MULTILINE)
    world.browser("root", Role.ADMIN)
    program = world.program("root", scope=Role.ADMIN)
    (item_id,) = world.add("a")
    requests = [
        (name, json.loads(sent))
        for names, sent in listed
        for name in re.findall(r"\w+\.json", names)
    ]
    assert len(requests) == 9
    for name, sent in requests:
        told = program.send("POST", f"/items/{item_id}/{name}", json=sent)
        assert told.status_code in (200, 409), (name, told.text)


def test_overlong_name_is_refused_with_how_long_it_may_be(world):
    root = world.browser("root", Role.ADMIN)
    (item_id,) = world.add("a")
    told = root.post(f"/items/{item_id}/assign.json", {"to": "n" * 201})
    assert told.status_code == 422
    assert "200 at most" in told.json()["text"]
    assert world.item(item_id).assignee is None
