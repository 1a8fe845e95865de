from __future__ import annotations

import io
import json
import re
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from page_world import URL, Browser, World, entry
from rich.console import Console

from weighbridge.cli.measures import print_metrics
from weighbridge.decision import CalibrationKey, ReviewEntry, Weighing
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.looks import Wanted
from weighbridge.review.proving.measuring import measure
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.statistics.labels import NotYet
from weighbridge.service.assembly import assemble
from weighbridge.service.hosts import LOOPBACK_NAMES
from weighbridge.store.database import Database
from weighbridge.store.roles import Role

KEY = CalibrationKey(
    provider="the-provider",
    model="the-model",
    prompt="p",
    schema="s",
    field="category",
    source="exact",
)


@pytest.fixture
def root(world) -> Browser:
    return world.browser("root", Role.ADMIN)


def test_added_person_logs_in_with_what_was_given(world, root):
    form = {"name": "ada", "role": "reviewer", "password": "twelve signs"}
    assert root.post("/admin/people", form).status_code == 303
    entered = world.browser().post("/login", {"name": "ada", "password": "twelve signs"})
    assert entered.headers["location"] == "/"


@pytest.mark.parametrize(
    "form",
    [
        {"name": "root", "role": "viewer"},
        {"name": "a b", "role": "viewer"},
        {"name": "ada", "role": "emperor"},
        {"name": "ada", "role": "viewer", "password": "short"},
    ],
)
def test_person_that_cannot_be_is_refused_and_told_why(world, root, form):
    answer = root.post("/admin/people", form)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert [person.name for person in world.people.everybody()] == ["root"]


def test_changes_of_a_person_take_hold_at_once(world, root):
    ada = world.browser("ada")
    root.post("/admin/people/ada", {"action": "role", "role": "viewer"})
    assert ada.post("/next").status_code == 403
    root.post("/admin/people/ada", {"action": "disable"})
    assert ada.get("/").status_code == 303
    root.post("/admin/people/ada", {"action": "enable"})
    assert ada.get("/").status_code == 303  # their session ended with it
    assert world.browser("ada").get("/").status_code == 200


def test_nobody_locks_themselves_out(world, root):
    for form in ({"action": "disable"}, {"action": "role", "role": "viewer"}):
        assert root.post("/admin/people/root", form).status_code == 422
    assert root.get("/admin").status_code == 200


def test_new_password_ends_what_the_old_one_opened(world, root):
    ada = world.browser("ada")
    root.post("/admin/people/ada", {"action": "password", "password": "another password"})
    assert ada.get("/").status_code == 303


def test_token_is_shown_once_works_and_ends(world, root):
    world.browser("ada", Role.REVIEWER)
    made = root.post(
        "/admin/tokens", {"name": "ada", "scope": "viewer", "days": "1", "label": "ci"}
    )
    secret = re.search(r"shown this once: <code>([^<]+)</code>", made.text)[1]
    program = Browser(world.app, {"authorization": f"Bearer {secret}"})
    assert program.get("/index.json").status_code == 200
    page = root.get("/admin").text
    assert "ci" in page
    assert secret not in page
    (token,) = world.credentials.all_of("token")
    root.post("/admin/tokens/revoke", {"id": token.id})
    assert program.get("/index.json").status_code == 401
    assert root.post("/admin/tokens/revoke", {"id": token.id}).status_code == 422


@pytest.mark.parametrize("credential_id", ["\0", "\ud800", "nothing"])
def test_token_that_is_none_cannot_be_ended(world, root, credential_id):
    """Whatever a program sends for one."""
    content, headers = json.dumps({"id": credential_id}), {"content-type": "application/json"}
    answer = root.send("POST", "/admin/tokens/revoke.json", content=content, headers=headers)
    assert answer.status_code == 422


@pytest.mark.parametrize("days", ["0", "-1", "", "nan", "inf", "1e9", "x"])
def test_token_lasts_a_time_that_makes_sense(world, root, days):
    form = {"name": "root", "scope": "viewer", "days": days}
    assert root.post("/admin/tokens", form).status_code == 422
    assert world.credentials.all_of("token") == []


@pytest.fixture
def whole():
    """Everything over one database, put together as the command does it."""
    with closing(Database("sqlite://")) as database:
        queue = ReviewQueue(database)
        parts = assemble(database, queue, audit_rate=0.5, hosts=LOOPBACK_NAMES, is_secure=False)
        browser = Browser(parts.app)
        key = parts.link_for("root", role=Role.ADMIN, lifetime_s=60)
        assert browser.post(f"{URL}/enter", {"key": key}).status_code == 303
        yield queue, browser


def weighed(key: str, confidence: float) -> ReviewEntry:
    made = entry(key, is_audit=True)
    weighing = Weighing(key=KEY, confidence=confidence, passed=confidence > 0.8)
    return ReviewEntry(
        dedupe_key=key,
        decision=made.decision,
        ticket=made.ticket,
        questions=made.questions,
        weighings={"category": weighing},
        toss=made.toss,
    )


