"""Judging and changing items from a terminal."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

_kept: dict[str, Any] = {}  # what the first test has made, which the others copy


@pytest.fixture
def items(cli, home) -> list[str]:
    """Three items that wait, in the order of work."""
    if _kept:
        _kept["path"](home).parent.mkdir(parents=True, exist_ok=True)
        _kept["path"](home).write_bytes(_kept["database"])
        return _kept["items"]
    lines = [{"id": f"t{number}", "body": f"Charged {number} times."} for number in range(3)]
    text = "\n".join(map(json.dumps, lines))
    cli("triage", "--json", "--format", "jsonl", stdin=text.encode())
    (path,) = home.rglob("*.db")
    name = path.relative_to(home)
    _kept["items"] = [line["id"] for line in cli("review", "show", "--json").lines]
    _kept["path"], _kept["database"] = lambda folder: folder / name, path.read_bytes()
    return _kept["items"]


@pytest.fixture
def disputed(cli, monkeypatch) -> str:
    """An item for two people, who disagree about it."""
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__OVERLAP", "2")
    cli("triage", "--json", stdin=b"I was charged twice.")
    (item,) = cli("review", "list", "--json").lines
    for name, category in (("ann", "bug"), ("bob", "billing")):
        answer = f"category={category}"
        assert cli("review", "answer", item["id"], answer, "--as", name).code == 0
    return item["id"]


def said(cli, *arguments: str, code: int = 0) -> str:
    ran = cli("review", *arguments)
    assert ran.code == code, ran.err
    return ran.out or ran.err


def test_item_is_skipped_brought_back_and_taken_again(cli, items):
    """Why nothing is offered is said, with the command that helps."""
    for _ in items:
        taken = cli("review", "next", "--as", "ann", "--json").lines[0]
        ran = cli("review", "skip", taken["id"], "--reason", "later", "--as", "ann", "--json")
        assert ran.lines[0]["slots"][0]["skips"] == 1
    nothing = cli("review", "next", "--as", "ann")
    assert (nothing.code, nothing.out) == (0, "")
    assert "3: you skipped them (weighbridge review unskip" in nothing.err
    assert cli("review", "unskip", "--as", "ann", "--json").lines == [{"unskipped": 3}]
    assert cli("review", "next", "--as", "ann").code == 0


def test_what_is_not_held_is_not_skipped(cli, items):
    assert "does not hold" in said(cli, "skip", items[0], "--as", "ann", code=2)
    assert "no item" in said(cli, "skip", "nothing", "--as", "ann", code=1)


def test_last_verdict_is_taken_back_without_its_id(cli, items):
    """The item is the reviewer's again, and the history keeps both."""
    said(cli, "answer", items[0], "category=bug", "--as", "ann")
    assert said(cli, "undo", "--as", "ann") == f"{items[0]}: taken back; it is yours again\n"
    kinds = [line["kind"] for line in cli("review", "history", items[0], "--json").lines]
    assert kinds == ["enqueued", "claimed", "answered", "settled", "undone"]
    assert "undone" in said(cli, "history", items[0])
    assert "nothing that could be taken back" in said(cli, "undo", "--as", "bob", code=2)
    assert "no verdict in this round" in said(cli, "undo", items[1], "--as", "ann", code=1)


@pytest.mark.parametrize("kind", ["unsure", "unclassifiable"])
def test_verdict_without_an_answer_is_one_too(cli, items, kind):
    assert said(cli, "answer", items[0], f"--{kind}") == f"{items[0]}: {kind}\n"
    state = cli("review", "show", items[0], "--json").lines[0]["state"]
    assert state == {"unsure": "needs_adjudication", "unclassifiable": "done"}[kind]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--unsure", "category=bug"],
        ["--unclassifiable", "--agree"],
        ["--unsure", "--unclassifiable"],
    ],
)
def test_verdict_that_contradicts_itself_is_a_usage_error(cli, items, arguments):
    said(cli, "answer", items[0], *arguments, code=2)
    assert cli("review", "show", items[0], "--json").lines[0]["verdicts"] == []


