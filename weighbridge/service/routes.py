"""Routes: every one is in the table of roles, and nobody comes past it, not even a body."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from weighbridge.service.access import role_for
from weighbridge.service.identity import identify
from weighbridge.service.pages import Go, Page, root_path, wants_json
from weighbridge.service.site import site_of
from weighbridge.store.roles import Role

Endpoint = Callable[..., Response]


class _GuardedRoute(APIRoute):
    """A route that knows the role it needs from when it is made."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        (method,) = options["methods"]
        self.role = role_for(method, path)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Lets somebody in, or answers in the endpoint's place; no body has been read by then."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            site = site_of(request)
            visitor = await run_in_threadpool(identify, request, site.people, site.credentials)
            request.state.visitor = visitor
            if self.role is not None:
                if visitor is None:
                    return _ask_who(request)
                if not visitor.role.includes(self.role):
                    return forbidden(self.role)
            return await handle(request)

        return guarded


class Routes(APIRouter):
    """Endpoints of pages and forms, each at its path and at the same path with `.json`."""

    def __init__(self) -> None:
        super().__init__(route_class=_GuardedRoute)

    def page(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """What is looked at; changes nothing."""
        return self._twice(path, "GET")

    def form(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """What changes something."""
        return self._twice(path, "POST")

    def file(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """What has no twin."""
        return self._at([path], "GET")

    def _twice(self, path: str, method: str) -> Callable[[Endpoint], Endpoint]:
        # The twin first: else `/items/{item_id}` would take `x.json` for an id.
        twin = "/index.json" if path == "/" else f"{path}.json"
        return self._at([twin, path], method)

    def _at(self, paths: Sequence[str], method: str) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            for path in paths:
                self.add_api_route(path, endpoint, methods=[method], response_model=None)
            return endpoint

        return add


def forbidden(role: Role) -> Page:
    """The answer to somebody whose role does not suffice."""
    text = f"This needs the role {role}, or one above it."
    return Page("message.html", {"title": "Not permitted", "text": text}, status_code=403)


def _ask_who(request: Request) -> Response:
    """To the login, and from there back to what was asked for, if that was a page."""
    if request.method == "GET" and not wants_json(request):
        asked = request.url.path.removeprefix(root_path(request))
        if request.url.query:
            asked += f"?{request.url.query}"
        return Go(f"/login?next={quote(asked, safe='')}")
    text = "Log in, or send an API token."
    if not wants_json(request):
        # A session can end while somebody writes; this page is the answer to what they sent.
        text = (
            "Log in, in another tab, then load this page again:"
            " your browser sends once more what you entered."
        )
    view = {"title": "Not logged in", "text": text}
    # Without a realm's name: browsers would ask for a password of their own otherwise.
    return Page("message.html", view, status_code=401, headers={"www-authenticate": "Bearer"})
