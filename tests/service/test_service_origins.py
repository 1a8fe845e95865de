from __future__ import annotations

import pytest

from weighbridge.service.hosts import LOOPBACK_NAMES, is_allowed_host
from weighbridge.service.origins import is_own_request

BEARER = ["Bearer abc"]


def is_own(
    method: str = "POST",
    *,
    scheme: str = "http",
    host: str = "localhost:8710",
    site: str | list[str] = (),
    origin: str | list[str] = (),
    authorization: list[str] = (),
    cookie: bool = True,
) -> bool:
    return is_own_request(
        method,
        scheme=scheme,
        host=host,
        sites=[site] if isinstance(site, str) else site,
        origins=[origin] if isinstance(origin, str) else origin,
        authorizations=authorization,
        has_cookie=cookie,
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_looking_is_allowed_from_anywhere(method, site):
    """Nothing changes by being looked at."""
    assert is_own(method, site=site, origin="https://evil.example")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # What browsers say of themselves decides.
        ({"site": "same-origin"}, True),
        ({"site": "none"}, True),
        ({"site": "same-site"}, False),
        ({"site": "cross-site"}, False),
        ({"site": ""}, False),
        ({"site": "SAME-ORIGIN"}, False),
        ({"site": "same-origin, cross-site"}, False),
        ({"site": ["same-origin", "cross-site"]}, False),
        ({"site": "cross-site", "origin": "http://localhost:8710"}, False),
        ({"site": "same-origin", "origin": "https://evil.example"}, True),
        # Without that, the origin must be ours to the letter.
        ({"origin": "http://localhost:8710"}, True),
        ({"origin": "HTTP://LOCALHOST:8710"}, True),
        ({"origin": "http://localhost:8711"}, False),
        ({"origin": "https://localhost:8710"}, False),
        ({"origin": "http://localhost"}, False),
        ({"origin": "http://localhost.evil.example:8710"}, False),
        ({"origin": "http://evil.example#@localhost:8710"}, False),
        ({"origin": "http://user@localhost:8710"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": ["http://localhost:8710", "http://localhost:8710"]}, False),
        ({}, False),
        # Ports that go without saying.
        ({"host": "review.example", "origin": "http://review.example:80"}, True),
        (
            {"host": "review.example:443", "scheme": "https", "origin": "https://review.example"},
            True,
        ),
        ({"host": "review.example", "scheme": "https", "origin": "http://review.example"}, False),
        ({"host": "[::1]", "origin": "http://[::1]"}, True),
        ({"host": "[::1]:8710", "origin": "http://[::1]:8710"}, True),
        ({"host": "[::1]:8710", "origin": "http://[::1]"}, False),
        ({"host": "", "origin": "http://"}, False),
        # A token is sent by programs; a cookie by browsers, whoever asks them to.
        ({"authorization": BEARER, "cookie": False}, True),
        ({"authorization": ["bearer abc"], "cookie": False, "site": "cross-site"}, True),
        ({"authorization": BEARER, "cookie": True}, False),
        ({"authorization": BEARER, "cookie": True, "site": "same-origin"}, True),
        ({"authorization": ["Bearer "], "cookie": False}, False),
        ({"authorization": ["Basic YTpi"], "cookie": False}, False),
        ({"authorization": [*BEARER, *BEARER], "cookie": False}, False),
        ({"cookie": False}, False),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "post"])
def test_changing_needs_our_own_page_or_a_token(case, expected, method):
    """One table; each row that is allowed has neighbours that are not."""
    assert is_own(method, **case) is expected


@pytest.mark.parametrize(
    "header", ["localhost", "localhost:8710", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:80", "[::1]:5"]
)
def test_loopback_names_are_answered_on_every_port(header):
    """Tunnels and containers map ports as they like."""
    assert is_allowed_host([header], LOOPBACK_NAMES)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["localhost", "localhost"],
        ["evil.example"],
        ["localhost.evil.example"],
        ["evil.example:8710"],
        ["localhost:8710@evil.example"],
        ["user@localhost"],
        ["localhost."],
        ["127.0.0.2"],
        ["2130706433"],
        ["0.0.0.0"],
        ["::1"],
        ["[::1"],
        ["[::1]evil"],
        ["localhost:x"],
        ["localhost:999999"],
        ["localhost/evil"],
        ["localhost evil.example"],
        ["localhost\n"],
    ],
)
def test_other_names_are_not_answered(headers):
    """A name of a stranger's that points here is how a page of theirs would reach us."""
    assert not is_allowed_host(headers, LOOPBACK_NAMES)


def test_names_are_compared_exactly():
    """A list that allowed suffixes would allow what others register."""
    assert is_allowed_host(["Review.Example:443"], {"review.example"})
    assert not is_allowed_host(["a.review.example"], {"review.example"})
    assert not is_allowed_host(["localhost"], {"review.example"})
