"""Entering: log in with a password or a one-time link, log out, and one's own settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from weighbridge.decision import Json
from weighbridge.errors import PersonRefused
from weighbridge.service.forms import FormBody
from weighbridge.service.identity import SESSION_S, give_cookie, take_cookie
from weighbridge.service.keys import KEYS, choose_keys
from weighbridge.service.pages import Go, Page, root_path
from weighbridge.service.passwords import MIN_CHARACTERS, hash_password, is_password
from weighbridge.service.routes import Routes
from weighbridge.service.site import site_of, visitor_of
from weighbridge.store.roles import Role

routes = Routes()


@routes.page("/login")
def show_login(request: Request) -> Response:
    """The form; `next` is where to go from there."""
    return _login_page(request.query_params.get("next", ""))


@routes.form("/login")
def log_in(request: Request, form: FormBody) -> Response:
    """Check a password. Wrong name, wrong password and no password are one answer."""
    site, name, next_path = site_of(request), form.text("name"), form.text("next")
    if site.is_secure and request.url.scheme != "https":
        problem = "This page must be reached over HTTPS: browsers send its cookie nowhere else."
        return _login_page(next_path, problem, status_code=400)
    address = request.client.host if request.client else "unknown"
    if wait := math.ceil(site.throttle.admit(name, address)):
        return _login_page(
            next_path,
            f"Too many attempts. Wait {wait} s, then try again.",
            status_code=429,
            headers={"retry-after": str(wait)},
        )
    if not is_password(form.text("password"), site.people.password_hash(name)):
        problem = "Name or password is wrong."
        return _login_page(next_path, problem, status_code=401, name=name)
    site.throttle.succeeded(name, address)
    return _with_session(request, name, next_path)


@routes.page("/enter")
def show_entrance(request: Request) -> Response:
    """Where a one-time link leads: only the button uses it up, not whoever looks ahead."""
    key = request.query_params.get("key", "")
    return Page("enter.html", {"title": "Enter"}, form={"key": key})


@routes.form("/enter")
def enter(request: Request, form: FormBody) -> Response:
    """Turn a one-time link into a session."""
    link = site_of(request).credentials.use_up("link", form.text("key"))
    if link is None:
        text = "This link was used already, or it is too old. Start the page again for a new one."
        return Page("message.html", {"title": "No entry", "text": text}, status_code=403)
    return _with_session(request, link.person, "/")


@routes.form("/logout")
def log_out(request: Request) -> Response:
    """End this session."""
    site, visitor = site_of(request), visitor_of(request)
    if session := site.credentials.find("session", visitor.secret):
        site.credentials.revoke(session.id)
    answer = Go("/login")
    take_cookie(answer, path=_cookie_path(request), is_secure=site.is_secure)
    return answer


@routes.page("/account")
def show_account(request: Request) -> Response:
    """One's own settings."""
    return _account_page(request)


@routes.form("/account")
def change_account(request: Request, form: FormBody) -> Response:
    """Keys: on or off, and which."""
    site, visitor = site_of(request), visitor_of(request)
    settings, problem = choose_keys(form.under("key:"), has_keys=form.text("has_keys") == "1")
    if problem:
        return _account_page(request, problem, settings)
    site.people.set_settings(visitor.name, settings)
    return Go("/account?saved=1", {"settings": settings})


@routes.form("/account/password")
def change_password(request: Request, form: FormBody) -> Response:
    """A new password; every other session of this person ends."""
    site, name = site_of(request), visitor_of(request).name
    stored = site.people.password_hash(name)
    if stored is not None and not is_password(form.text("old"), stored):
        return _account_page(request, "The old password is wrong.")
    try:
        hashed = hash_password(form.text("new"))
    except PersonRefused as error:
        return _account_page(request, f"The new password is {error.problem}. {error.hint}")
    site.people.set_password(name, hashed)
    site.credentials.revoke_all(name, kind="session")
    return _with_session(request, name, "/account?saved=1")


def _login_page(
    next_path: str,
    problem: str = "",
    *,
    status_code: int = 200,
    headers: Mapping[str, str] | None = None,
    name: str = "",
) -> Page:
    return Page(
        "login.html",
        {"title": "Log in", "problem": problem},
        status_code=status_code,
        headers=headers,
        form={"next": next_path, "name": name},
    )


def _account_page(
    request: Request, problem: str = "", settings: Mapping[str, Json] | None = None
) -> Page:
    person = visitor_of(request).person
    view: dict[str, Any] = {
        "title": "Your settings",
        "problem": problem,
        "is_saved": "saved" in request.query_params and not problem,
        "name": person.name,
        "role": person.role.value,
        "settings": dict(person.settings if settings is None else settings),
        "keys": [row._asdict() for row in KEYS],
        "has_password": person.has_password,
        "min_characters": MIN_CHARACTERS,
    }
    return Page("account.html", view, status_code=422 if problem else 200)


def _with_session(request: Request, name: str, next_path: str) -> Go:
    site = site_of(request)
    person = site.people.get(name)
    if person is None:  # removed since a moment ago
        raise PersonRefused(name, "there is nobody of this name")
    secret = site.credentials.issue("session", name, scope=Role.ADMIN, lifetime_s=SESSION_S)
    answer = Go(_own_path(next_path), {"name": name, "role": person.role.value})
    give_cookie(answer, secret, path=_cookie_path(request), is_secure=site.is_secure)
    return answer


def _own_path(path: str) -> str:
    """A path of ours, whatever was asked for: a link must not lead elsewhere by way of us."""
    is_own = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable()
    return path if is_own else "/"


def _cookie_path(request: Request) -> str:
    return root_path(request) or "/"
