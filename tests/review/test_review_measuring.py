"""Metrics: what a handful of tickets, verdicts and people come to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from audited import stock
from labelled import KEY
from queue_entries import make_entry
from sqlalchemy import select, update

from weighbridge.decision import Decision, Reason, ReviewEntry, Toss, Weighing
from weighbridge.review.proving.guarantees import Guarantees
from weighbridge.review.proving.looks import Wanted
from weighbridge.review.proving.measuring import measure
from weighbridge.review.proving.metrics import Metrics
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.statistics.agreement import Agreement
from weighbridge.review.statistics.audited_error import AuditedError
from weighbridge.review.statistics.labels import NotYet
from weighbridge.store.decision_tables import decision_table, weighing_table
from weighbridge.store.queue_tables import item_table

AUDIT = Toss(u=0.0, rate=0.1)


def measured(database) -> Metrics:
    return measure(database, audit_rate=0.1)


@pytest.fixture
def queue(database) -> ReviewQueue:
    """By the database's own clock, as the metrics are."""
    return ReviewQueue(database)


def accepted(number: int) -> ReviewEntry:
    decision = Decision(ticket_id=f"a-{number}", task="triage", status="accepted", value={})
    weighing = Weighing(key=KEY, confidence=0.9, passed=True)
    return ReviewEntry(
        dedupe_key="",
        decision=decision,
        ticket={},
        questions=(),
        weighings={"category": weighing},
    )


def judged(queue, item_id, reviewer, value, **how):
    lease = queue.claim(reviewer, item_id=item_id, may_adjudicate=True)
    values = {"category": value} if value else {}
    return queue.answer(item_id, reviewer=reviewer, token=lease.lease_token, values=values, **how)


def test_empty_database_measures_nothing_and_says_so(database):
    metrics = measured(database)
    assert (metrics.num_decisions, metrics.accepted_share) == (0, None)
    assert (metrics.queue.num_waiting, metrics.queue.oldest_s) == (0, None)
    assert (metrics.reviewers, metrics.fields, metrics.keys) == ((), (), ())


def test_decisions_are_counted_by_what_sent_them_to_a_person(database, queue):
    """One with two reasons counts for both; an accepted one for none."""
    queue.record([accepted(n) for n in range(6)])
    queue.enqueue(make_entry("a"))
    decision = replace(make_entry("b").decision, reasons=(Reason.LANGUAGE,))
    queue.enqueue(make_entry("b", decision=decision))
    metrics = measured(database)
    assert (metrics.num_decisions, metrics.accepted_share) == (8, 0.75)
    assert {r: (t.num_decisions, t.share) for r, t in metrics.triggers.items()} == {
        "language": (2, 0.25),
        "low_probability": (1, 0.125),
    }
    assert [(key.key, key.tickets_per_day) for key in metrics.keys] == [(KEY, 6.0)]


def test_decisions_that_are_written_down_together_keep_their_own_numbers(database, queue):
    """Many are one statement, and each weighing belongs to its decision."""
    entries = []
    for number in range(300):
        weighing = Weighing(key=KEY, confidence=number / 1000, passed=True)
        one = replace(accepted(number), weighings={"category": weighing, "priority": weighing})
        entries.append(one)
    queue.record(entries)
    with database.reading() as connection:
        joined = select(decision_table.c.ticket_id, weighing_table.c.confidence).join(
            weighing_table, weighing_table.c.decision_id == decision_table.c.id
        )
        found = [tuple(row) for row in connection.execute(joined)]
    assert sorted(found) == sorted(2 * [(f"a-{n}", n / 1000) for n in range(300)])


def test_due_and_overdue_items_are_told_apart(database, queue):
    ids = [queue.enqueue(make_entry(name)) for name in "abc"]
    with database.writing() as connection:
        for item_id, due_at in zip(ids, (1, 2**60, None), strict=True):
            connection.execute(
                update(item_table).where(item_table.c.id == item_id).values(due_at=due_at)
            )
    found = measured(database).queue
    assert (found.num_waiting, found.num_overdue, found.num_due_soon) == (3, 1, 0)
    assert found.oldest_s is not None


