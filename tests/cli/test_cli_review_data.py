"""What leaves the queue from a terminal: exports, removals, copies, webhooks."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from webhook_receiver import SECRET, receiving

FORMULA = "=HYPERLINK(1)"


@pytest.fixture
def item(cli) -> str:
    """A settled item."""
    ticket = {"id": "t1", "subject": FORMULA, "body": "canary-text"}
    cli("triage", "--json", "--format", "jsonl", stdin=json.dumps(ticket).encode())
    item = cli("review", "show", "--json").lines[0]["id"]
    cli("review", "answer", item, "category=bug", "--as", "ann", "--note", "canary-note")
    return item


def configure(home: Path, url: str, *more: str) -> None:
    lines = ["[[review.webhook]]", 'name = "desk"', f'url = "{url}"', 'secret_env = "HOOK_SECRET"']
    path = home / "weighbridge.toml"
    path.write_text("\n".join([path.read_text(), *lines, "allow_private = true", *more]) + "\n")


def test_export_goes_to_standard_output_or_replaces_a_file(cli, item, home):
    lines = cli("review", "export", "--events").lines
    assert [line["id"] for line in lines] == [item]
    assert lines[0]["events"][-1]["kind"] == "settled"
    (home / "out.jsonl").write_text("old")
    ran = cli("review", "export", "--output", "out.jsonl", "--state", "done")
    assert (ran.code, ran.out, ran.err) == (0, "", "out.jsonl: 1 items\n")
    assert json.loads((home / "out.jsonl").read_text())["ticket"]["body"] == "canary-text"
    assert (home / "out.jsonl").stat().st_mode & 0o077 == 0
    ran = cli("review", "export", "--output", "out.jsonl", "--reason", "nothing", "--json")
    assert ran.lines == [{"path": "out.jsonl", "items": 0}]
    assert sorted(path.name for path in home.glob(".out*")) == []


def test_guarded_csv_is_not_taken_for_tickets(cli, item, home):
    """A plain one is: what it holds is what customers wrote."""
    cli("review", "export", "--format", "csv", "--output", "safe.csv")
    cli("review", "export", "--format", "csv", "--no-guard", "--output", "plain.csv")
    safe, plain = (
        next(csv.DictReader(io.StringIO((home / name).read_text())))
        for name in ("safe.csv", "plain.csv")
    )
    assert (safe["subject"], plain["subject"]) == (f"'{FORMULA}", FORMULA)
    refused = cli("triage", "safe.csv", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert "export it as JSON Lines" in refused.err
    assert cli("triage", "plain.csv", "--json").lines[0]["status"] in ("accepted", "review")


def test_data_set_goes_into_a_new_folder(cli, item, home):
    ran = cli("review", "export", "--format", "dataset", "--output", "set", "--json")
    assert ran.lines == [{"path": "set", "rows": 1, "audited_rows": 0, "items_left_out": 0}]
    row = json.loads((home / "set" / "train.jsonl").read_text())
    assert (row["text"], row["label"]) == (f"{FORMULA}\n\ncanary-text", "bug")
    again = cli("review", "export", "--format", "dataset", "--output", "set")
    assert again.code == 2
    assert "take a new folder" in again.err
    nowhere = cli("review", "export", "--output", "no/such/folder/x")
    assert nowhere.code == 2


def test_texts_are_purged_by_age_or_by_the_configuration(cli, item, monkeypatch):
    assert "say how old" in cli("review", "purge").err
    assert cli("review", "purge", "--older-than", "1d", "--json").lines[0]["items"] == 0
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__RETENTION", "1ms")
    ran = cli("review", "purge")
    assert (ran.code, ran.out) == (0, "Items whose texts are gone: 1.\n")
    shown = cli("review", "show", item)
    assert "canary" not in shown.out
    assert "Its text was removed on" in shown.out
    assert "category=bug" in shown.out


def test_ticket_is_erased_by_its_own_id(cli, item):
    ran = cli("review", "erase", "t1", "--as", "ann")
    assert (ran.code, ran.out) == (
        0,
        "Items whose texts are gone: 1; of these waited and are cancelled: 0.\n",
    )
    assert "canary" not in cli("review", "export", "--events").out
    nothing = cli("review", "erase", "\x1bt9", "--json")
    assert (nothing.code, nothing.lines) == (1, [{"items": 0, "items_cancelled": 0}])
    assert "\x1b" not in nothing.err


def test_database_is_copied_whole_into_an_empty_one(cli, item, home, monkeypatch):
    """A URL may come from a variable: whoever lists processes sees arguments."""
    source = json.loads(json.dumps(cli("review", "export").lines))
    monkeypatch.setenv("NEW_DATABASE", f"sqlite:///{home}/new.db")
    old = next(path for path in home.rglob("*.db") if path.name != "new.db")
    ran = cli("review", "copy", f"sqlite:///{old}", "$NEW_DATABASE", "--json")
    counts = {table["table"]: table["rows"] for table in ran.lines[0]}
    assert (counts["item"], counts["verdict"]) == (1, 1)
    with closing(sqlite3.connect(home / "new.db")) as new:
        assert new.execute("SELECT id FROM item").fetchall() == [(source[0]["id"],)]
    again = cli("review", "copy", f"sqlite:///{old}", "$NEW_DATABASE")
    assert again.code == 1
    assert "not empty" in again.err
    assert cli("review", "copy", f"sqlite:///{old}", "$NOT_SET").code == 2


def test_copy_of_what_is_not_there_is_refused_and_makes_nothing(cli, home):
    """A slip in the path must not say that all of it was copied."""
    missing = cli("review", "copy", "sqlite:///slip.db", "sqlite:///new.db")
    assert missing.code == 1
    assert "there is no such file" in missing.err
    assert not (home / "slip.db").exists()
    assert not (home / "new.db").exists()
    (home / "empty.db").touch()
    empty = cli("review", "copy", "sqlite:///empty.db", "sqlite:///new.db", "--json")
    assert (empty.code, empty.out) == (1, "")
    assert "nothing was copied" in empty.err


def test_webhook_is_told_what_happened_and_what_it_missed_is_listed(cli, home, monkeypatch):
    """First it fails, then it is asked again; nobody sees its address or what it says."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with receiving(500, 200) as receiver:
        configure(home, receiver.url, 'events = ["settled"]', "include_answer = true")
        cli("triage", "--json", stdin=b"I was charged twice.")
        item = cli("review", "show", "--json").lines[0]["id"]
        assert cli("review", "outbox").out == "Nothing is left to tell.\n"
        cli("review", "answer", item, "category=bug", "--as", "ann")
        failed = cli("review", "deliver", "--once")
        assert (failed.code, failed.out[:11]) == (1, "0 delivered")
        (waiting,) = cli("review", "outbox", "--json").lines
        assert (waiting["webhook"], waiting["last_error"]) == ("desk", "status 500")
        listed = cli("review", "outbox")
        assert "status 500" in listed.out
        assert "desk: 1 to tell, 0 given up, 0 told" in listed.err
        assert "canary" not in listed.out + listed.err + failed.out + failed.err
        assert cli("review", "outbox", "--retry", "--json").lines == [{"retried": 0}]
        with closing(sqlite3.connect(next(home.rglob("*.db")))) as database:
            database.execute("UPDATE outbox SET next_at = 0")
            database.commit()
        told = cli("review", "deliver", "--once", "--json")
        assert (told.code, told.lines) == (0, [{"delivered": 1, "failed": 0, "parked": 0}])
    assert receiver.events[-1]["data"]["answer"] == {"category": "bug"}
    assert receiver.events[-1]["data"]["item_id"] == item


def test_webhook_that_cannot_be_used_is_named_with_what_to_do(cli, home, monkeypatch):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    assert "no webhook is configured" in cli("review", "deliver", "--once").err
    path = home / "weighbridge.toml"
    plain = path.read_text()
    configure(home, "https://hooks.example/")
    missing = cli("review", "deliver", "--once")
    assert missing.code == 2
    assert (
        "[[review.webhook]] desk: secret_env: the environment variable HOOK_SECRET" in missing.err
    )
    monkeypatch.setenv("HOOK_SECRET", "whsec_!!canary!!")
    unusable = cli("review", "deliver", "--once")
    assert unusable.code == 2
    assert "canary" not in unusable.err
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    path.write_text(plain)
    configure(home, "http://hooks.example/canary")
    unsafe = cli("review", "deliver", "--once")
    assert unsafe.code == 2
    assert "allow_http = true" in unsafe.err
    assert "canary" not in unsafe.err


def test_two_webhooks_of_one_name_are_refused_before_anything_is_queued(cli, home, monkeypatch):
    configure(home, "https://hooks.example/")
    configure(home, "https://hooks.example/")
    ran = cli("review", "list")
    assert ran.code == 2
    assert "two webhooks are called 'desk'" in ran.err
