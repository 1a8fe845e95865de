from __future__ import annotations

import asyncio

import pytest
from page_world import URL, Browser, World

from weighbridge.service.access import ROLES, role_for
from weighbridge.service.guard import HEADERS
from weighbridge.store.roles import Role

PLACES = [
    (method, twin)
    for method, path in ROLES
    for twin in (path, f"{path}.json".replace("/.", "/index."))
    if not path.startswith("/static")
]


def filled(path: str, item_id: str = "no-such-item") -> str:
    return path.format(item_id=item_id, name="keys.js" if "static" in path else "nobody")


def routes(world: World) -> set[tuple[str, str]]:
    """What the application really serves."""
    fastapi = world.app._app
    return {
        (method, route.path)
        for route in every_route(fastapi.routes)
        for method in route.methods - {"HEAD"}
    }


def every_route(found):
    for route in found:
        if hasattr(route, "path") and hasattr(route, "methods"):
            yield route
        else:
            yield from every_route(route.original_router.routes)


def test_every_route_is_in_the_table_and_every_row_is_served(world):
    """A route that nobody thought about cannot be served, nor a row be forgotten."""
    served = routes(world)
    assert {(method, path) for method, path in served if not path.endswith(".json")} == set(ROLES)
    assert {(m, p) for m, p in served if p.endswith(".json")} == {
        (m, p) for m, p in PLACES if p.endswith(".json")
    }


def test_route_without_a_row_is_refused():
    with pytest.raises(KeyError):
        role_for("GET", "/surprise")


@pytest.mark.parametrize("who", [None, *Role])
def test_every_route_lets_in_whom_the_table_says(world, who):
    """Every route, every role and nobody; 404, 409 and 422 come from behind the door."""
    browser = world.browser("somebody" if who else "", who or Role.VIEWER)
    cookies = browser.cookies
    wrong = []
    for method, path in PLACES:
        needed = role_for(method, path)
        browser.cookies = cookies  # a logout that works must not spoil the rest
        if path.startswith("/logout") and who:
            continue
        answer = browser.send(method, filled(path))
        is_json = path.endswith(".json")
        if needed is None:
            is_right = answer.status_code not in (303, 500) or path.startswith("/enter")
        elif who is None:
            at_door = 303 if method == "GET" and not is_json else 401
            is_right = answer.status_code == at_door
        elif who.includes(needed):
            is_right = answer.status_code in (200, 303, 404, 409, 422)
        else:
            is_right = answer.status_code == 403
        if not is_right:
            wrong.append((method, path, answer.status_code))
    assert wrong == []


def test_looking_changes_nothing(world):
    """Every GET there is, by an admin and by nobody, leaves every table as it was."""

    def dump() -> list[str]:
        with world.database.reading() as connection:
            return list(connection.connection.driver_connection.iterdump())

    root = world.browser("root", Role.ADMIN)
    (item_id,) = world.add("a")
    before = dump()
    for browser in (root, world.browser()):
        for method, path in PLACES:
            if method == "GET":
                browser.get(f"{filled(path, item_id)}?key=x&next=/logout&answered=x")
    assert dump() == before


def test_nobody_is_sent_to_the_login_and_back(world):
    """Only pages are worth going back to."""
    answer = world.browser().get("/items?state=open")
    assert answer.headers["location"] == "/login?next=%2Fitems%3Fstate%3Dopen"


