"""Administration: people, their roles and API tokens, and the erasing of old tickets' text."""

from __future__ import annotations

from typing import Annotated, Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from weighbridge.errors import PersonRefused
from weighbridge.service.forms import Form, sent_with
from weighbridge.service.pages import Go, Page
from weighbridge.service.passwords import MIN_CHARACTERS, hash_password
from weighbridge.service.routes import Routes
from weighbridge.service.site import site_of, visitor_of
from weighbridge.service.words import mistake
from weighbridge.store.roles import Role

routes = Routes()

_DAY_S: Final = 86_400.0
_MOST_DAYS: Final = 3650


@routes.page("/admin")
def show_admin(request: Request) -> Response:
    """Who may come in, and with what."""
    return _page(request)


@routes.form("/admin/people")
def add_person(
    request: Request, form: Annotated[Form, sent_with("name", "password", "role")]
) -> Response:
    """Add somebody; without a password only tokens let them in."""
    password = form.text("password")
    try:
        site_of(request).people.add(
            form.text("name").strip(),
            _role(form.text("role")),
            password_hash=hash_password(password) if password else None,
        )
    except PersonRefused as error:
        return _page(request, mistake(error))
    return Go("/admin?saved=1", {"name": form.text("name").strip()})


@routes.form("/admin/people/{name}")
def change_person(
    request: Request, name: str, form: Annotated[Form, sent_with("action", "password", "role")]
) -> Response:
    """Another role or password, out, or in again; nobody locks themselves out."""
    site, me, action = site_of(request), visitor_of(request).name, form.text("action")
    if name == me and action in ("role", "disable"):
        return _page(request, "Ask another admin to change your own role, or to let you go.")
    try:
        match action:
            case "role":
                site.people.set_role(name, _role(form.text("role")))
            case "disable":
                site.people.set_disabled(name, is_disabled=True)
                site.credentials.revoke_all(name)
            case "enable":
                site.people.set_disabled(name, is_disabled=False)
            case "password":
                site.people.set_password(name, hash_password(form.text("password")))
                site.credentials.revoke_all(name)
            case _:
                return _page(request, "This is nothing that can be done to a person.")
    except PersonRefused as error:
        return _page(request, mistake(error))
    return Go("/admin?saved=1", {"name": name})


@routes.form("/admin/tokens")
def add_token(
    request: Request, form: Annotated[Form, sent_with("days", "label", "name", "scope")]
) -> Response:
    """Make a token for a program; it is shown this once."""
    days = form.number("days")
    if days is None or not 1 <= days <= _MOST_DAYS:
        return _page(request, f"A token lasts from 1 to {_MOST_DAYS} days.")
    try:
        secret = site_of(request).credentials.issue(
            "token",
            form.text("name").strip(),
            scope=_role(form.text("scope")),
            lifetime_s=days * _DAY_S,
            label=form.text("label")[:100],
        )
    except PersonRefused as error:
        return _page(request, mistake(error))
    return _page(request, token=secret)


@routes.form("/admin/tokens/revoke")
def revoke_token(request: Request, form: Annotated[Form, sent_with("id")]) -> Response:
    """End a token at once."""
    if not site_of(request).credentials.revoke(form.text("id")):
        return _page(request, "There is no such token any more.")
    return Go("/admin?saved=1")


@routes.form("/admin/purge")
def purge(request: Request, form: Annotated[Form, sent_with("days")]) -> Response:
    """Remove the texts of what was settled long ago; verdicts and statistics stay."""
    days, remove = form.number("days"), site_of(request).purge
    if remove is None:
        raise HTTPException(404)
    if days is None or not 0 <= days <= _MOST_DAYS:
        return _page(request, f"Give a number of days from 0 to {_MOST_DAYS}.")
    num = remove(days)
    return Go(f"/admin?erased={num}", {"num_erased": num})


@routes.form("/admin/erase")
def erase(request: Request, form: Annotated[Form, sent_with("ticket_id")]) -> Response:
    """Remove all texts of one ticket; what still waits is cancelled."""
    ticket_id, remove = form.text("ticket_id"), site_of(request).erase
    if remove is None:
        raise HTTPException(404)
    num = remove(ticket_id, visitor_of(request).name)
    return Go(f"/admin?erased={num}", {"num_erased": num})


def _page(request: Request, problem: str = "", *, token: str = "") -> Page:
    site, erased = site_of(request), request.query_params.get("erased", "")
    notice = "Saved." if "saved" in request.query_params else ""
    if erased.isdecimal() and len(erased) < 10:
        notice = f"The texts of {erased} items are gone."
    view: dict[str, Any] = {
        "title": "Administration",
        "problem": problem,
        "notice": notice if not problem else "",
        "people": [
            {
                "name": person.name,
                "role": person.role.value,
                "has_password": person.has_password,
                "is_disabled": person.is_disabled,
                "created_at": person.created_at.isoformat(),
            }
            for person in site.people.everybody()
        ],
        "tokens": [
            {
                "id": token.id,
                "person": token.person,
                "scope": token.scope.value,
                "label": token.label,
                "expires_at": token.expires_at.isoformat(),
            }
            for token in site.credentials.all_of("token")
        ],
        "new_token": token,
        "roles": [role.value for role in Role],
        "min_characters": MIN_CHARACTERS,
        "can_erase": site.purge is not None and site.erase is not None,
    }
    return Page("admin.html", view, status_code=422 if problem else 200)


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        known = ", ".join(Role)
        raise PersonRefused("role", "there is no such role", f"Roles: {known}.") from None
