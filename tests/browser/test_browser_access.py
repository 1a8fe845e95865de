"""Everybody can use it: axe-core finds nothing in light or dark, and 320 px are wide enough."""

from __future__ import annotations

from importlib.resources import files

import pytest
from page_world import World, entry

from weighbridge.store.roles import Role

pytest.importorskip("axe_playwright_python", reason="NOT TESTED: accessibility, which needs axe")

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def paths(world: World) -> dict[str, str]:
    """Every page, with something on it."""
    held, blind, disputed, done, *_ = [
        world.queue.enqueue(
            entry("long", body="word " * 200 + "x" * 500, metadata={"customer": "y" * 300})
        ),
        *world.add("b", is_audit=True),
        *world.add("c", "d", "e"),
    ]
    world.browser("eve", Role.ADMIN)
    world.queue.claim("eve", item_id=held)
    for item_id, values in ((disputed, None), (done, {"category": "bug"})):
        item = world.queue.claim("bob", item_id=item_id)
        kind = "answer" if values else "unsure"
        world.queue.answer(
            item_id, reviewer="bob", token=item.lease_token, values=values or {}, kind=kind
        )
    world.queue.claim("eve", item_id=disputed, may_adjudicate=True)
    world.credentials.issue("token", "eve", scope=Role.VIEWER, lifetime_s=60, label="z" * 100)
    return {
        "queue": "/",
        "held": f"/items/{held}",
        "blind": f"/items/{blind}",
        "adjudication": f"/items/{disputed}",
        "done": f"/items/{done}",
        "search": "/items",
        "adjudicate": "/adjudicate",
        "statistics": "/statistics",
        "thresholds": "/thresholds",
        "admin": "/admin",
        "account": "/account",
        "login": "/login",
        "enter": "/enter?key=x",
        "nothing": "/nothing",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(site, visit, scheme):
    """All of WCAG 2.2 AA that a machine can check, on every page, opened details included."""
    watched = visit("eve", Role.ADMIN, color_scheme=scheme)
    found = []
    for name, path in paths(site.world).items():
        watched.page.goto(path)
        watched.page.evaluate(
            "for (const it of document.querySelectorAll('details')) it.open = true"
        )
        watched.page.evaluate(AXE)
        run = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
        for problem in watched.page.evaluate(run, RULES)["violations"]:
            found += [(name, problem["id"], node["html"]) for node in problem["nodes"]]
    assert found == []
    watched.check()


def test_axe_would_find_something(site, visit):
    """The check can fail: an image without a word, text too faint."""
    page = visit().page
    page.goto("/")
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    page.evaluate(AXE)
    violations = page.evaluate("axe.run(document)")["violations"]
    assert "image-alt" in [problem["id"] for problem in violations]


@pytest.mark.parametrize("has_scripts", [True, False])
def test_no_page_scrolls_sideways_at_320_px(site, visit, has_scripts):
    """WCAG 2.2, 1.4.10; tables that are wider scroll by themselves, within the page."""
    watched = visit(
        "eve",
        Role.ADMIN,
        viewport={"width": 320, "height": 640},
        java_script_enabled=has_scripts,
    )
    wide = {}
    for name, path in paths(site.world).items():
        watched.page.goto(path)
        if has_scripts:
            watched.page.evaluate(
                "for (const it of document.querySelectorAll('details')) it.open = true"
            )
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        if width > 320:
            wide[name] = width
    assert wide == {}


def test_motion_is_left_out_for_whoever_asks(site, visit):
    page = visit(reduced_motion="reduce").page
    page.goto("/")
    transitions = page.evaluate(
        "[...document.querySelectorAll('a, button')]"
        ".map(it => getComputedStyle(it).transitionDuration)"
    )
    assert set(transitions) == {"0s"}