def test_body_is_not_read_before_somebody_is_let_in(world):
    """A stranger cannot make the server parse anything."""
    answer = world.browser().send(
        "POST", "/items/x/answer", content=b"{", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 401


def test_role_counts_from_the_next_request_on(world):
    """Nobody keeps a right until their session ends."""
    browser = world.browser("ada", Role.ADMIN)
    assert browser.get("/admin").status_code == 200
    world.people.set_role("ada", Role.VIEWER)
    assert browser.get("/admin").status_code == 403
    world.people.set_disabled("ada", is_disabled=True)
    assert browser.get("/admin").status_code == 303


def test_token_does_no_more_than_its_scope_and_its_person(world):
    world.browser("ada", Role.ADMIN)
    world.browser("bob", Role.VIEWER)
    assert world.program("ada", scope=Role.VIEWER).get("/admin.json").status_code == 403
    assert world.program("ada", scope=Role.ADMIN).get("/admin.json").status_code == 200
    assert world.program("bob", scope=Role.ADMIN).get("/admin.json").status_code == 403


def test_expired_and_revoked_tokens_let_nobody_in(world):
    world.browser("ada", Role.ADMIN)
    program = world.program("ada", scope=Role.ADMIN)
    assert program.get("/index.json").status_code == 200
    world.clock.now_s += 3601
    answer = program.get("/index.json")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    other = world.program("ada", scope=Role.ADMIN)
    world.credentials.revoke_all("ada")
    assert other.get("/index.json").status_code == 401


def test_other_sites_change_nothing_even_with_a_cookie(world):
    """What a browser says about who asks decides; the token of a program needs no page of ours."""
    browser = world.browser("ada")
    browser.headers = {"sec-fetch-site": "cross-site"}
    assert browser.post("/next").status_code == 403
    browser.headers = {}
    assert browser.post("/next").status_code == 403
    browser.headers = {"origin": URL}
    assert browser.post("/next").status_code == 303
    assert world.program("ada", scope=Role.REVIEWER).post("/next.json").status_code == 200


def test_token_beside_a_cookie_is_no_excuse(world):
    """The cookie could be what lets the request in."""
    browser = world.browser("ada")
    browser.headers = world.program("ada", scope=Role.REVIEWER).headers
    assert browser.post("/next").status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1"])
def test_other_names_get_nothing(world, host):
    """Not even the login, whose page a stranger's script could otherwise read."""
    answer = world.browser("ada").get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "ada" not in answer.text


def test_every_answer_carries_the_headers(world):
    """Pages, files, refusals and failures alike."""
    browser = world.browser("ada")
    world.queue.get = None  # a bug of ours
    answers = [
        browser.get("/"),
        browser.get("/static/style.css"),
        browser.get("/nothing"),
        browser.get("/", headers={"host": "evil.example"}),
        browser.get("/items/x"),
        browser.get("/items/x.json"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 421, 500, 500]
    for answer in answers:
        sent = {name: answer.headers.get(name) for name in HEADERS}
        if "static" in str(answer.url):
            sent["cache-control"] = HEADERS["cache-control"]
        assert sent == HEADERS


def test_policy_allows_our_own_files_alone(world):
    policy = world.browser().get("/login").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "data:" not in policy


def test_report_address_is_told_where_one_is_given():
    with World(report_uri="/reports") as world:
        policy = world.browser().get("/login").headers["content-security-policy"]
    assert policy.endswith("; report-uri /reports")


@pytest.mark.parametrize("name", ["..%2fapp.py", "keys.js%00", "app.py", "../app.py"])
def test_only_the_three_files_are_served(world, name):
    assert world.browser().get(f"/static/{name}").status_code == 404


def test_long_bodies_are_refused_announced_or_not(world):
    """By their length, and by counting what comes."""
    browser = world.browser("ada", Role.ADMIN)
    long = b"text=" + b"x" * 1_000_001
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert browser.send("POST", "/items/x/note", content=long, headers=form).status_code == 413

    async def chunks():
        for _ in range(11):
            yield b"x" * 100_000

    answer = browser.send("POST", "/items/x/note", content=chunks(), headers=form)
    assert answer.status_code == 413
    fits = b"text=" + b"x" * 900_000
    assert browser.send("POST", "/items/x/note", content=fits, headers=form).status_code == 404


def test_failures_say_nothing_of_what_is_inside(world):
    """No trace, no path, no text; the server's own log has them."""
    browser = world.browser("ada")
    (item_id,) = world.add("a", body="canary-51")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("canary-52 /etc/passwd")

    world.queue.history = fail
    for path in (f"/items/{item_id}", f"/items/{item_id}.json"):
        answer = browser.get(path)
        assert answer.status_code == 500
        for secret in ("canary", "passwd", "Traceback", "RuntimeError", ".py"):
            assert secret not in answer.text


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"values": []}', "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"\xff", "application/x-www-form-urlencoded"),
        (b"a=1&" * 3000, "application/x-www-form-urlencoded"),
    ],
)
def test_bodies_that_cannot_be_read_are_refused(world, content, kind):
    browser = world.browser("ada")
    answer = browser.send("POST", "/items/x/note", content=content, headers={"content-type": kind})
    assert answer.status_code == 400


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=b", "text/plain", ""])
def test_other_kinds_of_bodies_are_refused_rather_than_taken_for_empty_forms(world, kind):
    browser = world.browser("ada")
    headers = {"content-type": kind}
    answer = browser.send("POST", "/items/x/note", content=b"text=a", headers=headers)
    assert answer.status_code == 415
    assert "JSON" in answer.text


def test_body_that_breaks_off_is_no_failure_of_ours(world):
    """A closed tab must not fill the log with traces, nor store half of what was sent."""
    ada = world.browser("ada")
    world.add("a")
    item_id, _ = world.take(ada)
    session = ada.cookies["weighbridge_session"]
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/items/{item_id}/note",
        "query_string": b"",
        "scheme": "http",
        "headers": [
            (b"host", b"localhost"),
            (b"sec-fetch-site", b"same-origin"),
            (b"content-type", b"application/x-www-form-urlencoded"),
            (b"cookie", f"weighbridge_session={session}".encode()),
        ],
    }
    received = iter(
        [
            {"type": "http.request", "body": b"text=half", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent = []

    async def receive():
        return next(received)

    async def send(message):
        sent.append(message)

    asyncio.run(world.app(scope, receive, send))
    assert sent[0]["status"] == 400
    assert "noted" not in [event.kind for event in world.queue.history(item_id)]


def test_length_of_thousands_of_digits_is_too_long(world):
    """Python would refuse to read the number, and that would be our failure."""
    headers = {"content-length": "9" * 5000}
    answer = world.browser("ada").send("POST", "/login", content=b"", headers=headers)
    assert answer.status_code == 413


def test_mounted_application_keeps_its_links_and_its_cookie_to_itself(world):
    """Under another application's path, nothing points to the top."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    world.browser("ada", Role.REVIEWER)
    key = world.credentials.issue("link", "ada", scope=Role.ADMIN, lifetime_s=60)
    outer = Browser(Starlette(routes=[Mount("/review", world.app)]))
    assert outer.get("/review/").headers["location"] == "/review/login?next=%2F"
    entered = outer.post("/review/enter", {"key": key})
    assert "path=/review;" in entered.headers["set-cookie"].lower()
    page = outer.get("/review/").text
    assert 'href="/review/items"' in page
    assert 'action="/next"' not in page
