"""Claim, answer, undo and skip, as a person does them: by keyboard, and without any script."""

from __future__ import annotations

import re


def test_a_ticket_is_judged_by_keyboard_alone(site, visit):
    """Claim, choose, submit, undo, choose anew, submit, skip: no mouse and no Tab."""
    first, second = site.world.add("a", "b")
    watched = visit()
    page = watched.page
    page.goto("/")
    page.keyboard.press("t")
    page.wait_for_url(f"**/items/{first}")
    page.keyboard.press("2")
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/items/{second}?answered={first}")
    assert site.world.item(first).resolution == {"category": "bug", "priority": 3}
    page.keyboard.press("u")
    page.wait_for_url(f"**/items/{first}?undone=1")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/items/{second}?answered={first}")
    assert site.world.item(first).resolution == {"category": "billing"}
    page.keyboard.press("n")
    page.keyboard.type("12 s u t?")
    assert page.locator("textarea[name=note]").input_value() == "12 s u t?"
    page.locator("h1").focus()
    page.keyboard.press("s")
    page.wait_for_url("**/?skipped=*")
    assert "skipped by you" in page.locator("main").inner_text()
    watched.check()


def test_everything_works_without_scripts(site, visit):
    """The same by forms alone; keys that do nothing are not advertised."""
    first, second = site.world.add("a", "b")
    watched = visit(java_script_enabled=False)
    page = watched.page
    page.goto("/")
    page.get_by_role("button", name="Take the next ticket").click()
    assert page.locator("kbd:visible").count() == 0
    page.get_by_label("bug").check()
    page.get_by_role("button", name="Submit and next").click()
    assert page.url.endswith(f"/items/{second}?answered={first}")
    page.get_by_role("button", name="Undo").click()
    page.get_by_label("billing").check()
    page.get_by_role("button", name="Submit and next").click()
    page.get_by_role("button", name="Hold it longer").click()
    page.get_by_label("Why skip?").fill("too long")
    page.get_by_role("button", name="Skip", exact=True).click()
    assert site.world.item(first).resolution == {"category": "billing"}
    assert [event.kind for event in site.world.queue.history(second)][-1] == "skipped"
    page.get_by_role("button", name="Bring back what I skipped").click()
    page.get_by_role("button", name="Take the next ticket").click()
    assert page.url.endswith(f"/items/{second}")
    watched.check()


def test_page_says_where_one_is_and_what_was_chosen(site, visit):
    """The heading of the new ticket has the focus, and the live region speaks."""
    (item_id,) = site.world.add("a")
    page = visit().page
    page.goto("/")
    page.keyboard.press("t")
    page.wait_for_url("**/items/*")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    said = page.locator("#live").inner_text()
    assert re.match(r"Ticket ticket-a, about \d more wait\. Reason: low mass", said)
    page.keyboard.press("1")
    assert page.locator("#live").inner_text() == "category: billing. Next: priority."
    assert site.world.item(item_id).verdicts == ()


def test_keys_are_left_to_whoever_else_wants_them(site, visit):
    """Browser chords, fields, key repeat and an open dialog: none of them skips a ticket."""
    (item_id,) = site.world.add("a")
    page = visit().page
    page.goto("/")
    page.keyboard.press("t")
    page.wait_for_url("**/items/*")
    for chord in ("Control+s", "Alt+s", "Meta+s"):
        page.keyboard.press(chord)
    repeated = "new KeyboardEvent('keydown', {key: 's', repeat: true, bubbles: true})"
    composed = "new KeyboardEvent('keydown', {key: 's', isComposing: true, bubbles: true})"
    for event in (repeated, composed):
        page.evaluate(f"document.body.dispatchEvent({event})")
    page.keyboard.press("?")
    assert page.locator("dialog#keys").is_visible()
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    assert page.url.endswith(f"/items/{item_id}")
    assert "skipped" not in [event.kind for event in site.world.queue.history(item_id)]


