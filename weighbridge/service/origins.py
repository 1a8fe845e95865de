"""Cross-origin protection: requests that change something must come from our own pages.

Browsers say who sends a request, so no token need be hidden in forms.
Source: Fetch Metadata Request Headers (W3C), `Sec-Fetch-Site`; RFC 6454 for `Origin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NEVER_IN_ORIGINS: Final = frozenset("/?#@\\ ,")
_OWN_SITES: Final = frozenset({"same-origin", "none"})  # "none": typed, or a bookmark


def is_own_request(
    method: str,
    *,
    scheme: str,
    host: str,
    sites: Sequence[str],
    origins: Sequence[str],
    authorizations: Sequence[str],
    has_cookie: bool,
) -> bool:
    """Whether a request may be carried out, as far as its origin is concerned.

    Args:
        method: of the request.
        scheme: by which it came, "http" or "https".
        host: its Host header, with the port if there is one.
        sites: its Sec-Fetch-Site headers. Browsers send one where the page is safe to reach, over
            HTTPS or on this machine, and no script can change it.
        origins: its Origin headers, which tell where Sec-Fetch-Site is missing.
        authorizations: its Authorization headers. Nobody else's page can make a browser send a
            token, so a program that has one is let through, unless a cookie came along: then the
            cookie might be what opens the door.
        has_cookie: whether a Cookie header came.
    """
    if method in SAFE_METHODS:
        return True
    if len(authorizations) == 1 and not has_cookie and _is_bearer(authorizations[0]):
        return True
    if sites:
        return len(sites) == 1 and sites[0] in _OWN_SITES
    ours = _origin(f"{scheme}://{host}")
    return len(origins) == 1 and ours is not None and _origin(origins[0]) == ours


def _is_bearer(authorization: str) -> bool:
    scheme, _, token = authorization.partition(" ")
    return scheme.lower() == "bearer" and bool(token.strip())


def _origin(text: str) -> tuple[str, str, str] | None:
    """Scheme, host and port of an origin, as it is compared; None if it is not one."""
    scheme, separator, rest = text.lower().partition("://")
    ports: dict[str, str] = {"http": "80", "https": "443"}
    if not separator or scheme not in ports or not rest or set(rest) & _NEVER_IN_ORIGINS:
        return None
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, port = rest, ""
    return scheme, host, port or ports[scheme]
