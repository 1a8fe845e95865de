from __future__ import annotations

import pytest
from page_world import Browser, World

from weighbridge.service.passwords import hash_password, is_password
from weighbridge.store.roles import Role

PASSWORD = "correct horse battery"


def hashed() -> str:
    return hash_password(PASSWORD)


@pytest.fixture
def ada(world) -> Browser:
    world.people.add("ada", Role.REVIEWER, password_hash=hashed())
    return world.browser()


def log_in(browser: Browser, password: str = PASSWORD, **form: str):
    return browser.post("/login", {"name": "ada", "password": password, **form})


def test_password_opens_the_page_and_logging_out_closes_it(ada):
    """The session is the browser's alone, and gone on the server too."""
    assert log_in(ada).headers["location"] == "/"
    assert ada.get("/").status_code == 200
    session = ada.cookies
    assert ada.post("/logout").headers["location"] == "/login"
    ada.cookies = session
    assert ada.get("/").status_code == 303


def test_cookie_is_out_of_reach_for_scripts_and_other_sites(ada):
    """And over HTTPS it never leaves it."""
    cookie = log_in(ada).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie  # this is loopback, without HTTPS


def test_cookie_of_a_page_with_https_is_secure_and_never_given_without():
    with World(is_secure=True, hosts={"review.example"}) as world:
        world.people.add("ada", Role.REVIEWER, password_hash=hashed())
        ada = world.browser()
        form = {"name": "ada", "password": PASSWORD}
        plain = ada.post("http://review.example/login", form)
        assert plain.status_code == 400
        assert "set-cookie" not in plain.headers
        cookie = ada.post("https://review.example/login", form).headers["set-cookie"]
        assert "secure" in cookie.lower()


@pytest.mark.parametrize("name", ["ada", "bob", "eve", ""])
def test_wrong_name_wrong_password_and_no_password_are_one_answer(world, name):
    """Nothing tells which names exist."""
    world.people.add("ada", Role.REVIEWER, password_hash=hashed())
    world.people.add("bob", Role.REVIEWER)
    answer = world.browser().post("/login", {"name": name, "password": "wrong"})
    assert answer.status_code == 401
    assert "Name or password is wrong." in answer.text


def test_person_without_a_password_has_none_that_is_empty(world):
    """Whoever comes by token has no door to try."""
    world.people.add("bob", Role.ADMIN)
    assert world.browser().post("/login", {"name": "bob", "password": ""}).status_code == 401


def test_disabled_person_is_told_nothing_special(world, ada):
    world.people.set_disabled("ada", is_disabled=True)
    assert log_in(ada).status_code == 401


def test_guesser_waits_as_long_as_is_said(world, ada):
    """The right password too, or guesses could go on meanwhile."""
    for _ in range(5):
        assert log_in(ada, "wrong").status_code == 401
    answer = log_in(ada)
    assert answer.status_code == 429
    world.clock.now_s += int(answer.headers["retry-after"])
    assert log_in(ada).status_code == 303


@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("/items/x?a=1", "/items/x?a=1"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/\nx", "/"),
        ("", "/"),
    ],
)
def test_login_leads_to_our_own_pages_alone(ada, asked, led):
    """A link to us must not be a link elsewhere."""
    assert log_in(ada, next=asked).headers["location"] == led


def test_link_lets_in_once_and_only_by_its_button(world):
    """Whatever looks ahead at links does not use it up."""
    world.people.add("ada", Role.ADMIN)
    key = world.credentials.issue("link", "ada", scope=Role.ADMIN, lifetime_s=600)
    browser = world.browser()
    for _ in range(2):
        assert browser.get(f"/enter?key={key}").status_code == 200
    assert browser.post("/enter", {"key": key}).status_code == 303
    assert browser.get("/").status_code == 200
    assert world.browser().post("/enter", {"key": key}).status_code == 403


def test_link_ages(world):
    world.people.add("ada", Role.ADMIN)
    key = world.credentials.issue("link", "ada", scope=Role.ADMIN, lifetime_s=600)
    world.clock.now_s += 600
    assert world.browser().post("/enter", {"key": key}).status_code == 403


def test_session_ends_by_itself(world, ada):
    log_in(ada)
    world.clock.now_s += 12 * 3600 - 1
    assert ada.get("/").status_code == 200
    world.clock.now_s += 1
    assert ada.get("/").status_code == 303


def test_session_is_no_token_and_a_token_no_session(world):
    """Each door has its own key."""
    ada = world.browser("ada")
    secret = ada.cookies["weighbridge_session"]
    assert Browser(world.app, {"authorization": f"Bearer {secret}"}).get("/").status_code == 303
    token = world.credentials.issue("token", "ada", scope=Role.ADMIN, lifetime_s=60)
    other = world.browser()
    other.cookies.set("weighbridge_session", token)
    assert other.get("/").status_code == 303


def test_new_password_needs_the_old_one_and_ends_other_sessions(world, ada):
    log_in(ada)
    elsewhere = world.browser("ada")
    new = {"new": "a new long password"}
    assert ada.post("/account/password", {"old": "wrong", **new}).status_code == 422
    assert ada.post("/account/password", {"old": PASSWORD, "new": "short"}).status_code == 422
    assert ada.post("/account/password", {"old": PASSWORD, **new}).status_code == 303
    assert ada.get("/").status_code == 200
    assert elsewhere.get("/").status_code == 303
    assert is_password(new["new"], world.people.password_hash("ada"))


def test_keys_are_kept_for_one_person(world):
    """Single keys can be changed and switched off: WCAG 2.2, 2.1.4."""
    ada, bob = world.browser("ada"), world.browser("bob")
    form = {"has_keys": "1", "key:skip": "X", "key:undo": ""}
    assert ada.post("/account", form).status_code == 303
    assert "&#34;key&#34;: &#34;x&#34;" in ada.get("/").text
    assert "&#34;key&#34;: &#34;s&#34;" in bob.get("/").text
    ada.post("/account", {"key:skip": "x"})
    assert 'data-keys="[]"' in ada.get("/").text


@pytest.mark.parametrize(
    "keys",
    [
        {"key:skip": "xy"},
        {"key:skip": "1"},
        {"key:skip": " "},
        {"key:skip": "\u200b"},
        {"key:skip": "x", "key:undo": "X"},
        {"key:skip": "u"},
    ],
)
def test_keys_that_cannot_work_are_refused(world, keys):
    """Digits choose options; two actions cannot share a key."""
    ada = world.browser("ada")
    assert ada.post("/account", keys).status_code == 422
    assert world.people.get("ada").settings == {}


def test_password_is_hashed_as_the_library_recommends(monkeypatch):
    """Not as quickly as in these tests."""
    monkeypatch.undo()
    kind, _, cost = hash_password(PASSWORD).removeprefix("$").split("$")[:3]
    assert kind == "argon2id"
    assert int(cost.removeprefix("m=").partition(",")[0]) >= 19_456  # KiB, the least OWASP advises


def test_password_is_checked_against_its_hash_alone():
    assert is_password(PASSWORD, hashed())
    assert not is_password(PASSWORD + " ", hashed())
    assert not is_password("", None)
    assert not is_password("x", "not a hash")


def test_password_of_any_characters_is_a_password():
    """Half a surrogate pair has no encoding; a program can send one all the same."""
    half = "\ud800" * 12
    assert is_password(half, hash_password(half))
    assert not is_password("\ud801" * 12, hash_password(half))
