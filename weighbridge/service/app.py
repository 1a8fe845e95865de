"""create_app: the review page as one ASGI application, to be served alone or mounted in another."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.types import ASGIApp

from weighbridge.service import admin, entering, failures, judging, listing, numbers
from weighbridge.service.guard import Guard
from weighbridge.service.hosts import LOOPBACK_NAMES
from weighbridge.service.pages import FOLDER
from weighbridge.service.remembered import Remembered
from weighbridge.service.routes import Routes
from weighbridge.service.site import Site

if TYPE_CHECKING:
    from weighbridge.decision import CalibrationKey
    from weighbridge.review.proving.metrics import Metrics
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.review.statistics.labels import Labels
    from weighbridge.store.credentials import Credentials
    from weighbridge.store.login_throttle import LoginThrottle
    from weighbridge.store.people import People

_STATIC: Final = {
    "keys.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}

static = Routes()


def create_app(
    *,
    queue: ReviewQueue,
    people: People,
    credentials: Credentials,
    throttle: LoginThrottle,
    hosts: Collection[str] = LOOPBACK_NAMES,
    is_secure: bool = False,
    lease_s: float = 600.0,
    report_uri: str = "",
    measure: Callable[[], Metrics] | None = None,
    labels_of: Callable[[CalibrationKey], Labels] | None = None,
    audit_rate: float = 0.0,
    purge: Callable[[float], int] | None = None,
    erase: Callable[[str, str], int] | None = None,
) -> ASGIApp:
    """The review page and its JSON twin.

    Everything but the login needs a person with a role, known from a session or a token; where the
    application is mounted changes nothing about that.

    Args:
        queue: what people judge; stays open when the application ends.
        people: who may come in.
        credentials: sessions, tokens and one-time links.
        throttle: makes those wait who guess passwords.
        hosts: names under which browsers reach the page, in lower case and without ports.
        is_secure: whether it is reached over HTTPS; cookies are then sent over nothing else.
        lease_s: how long a ticket is held for somebody who does nothing.
        report_uri: where browsers report breaches of the content policy; "" tells them nowhere.
        measure: all statistics, for the pages that show them; None leaves them empty.
        labels_of: the audited answers of one calibration key, for the table of thresholds.
        audit_rate: share of the tickets that the coin draws.
        purge: removes the texts of what was settled more than so many days ago, and tells how many
            items that were; None leaves it out of the administration.
        erase: removes the texts of a ticket, by its id and for somebody, and tells how many items
            that were; None leaves it out.

    Returns:
        An ASGI application with all protection around it.
    """
    # Neither schema nor its viewers: they would load scripts from elsewhere.
    app = FastAPI(title="weighbridge", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = Site(
        queue=queue,
        stats=Remembered(queue.stats, fresh_s=2.0, stale_s=10.0).get,
        people=people,
        credentials=credentials,
        throttle=throttle,
        lease_s=lease_s,
        is_secure=is_secure,
        measure=measure and Remembered(measure, fresh_s=30.0, stale_s=3600.0).get,
        labels_of=labels_of,
        audit_rate=audit_rate,
        purge=purge,
        erase=erase,
    )
    for part in (static, entering.routes, judging.routes, listing.routes, numbers.routes):
        app.include_router(part)
    app.include_router(admin.routes)
    failures.install(app)
    return Guard(app, hosts=hosts, report_uri=report_uri)


@static.file("/static/{name}")
def static_file(request: Request, name: str) -> Response:
    """The script, the style sheet and the icon; there are no other files."""
    if name not in _STATIC:
        raise HTTPException(404)
    # Asked for each time: a page never runs with an older script.
    headers = {"cache-control": "no-cache"}
    return FileResponse(FOLDER / "static" / name, media_type=_STATIC[name], headers=headers)
