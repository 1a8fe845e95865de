"""Several people judge an item; they agree, or an adjudicator has the last word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_entries import make_audit, make_entry

from weighbridge.decision import Question
from weighbridge.errors import ChangeRefused, ItemNotFound, LeaseLost, VerdictInvalid
from weighbridge.review.items import SlotKind, State
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.queueing.outcomes import Opinion, adjudicated, agreed

BUG, BILLING = {"category": "bug"}, {"category": "billing"}


@pytest.fixture
def two(database, clock) -> ReviewQueue:
    """A queue in which two people judge every item."""
    return ReviewQueue(database, clock=clock, needed=2, audits_needed=2)


def said(queue, reviewer, values=BUG, item_id=None, **how):
    """Claim and answer in one go, as an adjudicator if need be."""
    item = queue.claim(reviewer, item_id=item_id, may_adjudicate=item_id is not None)
    token = item.lease.token
    return queue.answer(item.id, reviewer=reviewer, token=token, values=values, **how)


def test_item_waits_for_as_many_people_as_it_needs(two):
    """Nobody gets it twice, and it is settled with the last of them."""
    item_id = two.enqueue(make_entry())
    assert said(two, "ann").state is State.OPEN
    assert two.claim("ann") is None
    with pytest.raises(LeaseLost, match="you have judged it already"):
        two.claim("ann", item_id=item_id)
    done = said(two, "bob")
    assert (done.state, done.resolved_kind, done.resolution) == (State.DONE, "answer", BUG)


def test_two_places_are_leased_at_once_under_two_tokens(two):
    two.enqueue(make_entry())
    leases = [two.claim(reviewer).lease for reviewer in ("ann", "bob")]
    assert leases[0].token != leases[1].token
    assert two.claim("eve") is None


def test_disagreement_goes_to_an_adjudicator_whose_word_is_the_last(two):
    item_id = two.enqueue(make_entry())
    said(two, "ann", BUG)
    disputed = said(two, "bob", BILLING)
    assert (disputed.state, disputed.resolution) == (State.NEEDS_ADJUDICATION, None)
    assert two.claim("eve") is None
    with pytest.raises(LeaseLost, match="adjudicator"):
        two.claim("eve", item_id=item_id)
    item = two.claim("eve", may_adjudicate=True)
    assert item.lease.kind is SlotKind.ADJUDICATE
    done = two.answer(item_id, reviewer="eve", token=item.lease_token, values=BILLING)
    assert (done.state, done.resolution) == (State.DONE, BILLING)
    assert [verdict.is_adjudication for verdict in done.verdicts] == [False, False, True]


def test_adjudication_is_offered_to_nobody_who_judged_but_they_get_it_by_name(queue):
    """So that a team of one is not stuck with what it was unsure about."""
    item_id = queue.enqueue(make_entry())
    assert said(queue, "ann", {}, kind="unsure").state is State.NEEDS_ADJUDICATION
    assert queue.claim("ann", may_adjudicate=True) is None
    done = said(queue, "ann", BUG, item_id)
    assert (done.state, done.resolution) == (State.DONE, BUG)


def test_unsure_adjudicator_ends_it_without_an_answer(queue):
    item_id = queue.enqueue(make_entry())
    said(queue, "ann", {}, kind="unsure")
    done = said(queue, "eve", {}, item_id, kind="unsure")
    assert (done.state, done.resolved_kind, done.resolution) == (State.DONE, "unsure", None)


def test_all_may_agree_that_a_ticket_fits_nothing(two):
    two.enqueue(make_entry())
    said(two, "ann", {}, kind="unclassifiable")
    done = said(two, "bob", {}, kind="unclassifiable")
    assert (done.resolved_kind, done.resolution) == ("unclassifiable", None)


def test_verdict_that_is_no_answer_keeps_no_values(queue):
    """A button for "unsure" may be pressed with an option still chosen."""
    queue.enqueue(make_entry())
    assert said(queue, "ann", BILLING, kind="unsure").verdicts[0].values == {}


def test_blindness_lasts_until_the_item_is_settled(two, database, clock):
    """Audits, several people and adjudications are blind; a verdict says what was seen."""
    alone = ReviewQueue(database, clock=clock)
    plain, audit = alone.enqueue(make_entry("a")), alone.enqueue(make_audit("b"))
    double = two.enqueue(make_entry("c"))
    assert [alone.get(each).is_blind for each in (plain, audit, double)] == [False, True, True]
    assert said(alone, "ann", item_id=plain).verdicts[0].was_shown
    done = said(alone, "ann", item_id=audit)
    assert not done.verdicts[0].was_shown
    assert not done.is_blind
    told = said(two, "ann", item_id=double, was_shown=True)
    assert told.verdicts[0].was_shown
    unsure = alone.enqueue(make_entry("d"))
    assert said(alone, "ann", {}, unsure, kind="unsure").is_blind


def test_questions_are_those_of_the_time_of_enqueuing(queue):
    """Whatever the task asks by now: another schema makes another entry."""
    question = Question(field="team", options=("red",), machine="red")
    item_id = queue.enqueue(make_entry("old", questions=(question,)))
    queue.enqueue(make_entry("new"))
    with pytest.raises(VerdictInvalid):
        said(queue, "ann", BUG, item_id)
    assert said(queue, "ann", {"team": "red"}, item_id).verdicts[0].kind == "correct"


def test_undo_is_a_verdict_that_takes_one_back(queue):
    """The slot is leased to the reviewer again, and the item is as open as before."""
    queue.enqueue(make_entry())
    done = said(queue, "ann", BUG)
    item = queue.undo(done.id, reviewer="ann")
    assert (item.state, item.done_at, item.resolution) == (State.OPEN, None, None)
    assert (item.standing, len(item.verdicts)) == ((), 2)
    assert item.verdicts[1].supersedes == item.verdicts[0].id
    assert queue.settled() == []
    again = queue.answer(item.id, reviewer="ann", token=item.lease_token, values=BILLING)
    assert (again.resolution, len(again.standing)) == (BILLING, 1)
    assert again.settled_no > done.settled_no


def test_undo_twice_takes_back_two_different_verdicts_or_nothing(queue):
    queue.enqueue(make_entry())
    done = said(queue, "ann")
    queue.undo(done.id, reviewer="ann")
    with pytest.raises(ChangeRefused, match="no verdict"):
        queue.undo(done.id, reviewer="ann")


def test_undo_under_one_key_is_done_once(queue):
    """The second call hands out the same lease."""
    queue.enqueue(make_entry())
    done = said(queue, "ann")
    first = queue.undo(done.id, reviewer="ann", idem_key="u")
    assert queue.undo(done.id, reviewer="ann", idem_key="u") == first


def test_undo_of_a_dispute_withdraws_the_adjudication(two):
    """Whoever is at it is told so."""
    item_id = two.enqueue(make_entry())
    said(two, "ann", BUG)
    said(two, "bob", BILLING)
    at_it = two.claim("eve", may_adjudicate=True)
    item = two.undo(item_id, reviewer="bob")
    with pytest.raises(LeaseLost):
        two.answer(item_id, reviewer="eve", token=at_it.lease_token, values=BUG)
    done = two.answer(item_id, reviewer="bob", token=item.lease_token, values=BUG)
    assert done.state is State.DONE


def test_nothing_is_undone_behind_an_adjudicator_but_their_own(two):
    item_id = two.enqueue(make_entry())
    said(two, "ann", BUG)
    said(two, "bob", BILLING)
    said(two, "eve", BUG, item_id)
    with pytest.raises(ChangeRefused, match="adjudicator"):
        two.undo(item_id, reviewer="ann")
    item = two.undo(item_id, reviewer="eve")
    assert item.state is State.NEEDS_ADJUDICATION
    assert two.undo(item_id, reviewer="ann").state is State.OPEN


@pytest.mark.parametrize("kind", ["answer", "unsure"])
def test_bulk_writes_one_verdict_for_each_item(queue, kind):
    """And says of each what became of it; sent again, it stores nothing twice."""
    ids = [queue.enqueue(make_entry(key)) for key in "abc"]
    held = queue.claim("bob", item_id=ids[1])
    call = {"reviewer": "ann", "values": BUG, "idem_key": "bulk-1", "kind": kind}
    results = queue.answer_many([*ids, "nothing", ids[0]], **call)
    assert [result.item_id for result in results] == [*ids, "nothing"]
    assert [type(result.error) for result in results] == [
        type(None),
        LeaseLost,
        type(None),
        ItemNotFound,
    ]
    assert [len(queue.get(item_id).verdicts) for item_id in ids] == [1, 0, 1]
    queue.release(ids[1], reviewer="bob", token=held.lease_token)
    results = queue.answer_many(ids, **call)
    assert [len(result.item.verdicts) for result in results] == [1, 1, 1]


def test_bulk_judges_nothing_twice(queue):
    item_id = queue.enqueue(make_entry())
    said(queue, "eve", BUG)
    (result,) = queue.answer_many([item_id], reviewer="eve", values=BUG, idem_key="k")
    assert isinstance(result.error, LeaseLost)


def test_bulk_leaves_alone_what_is_judged_blind(queue, two):
    """Audits, what several people judge, and disputes: each wants a look of its own."""
    audit = queue.enqueue(make_audit("a"))
    disputed, fresh = two.enqueue(make_entry("b")), two.enqueue(make_entry("c"))
    said(two, "ann", BUG, disputed)
    said(two, "bob", BILLING, disputed)
    ids = [audit, disputed, fresh]
    results = queue.answer_many(ids, reviewer="eve", values=BUG, idem_key="k")
    assert [type(result.error) for result in results] == [ChangeRefused] * 3
    assert [len(queue.get(item_id).verdicts) for item_id in ids] == [0, 2, 0]


def test_key_of_something_else_loses_no_verdict(two):
    """Silence would: a key stands for one call of one person, about one item."""
    item_id, other = two.enqueue(make_entry("a")), two.enqueue(make_entry("b"))
    said(two, "ann", BUG, item_id, idem_key="k")
    for reviewer, about in (("bob", item_id), ("ann", other)):
        with pytest.raises(VerdictInvalid, match="idem_key"):
            said(two, reviewer, BILLING, about, idem_key="k")
    with pytest.raises(VerdictInvalid, match="idem_key"):
        two.undo(item_id, reviewer="ann", idem_key="k")
    item = two.undo(item_id, reviewer="ann", idem_key="u")
    with pytest.raises(VerdictInvalid, match="idem_key"):
        two.answer(item_id, reviewer="ann", token=item.lease_token, values=BUG, idem_key="u")
    assert [verdict.kind for verdict in two.get(item_id).verdicts] == ["correct", "undo"]


def test_lost_lease_says_who_has_it_since_when(queue, clock):
    queue.enqueue(make_entry())
    item = queue.claim("ann", lease_s=60)
    clock.advance(61)
    queue.claim("bob")
    with pytest.raises(
        LeaseLost, match=r"'bob' holds it since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    ):
        queue.renew(item.id, reviewer="ann", token=item.lease_token)


def test_lease_of_a_clock_that_was_ahead_does_not_last_for_ever(queue, clock):
    """Put right by more than the longest lease, it frees what nobody can have leased."""
    item_id = queue.enqueue(make_entry())
    clock.advance(10 * 86_400)
    ahead = queue.claim("ann")
    clock.advance(-10 * 86_400)
    item = queue.claim("bob")
    assert item.id == item_id
    assert item.lease.token != ahead.lease.token


values = st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, 1.0, "1", True, None]))


@settings(deadline=None)
@given(st.lists(values, min_size=1, max_size=4))
def test_answers_agree_exactly_when_no_field_has_two_values(answers):
    """As JSON: no number stands for another type."""
    outcome = agreed([Opinion(kind="corrected", values=each) for each in answers])
    spellings = {(name, repr(value)) for each in answers for name, value in each.items()}
    names = {name for name, _ in spellings}
    assert (outcome is not None) == (len(names) == len(spellings))
    if outcome is not None:
        assert {(name, repr(value)) for name, value in outcome.values.items()} == spellings


@settings(deadline=None)
@given(st.lists(st.sampled_from(["correct", "unsure", "unclassifiable"]), min_size=1))
def test_doubt_or_mixture_is_no_agreement(kinds):
    outcome = agreed([Opinion(kind=kind, values={}) for kind in kinds])
    alike = len(set(kinds)) == 1 and kinds[0] != "unsure"
    assert (outcome is not None) == alike


@pytest.mark.parametrize("kind", ["correct", "corrected", "unsure", "unclassifiable"])
def test_adjudicator_always_ends_it(kind):
    assert adjudicated(Opinion(kind=kind, values=BUG)).values == (BUG if kind[0] == "c" else None)
