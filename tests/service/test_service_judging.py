from __future__ import annotations

import re

import pytest
from databases import refuse_inserts
from page_world import MASS, World, entry, hidden

from weighbridge.review.items import State
from weighbridge.store.queue_tables import verdict_table
from weighbridge.store.roles import Role

BUG, BILLING = {"answer:0": '"bug"'}, {"answer:0": '"billing"'}


def test_claim_answer_undo_and_answer_again(world):
    """Each step is a form, and each leads to a page that can be loaded again."""
    ada = world.browser("ada")
    first, second = world.add("a", "b")
    item_id, form = world.take(ada)
    answer = ada.post(f"/items/{item_id}/answer", {**form, **BUG, "answer:1": "3"})
    assert answer.status_code == 303
    (verdict,) = world.item(item_id).verdicts
    assert (verdict.values, verdict.reviewer, verdict.was_shown) == (
        {"category": "bug", "priority": 3},
        "ada",
        True,
    )
    assert (
        answer.headers["location"]
        == f"/items/{({first, second} - {item_id}).pop()}?answered={item_id}"
    )
    back = ada.post(f"/items/{item_id}/undo")
    form = hidden(ada.get(back.headers["location"]).text)
    ada.post(f"/items/{item_id}/answer", {**form, **BILLING})
    assert [v.kind for v in world.item(item_id).verdicts] == ["corrected", "undo", "corrected"]
    assert world.item(item_id).resolution == {"category": "billing"}


def test_page_says_which_answer_the_next_undo_takes_back(world):
    """What was just done and what was answered before are two sentences."""
    ada = world.browser("ada")
    first, second = world.add("a", "b")
    for _ in range(2):
        item_id, form = world.take(ada)
        ada.post(f"/items/{item_id}/answer", {**form, **BUG})
    back = ada.post(f"/items/{second}/undo")
    page = " ".join(ada.get(back.headers["location"]).text.split())
    assert "The ticket is yours again. Your last answer: <bdi>category: bug</bdi>" in page
    assert f'action="/items/{first}/undo"' in page


def test_looking_claims_nothing(world):
    """No state changes on GET."""
    (item_id,) = world.add("a")
    page = world.browser("ada").get(f"/items/{item_id}").text
    assert "Take this ticket" in page
    assert [event.kind for event in world.queue.history(item_id)] == ["enqueued"]


def test_form_sent_twice_is_one_verdict(world):
    """A double click, or a network that repeats: the key was made with the page."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    answers = [ada.post(f"/items/{item_id}/answer", {**form, **BUG}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [303, 303]
    assert len(world.item(item_id).verdicts) == 1


def test_lost_lease_is_told_with_its_reason_and_keeps_what_was_entered(world):
    """409; nothing is stored, and nothing has to be typed again."""
    ada, bob = world.browser("ada"), world.browser("bob")
    world.add("a")
    item_id, form = world.take(ada)
    world.clock.now_s += 601
    assert world.take(bob)[0] == item_id
    answer = ada.post(f"/items/{item_id}/answer", {**form, **BILLING, "note": "typed <i>"})
    assert answer.status_code == 409
    assert "bob" in answer.text
    assert 'value="&#34;billing&#34;" checked' in answer.text
    assert "typed &lt;i&gt;</textarea>" in answer.text
    assert world.item(item_id).verdicts == ()


def test_ticket_can_be_taken_again_with_the_draft(world):
    """Where nobody else judged it meanwhile."""
    ada, bob = world.browser("ada"), world.browser("bob")
    world.add("a")
    item_id, form = world.take(ada)
    world.clock.now_s += 601
    _, bobs = world.take(bob)
    lost = ada.post(f"/items/{item_id}/answer", {**form, **BILLING, "note": "mine"})
    bob.post(f"/items/{item_id}/release", bobs)
    assert "Take the ticket again" in lost.text
    again = ada.post(f"/items/{item_id}/claim", {**BILLING, "note": "mine"})
    assert again.status_code == 200
    assert 'value="&#34;billing&#34;" checked' in again.text
    ada.post(f"/items/{item_id}/answer", {**hidden(again.text), **BILLING, "note": "mine"})
    assert world.item(item_id).verdicts[0].note == "mine"


def test_lease_that_ended_counts_while_nobody_took_the_ticket(world):
    """A slow reader does not lose the work for nothing."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    world.clock.now_s += 3000
    assert ada.post(f"/items/{item_id}/answer", {**form, **BUG}).status_code == 303