def test_statistics_and_thresholds_show_what_was_measured(whole):
    """Six audits, one of them wrong: rates, a table of thresholds, and what is still missing."""
    queue, browser = whole
    for place in range(6):
        queue.enqueue(weighed(str(place), 0.7 + place / 20))
        item = queue.claim("root")
        values = {"category": "bug" if place else "billing"}
        queue.answer(item.id, reviewer="root", token=item.lease_token, values=values)
    told = browser.get("/statistics.json").json()["metrics"]
    assert told["fields"][0]["blind"]["num_errors"] == 1
    assert "17\xa0%" in browser.get("/statistics").text
    (key,) = browser.get("/thresholds.json").json()["keys"]
    assert [row["num_accepted"] for row in key["table"]] == [1, 2, 3, 4, 5, 6]
    assert key["table"][-1]["num_errors"] == 1
    page = browser.get("/thresholds").text
    assert "No certificate." in page
    assert "more audited labels needed" in page


def test_audit_that_was_opened_and_left_is_told_wherever_audits_are_counted(whole):
    """A certificate counts it as wrong, so whoever reads the numbers must see it."""
    queue, browser = whole
    for key in ("a", "b"):
        queue.enqueue(weighed(key, 0.9))
    assert measure(queue._database, audit_rate=0.5).keys[0].num_abandoned == 0
    item = queue.claim("root")
    queue.skip(item.id, reviewer="root", token=item.lease_token)
    (key,) = browser.get("/thresholds.json").json()["keys"]
    assert (key["num_open_audits"], key["num_abandoned"]) == (2, 1)
    assert "2 not judged yet (of these 1 opened and left" in browser.get("/thresholds").text
    printed = io.StringIO()
    print_metrics(Console(file=printed, width=100), measure(queue._database, audit_rate=0.5))
    assert "2 audits wait for a person; 1 of these opened and left" in printed.getvalue()


@pytest.mark.parametrize(("drift", "word"), [(0.06, "steady"), (0.11, "look"), (0.31, "act")])
def test_drift_is_told_with_what_it_calls_for(whole, drift, word):
    """A bare number says nothing to whoever does not know its convention."""
    queue, _ = whole
    queue.enqueue(weighed("a", 0.7))
    metrics = measure(queue._database, audit_rate=0.5)
    assert isinstance(metrics.keys[0].drift, NotYet)
    metrics = replace(metrics, keys=(replace(metrics.keys[0], drift=drift),))
    with World(measure=lambda: metrics) as world:
        page = world.browser("root", Role.ADMIN).get("/thresholds").text
    printed = io.StringIO()
    print_metrics(Console(file=printed, width=100), metrics)
    assert f"<dd>{drift:.3f} ({word})</dd>" in page
    assert f"drift {drift:.2f} ({word})" in printed.getvalue()


def test_certificate_is_shown_with_what_it_promises(whole):
    """A hundred right audits prove five percent, and the page says so."""
    queue, browser = whole
    for place in range(100):
        queue.enqueue(weighed(str(place), 0.95))
        item = queue.claim("root")
        bug = {"category": "bug"}
        queue.answer(item.id, reviewer="root", token=item.lease_token, values=bug)
    guarantees = Guarantees(queue._database, audit_rate=0.5)
    guarantees.certify(KEY, Wanted(risk=0.05, confidence=0.9))
    page = browser.get("/thresholds").text
    assert "at most 5.0\xa0% are wrong, with confidence 90\xa0%" in page
    assert "No certificate." not in page


def test_pages_of_numbers_are_there_without_any(whole, world):
    """Of a queue that nobody has used, and of an application that was given none."""
    _, browser = whole
    assert "No verdicts yet." in browser.get("/statistics").text
    assert "No answer was weighed yet." in browser.get("/thresholds").text
    assert "started without statistics" in world.browser("ada").get("/statistics").text


def test_texts_go_and_verdicts_stay(whole):
    """By age, and of one ticket by its id."""
    queue, browser = whole
    old, one = queue.enqueue(entry("old")), queue.enqueue(entry("one"))
    item = queue.claim("root", item_id=old)
    queue.answer(old, reviewer="root", token=item.lease_token, values={"category": "bug"})
    assert browser.post("/admin/purge.json", {"days": "1"}).json() == {"num_erased": 0}
    assert browser.post("/admin/purge.json", {"days": "0"}).json() == {"num_erased": 1}
    assert browser.post("/admin/erase.json", {"ticket_id": "ticket-one"}).json() == {
        "num_erased": 1
    }
    for item_id in (old, one):
        page = browser.get(f"/items/{item_id}").text
        assert "Text of" not in page
        assert "The text was erased" in page
    assert queue.get(old).resolution == {"category": "bug"}
    assert browser.post("/admin/purge", {"days": "x"}).status_code == 422


def test_link_keeps_the_role_of_whoever_is_known(whole):
    """Starting the page makes nobody an admin who was none."""
    with closing(Database("sqlite://")) as database:
        parts = assemble(
            database,
            ReviewQueue(database),
            audit_rate=0.0,
            hosts=LOOPBACK_NAMES,
            is_secure=False,
        )
        parts.people.add("ada", Role.REVIEWER)
        parts.link_for("ada", role=Role.ADMIN, lifetime_s=60)
        assert parts.people.get("ada").role is Role.REVIEWER
        assert not parts.has_logins()
        assert (
            timedelta(seconds=59)
            < (
                parts.credentials.all_of("link")[0].expires_at
                - parts.credentials.all_of("link")[0].created_at
            )
            <= timedelta(seconds=60)
        )
