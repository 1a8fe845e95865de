"""Versions of what was learned: kept for ever, one in use, seen by every process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime

import pytest
from queue_entries import make_audit, make_entry
from sqlalchemy import func, select

from weighbridge.errors import LearnedUnknown
from weighbridge.review.learning.versions import PAUSE_S, LearnedVersions, New, UsedVersions
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.database import Database
from weighbridge.store.learned_tables import learned_table, learned_use_table

LEARN = """
import sys
from weighbridge.review.learning.versions import LearnedVersions, New
from weighbridge.store.database import Database
new = New(task="triage", field="category", fingerprint="f", encoder="e", generator="g",
          num_examples=9, artefact=b"from elsewhere", renamed={}, report={})
print(LearnedVersions(Database(sys.argv[1])).add(new, by="bob"))
"""


def new(artefact=b"one", *, field="category", task="triage", **changes) -> New:
    whole = {
        "task": task,
        "field": field,
        "fingerprint": "f",
        "encoder": "e",
        "generator": "g",
        "num_examples": 12,
        "artefact": artefact,
        "renamed": {"old": "bug"},
        "report": {"scores": {"learned": {"accuracy": 0.9}}},
    }
    return New(**{**whole, **changes})


class Ticks:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_newest_version_of_a_field_is_in_use(any_database) -> None:
    """Each field by itself, each task by itself."""
    versions = LearnedVersions(any_database)
    first = versions.add(new(b"one"), by="ann")
    other = versions.add(new(b"two", field="priority"), by="ann")
    elsewhere = versions.add(new(b"three", task="other"), by="ann")
    second = versions.add(new(b"four"), by="ann")
    assert versions.used("triage") == {"category": (second, b"four"), "priority": (other, b"two")}
    assert versions.used("other") == {"category": (elsewhere, b"three")}
    assert versions.used("nobody's") == {}
    assert [(v.number, v.is_used) for v in versions.all("triage")] == [
        (second, True),
        (other, True),
        (first, False),
    ]


def test_version_comes_back_as_it_was_kept(any_database) -> None:
    """With its report, the names it knew, and when it was made."""
    versions = LearnedVersions(any_database)
    before = datetime.now(UTC)
    number = versions.add(new(), by="ann")
    [kept] = versions.all("triage")
    assert (kept.number, kept.task, kept.field) == (number, "triage", "category")
    assert (kept.fingerprint, kept.encoder, kept.generator) == ("f", "e", "g")
    assert (kept.num_examples, dict(kept.renamed)) == (12, {"old": "bug"})
    assert kept.report == {"scores": {"learned": {"accuracy": 0.9}}}
    assert abs((kept.made_at - before).total_seconds()) < 600


def test_going_back_deletes_nothing(any_database) -> None:
    """It is one more use; going forth again is another."""
    versions = LearnedVersions(any_database)
    first, second = versions.add(new(b"one"), by="ann"), versions.add(new(b"two"), by="ann")
    assert versions.use(first, by="bob").number == first
    assert versions.used("triage") == {"category": (first, b"one")}
    versions.use(second, by="bob")
    assert versions.used("triage") == {"category": (second, b"two")}
    versions.use_none("triage", "category", by="bob")
    assert versions.used("triage") == {}
    assert [version.is_used for version in versions.all("triage")] == [False, False]
    third = versions.add(new(b"three"), by="ann")
    assert third > second
    with any_database.reading() as connection:
        counted = [
            connection.scalar(select(func.count()).select_from(table))
            for table in (learned_table, learned_use_table)
        ]
    assert counted == [3, 6]


def test_unknown_version_is_refused(any_database) -> None:
    """And what is in use stays in use."""
    versions = LearnedVersions(any_database)
    number = versions.add(new(), by="ann")
    with pytest.raises(LearnedUnknown, match=str(number + 1)) as caught:
        versions.use(number + 1, by="ann")
    assert "--versions" in caught.value.hint
    assert versions.used("triage") == {"category": (number, b"one")}


def test_another_process_is_seen_within_the_pause(database_url) -> None:
    """And not asked about more often than that: the object stays the same meanwhile."""
    ticks = Ticks()
    with (
        closing(Database(database_url)) as database,
        closing(UsedVersions(database, monotonic=ticks)) as used,
    ):
        assert (dict(used.used("triage")), used.mark) == ({}, "")
        command = [sys.executable, "-c", LEARN, database_url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        number = int(done.stdout)
        ticks.now_s += PAUSE_S / 2
        assert used.used("triage") is used.used("triage")
        assert dict(used.used("triage")) == {}
        ticks.now_s += PAUSE_S
        used.used("triage")  # asks for a look, and waits for nothing
        used.close()  # until the look is over
        found = used.used("triage")
        assert dict(found) == {"category": (number, b"from elsewhere")}
        assert used.used("triage") is found
        assert used.mark != ""


def test_mark_changes_with_every_use(any_database) -> None:
    """A kept decision is good for one of them only."""
    versions = LearnedVersions(any_database)
    marks = []
    for step in (
        lambda: versions.add(new(), by="ann"),
        lambda: versions.add(new(), by="ann"),
        lambda: versions.use(1, by="ann"),
        lambda: versions.use_none("triage", "category", by="ann"),
    ):
        step()
        with closing(UsedVersions(any_database)) as used:
            marks.append(used.mark)
    assert len(set(marks)) == len(marks)


def test_what_is_known_stays_while_the_database_is_away(tmp_path) -> None:
    """The engine goes on with what it learned last."""
    ticks = Ticks()
    database = Database(f"sqlite:///{tmp_path / 'w.db'}")
    number = LearnedVersions(database).add(new(), by="ann")
    with closing(UsedVersions(database, monotonic=ticks)) as used:
        database.close()
        (tmp_path / "w.db").unlink()
        (tmp_path / "w.db").mkdir()
        ticks.now_s += PAUSE_S
        used.used("triage")
        used.close()
        assert dict(used.used("triage")) == {"category": (number, b"one")}


def test_examples_are_what_was_settled_and_not_erased(any_database) -> None:
    """Audits are marked, so that nobody learns from them."""
    queue = ReviewQueue(any_database)
    for key, make in (("a", make_entry), ("b", make_audit), ("c", make_entry)):
        queue.enqueue(make(key, ticket={"id": key, "subject": "Hello", "body": f"text of {key}"}))
    for _ in "ab":
        item = queue.claim("ann")
        assert item is not None
        assert item.lease_token is not None
        queue.answer(
            item.id, reviewer="ann", token=item.lease_token, values={"category": "billing"}
        )
    found = LearnedVersions(any_database).examples("triage")
    assert found.keys() == {"category"}
    assert [
        (e.text, e.value, e.is_audit) for e in sorted(found["category"], key=lambda e: e.text)
    ] == [
        ("Hello\n\ntext of a", "billing", False),
        ("Hello\n\ntext of b", "billing", True),
    ]
    assert LearnedVersions(any_database).examples("other") == {}
