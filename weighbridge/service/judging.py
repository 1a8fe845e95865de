"""Judging: one ticket on the page, from claim to verdict; looking at it changes nothing."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from weighbridge.errors import ChangeRefused, LeaseLost, QueueUnavailable, VerdictInvalid
from weighbridge.review.items import Item, Said, SlotKind, State
from weighbridge.review.overviews import BulkResult
from weighbridge.service.failures import unavailable
from weighbridge.service.forms import ANSWER, Form, sent_with
from weighbridge.service.item_view import item_view, said
from weighbridge.service.pages import Go, Page
from weighbridge.service.routes import Routes
from weighbridge.service.site import site_of, visitor_of
from weighbridge.service.words import mistake
from weighbridge.store.roles import Role

routes = Routes()

_SAID: Final[dict[str, Said]] = {
    "answer": "answer",
    "unsure": "unsure",
    "unclassifiable": "unclassifiable",
}
_MOST_ALIKE: Final = 20


@routes.page("/items/{item_id}")
def show_item(request: Request, item_id: str) -> Response:
    """One item; with the form, if whoever asks holds it."""
    return _item_page(request, item_id)


@routes.form("/next")
def take_next(request: Request) -> Response:
    """Hold the item that needs a person most for whoever asks."""
    return _next(request)


@routes.form("/items/{item_id}/claim")
def claim(
    request: Request,
    item_id: str,
    form: Annotated[Form, sent_with("token", "idem_key", "values", "note")],
) -> Response:
    """Hold this item. A draft that came along, after a lease was lost, is shown again."""
    site, visitor = site_of(request), visitor_of(request)
    try:
        item = site.queue.claim(
            visitor.name,
            lease_s=site.lease_s,
            item_id=item_id,
            may_adjudicate=visitor.role.includes(Role.ADJUDICATOR),
        )
    except LeaseLost as error:
        return _item_page(request, item_id, draft=form, problem=str(error), status_code=409)
    if form.under(ANSWER) or form.text("note"):
        return _item_page(request, item_id, draft=form)
    return Go(f"/items/{item_id}", _lease_view(request, item))


@routes.form("/items/{item_id}/renew")
def renew(request: Request, item_id: str, form: Annotated[Form, sent_with("token")]) -> Response:
    """Hold it longer."""
    site, visitor = site_of(request), visitor_of(request)
    try:
        item = site.queue.renew(
            item_id, reviewer=visitor.name, token=form.text("token"), lease_s=site.lease_s
        )
    except LeaseLost as error:
        return _item_page(request, item_id, draft=form, problem=str(error), status_code=409)
    return Go(f"/items/{item_id}", _lease_view(request, item))


@routes.form("/items/{item_id}/release")
def release(request: Request, item_id: str, form: Annotated[Form, sent_with("token")]) -> Response:
    """Put it back for anybody."""
    visitor = visitor_of(request)
    site_of(request).queue.release(item_id, reviewer=visitor.name, token=form.text("token"))
    return Go("/", {"item_id": item_id})


@routes.form("/items/{item_id}/skip")
def skip(
    request: Request, item_id: str, form: Annotated[Form, sent_with("token", "reason")]
) -> Response:
    """Leave it to others, and take the next."""
    visitor = visitor_of(request)
    site_of(request).queue.skip(
        item_id, reviewer=visitor.name, token=form.text("token"), reason=form.text("reason")
    )
    return _next(request, "skipped", item_id)


@routes.form("/items/{item_id}/answer")
def answer(
    request: Request,
    item_id: str,
    form: Annotated[Form, sent_with("action", "also", "idem_key", "note", "token", "values")],
) -> Response:
    """Say what the ticket is about, or that it cannot be said; then take the next."""
    site, visitor = site_of(request), visitor_of(request)
    kind = _SAID.get(form.text("action", "answer"))
    if kind is None:  # a program's slip must not become an answer
        known = ", ".join(_SAID)
        return _item_page(
            request, item_id, draft=form, problem=f"An action is one of {known}.", status_code=422
        )
    item = site.queue.get(item_id)
    values = form.answers(item.questions) if kind == "answer" else {}
    key = form.text("idem_key")
    try:
        site.queue.answer(
            item_id,
            reviewer=visitor.name,
            token=form.text("token"),
            values=values,
            kind=kind,
            note=form.text("note"),
            # Two people may send the same key, and then each has given a verdict.
            idem_key=f"{visitor.name}:{key}" if key else None,
        )
    except (LeaseLost, VerdictInvalid) as error:
        return _item_page(
            request,
            item_id,
            draft=form,
            problem=mistake(error) if isinstance(error, VerdictInvalid) else f"{error}.",
            status_code=409 if isinstance(error, LeaseLost) else 422,
        )
    except QueueUnavailable as error:
        # Looking mostly works while writing does not. The key stays: perhaps it was stored.
        return _item_page(
            request, item_id, draft=form, problem=unavailable(error), status_code=503, idem_key=key
        )
    also = form.all("also") if kind == "answer" else []
    results = _answer_also(request, also, values, form) if also else []
    return _next(request, "answered", item_id, num_also=sum(r.error is None for r in results))


@routes.form("/items/{item_id}/undo")
def undo(request: Request, item_id: str, form: Annotated[Form, sent_with("idem_key")]) -> Response:
    """Take one's own verdict back; the item is on the page again, held as before."""
    site, visitor = site_of(request), visitor_of(request)
    key = form.text("idem_key")
    try:
        item = site.queue.undo(
            item_id, reviewer=visitor.name, idem_key=f"{visitor.name}:{key}" if key else None
        )
    except ChangeRefused:
        # A double click: the first one took the verdict back, and the item is theirs by now.
        held = next(
            (one for one in site.queue.mine(visitor.name).leased if one.id == item_id), None
        )
        if held is None or any(verdict.reviewer == visitor.name for verdict in held.standing):
            raise
        item = held
    return Go(f"/items/{item_id}?undone=1", _lease_view(request, item))


