"""Old audits that count for a new model: which do, what they say, and what they cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from labelled import KEY
from queue_entries import make_audit, make_entry
from sqlalchemy import func, select

from weighbridge.decision import CalibrationKey, ReviewEntry, Weighing
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.looks import Wanted
from weighbridge.review.proving.measuring import measure
from weighbridge.review.proving.reweighing import Reweighing
from weighbridge.store.database import Database
from weighbridge.store.decision_tables import decision_table

NEWER = replace(KEY, model="m-2")
# Nothing can be proved from so few, but outcomes are looked at.
WANTED = Wanted(risk=0.6, confidence=0.5)


@pytest.fixture
def guarantees(database) -> Guarantees:
    return Guarantees(database, audit_rate=0.1)


@pytest.fixture
def audits(database) -> Reweighing:
    """Not to be closed: the database is used again."""
    return Reweighing(database, "triage")


def weighed(entry: ReviewEntry, key: CalibrationKey, confidence: float = 0.9) -> ReviewEntry:
    found = Weighing(key=key, confidence=confidence, passed=confidence >= 0.8)
    return replace(entry, weighings={"category": found})


def judge(queue, entry: ReviewEntry, category: str) -> str:
    item_id = queue.enqueue(entry)
    token = queue.claim("ann", item_id=item_id).lease_token
    queue.answer(
        item_id, reviewer="ann", token=token, values={"category": category}, was_shown=False
    )
    return item_id


def fill(queue) -> None:
    """Four judged audits, three of them right; one that waits, and one that is no audit."""
    for key, category in (("a", "bug"), ("b", "bug"), ("c", "bug"), ("d", "billing")):
        judge(queue, weighed(make_audit(key), KEY), category)
    queue.enqueue(weighed(make_audit("e"), KEY))
    judge(queue, weighed(make_entry("f"), KEY), "bug")


def again(audits: Reweighing, key: CalibrationKey = NEWER, confidence: float = 0.7) -> None:
    """What a router does with the tickets: some answers are accepted, some are not."""
    for number, each in enumerate(audits.tickets()):
        letter = str(each.ticket["id"]).removeprefix("ticket-")
        entry = weighed(make_entry(letter), key, confidence)
        if number % 2:
            audits.record([entry])
        else:
            assert audits.enqueue(entry) == each.item_id


def test_judged_audits_and_no_others_are_weighed_again(queue, audits):
    """What waits has no label yet, and what is no audit is no fair sample."""
    fill(queue)
    assert [each.ticket["id"] for each in audits.tickets()] == [f"ticket-{key}" for key in "abcd"]


def test_labels_count_for_the_new_key_at_its_own_confidence(queue, audits, guarantees):
    """And stay what they were for the old one."""
    fill(queue)
    before = guarantees.sample(KEY)
    again(audits)
    newer = guarantees.sample(NEWER)
    assert [audit.is_correct for audit in newer.audits] == [True, True, True, False]
    assert {audit.confidence for audit in newer.audits} == {0.7}
    assert newer.num_open == 0
    assert (newer.is_reweighed, before.is_reweighed) == (True, False)
    assert guarantees.sample(KEY) == before


def test_weighing_again_twice_changes_nothing(queue, audits, guarantees):
    fill(queue)
    again(audits)
    assert audits.num_kept == 4
    once = guarantees.sample(NEWER)
    again(audits, confidence=0.1)
    again(audits, KEY)
    assert audits.num_kept == 4
    assert guarantees.sample(NEWER) == once


def test_erased_audits_are_left_out(queue, audits, database):
    """There is no text to weigh."""
    from weighbridge.review.retention import Retention

    fill(queue)
    Retention(database).erase("ticket-b", by="ann", rewrite=False)
    assert [each.ticket["id"] for each in audits.tickets()] == ["ticket-a", "ticket-c", "ticket-d"]


def test_weighing_again_is_no_traffic(queue, audits, database, guarantees):
    """Neither in the statistics nor in how many tickets come in a day."""
    fill(queue)
    before = measure(database, audit_rate=0.1)
    again(audits)
    after = measure(database, audit_rate=0.1)
    assert (after.num_decisions, after.triggers) == (before.num_decisions, before.triggers)
    assert guarantees.foresee(NEWER, WANTED).tickets_per_day == 0
    with database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(decision_table)) == 10


def test_looks_at_the_labels_under_another_key_are_paid_for(queue, audits, guarantees):
    """Learning anew until a certificate comes out would otherwise break its promise."""
    fill(queue)
    assert guarantees.certify(KEY, WANTED).round == 1
    again(audits)
    assert guarantees.foresee(NEWER, WANTED).round == 2
    assert guarantees.certify(NEWER, WANTED).round == 2
    assert guarantees.foresee(KEY, WANTED).round == 3
    third = replace(KEY, model="m-3")
    again(audits, third)
    assert guarantees.foresee(third, WANTED).round == 3


def test_the_key_of_the_latest_answer_is_the_one_in_use(queue, audits, guarantees):
    """Of each provider, field and source there is one; another model's is not asked about."""
    fill(queue)
    assert guarantees.current_keys() == (KEY,)
    again(audits)
    assert guarantees.current_keys() == (NEWER,)
    judge(queue, weighed(make_audit("g"), KEY), "bug")
    assert guarantees.current_keys() == (KEY,)
    judge(queue, weighed(make_audit("h"), replace(KEY, source="exact")), "bug")
    assert len(guarantees.current_keys()) == 2


def test_it_closes_the_database(tmp_path):
    """As the queue does, whose place it takes."""
    audits = Reweighing(Database(f"sqlite:///{tmp_path / 'a.db'}"), "triage")
    assert audits.tickets() == []
    audits.close()
    audits.close()
