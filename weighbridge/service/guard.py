"""Guard: the outermost layer; refuses before anything is read, and sets every answer's headers."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weighbridge.service.hosts import is_allowed_host
from weighbridge.service.origins import is_own_request

MAX_BODY_BYTES: Final = 1_000_000

# One script and one style sheet of our own, forms to ourselves, and nothing else from anywhere.
CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Wraps the application.

    Args:
        app: what it guards.
        hosts: names under which the page may be reached, in lower case.
        report_uri: where browsers report breaches of the content policy; "" tells them nowhere.
        max_body_bytes: longest body that is read.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        report_uri: str = "",
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._max_body_bytes = max_body_bytes
        policy = CONTENT_SECURITY_POLICY + (f"; report-uri {report_uri}" if report_uri else "")
        self._headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] != "http":
            # There are no websockets; start and end of the application are its own business.
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        reply = _Reply(send, self._headers)
        if refusal := self._refusal(scope):
            await reply.refuse(*refusal)
            return
        await self._app(scope, _Body(receive, self._max_body_bytes), reply)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if not is_allowed_host(headers.getlist("host"), self._hosts):
            return 421, "This page does not answer under that name. Start it with --allow-host."
        if not is_own_request(
            scope["method"],
            scheme=scope["scheme"],
            host=headers["host"],
            sites=headers.getlist("sec-fetch-site"),
            origins=headers.getlist("origin"),
            authorizations=headers.getlist("authorization"),
            has_cookie="cookie" in headers,
        ):
            return 403, "The request came from another site and was not carried out."
        length = headers.get("content-length", "0")
        # Python itself refuses to read thousands of digits.
        if not length.isdecimal() or len(length) > 20 or int(length) > self._max_body_bytes:
            return 413, f"The request is longer than {self._max_body_bytes} bytes."
        return None


class _Body:
    """Receives a body and counts it: one that is sent in chunks announces no length."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive, self._left = receive, max_bytes

    async def __call__(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413)
        return message


class _Reply:
    """Sends an answer with the headers that every answer has."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send, self._headers = send, headers

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def refuse(self, status: int, text: str) -> None:
        """Answer in plain text: there is nobody yet to whom a page could be shown."""
        body = f"{text}\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})
