"""What is done with an item besides judging it, and whom that keeps it from."""

from __future__ import annotations

from datetime import timedelta

import pytest
from queue_entries import make_entry

from weighbridge.errors import ChangeRefused, LeaseLost
from weighbridge.review.items import State
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.times import moment

BUG = {"category": "bug"}


def answered(queue, reviewer="ann"):
    item = queue.claim(reviewer)
    return queue.answer(item.id, reviewer=reviewer, token=item.lease_token, values=BUG)


def test_skipped_item_goes_to_others_and_comes_back_on_request(queue):
    """Skipping is handing back with a reason; it completes nothing."""
    item_id = queue.enqueue(make_entry())
    item = queue.claim("ann")
    queue.skip(item_id, reviewer="ann", token=item.lease_token, reason="Latin")
    assert queue.claim("ann") is None
    assert queue.get(item_id).slots[0].skips == 1
    assert queue.history(item_id)[-1].detail == {"reason": "Latin"}
    bobs = queue.claim("bob")
    queue.release(item_id, reviewer="bob", token=bobs.lease_token)
    assert queue.unskip("ann") == 1
    assert queue.claim("ann").id == item_id


def test_skipped_item_can_be_had_by_name(queue):
    item_id = queue.enqueue(make_entry())
    item = queue.claim("ann")
    queue.skip(item_id, reviewer="ann", token=item.lease_token)
    assert queue.claim("ann", item_id=item_id).id == item_id


def test_released_item_is_free_at_once_and_its_token_worthless(queue):
    item_id = queue.enqueue(make_entry())
    token = queue.claim("ann").lease_token
    queue.release(item_id, reviewer="ann", token=token)
    for call in (queue.release, queue.skip, queue.renew):
        with pytest.raises(LeaseLost, match="nobody has claimed it"):
            call(item_id, reviewer="ann", token=token)
    assert queue.claim("bob").lease_token != token


def test_renewed_lease_counts_from_now(queue, clock):
    """Also one that has ended, while nobody else took the item."""
    item_id = queue.enqueue(make_entry())
    first = queue.claim("ann", lease_s=60)
    clock.advance(100)
    item = queue.renew(item_id, reviewer="ann", token=first.lease_token, lease_s=60)
    assert item.lease.until - first.lease.until == timedelta(seconds=100)
    assert (item.lease.token, item.lease.opened_at) == (first.lease.token, first.lease.opened_at)
    clock.advance(30)
    assert queue.claim("bob") is None


def test_assigned_item_comes_first_to_one_and_to_nobody_else(queue):
    queue.enqueue(make_entry("a", probability=0.0))
    item_id = queue.enqueue(make_entry("b", probability=1.0))
    assert queue.assign(item_id, to="bob", by="boss").assignee == "bob"
    assert queue.claim("bob").id == item_id
    assert queue.claim("ann").id != item_id
    assert queue.claim("eve") is None


def test_assignment_ends_by_assigning_to_nobody(queue):
    item_id = queue.enqueue(make_entry())
    queue.assign(item_id, to="bob", by="boss")
    assert queue.claim("ann") is None
    assert queue.assign(item_id, to=None, by="boss").assignee is None
    assert queue.claim("ann").id == item_id


def test_assigned_to_another_is_still_had_by_name_and_kept_by_its_holder(queue):
    item_id = queue.enqueue(make_entry())
    item = queue.claim("ann")
    queue.assign(item_id, to="bob", by="boss")
    assert queue.renew(item_id, reviewer="ann", token=item.lease_token).lease is not None
    queue.release(item_id, reviewer="ann", token=item.lease_token)
    assert queue.claim("ann") is None
    assert queue.claim("ann", item_id=item_id).id == item_id


def test_due_time_moves_an_item_ahead_and_hiding_keeps_it_back(queue, clock):
    queue.enqueue(make_entry("a", probability=0.0))
    sure = queue.enqueue(make_entry("b", probability=1.0))
    now = moment(round(clock.now_s * 1e6))
    assert queue.waiting()[1].id == sure
    item = queue.set_due(sure, due_at=now - timedelta(days=1), by="boss")
    assert (item.due_at, queue.waiting()[0].id) == (now - timedelta(days=1), sure)
    queue.set_due(sure, due_at=None, by="boss", not_before=now + timedelta(seconds=60))
    assert sure not in [item.id for item in queue.waiting()]
    clock.advance(60)
    assert queue.waiting()[1].id == sure