@routes.form("/items/{item_id}/note")
def note(request: Request, item_id: str, form: Annotated[Form, sent_with("text")]) -> Response:
    """Write something for colleagues, whoever holds the item."""
    if text := form.text("text").strip():
        site_of(request).queue.note(item_id, by=visitor_of(request).name, text=text)
    return Go(f"/items/{item_id}", {"item_id": item_id})


@routes.form("/items/{item_id}/reopen")
def reopen(
    request: Request, item_id: str, form: Annotated[Form, sent_with("needed", "reason")]
) -> Response:
    """Have a settled item judged anew; what was said before stays in its history."""
    needed = 2 if form.text("needed") == "2" else 1
    site_of(request).queue.reopen(
        item_id, by=visitor_of(request).name, reason=form.text("reason"), needed=needed
    )
    return Go(f"/items/{item_id}", {"item_id": item_id})


@routes.form("/items/{item_id}/assign")
def assign(request: Request, item_id: str, form: Annotated[Form, sent_with("to")]) -> Response:
    """Keep it for one person, or for nobody in particular."""
    site_of(request).queue.assign(
        item_id, to=form.text("to").strip() or None, by=visitor_of(request).name
    )
    return Go(f"/items/{item_id}", {"item_id": item_id})


@routes.form("/items/{item_id}/cancel")
def cancel(request: Request, item_id: str, form: Annotated[Form, sent_with("reason")]) -> Response:
    """Nobody need judge it any more."""
    site_of(request).queue.cancel(item_id, by=visitor_of(request).name, reason=form.text("reason"))
    return Go(f"/items/{item_id}", {"item_id": item_id})