def test_failing_database_leaves_what_was_entered_on_the_page_under_the_same_key(world):
    """503; whether it was stored, nobody knows, so sending it again must not be another verdict."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    with world.database.writing() as connection:
        refuse_inserts(connection, verdict_table)
    failed = ada.post(f"/items/{item_id}/answer", {**form, **BILLING, "note": "typed"})
    assert failed.status_code == 503
    assert 'value="&#34;billing&#34;" checked' in failed.text
    assert "typed</textarea>" in failed.text
    assert hidden(failed.text) == form
    with world.database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER refuse")
    sent = {**hidden(failed.text), **BILLING, "note": "typed"}
    assert [ada.post(f"/items/{item_id}/answer", sent).status_code for _ in "ab"] == [303, 303]
    assert [verdict.note for verdict in world.item(item_id).verdicts] == ["typed"]


def test_session_that_ended_says_how_the_answer_is_not_lost(world):
    """The same form, sent again by whoever is logged in once more, is taken."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    world.credentials.revoke_all("ada")
    refused = ada.post(f"/items/{item_id}/answer", {**form, **BILLING})
    assert refused.status_code == 401
    assert "another tab" in refused.text
    assert world.browser("ada").post(f"/items/{item_id}/answer", {**form, **BILLING}).is_redirect
    assert world.item(item_id).resolution == {"category": "billing"}


def test_undo_clicked_twice_takes_one_verdict_back(world):
    """And leads to the ticket both times; whoever has nothing to take back is told so."""
    ada, bob = world.browser("ada"), world.browser("bob")
    world.add("a")
    item_id, form = world.take(ada)
    ada.post(f"/items/{item_id}/answer", {**form, **BUG})
    assert bob.post(f"/items/{item_id}/undo").status_code == 409
    places = [ada.post(f"/items/{item_id}/undo").headers["location"] for _ in range(2)]
    assert places == [f"/items/{item_id}?undone=1"] * 2
    assert [verdict.kind for verdict in world.item(item_id).verdicts] == ["correct", "undo"]


def test_unknown_action_is_no_answer(world):
    """A slip of a program must not store a verdict."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    answer = ada.post(f"/items/{item_id}/answer", {**form, **BUG, "action": "unsrue"})
    assert answer.status_code == 422
    assert "unsure" in answer.text
    assert world.item(item_id).verdicts == ()


def test_missing_answer_is_asked_for_again(world):
    """422 with the form as it was; programs read why."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    answer = ada.post(f"/items/{item_id}/answer", {**form, "answer:1": "2"})
    assert answer.status_code == 422
    assert 'value="2" checked' in answer.text
    told = ada.post(f"/items/{item_id}/answer.json", {**form, "answer:1": "2"}).json()
    assert "category" in told["problem"]


@pytest.mark.parametrize(
    "values",
    [
        {"answer:0": '"nonsense"'},
        {"answer:0": "bug\0"},
        {**BUG, "answer:1": '"2"'},
        {**BUG, "answer:7": "1"},
    ],
)
def test_answer_outside_the_question_is_refused(world, values):
    """A page can be altered; the question cannot."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    assert ada.post(f"/items/{item_id}/answer", {**form, **values}).status_code == 422
    assert world.item(item_id).verdicts == ()


def test_choice_can_be_taken_back_where_no_answer_is_needed(world):
    """A radio button alone cannot: there is one that means nothing."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    assert "no answer" in ada.get(f"/items/{item_id}").text
    ada.post(f"/items/{item_id}/answer", {**form, **BUG, "answer:1": ""})
    assert world.item(item_id).verdicts[0].values == {"category": "bug"}


