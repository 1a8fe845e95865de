from __future__ import annotations

import pytest
from page_world import World, entry

from weighbridge.review.items import State
from weighbridge.store.roles import Role


def test_queue_counts_and_shows_what_one_holds_and_said_last(world):
    """Counts may be seconds old elsewhere; here nobody has asked for them before."""
    ada = world.browser("ada")
    world.add("a", "b", "c")
    lease = ada.post("/next.json").json()["next"]
    sent = {"token": lease["token"], "values": {"category": "bug"}}
    ada.send("POST", f"/items/{lease['item_id']}/answer.json", json=sent)
    told = ada.get("/index.json").json()
    assert told["num_leased"] == 1
    assert told["num_by_state"]["done"] == 1
    assert told["num_by_reason"] == {"low_mass": 3, "low_probability": 3}
    assert [verdict["item_id"] for verdict in told["recent"]] == [lease["item_id"]]
    assert len(told["leased"]) == 1
    assert len(told["next"]) == 1
    assert told["why_empty"] is None


def skip(world, ada):
    item_id, form = world.take(ada)
    ada.post(f"/items/{item_id}/skip", form)


def hold(world, ada):
    world.queue.claim("bob")


def assign(world, ada):
    world.queue.assign(world.queue.waiting(1)[0].id, to="bob", by="eve")


def settle(world, ada):
    item = world.queue.claim("bob")
    answer = {"category": "bug"}
    world.queue.answer(item.id, reviewer="bob", token=item.lease_token, values=answer)


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (hold, "1 held by others, the first until"),
        (skip, "1 skipped by you"),
        (assign, "1 kept for somebody else"),
        (settle, "1 done"),
    ],
)
def test_empty_queue_says_why(world, happens, words):
    """Held, skipped, kept for others and done are four different things."""
    ada = world.browser("ada")
    world.add("a")
    assert "Nothing waits for you." not in ada.get("/").text
    happens(world, ada)
    page = ada.get("/").text
    assert "Nothing waits for you." in page
    assert words in page


def test_search_finds_by_each_condition(world):
    """Reject and accept for each: one ticket fits, the other does not."""
    ada = world.browser("ada")
    one, other = world.add("a", subject="Invoice"), world.add("b", is_audit=True)
    world.queue.assign(*one, to="bob", by="eve")
    world.queue.cancel(*other, by="eve", reason="spam")
    for query, found in {
        "text=invoice": one,
        "state=cancelled": other,
        "reason=audit": other,
        "ticket_id=ticket-a": one,
        "assignee=bob": one,
        "task=triage": [*other, *one],
        "task=other": [],
        "reviewer=ada": [],
        "since=2026-09-21": [*other, *one],
        "since=2026-09-22": [],
        "until=2026-09-21": [],
        "state=nonsense": [*other, *one],
    }.items():
        told = ada.get(f"/items.json?{query}").json()
        assert sorted(item["id"] for item in told["items"]) == sorted(found), query


def test_search_says_how_a_day_is_written(world):
    assert "2026-11-30" in world.browser("ada").get("/items?since=yesterday").text


def test_pages_of_a_search_hold_everything_once(world):
    ada, ids = world.browser("ada"), []
    world.add(*map(str, range(60)))
    after = ""
    while after is not None:
        told = ada.get(f"/items.json?state=open&after={after}").json()
        ids += [item["id"] for item in told["items"]]
        after = told["after"]
    assert len(ids) == len(set(ids)) == 60


def test_viewer_looks_and_is_offered_nothing_to_do(world):
    """No button that would be refused."""
    (item_id,) = world.add("a")
    vera = world.browser("vera", Role.VIEWER)
    for path in ("/", "/items", f"/items/{item_id}"):
        page = vera.get(path).text
        assert '<form method="post"' not in page.replace(
            '<form method="post" action="/logout">', ""
        )


def test_bulk_shows_what_it_would_do_before_it_does_it(world):
    ada = world.browser("ada")
    ids = world.add("a", "b")
    page = ada.post("/bulk", {"item": ids})
    assert page.status_code == 200
    assert all(world.item(item_id).verdicts == () for item_id in ids)
    assert page.text.count('name="item"') == 2


def test_bulk_leaves_out_what_asks_something_else(world):
    """One answer fits only equal questions."""
    ada = world.browser("ada")
    (one,) = world.add("a")
    questions = entry("b").questions[:1]
    other = world.queue.enqueue(
        type(entry("b"))(
            dedupe_key="b",
            decision=entry("b").decision,
            ticket=entry("b").ticket,
            questions=questions,
        )
    )
    told = ada.post("/bulk.json", {"item": [one, other]}).json()
    assert [item["id"] for item in told["items"]] == [one]
    assert [item["id"] for item in told["left_out"]] == [other]


def test_bulk_tells_what_became_of_each(world):
    """What somebody else holds is left to them; the rest is stored, once."""
    ada = world.browser("ada")
    free, held, done = world.add("a", "b", "c")
    world.queue.claim("bob", item_id=held)
    sent = {"item": [free, held, done], "answer:0": '"bug"', "idem_key": "k"}
    told = ada.post("/bulk/answer.json", sent).json()
    assert told["num_done"] == 2
    assert "bob" in {one["id"]: one["problem"] for one in told["results"]}[held]
    assert ada.post("/bulk/answer.json", sent).json()["num_done"] == 2
    assert [len(world.item(one).verdicts) for one in (free, held, done)] == [1, 0, 1]
    assert world.item(free).verdicts[0].reviewer == "ada"


@pytest.mark.parametrize("form", [{}, {"item": "nothing"}, {"item": ["a"]}, {"answer:0": '"bug"'}])
def test_bulk_of_nothing_is_told_so(world, form):
    ada = world.browser("ada")
    for path in ("/bulk", "/bulk/answer"):
        assert ada.post(path, form).status_code == 422


def test_bulk_answer_outside_the_question_is_refused_whole(world):
    ada = world.browser("ada")
    ids = world.add("a", "b")
    answer = ada.post("/bulk/answer", {"item": ids, "answer:0": '"nonsense"'})
    assert answer.status_code == 422
    assert all(world.item(item_id).state is State.OPEN for item_id in ids)


def test_reviewer_without_the_role_sees_no_adjudications(world):
    assert world.browser("ada").get("/adjudicate").status_code == 403
    assert world.browser("eve", Role.ADJUDICATOR).get("/adjudicate").status_code == 200


def test_two_worlds_share_nothing():
    """Parts are kept with the application, not in the module."""
    with World() as one, World() as other:
        one.add("a")
        assert other.browser("ada").get("/index.json").json()["next"] == []
