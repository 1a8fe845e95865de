"""What is listed, searched, counted and followed, and why there may be nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_entries import make_audit, make_entry

from weighbridge.decision import Decision, FieldEvidence
from weighbridge.review.items import State
from weighbridge.review.overviews import Search, WhyEmpty
from weighbridge.review.queue import ReviewQueue
from weighbridge.review.queueing.ordering import HEAD_STARTS_S, LEAD_S, sort_key, uncertainty
from weighbridge.review.queueing.twins import group_key
from weighbridge.store.times import moment

BUG = {"category": "bug"}
NOTHING = WhyEmpty(
    num_judged=0,
    num_leased=0,
    leased_until=None,
    num_skipped=0,
    num_assigned=0,
    num_adjudications=0,
    num_not_yet=0,
    num_done=0,
)


def answered(queue, reviewer="ann", item_id=None, **how):
    item = queue.claim(reviewer, item_id=item_id)
    call = {"reviewer": reviewer, "token": item.lease_token, "values": BUG}
    return queue.answer(item.id, **{**call, **how})


def text_entry(key, body, **changes):
    ticket = {"id": key, "subject": None, "body": body, "metadata": {}}
    return make_entry(key, ticket=ticket, **changes)


def ids(items):
    return [item.id for item in items]


def test_why_empty_counts_each_place_once_for_what_stands_in_the_way(database, clock):
    """Done, leased until when, skipped, kept for others, disputed, hidden: all told apart."""
    queue = ReviewQueue(database, clock=clock, audits_needed=2)
    assert queue.why_empty("ann") == NOTHING
    now = moment(round(clock.now_s * 1e6))
    keys = ["done", "leased", "skipped", "assigned", "disputed", "hidden", "judged"]
    make = dict.fromkeys(keys, make_entry) | {"judged": make_audit}
    of = {key: queue.enqueue(make[key](key)) for key in keys}
    answered(queue, "ann", of["done"])
    answered(queue, "bob", of["disputed"], kind="unsure")
    answered(queue, "ann", of["judged"])
    skipped = queue.claim("ann", item_id=of["skipped"])
    queue.skip(skipped.id, reviewer="ann", token=skipped.lease_token)
    queue.assign(of["assigned"], to="eve", by="boss")
    queue.set_due(of["hidden"], due_at=None, by="boss", not_before=now + timedelta(hours=1))
    queue.claim("bob", item_id=of["leased"], lease_s=60)
    assert queue.claim("ann") is None
    assert queue.why_empty("ann") == WhyEmpty(
        num_judged=1,
        num_leased=1,
        leased_until=now + timedelta(seconds=60),
        num_skipped=1,
        num_assigned=1,
        num_adjudications=1,
        num_not_yet=1,
        num_done=1,
    )
    assert queue.why_empty("ann", may_adjudicate=True).num_adjudications == 0
    assert queue.claim("ann", may_adjudicate=True).id == of["disputed"]


def test_search_finds_what_meets_every_condition(queue, clock):
    """The newest first, page by page."""
    first = queue.enqueue(text_entry("a", "Grüße, 100% refund_please"))
    clock.advance(10)
    second = queue.enqueue(make_audit("b"))
    clock.advance(10)
    third = queue.enqueue(text_entry("c", "grüße again"))
    answered(queue, "ann", first)
    queue.assign(second, to="bob", by="boss")
    at = {item_id: queue.get(item_id).created_at for item_id in (first, second, third)}
    for wanted, expected in [
        (Search(), [third, second, first]),
        (Search(text="GRÜSSE"), []),
        (Search(text="rüße"), [third, first]),
        (Search(text="REFUND"), [first]),
        (Search(text="100%"), [first]),
        (Search(text="refund%please"), []),
        (Search(text="refundXplease"), []),
        (Search(states=frozenset({State.DONE})), [first]),
        (Search(states=frozenset({State.OPEN, State.CANCELLED})), [third, second]),
        (Search(reason="language"), [third, second, first]),
        (Search(reason="languag"), []),
        (Search(reason="\0"), []),
        (Search(reason="low_probability,language"), [third, second, first]),
        (Search(task="triage", ticket_id="ticket-b"), [second]),
        (Search(task="other"), []),
        (Search(assignee="bob"), [second]),
        (Search(reviewer="ann"), [first]),
        (Search(reviewer="bob"), []),
        (Search(is_audit=True), [second]),
        (Search(is_audit=False), [third, first]),
        (Search(since=at[second]), [third, second]),
        (Search(until=at[second]), [first]),
        (Search(since=at[second], until=at[third]), [second]),
    ]:
        assert ids(queue.search(wanted)) == expected, wanted
    assert ids(queue.search(Search(), limit=2)) == [third, second]
    assert ids(queue.search(Search(), limit=2, after=second)) == [first]


def test_settlings_are_followed_by_number_or_from_a_time_on(queue, clock):
    """In the order of settling, not of coming in; what is reopened leaves, and comes again."""
    first, second = queue.enqueue(make_entry("a")), queue.enqueue(make_entry("b"))
    answered(queue, item_id=second)
    clock.advance(100)
    seen = queue.settled()
    assert ids(seen) == [second]
    answered(queue, item_id=first)
    assert ids(queue.settled(seen[-1].settled_no)) == [first]
    assert ids(queue.settled(limit=1)) == [second]
    assert ids(queue.settled(queue.get(first).done_at)) == [first]
    queue.reopen(second, by="boss", reason="")
    assert ids(queue.settled()) == [first]
    clock.advance(-1000)
    answered(queue, item_id=second)
    assert ids(queue.settled(queue.get(first).settled_no)) == [second]


def test_mine_are_my_leases_and_last_verdicts(queue):
    """With tokens, so that a page can be built anew; what was taken back is no verdict."""
    for number in range(12):
        queue.enqueue(make_entry(f"{number:02}"))
    done = [answered(queue) for _ in range(11)]
    queue.undo(done[-1].id, reviewer="ann")
    mine = queue.mine("ann")
    assert [item.id for item in mine.leased] == [done[-1].id]
    assert queue.renew(done[-1].id, reviewer="ann", token=mine.leased[0].lease_token)
    assert [verdict.item_id for verdict in mine.recent] == ids(reversed(done[:-1]))
    assert queue.mine("bob").leased == queue.mine("bob").recent == ()


def test_alike_are_the_unsettled_items_that_say_the_same(queue):
    """However they are spelled, and whatever numbers and addresses are in them."""
    one = queue.enqueue(text_entry("a", "Order 17 is LATE!! me@example.com"))
    two = queue.enqueue(text_entry("b", "order 4711 is late, you@example.org"))
    queue.enqueue(text_entry("c", "order 17 is early"))
    assert queue.alike(one) == [two]
    answered(queue, item_id=two)
    assert queue.alike(one) == []


def test_place_that_somebody_else_gave_up_hides_no_item(database, clock):
    """Two had an item and let it go: each is offered their own place, and so the item, once."""
    queue = ReviewQueue(database, clock=clock, needed=2)
    shared, other = queue.enqueue(make_entry("a")), queue.enqueue(make_entry("b"))
    for reviewer in ("ann", "bob"):
        assert queue.claim(reviewer, lease_s=60).id == shared
    clock.advance(61)
    for reviewer in ("ann", "bob"):
        assert [item.id for item in queue.waiting(100, reviewer)] == [shared, other]
        assert [item.id for item in queue.waiting(1, reviewer)] == [shared]
    assert queue.claim("bob").id == shared


def test_what_is_judged_blind_is_offered_beside_nothing(queue, database, clock):
    """Its answer must not be given along with another's."""
    same = {"id": "t", "subject": "", "body": "Where is my order?", "metadata": {}}
    one = queue.enqueue(make_entry("a", ticket=same))
    clock.advance(1)
    other = queue.enqueue(make_entry("b", ticket=same))
    audit = queue.enqueue(make_audit("c", ticket=same))
    ReviewQueue(database, clock=clock, needed=2).enqueue(make_entry("d", ticket=same))
    assert (queue.alike(one), queue.alike(audit)) == ([other], [one, other])