def test_sighted_reviews_tell_overrides_and_blind_audits_tell_errors(database, queue):
    """The machine said bug: once it was sighted and right, once wrong, once blind and wrong."""
    weighing = {"category": Weighing(key=KEY, confidence=0.9, passed=True)}
    sighted = [queue.enqueue(make_entry(name, weighings=weighing)) for name in "ab"]
    blind = queue.enqueue(make_entry("c", toss=AUDIT, weighings=weighing))
    judged(queue, sighted[0], "ann", "bug")
    judged(queue, sighted[1], "ann", "billing")
    judged(queue, blind, "bob", "billing")
    metrics = measured(database)
    (field,) = metrics.fields
    assert (field.task, field.field) == ("triage", "category")
    assert isinstance(field.overridden, AuditedError)
    assert (field.overridden.num_errors, field.overridden.num_labels) == (1, 2)
    assert isinstance(field.blind, AuditedError)
    assert (field.blind.num_errors, field.blind.num_labels) == (1, 1)
    assert isinstance(field.with_machine, Agreement)
    assert field.with_machine.raw == 0.0
    assert [(r.reviewer, r.num_verdicts) for r in metrics.reviewers] == [("ann", 2), ("bob", 1)]
    assert metrics.queue.median_decision_s is not None
    (key,) = metrics.keys
    assert (key.num_labels, key.num_open_audits, key.num_sighted) == (1, 0, 0)
    assert isinstance(key.accepted, AuditedError)


def test_audit_that_was_judged_in_sight_of_the_answer_counts_as_wrong(database, queue):
    """Though the person agreed: that is what people do who see an answer."""
    weighing = {"category": Weighing(key=KEY, confidence=0.9, passed=True)}
    item_id = queue.enqueue(make_entry("c", toss=AUDIT, weighings=weighing))
    judged(queue, item_id, "bob", "bug", was_shown=True)
    (key,) = measured(database).keys
    assert (key.num_labels, key.num_sighted, key.accepted.num_errors) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["unsure", "unclassifiable"])
def test_audit_without_an_answer_counts_as_wrong(database, queue, kind):
    weighing = {"category": Weighing(key=KEY, confidence=0.9, passed=True)}
    item_id = queue.enqueue(make_entry("c", toss=AUDIT, weighings=weighing))
    judged(queue, item_id, "bob", None, kind=kind)
    if kind == "unsure":
        assert measured(database).keys[0].num_open_audits == 1
        judged(queue, item_id, "eve", None, kind=kind)
    (key,) = measured(database).keys
    assert (key.num_labels, key.accepted.num_errors) == (1, 1)


def test_undone_verdicts_are_no_verdicts(database, queue):
    item_id = queue.enqueue(make_entry("a"))
    judged(queue, item_id, "ann", "bug")
    queue.undo(item_id, reviewer="ann")
    assert measured(database).reviewers == ()


def test_two_people_over_one_item_are_compared(database):
    """Neither saw the other; the adjudicator is not one of the two."""
    queue = ReviewQueue(database, needed=2)
    for name, (one, other) in {"a": ("bug", "bug"), "b": ("bug", "billing")}.items():
        item_id = queue.enqueue(make_entry(name))
        judged(queue, item_id, "ann", one)
        judged(queue, item_id, "bob", other)
    judged(queue, item_id, "eve", "how_to")
    (field,) = measured(database).fields
    assert isinstance(field.among_reviewers, Agreement)
    assert (field.among_reviewers.num_items, field.among_reviewers.raw) == (2, 0.5)


def test_key_shows_its_certificate_and_what_is_missing(database):
    """What is asked for by default is a risk of 2 % with confidence 0.95."""
    stock(database, KEY, [(0.97, True)] * 300, [0.97] * 700)
    other = replace(KEY, model="m-2")
    stock(database, other, [(0.97, True)] * 10)
    guarantees = Guarantees(database, audit_rate=0.1)
    guarantees.certify(KEY, Wanted(risk=0.03))
    guarantees.fit_calibrators()
    certified, young = measured(database).keys
    assert (certified.key, certified.standing, certified.risk) == (KEY, "in_force", 0.03)
    assert (certified.confidence, certified.threshold, certified.missing) == (0.95, 0.5, None)
    assert (young.key, young.standing, young.certificate) == (other, "uncertified", None)
    assert isinstance(young.missing, NotYet)
    assert isinstance(young.drift, NotYet)
