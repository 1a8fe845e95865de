"""Connecting: why there is no connection, in words without any address."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator

import httpx

from weighbridge.decision import FailureKind
from weighbridge.providers.protocol import Failure

_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})
# Numbers of OpenSSL (X509_V_ERR_…); its sentences quote the host.
_CERTIFICATE = {10: "has expired", 62: "is for another host"}


def unconnected(error: BaseException) -> Failure:
    """The failure for a connection that did not come about.

    One that cannot be trusted now cannot be in a second either, and a host that took no connection
    in all its time would take as much again: neither is tried again.

    Args:
        error: of any library; what it was raised from tells more than it does.
    """
    why, is_final = _why(list(_causes(error)))
    return Failure(
        kind=FailureKind.TRANSIENT,
        detail=f"no response: {why}",
        retry=False if is_final else None,
        is_unsent=True,
    )


def _why(causes: list[BaseException]) -> tuple[str, bool]:
    """Why, and whether it would be the same again."""
    for cause in causes:
        match cause:
            case ssl.SSLCertVerificationError():
                known = _CERTIFICATE.get(getattr(cause, "verify_code", 0), "is not trusted")
                return f"the server's certificate {known} (TLS)", True
            case ssl.SSLError():
                return "the TLS handshake failed", True
    for cause in causes:
        match cause:
            case socket.gaierror():
                return "the host name was not found (DNS)", False
            case ConnectionRefusedError():
                return "the connection was refused", False
            case OSError() if cause.errno in _UNREACHABLE:
                return "the network or the host cannot be reached", False
            case TimeoutError() | httpx.ConnectTimeout():
                return "connecting timed out", True
            case httpx.ProxyError():
                return "the proxy gave no connection", False
    return "no connection", False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that it comes from: of each address of a host there may be one."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            for each in cause.exceptions:
                yield from _causes(each)
        cause = cause.__cause__ or cause.__context__  # httpcore cuts the chain of causes