def test_empty_tickets_are_nobodys_twins(queue):
    one = queue.enqueue(text_entry("a", " \n"))
    queue.enqueue(text_entry("b", "…"))
    assert queue.alike(one) == []


@pytest.mark.parametrize(
    ("one", "other", "are_twins"),
    [
        ("Refund, please", "refund  PLEASE!!", True),
        ("see https://a.example/x?y=1", "see www.b.example", True),
        ("card 1234 5678", "card 99", True),
        ("ﬁle", "FILE", True),
        ("x" * 50_000 + "a", "x" * 50_000 + "b", True),
        ("refund please", "refund, don't", False),
        ("a_b", "ab", False),
        ("", "a", False),
    ],
)
def test_twins_differ_in_nothing_but_spelling_and_numbers(one, other, are_twins):
    assert (group_key({"body": one}) == group_key({"body": other})) == are_twins


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_any_text_has_a_group_and_its_case_plays_no_part(text):
    """Surrogates and all."""
    assert group_key({"subject": text}) == group_key({"subject": f" {text}\t"})


def test_stats_count_everything_once(queue, clock):
    assert queue.stats().agreement is None
    assert queue.stats().oldest_waiting_s is None
    for key in "abcde":
        queue.enqueue(make_entry(key))
        clock.advance(10)
    for reviewer, chosen in [("ann", "bug"), ("bob", "billing")]:
        answered(queue, reviewer, values={"category": chosen})
    undone = answered(queue, "eve")
    queue.undo(undone.id, reviewer="eve")
    queue.release(undone.id, reviewer="eve", token=queue.mine("eve").leased[0].lease_token)
    queue.claim("ann", lease_s=5)
    stats = queue.stats()
    assert stats.num_by_state == {
        State.OPEN: 3,
        State.NEEDS_ADJUDICATION: 0,
        State.DONE: 2,
        State.CANCELLED: 0,
    }
    assert stats.num_by_reason == {"low_probability": 5, "language": 5}
    assert (stats.num_verdicts, stats.agreement) == (2, 0.5)
    assert (stats.num_waiting, stats.num_leased, stats.oldest_waiting_s) == (2, 1, 30.0)
    clock.advance(6)
    assert (queue.stats().num_waiting, queue.stats().num_leased) == (3, 0)


