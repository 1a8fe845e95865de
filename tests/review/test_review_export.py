"""Exports: nothing is lost for machines, nothing is evaluated for people, audits stand apart."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_entries import emptied, make_audit, make_entry

from weighbridge.review.exporting import export
from weighbridge.review.exporting.csv_guard import MARK, guarded
from weighbridge.review.exporting.dataset import AUDITS, CARD, LABELS, TRAIN, write_dataset
from weighbridge.review.exporting.export import items, write_csv, write_jsonl
from weighbridge.review.items import State
from weighbridge.review.overviews import Search
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.retention import Retention
from weighbridge.store.database import Database

ALL = Search()


@pytest.fixture(scope="module")
def one() -> Iterator[Database]:
    """A database for all examples of a law: making one takes longer than using it."""
    with closing(Database("sqlite://")) as database:
        yield database


@pytest.fixture
def queue(database, clock) -> ReviewQueue:
    """Time goes on with each look at the clock, as it does in earnest."""

    def ticking() -> float:
        clock.advance(1.0)
        return clock()

    return ReviewQueue(database, clock=ticking)


def with_body(entry, body: str, subject: str = ""):
    return replace(entry, ticket={**entry.ticket, "body": body, "subject": subject})


def settle(queue: ReviewQueue, entry, category: str = "bug", **answer) -> str:
    item = queue.claim("ann", item_id=queue.enqueue(entry))
    given = {"values": {"category": category}, **answer}
    queue.answer(item.id, reviewer="ann", token=item.lease_token, **given)
    return item.id


def jsonl(queue: ReviewQueue, wanted: Search = ALL, **options) -> list[dict]:
    out = io.StringIO()
    num = write_jsonl(queue, wanted, out, **options)
    lines = [json.loads(line) for line in out.getvalue().split("\n")[:-1]]
    assert num == len(lines)
    assert out.getvalue().isascii()
    return lines


def table(queue: ReviewQueue, **options) -> list[dict[str, str]]:
    out = io.StringIO(newline="")
    write_csv(queue, ALL, out, **options)
    return list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))


@settings(max_examples=30, deadline=None)
@given(st.text(), st.text(), st.dictionaries(st.text(), st.text(), max_size=3))
def test_json_lines_lose_nothing(one, body, note, metadata):
    """Any text comes back as the queue holds it, control characters and all."""
    queue = ReviewQueue(emptied(one))
    entry = make_entry()
    entry = replace(entry, ticket={**entry.ticket, "body": body, "metadata": metadata})
    item_id = settle(queue, entry, note=note)
    item = queue.get(item_id)
    (line,) = jsonl(queue, with_events=True)
    assert line["ticket"] == {**entry.ticket, "body": body, "metadata": metadata}
    assert line["verdicts"][0]["note"] == item.verdicts[0].note
    assert line["decision"] == json.loads(json.dumps(item.decision))
    assert line["resolution"] == {"category": "bug"}
    assert [event["kind"] for event in line["events"]] == [e.kind for e in queue.history(item_id)]


def test_line_has_all_that_an_item_has(queue):
    """A field that is added to an item is missed here, and not by whoever relies on it."""
    settle(queue, make_entry())
    (line,) = jsonl(queue)
    item = queue.get(line["id"])
    assert set(line) == {*(set(item.__slots__) - {"lease"}), "is_blind"}
    assert set(line["verdicts"][0]) == set(item.verdicts[0].__slots__) - {"item_id"}
    assert set(line["slots"][0]) == set(item.slots[0].__slots__)


def test_items_are_read_in_pages_without_gap_or_repetition(queue, monkeypatch):
    """Also where several came in the same moment, and while new ones come."""
    monkeypatch.setattr(export, "PAGE", 3)
    ids = [queue.enqueue(make_entry(f"{number}")) for number in range(10)]
    told: list[int] = []
    found = []
    for item in items(queue, ALL, progress=told.append):
        found.append(item.id)
        queue.enqueue(make_entry(f"new {len(found)}"))
    assert sorted(found) == sorted(ids)
    assert told == [3, 6, 9, 10]


def test_filters_choose_what_is_written(queue):
    settle(queue, make_entry("a"))
    queue.enqueue(make_entry("b"))
    lines = jsonl(queue, Search(states=frozenset({State.DONE})))
    assert [line["ticket_id"] for line in lines] == ["ticket-a"]
    assert jsonl(queue, Search(reason="nothing")) == []


def test_csv_has_a_row_for_each_item_and_two_columns_for_each_field(queue):
    settle(queue, with_body(make_entry("a"), 'a, b\n"c"', "hello"), "billing", note="hm")
    queue.enqueue(make_entry("b"))
    new, old = table(queue)
    assert (old["ticket"], old["state"], old["outcome"]) == ("ticket-a", "done", "answer")
    assert (old["category (machine)"], old["category (people)"]) == ("bug", "billing")
    assert (old["priority (machine)"], old["priority (people)"]) == ("2", "")
    assert (old["reviewers"], old["notes"], old["subject"]) == ("ann", "hm", "hello")
    assert (new["state"], new["category (people)"], new["outcome"]) == ("open", "", "")


@settings(max_examples=30, deadline=None)
@given(st.text(), st.text())
def test_csv_is_guarded_and_says_what_was_changed(one, body, note):
    """Cells that were not changed are as they were; a file with no guard has no such column."""
    queue = ReviewQueue(emptied(one))
    settle(queue, with_body(make_entry(), body), note=note)
    (plain,), (safe,) = table(queue, is_guarded=False), table(queue)
    changed = safe.pop(MARK).split()
    assert MARK not in plain
    assert safe == {name: guarded(cell) for name, cell in plain.items()}
    assert set(changed) == {name for name in plain if safe[name] != plain[name]}


def test_every_cell_is_in_quotes(queue):
    out = io.StringIO(newline="")
    queue.enqueue(with_body(make_entry(), "plain"))
    write_csv(queue, ALL, out)
    for line in out.getvalue().split("\r\n")[:-1]:
        assert line.count('"') == 2 * (line.count('","') + 1)


def test_csv_does_not_tell_what_must_be_judged_blind(queue):
    """Of an audit that is settled it does."""
    queue.enqueue(make_audit("a"))
    settle(queue, make_audit("b"))
    settled, waiting = table(queue)
    assert (settled["category (machine)"], waiting["category (machine)"]) == ("bug", "")
    assert waiting["audit"] == "yes"


def test_data_set_has_audits_apart_and_says_what_it_left_out(queue, database, tmp_path, clock):
    settle(queue, with_body(make_entry("a"), "I was charged twice.", "Refund"), "billing")
    settle(
        queue, with_body(make_entry("b"), "It crashes."), values={"category": "bug", "priority": 3}
    )
    settle(queue, make_audit("c"))
    settle(queue, make_entry("d"), kind="unclassifiable")
    settle(queue, with_body(make_entry("e"), ""))
    queue.enqueue(make_entry("f"))
    settle(queue, make_entry("g"))
    Retention(database, clock=clock).erase("ticket-g", by="ann")
    folder = tmp_path / "set"
    contents = write_dataset(queue, ALL, folder)
    train, audits = (
        [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in (TRAIN, AUDITS)
    )
    assert [(row["text"], row["field"], row["label"]) for row in train] == [
        ("It crashes.", "category", "bug"),
        ("It crashes.", "priority", "3"),
        ("Refund\n\nI was charged twice.", "category", "billing"),
    ]
    assert [row["ticket_id"] for row in audits] == ["ticket-c"]
    assert (contents.num_train, contents.num_audits) == (3, 1)
    assert contents.left_out == {
        "the text was removed": 1,
        "no text, or no field with options": 1,
        "the ticket fits no label": 1,
    }
    labels = json.loads((folder / LABELS).read_text())
    assert set(labels["category"]) == {"billing", "bug", "how_to"}
    card = (folder / CARD).read_text()
    assert f"`{TRAIN}`: 3 rows" in card
    assert "the text was removed" in card
    assert stat.S_IMODE((folder / TRAIN).stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [folder]


def test_source_of_a_label_is_the_verdict_that_settled_it(database, clock, tmp_path):
    """Where others disagreed, that of who adjudicated."""
    queue = ReviewQueue(database, clock=clock, needed=2)
    item_id = queue.enqueue(make_entry())
    for reviewer, category in (("ann", "bug"), ("bob", "billing"), ("eve", "how_to")):
        item = queue.claim(reviewer, item_id=item_id, may_adjudicate=True)
        values = {"category": category}
        queue.answer(item_id, reviewer=reviewer, token=item.lease_token, values=values)
    write_dataset(queue, ALL, tmp_path / "set")
    (row,) = map(json.loads, (tmp_path / "set" / TRAIN).read_text().splitlines())
    last = queue.get(item_id).verdicts[-1]
    assert (row["label"], row["verdict"], row["kind"]) == ("how_to", last.id, "corrected")


def test_folder_that_holds_something_is_left_alone(queue, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine").write_text("x")
    with pytest.raises(FileExistsError):
        write_dataset(queue, ALL, tmp_path / "set")
    assert [path.name for path in tmp_path.rglob("*")] == ["set", "mine"]


def test_folder_that_could_not_be_written_whole_is_not_there(queue, tmp_path):
    settle(queue, make_entry())

    def stop(_num: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_dataset(queue, ALL, tmp_path / "set", progress=stop)
    assert list(tmp_path.iterdir()) == []
