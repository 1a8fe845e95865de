"""Listing: the queue, the search, what needs an adjudicator, and one verdict for many tickets."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from weighbridge.decision import Json, Question, ReviewId
from weighbridge.errors import ItemNotFound, VerdictInvalid
from weighbridge.review.items import Item, State
from weighbridge.review.overviews import Search, WhyEmpty
from weighbridge.review.queueing.verdicts import judge
from weighbridge.service.forms import ANSWER, Form, FormBody, sent_with
from weighbridge.service.item_view import item_line, said
from weighbridge.service.pages import Go, Page
from weighbridge.service.routes import Routes
from weighbridge.service.site import site_of, visitor_of
from weighbridge.service.words import mistake
from weighbridge.store.roles import Role

routes = Routes()

_ON_A_PAGE = 50
_MOST_AT_ONCE = 200


@routes.page("/")
def show_queue(request: Request) -> Response:
    """What waits, what one holds, and what one did last; if nothing waits, why."""
    site, visitor = site_of(request), visitor_of(request)
    mine = site.queue.mine(visitor.name)
    may_adjudicate = visitor.role.includes(Role.ADJUDICATOR)
    waiting = site.queue.waiting(10, visitor.name, may_adjudicate=may_adjudicate)
    why_empty = partial(site.queue.why_empty, visitor.name, may_adjudicate=may_adjudicate)
    stats = site.stats()
    view = {
        "title": "Queue",
        "num_waiting": stats.num_waiting,
        "num_leased": stats.num_leased,
        "num_by_state": {state.value: num for state, num in stats.num_by_state.items()},
        "num_by_reason": dict(stats.num_by_reason),
        "oldest_waiting_s": stats.oldest_waiting_s,
        "leased": [item_line(item) for item in mine.leased],
        "next": [item_line(item) for item in waiting],
        "recent": [
            {
                "item_id": verdict.item_id,
                "said": said(verdict.kind, verdict.values),
                "at": verdict.submitted_at.isoformat(),
            }
            for verdict in mine.recent
        ],
        "why_empty": None if waiting else _why_view(why_empty()),
        "notice": _notice(request),
    }
    return Page("queue.html", view)


@routes.form("/unskip")
def unskip(request: Request) -> Response:
    """Have what one skipped offered again."""
    site_of(request).queue.unskip(visitor_of(request).name)
    return Go("/?unskipped=1")


@routes.page("/items")
def show_search(request: Request) -> Response:
    """Items by state, reason, task, words, people and time, a page at a time."""
    asked = request.query_params
    problem, search = _search(asked)
    found = site_of(request).queue.search(search, after=_after(asked), limit=_ON_A_PAGE)
    view = {
        "title": "Search",
        "problem": problem,
        "asked": {name: asked.get(name, "") for name in _FILTERS},
        "states": [state.value for state in State],
        "reasons": sorted(site_of(request).stats().num_by_reason),
        "items": [item_line(item) for item in found],
        "after": found[-1].id if len(found) == _ON_A_PAGE else None,
    }
    return Page("search.html", view)


@routes.page("/adjudicate")
def show_adjudications(request: Request) -> Response:
    """What people did not agree on."""
    needed = Search(states=frozenset({State.NEEDS_ADJUDICATION}))
    asked = request.query_params
    found = site_of(request).queue.search(needed, after=_after(asked), limit=_ON_A_PAGE)
    view = {
        "title": "Adjudicate",
        "items": [item_line(item) for item in found],
        "after": found[-1].id if len(found) == _ON_A_PAGE else None,
    }
    return Page("adjudicate.html", view)


@routes.form("/bulk")
def show_bulk(request: Request, form: FormBody) -> Response:
    """The tickets that were chosen, and the one verdict to be given to each; changes nothing."""
    return _bulk_page(request, form)


@routes.form("/bulk/answer")
def answer_bulk(
    request: Request, form: Annotated[Form, sent_with("idem_key", "item", "note", "values")]
) -> Response:
    """Give each of the chosen tickets its own verdict."""
    site, visitor = site_of(request), visitor_of(request)
    items = _chosen(request, form)
    if not items:
        return _bulk_page(request, form, "No ticket was chosen.")
    values = form.answers(items[0].questions)
    try:
        judge(items[0].id, items[0].questions, values)
    except VerdictInvalid as error:
        return _bulk_page(request, form, mistake(error))
    key = form.text("idem_key") or secrets.token_urlsafe()
    results = site.queue.answer_many(
        [item.id for item in items],
        reviewer=visitor.name,
        values=values,
        note=form.text("note"),
        idem_key=f"{visitor.name}:{key}",
    )
    view = {
        "title": "One answer for many",
        "said": said("answer", values),
        "num_done": sum(result.error is None for result in results),
        "results": [
            {"id": result.item_id, "problem": None if result.error is None else str(result.error)}
            for result in results
        ],
    }
    return Page("bulk_done.html", view)


_FILTERS = (
    "text",
    "state",
    "reason",
    "task",
    "ticket_id",
    "assignee",
    "reviewer",
    "since",
    "until",
)


def _search(asked: Mapping[str, str]) -> tuple[str, Search]:
    """What to look for, and what could not be understood of it."""
    given = {name: asked.get(name, "").strip() for name in _FILTERS}
    problem = ""
    moments: dict[str, datetime | None] = {"since": None, "until": None}
    for name in moments:
        try:
            if given[name]:
                moments[name] = datetime.fromisoformat(given[name]).replace(tzinfo=UTC)
        except ValueError:
            problem = "A day is written as 2026-11-30."
    is_state = given["state"] in list(State)
    return problem, Search(
        text=given["text"][:200],
        states=frozenset({State(given["state"])} if is_state else ()),
        reason=given["reason"] or None,
        task=given["task"] or None,
        ticket_id=given["ticket_id"] or None,
        assignee=given["assignee"] or None,
        reviewer=given["reviewer"] or None,
        since=moments["since"],
        until=moments["until"],
    )


def _after(asked: Mapping[str, str]) -> ReviewId | None:
    return ReviewId(asked["after"]) if asked.get("after") else None


def _chosen(request: Request, form: Form) -> list[Item]:
    queue, items = site_of(request).queue, []
    for item_id in dict.fromkeys(form.all("item")[:_MOST_AT_ONCE]):
        try:
            items.append(queue.get(item_id))
        except ItemNotFound:
            continue
    return items


def _bulk_page(request: Request, form: Form, problem: str = "") -> Page:
    items = _chosen(request, form)
    if not items:
        text = "Choose at least one ticket, by its box."
        return Page(
            "message.html", {"title": "No ticket was chosen", "text": text}, status_code=422
        )
    asked = _asked(items[0])
    same = [item for item in items if _asked(item) == asked]
    view = {
        "title": "One answer for many",
        "problem": problem,
        "items": [item_line(item) for item in same],
        "left_out": [item_line(item) for item in items if _asked(item) != asked],
        "questions": [_question_view(question) for question in items[0].questions],
    }
    given = {"answers": form.under(ANSWER), "idem_key": secrets.token_urlsafe(16)}
    return Page("bulk.html", view, status_code=422 if problem else 200, form=given)


def _asked(item: Item) -> list[tuple[str, str]]:
    """What is asked of an item, for comparing: one answer fits only equal questions."""
    return [(question.field, json.dumps(question.options)) for question in item.questions]


def _question_view(question: Question) -> dict[str, Json]:
    """A question without what the machine says to it: it says something else of each ticket."""
    options: list[Json] = [
        {"json": json.dumps(option), "value": option, "meaning": ""} for option in question.options
    ]
    return {"field": question.field, "required": question.required, "options": options}


def _why_view(why: WhyEmpty) -> dict[str, Any]:
    return {
        "num_judged": why.num_judged,
        "num_leased": why.num_leased,
        "leased_until": None if why.leased_until is None else why.leased_until.isoformat(),
        "num_skipped": why.num_skipped,
        "num_assigned": why.num_assigned,
        "num_adjudications": why.num_adjudications,
        "num_not_yet": why.num_not_yet,
        "num_done": why.num_done,
    }


def _notice(request: Request) -> str:
    query = request.query_params
    if "answered" in query:
        return "Your answer is in."
    if "unskipped" in query:
        return "What you skipped is offered to you again."
    if "skipped" in query:
        return "Skipped."
    return ""
