"""The transport: one request out, one response in, within limits of time and size."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from functools import lru_cache

import httpx
from pydantic import SecretStr

from weighbridge.decision import FailureKind
from weighbridge.providers.connecting import unconnected
from weighbridge.providers.failures import from_transport
from weighbridge.providers.profiles import Auth
from weighbridge.providers.protocol import Failure, HttpRequest, HttpResponse, TransportFault

MAX_BODY_BYTES = 4 * 1024 * 1024
CONNECT_S = 5.0
# What httpx sends by itself, but that nothing may be compressed.
_HEADERS = {
    "user-agent": f"python-httpx/{httpx.__version__}",
    "connection": "keep-alive",
    "accept-encoding": "identity",
}
_EXTENSIONS = {"timeout": httpx.Timeout(None, connect=CONNECT_S).as_dict()}
_ANY_ZLIB = zlib.MAX_WBITS | 32  # gzip or zlib, whichever header is there


async def send(
    client: httpx.AsyncClient,
    request: HttpRequest,
    *,
    base_url: str,
    key: SecretStr | None,
    auth: Auth,
    timeout_s: float,
) -> HttpResponse | Failure:
    """Send a request and read the whole response. Redirects are not followed.

    Args:
        client: of the running loop.
        request: what to send.
        base_url: the path is appended, without its first part where this ends with it; no slash
            at the end.
        key: goes to `base_url` and nowhere else.
        auth: the header that it goes into.
        timeout_s: for everything, from connecting to the last byte.

    Returns:
        The response, whatever its status; a failure where none came, or none that can be read. Of
        an error whose body cannot be read, status and headers are left.
    """
    headers = {**_HEADERS, **request.headers}
    if key is not None:
        secret = key.get_secret_value()
        name, value = ("authorization", f"Bearer {secret}") if auth == "bearer" else (auth, secret)
        headers[name] = value
    # Not by `client.build_request`: that parses every address anew, and sends a provider what
    # cookies another one at the same host has set.
    built = httpx.Request(
        request.method,
        _url(base_url, request.path),
        headers=headers,
        content=request.body,
        extensions=_EXTENSIONS,
    )
    try:
        # One limit for the whole: httpx limits each read, which a server that trickles outlasts
        # and one that thinks for long does not. Only a host that takes no connection is given up
        # sooner.
        async with asyncio.timeout(timeout_s):
            response = await client.send(built, stream=True, follow_redirects=False)
            async with contextlib.aclosing(response):
                return await _read(response)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        return unconnected(error)
    except (TimeoutError, httpx.TimeoutException):
        return from_transport(TransportFault.TIMEOUT)
    except (httpx.RequestError, httpx.InvalidURL, UnicodeError):
        # The last two: httpx reads where a redirect leads, also if nobody follows it.
        return from_transport(TransportFault.BROKEN)


async def _read(response: httpx.Response) -> HttpResponse | Failure:
    body = bytearray()
    is_packed = "content-encoding" in response.headers
    async for chunk in response.aiter_raw() if is_packed else response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return _unreadable(response, f"the body is larger than {MAX_BODY_BYTES} bytes")
    return _decoded(response, bytes(body))


@lru_cache(maxsize=256)
def _url(base_url: str, path: str) -> httpx.URL:
    """The whole address. One writes `/v1` or `/api` into a base URL as others want it."""
    first = path.split("/")[1]
    return httpx.URL(base_url.removesuffix(f"/{first}") + path)


def _decoded(response: httpx.Response, body: bytes) -> HttpResponse | Failure:
    """The response without the compression that nobody asked for; never more than the limit."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip", "deflate"):
        # httpx would unpack as much as there is: a thousand times what came over the wire.
        unpacker = zlib.decompressobj(_ANY_ZLIB)
        try:
            body = unpacker.decompress(body, MAX_BODY_BYTES + 1)
        except zlib.error:
            return _unreadable(response, "the compressed body is damaged")
        if len(body) > MAX_BODY_BYTES:
            return _unreadable(response, f"the body is larger than {MAX_BODY_BYTES} bytes")
        if not unpacker.eof:
            return _unreadable(response, "the compressed body is cut off")
    elif encoding != "identity":
        return _unreadable(response, "the body has an encoding that was not asked for")
    return HttpResponse(status=response.status_code, headers=_headers(response), body=body)


def _unreadable(response: httpx.Response, detail: str) -> HttpResponse | Failure:
    if not response.is_success:
        return HttpResponse(status=response.status_code, headers=_headers(response), body=b"")
    return Failure(kind=FailureKind.INVALID, detail=detail, status=response.status_code)


def _headers(response: httpx.Response) -> dict[str, str]:
    return {name.lower(): text for name, text in response.headers.items()}
