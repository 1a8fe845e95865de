"""Connecting: what keeps a connection from coming about is named, and where is not."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.decision import FailureKind
from weighbridge.providers.connecting import unconnected
from weighbridge.providers.protocol import Failure, HttpRequest, HttpResponse
from weighbridge.providers.transport import send

SELF_SIGNED = Path(__file__).parents[1] / "chaos" / "self_signed.pem"
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('10.9.8.7', 9)")
UNREACHABLE = OSError(errno.ENETUNREACH, "Network is unreachable: 10.9.8.7")


async def asked(base_url: str) -> HttpResponse | Failure:
    """Over the network, with nothing fake."""
    request = HttpRequest(method="GET", path="/ask", headers={}, body=b"")
    async with httpx.AsyncClient(trust_env=False) as client:
        return await send(
            client, request, base_url=base_url, key=None, auth="bearer", timeout_s=5.0
        )


@asynccontextmanager
async def listening(context: ssl.SSLContext | None):
    """A server that says the same to everybody."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


def refused_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


async def test_each_way_to_get_no_connection_is_told_from_the_others():
    """A wrong name, a wrong port and a wrong scheme want different things of a person."""
    trusted_by_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted_by_nobody.load_cert_chain(SELF_SIGNED)
    async with listening(None) as plain, listening(trusted_by_nobody) as tls:
        told = {
            url: await asked(url)
            for url in (
                "http://x.invalid",  # never resolves: RFC 6761
                f"http://127.0.0.1:{refused_port()}",
                f"http://localhost:{refused_port()}",  # perhaps of several addresses
                f"https://127.0.0.1:{plain}",
                f"https://127.0.0.1:{tls}",
            )
        }
        answered = await asked(f"http://127.0.0.1:{plain}")
    assert isinstance(answered, HttpResponse)
    failures = [each for each in told.values() if isinstance(each, Failure)]
    assert [failure.detail.removeprefix("no response: ") for failure in failures] == [
        "the host name was not found (DNS)",
        "the connection was refused",
        "the connection was refused",
        "the TLS handshake failed",
        "the server's certificate is not trusted (TLS)",
    ]
    assert [failure.retry for failure in failures] == [None, None, None, False, False]
    assert {(f.kind, f.is_unsent) for f in failures} == {(FailureKind.TRANSIENT, True)}


def raised_from(cause: BaseException) -> httpx.ConnectError:
    """As the client raises it: its own error, from another library's, from the cause."""
    inner = OSError("All connection attempts failed")
    inner.__cause__ = cause
    error = httpx.ConnectError("10.9.8.7")
    error.__context__ = inner
    return error


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (UNREACHABLE, "cannot be reached"),
        (OSError(errno.EHOSTUNREACH, "10.9.8.7"), "cannot be reached"),
        (OSError(errno.ETIMEDOUT, "10.9.8.7"), "timed out"),
        (OSError(errno.EPIPE, "10.9.8.7"), "no connection"),
        (ExceptionGroup("10.9.8.7", [UNREACHABLE, REFUSED]), "cannot be reached"),
        (ExceptionGroup("10.9.8.7", [REFUSED, UNREACHABLE]), "refused"),
    ],
)
def test_cause_is_found_wherever_it_is_kept(cause, told):
    """Of several addresses the first one's counts."""
    failure = unconnected(raised_from(cause))
    assert told in failure.detail
    assert "10.9.8.7" not in failure.detail


@pytest.mark.parametrize(("code", "told"), [(10, "expired"), (62, "another host"), (18, "trusted")])
def test_certificate_that_is_refused_says_what_is_wrong_with_it(code, told):
    error = ssl.SSLCertVerificationError("for host.canary")
    error.verify_code = code
    failure = unconnected(raised_from(error))
    assert told in failure.detail
    assert failure.retry is False


@given(words=st.text(min_size=3), number=st.integers(1, 200))
def test_words_of_an_error_are_never_told(words, number):
    """They hold addresses, and those may hold keys."""
    told = {unconnected(raised_from(OSError(number, text))).detail for text in (words, "other")}
    assert len(told) == 1
