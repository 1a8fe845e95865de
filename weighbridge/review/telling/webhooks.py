"""Webhook: an address of a team's own that is told what happens, and how one request reaches it.

Whoever could choose the address, or answers for its name, could have this machine ask things that
it alone can reach. So the name is resolved once, what it stands for is checked, and the connection
goes to the very address that was checked; a redirect is not followed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

import httpx

import weighbridge  # for its version alone
from weighbridge.addresses import is_loopback, is_metadata, is_public
from weighbridge.review.telling.outbox import OutboxEvent
from weighbridge.review.telling.signing import key_of, signed_headers

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host and a port to addresses, the best first. Raises `OSError` if there are none."""

_DELIVERED: Final = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where events go.

    Args:
        name: as events are filed under it.
        url: whole; it may hold a secret of its own, so it is not shown.
        secret: proves to the receiver that an event is ours; see `signing`.
        allow_private: also to addresses that only this network or machine can reach. Those at which
            clouds hand out credentials are refused in any case.
        allow_http: also without encryption, to a host that is not this machine.
        timeout_s: for one attempt, from looking up the name to the status of the response.

    Raises:
        ValueError: with what is wrong; never with the address or the secret.
    """

    name: str
    url: str = field(repr=False)
    secret: str = field(repr=False)
    allow_private: bool = False
    allow_http: bool = False
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        key_of(self.secret)
        if not self.url.isprintable() or " " in self.url:  # httpx would quote them
            raise ValueError("must hold neither spaces nor control characters")
        try:
            url = httpx.URL(self.url)
        except (httpx.InvalidURL, UnicodeError):
            raise ValueError("is no address such as https://example.com/hooks") from None
        if url.scheme not in ("https", "http") or not url.host:
            raise ValueError("must begin with https:// or http://, and a host")
        if url.userinfo or url.fragment:
            raise ValueError("must hold neither credentials nor a fragment")
        if url.scheme == "http" and not self.allow_http and not is_loopback(url.host):
            raise ValueError("sends events without encryption; allow_http = true permits it")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system knows them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def send(
    webhook: Webhook,
    event: OutboxEvent,
    *,
    resolve: Resolve = resolve,
    clock: Callable[[], float] = time.time,
) -> str:
    """Tell a webhook of an event.

    Args:
        webhook: whom.
        event: what.
        resolve: asked once.
        clock: seconds since 1970.

    Returns:
        Why it did not take the event, in words that hold nothing a server said; "" if it did.
    """
    body = json.dumps(event.payload).encode()
    headers = {
        "content-type": "application/json",
        "user-agent": f"weighbridge/{weighbridge.__version__}",
        "accept-encoding": "identity",
        **signed_headers(webhook.secret, event.event_id, body, now_s=clock()),
    }
    try:
        # One limit for the whole: httpx limits each read, which a server that trickles outlasts.
        async with asyncio.timeout(webhook.timeout_s):
            return await _send(webhook, headers, body, resolve)
    except (TimeoutError, httpx.TimeoutException):
        return f"no response within {webhook.timeout_s:g} s"
    except httpx.ConnectError as error:
        return "the TLS handshake failed" if _is_tls(error) else "no connection"
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError):
        return "the connection broke off, or what came was no HTTP"


def refusal(webhook: Webhook, address: str) -> str:
    """Why nothing is sent to an address; "" if it may be."""
    if is_metadata(address):
        return "the name leads to where clouds hand out credentials"
    if not is_public(address) and not webhook.allow_private:
        return "the name leads to a private address; allow_private = true permits it"
    return ""


async def _send(webhook: Webhook, headers: dict[str, str], body: bytes, resolve: Resolve) -> str:
    url = httpx.URL(webhook.url)
    host = url.raw_host.decode("ascii")
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        addresses = await resolve(host, port)
    except (OSError, UnicodeError):
        return "the name is not known"
    refusals = {address: refusal(webhook, address) for address in addresses}
    allowed = [address for address, why in refusals.items() if not why]
    if not allowed:
        return next(iter(refusals.values()), "the name is not known")
    for number, address in enumerate(allowed, start=1):
        request = httpx.Request(
            "POST",
            url.copy_with(host=address),
            headers={**headers, "host": url.netloc.decode("ascii")},
            content=body,
            # The certificate must be that of the name, whatever the address.
            extensions={"sni_hostname": host, "timeout": _timeouts(webhook)},
        )
        # A pool would take connections for the same that lead to one address under two names.
        async with httpx.AsyncHTTPTransport(verify=_tls(), retries=0) as transport:
            try:
                response = await transport.handle_async_request(request)
            except httpx.ConnectError:
                if number < len(allowed):
                    continue
                raise
            await response.aclose()  # what it says is of no interest
            return "" if response.status_code in _DELIVERED else _said(response.status_code)
    raise AssertionError("one address at least is asked")


def _said(status: int) -> str:
    redirected = ", which is not followed" if status in range(300, 400) else ""
    return f"status {status}{redirected}"


def _timeouts(webhook: Webhook) -> dict[str, float | None]:
    return httpx.Timeout(None, connect=webhook.timeout_s).as_dict()


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


@cache
def _tls() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than most requests."""
    return httpx.create_ssl_context()  # those that SSL_CERT_FILE names, where it is set