def test_item_that_is_kept_for_later_waits_from_then_on(queue, clock):
    """Until then nobody is offered it, and it is not counted among what waits."""
    ids = [queue.enqueue(make_entry(key)) for key in "abc"]
    for item_id, delay_s in zip(ids, (60, 120), strict=False):
        when = datetime.fromtimestamp(clock() + delay_s, UTC)
        queue.set_due(item_id, due_at=None, by="ann", not_before=when)
    waiting = []
    for _ in range(3):
        waiting.append(queue.stats().num_waiting)
        clock.advance(60)
    assert waiting == [1, 2, 3]


ages_s = st.integers(0, 4 * 365 * 86_400)
doubts = st.floats(0, 1)


@settings(deadline=None)
@given(ages_s, ages_s, doubts, doubts, st.sampled_from(sorted(HEAD_STARTS_S)))
def test_nothing_starves(age, younger_by, doubt, other_doubt, policy):
    """Whoever comes a head start later comes behind, however uncertain."""
    head_start_s = HEAD_STARTS_S[policy]
    old = sort_key(age * 10**6, doubt, None, head_start_s=head_start_s)
    later = (age + younger_by) * 10**6
    young = sort_key(later, other_doubt, None, head_start_s=head_start_s)
    if younger_by > head_start_s:
        assert old < young
    if younger_by == 0 and policy != "oldest":
        assert (doubt < other_doubt) <= (old >= young)


@settings(deadline=None)
@given(ages_s, doubts, ages_s)
def test_due_time_only_ever_moves_ahead(age, doubt, due_s):
    """And is worth being as old as the lead says."""
    without = sort_key(age * 10**6, doubt, None, head_start_s=10.0)
    due = sort_key(age * 10**6, doubt, due_s * 10**6, head_start_s=10.0)
    assert due == min(without, (due_s - round(LEAD_S)) * 10**6)


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), max_size=3))
def test_uncertainty_is_that_of_the_least_certain_required_field(probabilities):
    """From 0 to 1, and 1 where it is not known: a strange number hides no ticket."""
    fields = {
        f"f{number}": FieldEvidence(value="x", source="exact", probability=probability)
        for number, probability in enumerate(probabilities)
    }
    fields["advisory"] = FieldEvidence(value="x", source="none", required=False)
    decision = Decision(ticket_id="t", task="triage", status="review", value=None, fields=fields)
    found = uncertainty(decision)
    assert 0.0 <= found <= 1.0
    known = [p for p in probabilities if p is not None and 0.0 <= p <= 1.0]
    if len(known) == len(probabilities) > 0:
        assert found == 1.0 - min(known)
    elif None in probabilities or not probabilities:
        assert found == 1.0
