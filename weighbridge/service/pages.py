"""Page and Go: what an endpoint answers, as HTML for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from weighbridge.decision import label
from weighbridge.service import words
from weighbridge.service.identity import Visitor
from weighbridge.service.keys import keys_of
from weighbridge.service.marks import legible, marked
from weighbridge.store.roles import Role

FOLDER: Final = Path(__file__).parent


class _Answer(Response):
    """An answer that is made when it is sent: only then is it known who asks, and for what form."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, with the cookies that were set meanwhile."""
        response = self._made(Request(scope))
        response.raw_headers.extend(h for h in self.raw_headers if h[0] == b"set-cookie")
        await response(scope, receive, send)

    def _made(self, request: Request) -> Response:
        """The answer itself, in the form that was asked for."""
        raise NotImplementedError


class Page(_Answer):
    """A page; of a path that ends in `.json`, the same as data.

    Args:
        template: its file name.
        view: what it shows, as plain JSON values.
        status_code: of the answer.
        headers: of the answer.
        form: what its forms are filled with where that must not be in the JSON: tokens, drafts.
    """

    def __init__(
        self,
        template: str,
        view: Mapping[str, Any],
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(status_code=status_code)
        self._template, self._view, self._form = template, dict(view), dict(form or {})
        self._extra = dict(headers or {})

    def _made(self, request: Request) -> Response:
        if wants_json(request):
            return _json(self._view, self.status_code, self._extra)
        html = _render(request, self._template, self._view, self._form)
        # Half a surrogate pair that slipped through cannot be sent.
        content = html.encode("utf-8", "replace")
        return HTMLResponse(content, self.status_code, self._extra)


class Go(_Answer):
    """The answer to a form: on to a page, so that loading it again repeats nothing.

    Args:
        path: of the page, below the application's own.
        view: the same outcome for programs.
    """

    def __init__(self, path: str, view: Mapping[str, Any] | None = None) -> None:
        super().__init__(status_code=303)
        self._path, self._view = path, dict(view or {})

    def _made(self, request: Request) -> Response:
        if wants_json(request):
            return _json(self._view)
        return RedirectResponse(root_path(request) + self._path, status_code=303)


def wants_json(request: Request) -> bool:
    """Whether a program asks."""
    return request.url.path.endswith(".json")


def root_path(request: Request) -> str:
    """Where the application is mounted; "" at the top."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def _json(
    view: Mapping[str, Any], status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    # In ASCII, which holds half a surrogate pair as well.
    content = json.dumps(view, allow_nan=False)
    return Response(content, status_code, headers, media_type="application/json")


def _render(
    request: Request, template: str, view: Mapping[str, Any], form: Mapping[str, Any]
) -> str:
    visitor = getattr(request.state, "visitor", None)
    return (
        _environment()
        .get_template(template)
        .render(
            at=root_path(request),
            me=visitor.person if isinstance(visitor, Visitor) else None,
            may=visitor.role.includes if isinstance(visitor, Visitor) else lambda _: False,
            path=request.scope["path"].removeprefix(request.scope.get("root_path", "")),
            shortcuts=keys_of(visitor.person.settings) if isinstance(visitor, Visitor) else [],
            form=form,
            **view,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,  # whatever the file is called
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "ago": words.ago,
        "clock": words.clock,
        "duration": words.duration,
        "label": label,
        "legible": legible,
        "marked": marked,
        "moment": words.moment,
        "percent": words.percent,
        "reason": words.reason,
        "reason_hint": words.reason_hint,
    }
    environment.globals |= {"Role": Role, "now": lambda: datetime.now(UTC)}
    return environment