def _next(request: Request, did: str = "", item_id: str = "", *, num_also: int = 0) -> Response:
    """On to the next item, or to the queue, which says why there is none."""
    site, visitor = site_of(request), visitor_of(request)
    item = site.queue.claim(
        visitor.name,
        lease_s=site.lease_s,
        may_adjudicate=visitor.role.includes(Role.ADJUDICATOR),
    )
    query = f"?{did}={item_id}" if did else ""
    query += f"&also={num_also}" if num_also else ""
    path = f"/items/{item.id}" if item else "/"
    return Go(
        path + query,
        {did: item_id, "next": _lease_view(request, item)}
        if did
        else {"next": _lease_view(request, item)},
    )


def _answer_also(
    request: Request, item_ids: list[str], values: Mapping[str, Any], form: Form
) -> list[BulkResult]:
    """The same verdict on tickets that say the same, one for each."""
    return site_of(request).queue.answer_many(
        item_ids,
        reviewer=visitor_of(request).name,
        values=values,
        note=form.text("note"),
        idem_key=f"{visitor_of(request).name}:{form.text('idem_key') or secrets.token_urlsafe()}",
    )


def _item_page(
    request: Request,
    item_id: str,
    *,
    draft: Form | None = None,
    problem: str = "",
    status_code: int = 200,
    idem_key: str = "",
) -> Page:
    site, visitor = site_of(request), visitor_of(request)
    mine = site.queue.mine(visitor.name)
    held = next((item for item in mine.leased if item.id == item_id), None)
    item = held or site.queue.get(item_id)
    alike = site.queue.alike(item_id, _MOST_ALIKE) if held else []
    view = {
        "title": f"Ticket {item.ticket_id}",
        "item": item_view(item, site.queue.history(item_id), viewer=visitor.name),
        "problem": problem,
        "notice": _notice(request),
        "last": _last(mine.recent),
        "alike": list(alike),
        "can_claim": held is None and _can_claim(item, visitor.role),
        "left_s": _left_s(request, item),
        "lease_s": site.lease_s,
        "num_waiting": site.stats().num_waiting,
    }
    form = {
        "token": item.lease_token or "",
        "idem_key": idem_key or secrets.token_urlsafe(16),
        "answers": draft.under(ANSWER) if draft else {},
        "note": draft.text("note") if draft else "",
        "has_draft": draft is not None,
    }
    return Page("item.html", view, status_code=status_code, form=form)


def _can_claim(item: Item, role: Role) -> bool:
    match item.state:
        case State.OPEN:
            return role.includes(Role.REVIEWER)
        case State.NEEDS_ADJUDICATION:
            return role.includes(Role.ADJUDICATOR)
        case State.DONE | State.CANCELLED:
            return False


def _lease_view(request: Request, item: Item | None) -> dict[str, Any] | None:
    """What a program needs in order to go on with an item it holds."""
    if item is None or item.lease is None:
        return None
    return {
        "item_id": item.id,
        "token": item.lease.token,
        "kind": SlotKind(item.lease.kind).value,
        "left_s": _left_s(request, item),
    }


def _left_s(request: Request, item: Item) -> float | None:
    if item.lease is None:
        return None
    return max(0.0, (item.lease.until - site_of(request).queue.now()).total_seconds())


def _notice(request: Request) -> str:
    """What was just done; the words are ours, whatever the address says."""
    query = request.query_params
    num_also = int(also) if (also := query.get("also", "")).isdecimal() and len(also) < 6 else 0
    if "answered" in query:
        return "Your answer is in." + (
            f" {num_also} more tickets got the same." if num_also else ""
        )
    if "skipped" in query:
        return "Skipped. The queue page brings skipped tickets back."
    if "undone" in query:
        return "Undone. The ticket is yours again."
    return ""


def _last(recent: Any) -> dict[str, Any] | None:
    """The verdict that `undo` would take back."""
    if not recent:
        return None
    verdict = recent[0]
    return {"item_id": verdict.item_id, "said": said(verdict.kind, verdict.values)}