def test_what_is_judged_blind_shows_nothing_and_cannot_be_agreed_with(cli, disputed):
    """Neither in the table, nor as JSON, nor in the history, until it is settled."""
    shown, line = said(cli, "show", disputed), cli("review", "show", disputed, "--json").lines[0]
    assert "Judged blind" in shown
    assert "machine  " not in shown  # no column for what nobody may see
    assert "→" not in shown
    assert "ann:" not in shown
    assert (line["decision"], line["verdicts"], line["slots"]) == (None, [], [])
    assert {question["machine"] for question in line["questions"]} == {None}
    history = cli("review", "history", disputed, "--json").lines
    assert "answered" not in [event["kind"] for event in history]
    agreed = said(cli, "answer", disputed, "--agree", "--adjudicate", "--as", "eve", code=2)
    assert "without knowing what the machine said" in agreed


def test_disagreement_is_settled_by_whoever_asks_to_adjudicate(cli, disputed):
    ran = cli("review", "next", "--as", "eve")
    assert "1: they wait for an adjudicator (--adjudicate)" in ran.err
    assert "adjudicator" in said(cli, "answer", disputed, "category=bug", "--as", "eve", code=1)
    taken = cli("review", "next", "--adjudicate", "--as", "eve", "--json").lines[0]
    assert taken["id"] == disputed
    assert said(cli, "answer", disputed, "category=bug", "--as", "eve").endswith("answered\n")
    line = cli("review", "show", disputed, "--json").lines[0]
    assert (line["state"], line["resolution"]) == ("done", {"category": "bug"})
    assert "Settled: category=bug" in said(cli, "show", disputed)


def test_same_call_with_one_key_counts_once(cli, items):
    for _ in range(2):
        said(cli, "answer", items[0], "category=bug", "--key", "call-1", "--as", "ann")
    assert len(cli("review", "show", items[0], "--json").lines[0]["verdicts"]) == 1
    assert "already done" in said(cli, "answer", items[0], "--agree", "--as", "ann", code=1)


def test_item_is_noted_assigned_due_cancelled_and_reopened(cli, items):
    item = items[0]
    assert said(cli, "note", item, "see \u202e[b]", "--as", "ann") == f"{item}: noted\n"
    assert said(cli, "assign", item, "bob", "--as", "ann") == f"{item}: kept for bob\n"
    assert cli("review", "list", "--assignee", "bob", "--json").lines[0]["assignee"] == "bob"
    assert said(cli, "assign", item, "--nobody") == f"{item}: kept for nobody\n"
    due = said(cli, "due", item, "2030-01-02T03:04+01:00")
    assert due == f"{item}: due 2030-01-02 02:04 UTC\n"
    assert said(cli, "due", item, "--none") == f"{item}: not due at any time\n"
    assert said(cli, "cancel", item, "--reason", "spam") == f"{item}: cancelled\n"
    assert said(cli, "reopen", item, "--reason", "no spam") == f"{item}: reopened, round 2\n"
    assert "still open" in said(cli, "reopen", item, code=1)
    history = said(cli, "history", item)
    assert "\u202e" not in history
    assert "spam" in history
    (due,) = [line for line in history.splitlines() if "due_at=" in line]
    assert "due_at=2030-01-02 02:04" in due  # and not as it is stored
    assert "1970" not in history