def test_each_advertised_key_does_what_it_says(site, visit):
    """Dialog, hints and handlers are made of one table; a remapped key replaces the usual one."""
    site.world.add("a")
    site.world.browser("ada")
    site.world.people.set_settings("ada", {"keys": {"skip": "x"}})
    page = visit().page
    page.goto("/")
    page.keyboard.press("t")
    page.wait_for_url("**/items/*")
    shown = dict(
        page.locator("#keys tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
    )
    assert shown == {
        "1 to 9": "Choose an option",
        "Enter": "Send the answer and take the next ticket",
        "x": "Skip this ticket",
        "n": "Write a note",
        "/": "Search",
        "?": "Show the keys",
    }
    skip = page.get_by_role("button", name=re.compile("Skip"))
    assert skip.get_attribute("aria-keyshortcuts") == "x"
    page.keyboard.press("s")
    assert "skipped" not in page.url
    page.keyboard.press("x")
    page.wait_for_url("**/?skipped=*")


def test_keys_can_be_switched_off(site, visit):
    """WCAG 2.2, 2.1.4."""
    site.world.add("a")
    page = visit().page
    page.goto("/account")
    page.get_by_label("Single keys do something").uncheck()
    page.get_by_role("button", name="Save").click()
    page.goto("/")
    page.keyboard.press("t")
    page.keyboard.press("?")
    assert page.locator("kbd:visible").count() == 0
    assert not page.locator("dialog#keys").is_visible()
    assert page.url == f"{site.url}/"


def test_somebody_who_is_there_keeps_the_ticket_and_an_idle_tab_does_not(site, visit):
    """The lease is prolonged after a third of it, if a key or the mouse was moved since."""
    (item_id,) = site.world.add("a")
    page = visit().page
    page.clock.install()
    page.goto("/")
    page.keyboard.press("t")
    page.wait_for_url("**/items/*")
    until = site.world.queue.mine("ada").leased[0].lease.until
    site.world.clock.now_s += 300
    page.clock.run_for(300_000)
    assert site.world.queue.mine("ada").leased[0].lease.until == until
    left = page.locator("#lease .left").inner_text()
    assert re.fullmatch(r"Held for you: (5:00|4:[45]\d)", left)
    with page.expect_response(f"**/items/{item_id}/renew.json"):
        page.mouse.move(30, 30)
        page.clock.run_for(1_000)
    assert (site.world.queue.mine("ada").leased[0].lease.until - until).total_seconds() == 300


def test_last_minute_is_announced_and_a_lost_ticket_keeps_the_draft(site, visit):
    """By word, not by colour; what was chosen is still there, and sending it says why it failed."""
    (item_id,) = site.world.add("a")
    page = visit().page
    page.clock.install()
    page.goto("/")
    page.keyboard.press("t")
    page.wait_for_url("**/items/*")
    page.get_by_label("billing").check()
    page.clock.run_for(210_000)  # choosing was a sign of life
    while not page.locator("#lease .left").inner_text().startswith("Held for you: 9:5"):
        page.clock.run_for(100)
    page.clock.run_for(560_000)
    assert "less than a minute" in page.locator("#live").inner_text()
    site.world.clock.now_s += 2000
    site.world.queue.claim("bob", item_id=item_id)
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]")
    assert "bob" in page.locator("[role=alert]").inner_text()
    assert page.get_by_label("billing").is_checked()


def test_login_by_link_and_by_nothing_else(site, visit):
    """The button uses the link up; the address alone does not."""
    site.world.people.add("eve", "admin")
    key = site.world.credentials.issue("link", "eve", scope="admin", lifetime_s=60)
    watched = visit("")
    page = watched.page
    page.goto(f"/enter?key={key}")
    page.reload()
    page.get_by_role("button", name="Open the queue").click()
    page.get_by_role("heading", name="Queue").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.goto("/")
    assert "/login" in page.url
    watched.check()


def test_many_tickets_get_one_answer_after_a_look_at_them(site, visit):
    """Search, tick, confirm: one verdict for each that stayed ticked."""
    ids = site.world.add("a", "b", "c")
    page = visit().page
    page.goto("/items?state=open")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="One answer for all that are ticked").click()
    page.get_by_role("checkbox").first.uncheck()
    page.get_by_label("how_to").check()
    page.get_by_role("button", name="Give this answer to each").click()
    assert page.locator("h1").inner_text() == "2 of 2 answered"
    assert sorted(len(site.world.item(one).verdicts) for one in ids) == [0, 1, 1]
