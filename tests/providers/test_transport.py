"""The transport: limits of time and size, whatever a server sends."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from pydantic import SecretStr

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure, HttpRequest, HttpResponse
from weighbridge.providers.transport import MAX_BODY_BYTES, send

REQUEST = HttpRequest(method="POST", path="/ask", headers={"content-type": "x/y"}, body=b"question")
KEY = SecretStr("sk-canary-0123456789")


async def sent(
    response: httpx.Response | Exception, *, auth: str = "bearer", seen: list[httpx.Request]
) -> HttpResponse | Failure:
    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if isinstance(response, Exception):
            raise response
        return response

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        return await send(
            client,
            REQUEST,
            base_url="https://a.test/v1",
            key=KEY,
            auth=auth,  # type: ignore[arg-type]
            timeout_s=5.0,
        )


class Chunks(httpx.AsyncByteStream):
    """A body that comes in pieces, and counts them."""

    def __init__(self, chunk: bytes, count: int) -> None:
        self.chunk, self.count, self.taken = chunk, count, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self.count):
            self.taken += 1
            yield self.chunk
            await asyncio.sleep(0)


async def test_requests_carry_what_httpx_says_of_itself_and_ask_for_no_compression() -> None:
    """Some doors stay shut to whoever does not say what he is."""
    seen: list[httpx.Request] = []
    await sent(httpx.Response(200), seen=seen)
    async with httpx.AsyncClient() as client:
        usual = client.build_request(
            "POST",
            "https://a.test/v1/ask",
            content=b"question",
            headers={"content-type": "x/y", "accept-encoding": "identity"},
            timeout=httpx.Timeout(None, connect=5.0),
        )
    assert str(seen[0].url) == str(usual.url)
    mine = {name: text for name, text in seen[0].headers.items() if name != "authorization"}
    assert mine == {name: text for name, text in usual.headers.items() if name != "accept"}
    assert seen[0].extensions["timeout"] == usual.extensions["timeout"]


async def test_cookie_that_a_provider_sets_goes_to_nobody() -> None:
    """Two accounts at one host must not be told apart, or taken for one, by a cookie."""
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, headers={"set-cookie": "account=first; path=/"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        for _ in range(2):
            await send(
                client, REQUEST, base_url="https://a.test", key=KEY, auth="bearer", timeout_s=5.0
            )
    assert [request.headers.get("cookie") for request in seen] == [None, None]


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ("bearer", "authorization", "Bearer sk-canary-0123456789"),
        ("api-key", "api-key", "sk-canary-0123456789"),
        ("x-api-key", "x-api-key", "sk-canary-0123456789"),
        ("x-goog-api-key", "x-goog-api-key", "sk-canary-0123456789"),
    ],
)
async def test_key_stands_in_the_header_of_the_vendor_and_in_no_other(
    auth: str, header: str, value: str
) -> None:
    seen: list[httpx.Request] = []
    response = await sent(httpx.Response(200, content=b"{}"), auth=auth, seen=seen)
    assert isinstance(response, HttpResponse)
    (request,) = seen
    holders = [name for name, text in request.headers.items() if "canary" in text]
    assert (holders, request.headers[header]) == ([header], value)
    assert "canary" not in str(request.url)
    assert request.content == b"question"


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("https://a.test", "/v1/messages", "https://a.test/v1/messages"),
        ("https://a.test/v1", "/v1/messages", "https://a.test/v1/messages"),
        ("https://a.test/x/v1", "/v1/messages", "https://a.test/x/v1/messages"),
        ("https://a.test/v2", "/v1/messages", "https://a.test/v2/v1/messages"),
        ("http://a.test:1/api", "/api/chat", "http://a.test:1/api/chat"),
        ("https://a.test/v1", "/chat/completions", "https://a.test/v1/chat/completions"),
    ],
)
async def test_what_base_url_and_path_both_say_is_said_once(
    base_url: str, path: str, url: str
) -> None:
    """Anthropic's own clients want no version in it, other clients of Anthropic do."""
    seen: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(200)

    request = replace(REQUEST, path=path)
    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        await send(client, request, base_url=base_url, key=None, auth="bearer", timeout_s=5.0)
    assert seen == [url]


@pytest.mark.parametrize("packed", [gzip.compress(b"answer"), zlib.compress(b"answer")])
async def test_compression_that_nobody_asked_for_is_undone(packed: bytes) -> None:
    headers = {"content-encoding": "gzip" if packed[:2] == b"\x1f\x8b" else "deflate"}
    seen: list[httpx.Request] = []
    response = await sent(httpx.Response(200, headers=headers, stream=Chunks(packed, 1)), seen=seen)
    assert isinstance(response, HttpResponse)
    assert response.body == b"answer"
    assert seen[0].headers["accept-encoding"] == "identity"


async def test_bomb_is_never_unpacked() -> None:
    """A hundred kilobytes that would become a hundred megabytes."""
    bomb = gzip.compress(bytes(100_000_000), compresslevel=9)
    assert len(bomb) < 120_000
    failure = await sent(
        httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Chunks(bomb, 1)), seen=[]
    )
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status) == (FailureKind.INVALID, 200)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"\x1f\x8bnonsense"),
        ("gzip", gzip.compress(b"answer" * 100)[:-9]),
        ("br", b"answer"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"answer"))),
    ],
)
async def test_body_that_cannot_be_unpacked_is_a_failure(encoding: str, body: bytes) -> None:
    failure = await sent(
        httpx.Response(200, headers={"content-encoding": encoding}, stream=Chunks(body, 1)), seen=[]
    )
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.INVALID


async def test_body_without_end_is_left_when_it_is_too_large() -> None:
    body = Chunks(b"x" * 100_000, 1_000)
    failure = await sent(httpx.Response(200, stream=body), seen=[])
    assert isinstance(failure, Failure)
    assert failure.detail == f"the body is larger than {MAX_BODY_BYTES} bytes"
    assert body.taken * 100_000 < MAX_BODY_BYTES + 200_000


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_is_an_answer_and_not_followed(status: int) -> None:
    seen: list[httpx.Request] = []
    elsewhere = httpx.Response(status, headers={"location": "https://evil.test/"})
    response = await sent(elsewhere, seen=seen)
    assert isinstance(response, HttpResponse)
    assert (response.status, len(seen)) == (status, 1)


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (httpx.ConnectError("canary"), "no response: no connection"),
        (httpx.ConnectTimeout("canary"), "no response: connecting timed out"),
        (httpx.ProxyError("407 canary"), "no response: the proxy gave no connection"),
        (httpx.ReadError("canary"), "no response: broken"),
        (httpx.RemoteProtocolError("canary"), "no response: broken"),
        (httpx.ReadTimeout("canary"), "no response: timeout"),
    ],
)
async def test_what_happens_to_a_connection_is_a_failure_in_our_words(
    error: Exception, detail: str
) -> None:
    failure = await sent(error, seen=[])
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.detail) == (FailureKind.TRANSIENT, detail)
