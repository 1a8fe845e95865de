"""Envelopes: what the requests and responses of all wire formats have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping

from weighbridge.decision import FailureKind, Json
from weighbridge.providers.failures import is_identifier
from weighbridge.providers.protocol import Failure, HttpRequest

_MOST_OF_NAME = 200  # characters


def post(path: str, body: Mapping[str, object], **headers: str) -> HttpRequest:
    """A request with a JSON body.

    >>> post("/api/chat", {"model": "m"}, x_version="1").headers["x-version"]
    '1'
    """
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpRequest(
        method="POST",
        path=path,
        headers={"content-type": "application/json", "accept": "application/json", **named},
        body=json.dumps(body, separators=(",", ":"), allow_nan=False).encode(),
    )


def invalid(status: int, detail: str) -> Failure:
    """The failure of a success that holds no answer."""
    return Failure(kind=FailureKind.INVALID, detail=detail, status=status)


def word_of(value: Json) -> str:
    """A word of the vendor's as a trail can show it.

    >>> word_of("content_filter"), word_of("I am sorry, but"), word_of(None)
    ('content_filter', 'missing or unreadable', 'missing or unreadable')
    """
    is_shown = isinstance(value, str) and is_identifier(value)
    return str(value) if is_shown else "missing or unreadable"


def model_of(value: Json) -> str | None:
    """The name of a model, as far as a key of a database holds one; None if it says nothing.

    >>> model_of("gpt-5-mini"), model_of(""), len(model_of("x" * 5000))
    ('gpt-5-mini', None, 200)
    """
    return value[:_MOST_OF_NAME] if isinstance(value, str) and value else None


def count_of(value: Json) -> int | None:
    """A number of tokens; True is none.

    >>> count_of(7), count_of(-1), count_of(True), count_of("7")
    (7, None, None, None)
    """
    return value if type(value) is int and value >= 0 else None