def test_note_is_kept_in_the_history_of_any_item(queue):
    item_id = queue.enqueue(make_entry())
    answered(queue)
    queue.note(item_id, by="bob", text="was it?")
    last = queue.history(item_id)[-1]
    assert (last.actor, last.kind, last.detail) == ("bob", "noted", {"text": "was it?"})


def test_cancelled_item_is_offered_to_nobody_and_takes_no_verdict(queue):
    item_id = queue.enqueue(make_entry())
    token = queue.claim("ann").lease_token
    cancelled = queue.cancel(item_id, by="boss", reason="spam")
    assert cancelled.state is State.CANCELLED
    assert queue.cancel(item_id, by="boss", reason="again") == cancelled
    with pytest.raises(LeaseLost, match="cancelled"):
        queue.answer(item_id, reviewer="ann", token=token, values=BUG)
    assert queue.claim("bob") is None


def test_done_item_changes_only_by_being_reopened(queue):
    item_id = queue.enqueue(make_entry())
    answered(queue)
    for change in (
        lambda: queue.cancel(item_id, by="boss", reason=""),
        lambda: queue.assign(item_id, to="bob", by="boss"),
        lambda: queue.set_due(item_id, due_at=None, by="boss"),
    ):
        with pytest.raises(ChangeRefused, match="done"):
            change()
    assert queue.reopen(item_id, by="boss", reason="").state is State.OPEN
    with pytest.raises(ChangeRefused, match="still open"):
        queue.reopen(item_id, by="boss", reason="")


def test_reopened_item_goes_through_another_round_and_forgets_nothing(queue):
    """Whoever judged it may judge it again; the first answer is no longer the answer."""
    item_id = queue.enqueue(make_entry())
    answered(queue, "ann")
    item = queue.reopen(item_id, by="boss", reason="wrong", needed=2)
    assert (item.round, item.needed, item.resolution, item.standing) == (2, 2, None, ())
    assert len(item.verdicts) == 1
    with pytest.raises(ChangeRefused, match="no verdict"):
        queue.undo(item_id, reviewer="ann")
    answered(queue, "ann")
    done = answered(queue, "bob")
    assert (done.state, len(done.verdicts), len(done.standing)) == (State.DONE, 3, 2)


def test_cancelled_item_can_be_reopened(queue):
    item_id = queue.enqueue(make_entry())
    queue.cancel(item_id, by="boss", reason="spam")
    queue.reopen(item_id, by="boss", reason="no spam")
    assert answered(queue).id == item_id


def test_every_change_leaves_a_line_and_another_version(database, clock):
    queue = ReviewQueue(database, clock=clock)
    item_id = queue.enqueue(make_entry())
    versions = [
        queue.note(item_id, by="ann", text="").version,
        queue.assign(item_id, to="ann", by="ann").version,
        queue.set_due(item_id, due_at=None, by="ann").version,
        answered(queue).version,
        queue.undo(item_id, reviewer="ann").version,
        queue.cancel(item_id, by="ann", reason="").version,
        queue.reopen(item_id, by="ann", reason="").version,
    ]
    assert versions == [2, 3, 4, 5, 6, 7, 8]
    assert [event.kind for event in queue.history(item_id)] == [
        "enqueued", "noted", "assigned", "due_set", "claimed", "answered", "settled", "undone",
        "cancelled", "reopened",
    ]  # fmt: skip


def test_own_lease_that_ended_comes_again_under_another_token(queue, clock):
    """Unless somebody was quicker; the old token is then worth nothing to anybody."""
    item_id = queue.enqueue(make_entry())
    first = queue.claim("ann", lease_s=60)
    clock.advance(61)
    again = queue.claim("ann")
    assert again.id == item_id
    assert again.lease_token != first.lease_token
    with pytest.raises(LeaseLost, match="token"):
        queue.answer(item_id, reviewer="ann", token=first.lease_token, values=BUG)


def test_what_is_kept_for_one_person_is_adjudicated_by_any(queue):
    """They have judged it by then."""
    item_id = queue.enqueue(make_entry())
    queue.assign(item_id, to="ann", by="boss")
    item = queue.claim("ann")
    queue.answer(item_id, reviewer="ann", token=item.lease_token, values={}, kind="unsure")
    assert queue.claim("eve", may_adjudicate=True).id == item_id
