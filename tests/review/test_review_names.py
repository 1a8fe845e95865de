"""Ids, names and keys of any length: what one database takes, the other takes too."""

from __future__ import annotations

import random
import string
from dataclasses import replace

import pytest
from queue_entries import make_entry

from weighbridge.decision import ReviewEntry
from weighbridge.errors import PersonRefused, VerdictInvalid
from weighbridge.review.items import State
from weighbridge.review.overviews import Search
from weighbridge.review.queueing.names import kept_key

BUG = {"category": "bug"}


def noise(number: int, seed: int = 0) -> str:
    """Text that no database can compress."""
    return "".join(random.Random(seed).choices(string.ascii_letters, k=number))


def about(ticket_id: str, key: str) -> ReviewEntry:
    entry = make_entry(key)
    return replace(entry, decision=replace(entry.decision, ticket_id=ticket_id))


def test_ticket_with_an_overlong_id_is_queued_found_and_replaced(queue):
    """Its sender chose the id, and no ticket may be lost for it."""
    ticket_id = noise(5000)
    first = queue.enqueue(about(ticket_id, "a"))
    other = queue.enqueue(about(noise(5000, seed=1), "b"))
    second = queue.enqueue(about(ticket_id, "c"))
    found = queue.search(Search(ticket_id=ticket_id, states=frozenset({State.OPEN})))
    assert [item.id for item in found] == [second]
    assert (queue.get(first).state, queue.get(other).state) == (State.CANCELLED, State.OPEN)


@pytest.mark.parametrize("name", ["a", "ä" * 200, "\U0001f600" * 200, noise(200)])
def test_name_of_at_most_200_characters_judges_and_is_given_items(queue, name):
    item_id = queue.enqueue(make_entry())
    queue.assign(item_id, to=name, by=name)
    item = queue.claim(name)
    queue.skip(item_id, reviewer=name, token=item.lease_token)
    item = queue.claim(name, item_id=item_id)
    done = queue.answer(item_id, reviewer=name, token=item.lease_token, values=BUG)
    assert done.verdicts[0].reviewer == name


@pytest.mark.parametrize("name", ["", "  ", "\n", noise(201), noise(5000)])
@pytest.mark.parametrize(
    "naming",
    [
        lambda queue, item_id, name: queue.claim(name),
        lambda queue, item_id, name: queue.claim(name, item_id=item_id),
        lambda queue, item_id, name: queue.answer_many(
            [item_id], reviewer=name, values=BUG, idem_key="k"
        ),
        lambda queue, item_id, name: queue.assign(item_id, to=name, by="ann"),
        lambda queue, item_id, name: queue.assign(item_id, to="ann", by=name),
        lambda queue, item_id, name: queue.note(item_id, by=name, text="x"),
        lambda queue, item_id, name: queue.set_due(item_id, due_at=None, by=name),
        lambda queue, item_id, name: queue.cancel(item_id, by=name, reason=""),
        lambda queue, item_id, name: queue.reopen(item_id, by=name, reason=""),
    ],
)
def test_name_that_is_none_or_longer_is_refused_in_a_short_message(queue, naming, name):
    """Whatever the database; and nothing has happened to the item."""
    item_id = queue.enqueue(make_entry())
    with pytest.raises(PersonRefused) as refused:
        naming(queue, item_id, name)
    assert len(str(refused.value)) < 80
    assert queue.get(item_id).version == 1
    assert [event.kind for event in queue.history(item_id)] == ["enqueued"]


def test_key_of_any_length_names_one_verdict(queue):
    """Sent again it stores nothing more, and another key that begins alike is another."""
    first, second = (queue.enqueue(make_entry(key)) for key in "ab")
    key = noise(5000)
    token = queue.claim("ann", item_id=first).lease_token
    for _ in range(2):
        done = queue.answer(first, reviewer="ann", token=token, values=BUG, idem_key=key)
    assert len(done.verdicts) == 1
    token = queue.claim("ann", item_id=second).lease_token
    with pytest.raises(VerdictInvalid, match="belongs to the verdict on another item"):
        queue.answer(second, reviewer="ann", token=token, values=BUG, idem_key=key)
    queue.answer(second, reviewer="ann", token=token, values=BUG, idem_key=key + "x")
    assert queue.undo(second, reviewer="ann", idem_key=key + "y").state is State.OPEN
    (result,) = queue.answer_many([second], reviewer="ann", values=BUG, idem_key=key)
    assert result.error is None


def test_short_key_is_kept_as_it_is():
    """So that what older versions have stored is known again."""
    assert kept_key("k" * 200) == "k" * 200
    assert kept_key("k" * 201) != kept_key("k" * 202)
    assert kept_key(None) is None