def test_heartbeat_prolongs_the_lease_for_its_holder_alone(world):
    ada, bob = world.browser("ada"), world.browser("bob")
    world.add("a")
    item_id, form = world.take(ada)
    world.clock.now_s += 500
    told = ada.post(f"/items/{item_id}/renew.json", form).json()
    assert told["left_s"] == pytest.approx(600)
    refused = bob.post(f"/items/{item_id}/renew.json", form)
    assert refused.status_code == 409
    assert refused.json()["problem"]


def test_skipped_ticket_comes_back_on_demand(world):
    """Skipping completes nothing, and hides nothing for ever."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    assert (
        ada.post(f"/items/{item_id}/skip", {**form, "reason": "in Finnish"})
        .headers["location"]
        .startswith("/?skipped")
    )
    page = ada.get("/").text
    assert "1 skipped by you" in page
    assert world.item(item_id).state is State.OPEN
    ada.post("/unskip")
    assert world.take(ada)[0] == item_id


@pytest.mark.parametrize("kind", ["unsure", "unclassifiable"])
def test_what_cannot_be_said_is_an_answer_too(world, kind):
    """No option need be chosen for it, and none is stored."""
    ada = world.browser("ada")
    world.add("a")
    item_id, form = world.take(ada)
    ada.post(f"/items/{item_id}/answer", {**form, **BUG, "action": kind})
    (verdict,) = world.item(item_id).verdicts
    assert (verdict.kind, verdict.values) == (kind, {})


def test_audit_shows_nothing_of_what_the_machine_said(world):
    """Neither page nor JSON, neither before nor while it is held; the probability least of all."""
    ada = world.browser("ada")
    (item_id,) = world.add("a", is_audit=True)
    looks = [ada.get(f"/items/{item_id}").text, ada.get(f"/items/{item_id}.json").text]
    _, form = world.take(ada)
    looks += [ada.get(f"/items/{item_id}").text, ada.get(f"/items/{item_id}.json").text]
    looks += [ada.get("/items.json").text, ada.get("/index.json").text]
    for seen in looks:
        for told in (
            "the machine's answer",
            "0.41",
            "41\xa0%",
            "0.07\xa0%",
            "the-provider",
            "the-model",
        ):
            assert told not in seen
    ada.post(f"/items/{item_id}/answer", {**form, **BUG})
    (verdict,) = world.item(item_id).verdicts
    assert not verdict.was_shown
    assert "the-provider" in ada.get(f"/items/{item_id}").text


def test_sighted_ticket_shows_evidence_in_words_and_numbers(world):
    ada = world.browser("ada")
    (item_id,) = world.add("a")
    page = ada.get(f"/items/{item_id}").text
    assert f"gave these labels {100 * MASS:.2f}\xa0% of its probability" in page
    assert "the machine's answer" in page
    assert "41\xa0%" in page
    assert page.count('class="bar"') == 4  # three options, and one number alone


def test_second_reader_sees_nothing_of_the_first():
    """Blind to each other until both have spoken; then an adjudicator sees both, without names."""
    with World(needed=2) as world:
        (item_id,) = world.add("a")
        ada, bob = world.browser("ada"), world.browser("bob")
        eve = world.browser("eve", Role.ADJUDICATOR)
        _, form = world.take(ada)
        ada.post(f"/items/{item_id}/answer", {**form, **BUG, "note": "ada-note"})
        for path in (f"/items/{item_id}", f"/items/{item_id}.json"):
            seen = bob.get(path).text
            assert not re.search(r"\bada\b", seen)
            assert "ada-note" in ada.get(path).text
        _, form = world.take(bob)
        bob.post(f"/items/{item_id}/answer", {**form, **BILLING, "note": "bob-note"})
        assert item_id in eve.get("/adjudicate").text
        unheld = eve.get(f"/items/{item_id}.json").text
        assert not re.search(r"\bada\b", unheld)
        assert eve.post(f"/items/{item_id}/claim").status_code == 303
        page, data = eve.get(f"/items/{item_id}").text, eve.get(f"/items/{item_id}.json").json()
        assert [(v["by"], v["said"]) for v in data["item"]["verdicts"]] == [
            ("A", "category: bug"),
            ("B", "category: billing"),
        ]
        for name in (">ada<", ">bob<", "the-provider"):
            assert name not in page
        assert "ada-note" in page
        eve.post(f"/items/{item_id}/answer", {**hidden(page), **BILLING})
        assert world.item(item_id).resolution == {"category": "billing"}
        assert ">ada<" in bob.get(f"/items/{item_id}").text


def test_reviewer_is_not_given_what_needs_an_adjudicator(world):
    ada, bob = world.browser("ada"), world.browser("bob")
    world.add("a")
    item_id, form = world.take(ada)
    ada.post(f"/items/{item_id}/answer", {**form, "action": "unsure"})
    assert bob.post("/next").headers["location"] == "/"
    assert bob.post(f"/items/{item_id}/claim").status_code == 409
    assert "1 for an adjudicator" in bob.get("/").text


def test_ticket_that_says_the_same_gets_the_same_answer_when_ticked(world):
    """One verdict each; what is not ticked waits."""
    ada = world.browser("ada")
    ids = [
        world.queue.enqueue(entry(key, subject="Invoice", body=f"Where is invoice {n}?"))
        for n, key in enumerate("abc")
    ]
    item_id, form = world.take(ada)
    page = ada.get(f"/items/{item_id}").text
    assert "2 more tickets say nearly the same" in page
    ticked, left = [other for other in ids if other != item_id]
    answer = ada.post(f"/items/{item_id}/answer", {**form, **BILLING, "also": ticked})
    assert "also=1" in answer.headers["location"]
    assert [world.item(one).state for one in (item_id, ticked, left)] == [
        State.DONE,
        State.DONE,
        State.OPEN,
    ]


def test_audit_gets_no_answer_along_with_another(world):
    """Neither offered, nor taken from a form that was altered."""
    ada = world.browser("ada")
    same = {"subject": "Invoice", "body": "Where is my invoice?"}
    (audit,) = world.add("a", is_audit=True, **same)
    (item_id,) = world.add("b", **same)
    ada.post(f"/items/{item_id}/claim")
    page = ada.get(f"/items/{item_id}").text
    assert "nearly the same" not in page
    ada.post(f"/items/{item_id}/answer", {**hidden(page), **BUG, "also": audit})
    assert (world.item(item_id).state, world.item(audit).verdicts) == (State.DONE, ())


def test_item_that_is_not_there_is_told_so(world):
    ada = world.browser("ada")
    assert ada.get("/items/nothing").status_code == 404
    assert ada.get("/items/nothing.json").json()["title"] == "Not Found"


def test_reopened_assigned_and_cancelled_by_an_adjudicator(world):
    eve, ada = world.browser("eve", Role.ADJUDICATOR), world.browser("ada")
    (item_id,) = world.add("a")
    eve.post(f"/items/{item_id}/assign", {"to": "bob"})
    assert ada.post("/next").headers["location"] == "/"
    assert "1 kept for somebody else" in ada.get("/").text
    eve.post(f"/items/{item_id}/assign", {"to": ""})
    eve.post(f"/items/{item_id}/cancel", {"reason": "spam"})
    assert world.item(item_id).state is State.CANCELLED
    assert "This ticket is cancelled." in ada.get(f"/items/{item_id}").text
    eve.post(f"/items/{item_id}/reopen", {"reason": "no spam", "needed": "2"})
    assert (world.item(item_id).state, world.item(item_id).needed) == (State.OPEN, 2)
    assert eve.post(f"/items/{item_id}/reopen", {"reason": "x"}).status_code == 409


def test_note_stays_in_the_history(world):
    ada = world.browser("ada")
    (item_id,) = world.add("a")
    ada.post(f"/items/{item_id}/note", {"text": "ask <sales>"})
    assert "ask &lt;sales&gt;" in ada.get(f"/items/{item_id}").text
