"""Host names under which the page may be reached: the answer to DNS rebinding.

A stranger's page can make its own name point to this machine, and the browser then takes requests
to us for requests to itself. The name it sends is the only thing that tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

# A name, an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
_HOST: Final = re.compile(r"(?P<name>[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{0,5})?")


def host_name(header: str) -> str | None:
    """The name in a Host header, in lower case and without its port; None if it holds none.

    >>> host_name("LOCALHOST:8000"), host_name("[::1]:80"), host_name("user@localhost")
    ('localhost', '[::1]', None)
    """
    match = _HOST.fullmatch(header.lower())
    return match["name"] if match else None


def is_allowed_host(headers: Collection[str], allowed: Collection[str]) -> bool:
    """Whether a request with these Host headers came by a name of ours, on whatever port.

    Ports say nothing: a tunnel or a container maps them as it likes.

    Args:
        headers: every Host header of the request; anything but exactly one is refused.
        allowed: names in lower case, compared exactly.
    """
    return len(headers) == 1 and host_name(next(iter(headers))) in allowed