@pytest.mark.parametrize(
    "arguments",
    [
        ["assign", "x"],
        ["assign", "x", "bob", "--nobody"],
        ["due", "x"],
        ["due", "x", "soon"],
        ["due", "x", "9999-12-31T23:59:59-12:00"],
        ["due", "x", "--none", "--not-before", "0001-01-01T00:00+14:00"],
        ["due", "x", "99999999999d"],
        ["list", "--until", "0001-01-01T00:00+14:00"],
        ["purge", "--older-than", "9999-12-31T23:59:59-12:00"],
        ["assign", "x", ""],
        ["assign", "x", "a\nb"],
        ["note", "x", " "],
        ["next", "--as", ""],
        ["next", "--as", " "],
        ["next", "--as", "a\nb"],
        ["answer", "x", "a=b", "--as", ""],
        ["skip", "x", "--as", ""],
        ["unskip", "--as", ""],
        ["undo", "--as", ""],
        ["bulk", "x", "--set", "a=b", "--yes", "--as", ""],
        ["cancel", "x", "--as", ""],
        ["reopen", "x", "--as", ""],
        ["erase", "x", "--as", ""],
        ["list", "--state", "opened"],
        ["list", "--since", "\x1b[31m"],
        ["export", "--json"],
        ["bulk", "--set", "a=b"],
        ["bulk", "x", "--text", "y", "--set", "a=b"],
        ["bulk", "x"],
    ],
)
def test_call_that_makes_no_sense_is_a_usage_error(cli, arguments):
    """An empty name mostly is a variable that nobody has set, and never means the login name."""
    ran = cli("review", *arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_duration_is_ahead_where_something_is_due_and_back_where_it_came(cli, items):
    """Nobody says by when something was due."""
    now = datetime.now(UTC)
    cli("review", "due", items[0], "4h", "--not-before", "90m")
    line = cli("review", "show", items[0], "--json").lines[0]
    due = datetime.fromisoformat(line["due_at"]) - now
    assert timedelta(hours=3) < due < timedelta(hours=5)
    assert items[0] not in said(cli, "next", "--as", "ann")
    assert len(cli("review", "list", "--since", "4h", "--json").lines) == 3


def test_names_and_texts_that_are_overlong_are_refused_in_a_line(cli, items):
    ran = cli("review", "next", "--as", "n" * 3000)
    assert ran.code == 1
    assert "200 at most" in ran.err
    assert len(ran.err) < 200


def test_suggested_answer_has_every_field_and_is_taken_as_it_stands(cli, items):
    """A field that is left open counts against the machine where it is audited."""
    shown = cli("review", "next", "--as", "ann").err
    command = next(line for line in shown.splitlines() if line.startswith("Answer:"))
    answered = cli(*shlex.split(command)[2:])
    assert answered.code == 0, answered.err
    line = cli("review", "list", "--state", "done", "--json").lines[0]
    assert set(line["resolution"]) == {question["field"] for question in line["questions"]}


def test_list_shows_what_meets_all_filters(cli, items):
    said(cli, "answer", items[1], "category=bug", "--as", "ann")
    ids = lambda *filters: {line["id"] for line in cli("review", "list", "--json", *filters).lines}  # noqa: E731
    assert ids() == set(items)
    assert ids("--state", "open", "--state", "needs_adjudication") == {items[0], items[2]}
    assert ids("--judged-by", "ann") == {items[1]}
    assert ids("--since", "1h", "--limit", "2") < set(items)
    assert ids("--until", "2020-01-01") == set()
    assert len(ids("--ticket", "t0")) == len(ids("--text", "Charged 0")) == 1
    assert "No item is like that." in said(cli, "list", "--reason", "nothing")
    assert items[0] in said(cli, "list")


def test_many_are_answered_at_once_each_by_a_verdict_of_its_own(cli, items):
    """Asked first, where nobody said --yes; some may be refused without harm to the others."""
    set_bug = ["--set", "category=bug", "--as", "ann"]
    assert "say --yes" in said(cli, "bulk", "--text", "Charged", *set_bug, code=2)
    cli("review", "answer", items[0], "category=billing", "--as", "bob")
    ran = cli("review", "bulk", *items, "--yes", *set_bug)
    assert (ran.code, ran.out) == (1, "2 answered, 1 refused.\n")
    assert "already done" in ran.err
    verdicts = [
        cli("review", "show", item, "--json").lines[0]["verdicts"][0]["reviewer"] for item in items
    ]
    assert verdicts == ["bob", "ann", "ann"]
    assert "No item is left" in said(cli, "bulk", "--text", "Charged", "--yes", *set_bug)


def test_many_are_answered_by_a_filter(cli, items):
    ran = cli("review", "bulk", "--text", "Charged", "--unclassifiable", "--yes", "--json")
    assert ran.code == 0
    assert sorted(line["id"] for line in ran.lines) == sorted(items)
    assert {line["state"] for line in ran.lines} == {"done"}


def test_what_is_judged_blind_is_not_answered_in_bulk(cli, monkeypatch):
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__OVERLAP", "2")
    cli("triage", "--json", stdin=b"I was charged twice.")
    ran = cli("review", "bulk", "--text", "charged", "--set", "category=bug", "--yes")
    assert "1 must be judged blind" in ran.err
    assert "No item is left" in ran.err


def test_queue_hides_what_the_configuration_says(cli, monkeypatch):
    monkeypatch.setenv("WEIGHBRIDGE_REDACTION__QUEUE", "true")
    cli("triage", "--json", stdin=b"Write to ann@mail.example, please.")
    (line,) = cli("review", "list", "--json").lines
    assert line["ticket"]["body"] == "Write to [EMAIL_1], please."
