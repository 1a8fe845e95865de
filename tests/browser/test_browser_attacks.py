"""Hostile text through everything that is shown: it stays text, and nothing else happens."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from page_world import World

from weighbridge.decision import Decision, FieldEvidence, Question, Reason, ReviewEntry
from weighbridge.review.queue import ReviewQueue
from weighbridge.store.roles import Role

ATTACKS = {
    "script": "<script>alert(1)</script>",
    "closing": "</pre></textarea></title></script><script>alert(2)</script>",
    "handler": "<img src=x onerror=alert(3)><body onload=alert(3)>",
    "attribute": "\" autofocus onfocus=\"alert(4)\" x='' y='",
    "quote": "' onmouseover='alert(5)",
    "link": "<a href='javascript:alert(6)'>javascript:alert(6)</a>",
    "svg": "<svg><script>alert(7)</script><animate onbegin=alert(7) attributeName=x dur=1s>",
    "elsewhere": "<img src='//127.0.0.1:9/x'><link rel=stylesheet href=//127.0.0.1:9/x.css>",
    "style": "<style>@import 'http://127.0.0.1:9/x.css'; body{display:none}</style>",
    "template": "{{ 1234*5678 }}{% for x in ().__class__ %}{% endfor %}${1234*5678}",
    "entities": "&lt;script&gt;alert(8)&lt;/script&gt;&#x3C;script&#x3E;alert(8)",
    "direction": "invoice\u202egpj.exe\u2066\u200b\u200d\ufeff end",
    "control": "nul\0 escape\x1b[31m bell\x07 c1\x9b31m",
    "halves": "\ud83d half \udc00 \ufffe \U000e0041",
    "formula": '=HYPERLINK("http://127.0.0.1:9/","x")\n+1\n-1\n@SUM(1)\t\r|cmd',
    "meta": "<meta http-equiv=refresh content='0;url=//127.0.0.1:9/'><base href=//127.0.0.1:9/>",
    "form": "</form><form action='http://127.0.0.1:9/'><button>Submit and next</button></form>",
    "comment": "<!--><script>alert(9)</script><![CDATA[<script>alert(9)</script>]]>",
}


ACTIONS = ("skip", "undo", "note", "take", "search", "help")


def hostile(text: str) -> ReviewEntry:
    """A ticket in which everything that can be text is `text`."""
    field = FieldEvidence(
        value=text,
        source="exact",
        probability=0.5,
        mass=(0.1, 0.2),
        options={text: 0.5, "other": 0.5},
        notes=(text,),
    )
    return ReviewEntry(
        dedupe_key=f"key {text}",
        decision=Decision(
            ticket_id=text,
            task=text,
            status="review",
            value={text: text},
            fields={text: field},
            reasons=(Reason.LOW_MASS,),
            reasoning=text,
            provider=text,
            model=text,
        ),
        ticket={
            "id": text,
            "subject": text,
            "body": text,
            "metadata": {text: text, "language": text},
            "quoted": text,
            "signature": text,
            "hidden": text,
        },
        questions=(
            Question(field=text, options=(text, "other"), descriptions={text: text}, machine=text),
            Question(field=f"free {text}", options=(), machine=text, required=False),
        ),
    )


def open_everything(page: Any) -> None:
    """Whatever waits for a pointer, a focus or an opened detail gets it."""
    page.evaluate("for (const it of document.querySelectorAll('details')) it.open = true")
    page.evaluate(
        "for (const it of document.querySelectorAll('main *')) {"
        " it.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); it.focus?.(); }"
    )


def visible(text: str) -> str:
    """How a text stands on the page: what is hidden in it is spelled out by `marks`."""
    from weighbridge.service.marks import marked

    return "".join(piece.text for piece in marked(text)).encode("utf-8", "replace").decode()


def judged(world: World, text: str) -> str:
    """The id of a hostile ticket that two hostile people did not agree on."""
    queue = ReviewQueue(world.database, clock=world.clock, needed=2)
    item_id = queue.enqueue(hostile(text))
    skipped = queue.claim("eve", item_id=item_id)
    queue.skip(item_id, reviewer="eve", token=skipped.lease_token, reason=text)
    for reviewer, value in ((f"{text} 1", text), (f"{text} 2", "other")):
        item = queue.claim(reviewer, item_id=item_id)
        queue.answer(
            item_id,
            reviewer=reviewer,
            token=item.lease_token,
            values={text: value, f"free {text}": text},
            note=text,
        )
    queue.note(item_id, by=text, text=text)
    queue.assign(item_id, to=text, by=text)
    return item_id


def test_hostile_text_stays_text_on_the_page_of_a_ticket(site, visit):
    """Text, labels, evidence, notes, history and names of people; before and after the verdict."""
    world, watched = site.world, visit("eve", Role.ADMIN)
    page = watched.page
    for name, text in ATTACKS.items():
        item_id = judged(world, text)
        page.goto(f"/items/{item_id}")
        page.get_by_role("button", name="Take this ticket").click()
        open_everything(page)
        shown = page.locator("pre.body").first.evaluate("it => it.textContent")
        assert shown == visible(text)
        page.get_by_role("radio").first.check()
        page.get_by_label("Answer").fill("free")
        page.locator("#verdict").get_by_role("button", name="Submit and next").last.click()
        assert world.item(item_id).resolution == {text: text, f"free {text}": "free"}, name
        page.goto(f"/items/{item_id}")
        open_everything(page)
        assert "7006652" not in page.locator("main").inner_text(), name
        watched.check()


def test_hostile_text_stays_text_in_lists(site, visit):
    """Queue, search, what needs an adjudicator, bulk answers, tokens: all attacks on one page."""
    world = site.world
    watched = visit("eve", Role.ADMIN)
    page = watched.page
    for text in ATTACKS.values():
        item_id = judged(world, text)
        if text != ATTACKS["script"]:
            world.queue.cancel(item_id, by=text, reason=text)
            world.queue.reopen(item_id, by=text, reason=text)
            world.queue.assign(item_id, to=None, by=text)
        world.credentials.issue("token", "eve", scope=Role.VIEWER, lifetime_s=60, label=text)
    for path in ("/", "/adjudicate", "/admin", "/items?state=open"):
        page.goto(path)
        open_everything(page)
    for box in page.get_by_role("checkbox").all():
        box.set_checked(box.is_enabled())
    page.get_by_role("button", name="One answer for all").click()
    open_everything(page)
    page.get_by_role("radio").first.check()
    page.locator("form").get_by_role("button", name="Give this answer").last.click()
    open_everything(page)
    watched.check()


def test_hostile_addresses_are_answered_with_text(site, visit):
    """Error pages, notices, searches and the login repeat what is in an address, or do not."""
    watched = visit("eve", Role.ADMIN)
    for name in ("script", "closing", "attribute", "quote", "template", "direction"):
        text = quote(ATTACKS[name], safe="")
        for path in (
            f"/{text}",
            f"/items/{text}",
            f"/items?text={text}&task={text}&reason={text}&state={text}&since={text}&after={text}",
            f"/?answered={text}&skipped={text}",
            f"/login?next={text}",
            f"/enter?key={text}",
        ):
            watched.page.goto(path)
    watched.check()


def test_hostile_ids_and_settings_stay_text(site, visit):
    """An id is ours, and a setting its owner's; neither is trusted."""
    world = site.world
    world.browser("eve", Role.ADMIN)
    for text in ATTACKS.values():
        clean = text.encode("utf-8", "replace").decode().replace("\0", "")
        queue = ReviewQueue(world.database, clock=world.clock, new_id=lambda clean=clean: clean)
        queue.enqueue(hostile(text))
    world.people.set_settings("eve", {"keys": dict(zip(ACTIONS, ATTACKS.values(), strict=False))})
    watched = visit("eve", Role.ADMIN)
    for path in ("/", "/items", "/account"):
        watched.page.goto(path)
        open_everything(watched.page)
    watched.check()


def test_a_megabyte_is_shown_and_judged(site, visit):
    """Slowly perhaps, but whole; lists show its beginning alone."""
    world = site.world
    text = "<b>word</b>\u202e " * 80_000
    (item_id,) = world.add("long", body=text, subject=None)
    watched = visit()
    page = watched.page
    page.goto("/")
    assert len(page.content()) < 20_000
    page.keyboard.press("t")
    page.wait_for_url(f"**/items/{item_id}")
    assert page.locator("pre.body").first.evaluate("it => it.textContent.length") > 1_000_000
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?answered=*")
    watched.check()


def test_an_attack_would_be_noticed(site, visit):
    """The watch can fail: a dialog, a request to elsewhere and a breach of the policy are seen."""
    watched = visit("eve", Role.ADMIN)
    page = watched.page
    page.goto("/")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x>')")
    page.evaluate("alert(1)")
    page.wait_for_timeout(200)
    assert watched.dialogs == ["1"]
    assert any("Content Security Policy" in error for error in watched.errors)
    assert site.reports != []
    with pytest.raises(AssertionError):
        watched.check()
