"""Error bodies: what the shapes in which providers say no have in common.

An error is an object under `error`, a text, flat, under `detail` or a bare message; it may carry
more exact ones inside. What it says for people is kept only as far as it is the vendor's own words.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from weighbridge.decision import Json

_MAX_LEVELS = 10  # error objects and texts in each other, counted from the body
_MAX_LAYERS = 32  # on one level
_READ_CHARS, _REASON_CHARS = 2000, 300  # of a message; further on, servers quote what they got

_JSON = ("{", "[")
_STATUS = re.compile(r"[1-5][0-9][0-9]")
_STATUS_KEYS = ("code", "status", "statusCode", "status_code", "raw_status_code")
_CODE_KEYS = ("code", "error_code", "type", "status", "reason", "quotaId")
_MESSAGE_KEYS = ("message", "msg", "description")
# Lists of which the first entry is the error, and lists that say one thing in several entries.
_ERROR_KEYS = ("error", "errors", "detail", "innererror")
_DETAIL_KEYS = ("details", "violations", "fieldViolations")

# A name or a value in quotes is one word; several are somebody's text.
_QUOTED = re.compile(
    r"""(?<![a-z0-9])(?P<quote>["'`])(?=[^"'`]*\s)(?:(?!(?P=quote)(?![a-z0-9])).)*(?:(?P=quote)|$)"""
    r"|\u201c[^\u201d]*",
    re.DOTALL,
)
_ECHO = re.compile(r"input_value=|\binput['\"]?:|\breceived:|\bbut got\b")
_PATH = re.compile(r"[\s*]*(?:generatecontentrequest\.)?(?P<path>[a-z_][\w.\[\]]*): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """An error, whatever its shape; the most exact part first.

    Args:
        reasons: what it says for people: lower case, cut, without what it quotes.
        codes: what it says for programs: lower case, never the status.
        param: path of the parameter that the vendor says it is about; "" if it does not say.
        status: HTTP status that it names.
        is_flagged: a moderator's findings stand beside it.
        has_generation: what the model wrote stands beside it.
    """

    reasons: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    param: str = ""
    status: int | None = None
    is_flagged: bool = False
    has_generation: bool = False

    @property
    def place(self) -> str:
        """`param`, or the path that a message begins with, as Anthropic's and pydantic's do."""
        starts = (_PATH.match(reason) for reason in self.reasons)
        return self.param or next((start["path"] for start in starts if start), "")


def body_json(body: bytes) -> Json:
    """The JSON of a body, whatever its content type claims; None if it is none."""
    with contextlib.suppress(ValueError):
        # Reads less than Python's and nothing else, in half the time; pydantic brings it along.
        quickly: Json = from_json(body, cache_strings="keys")
        return quickly
    try:
        value: Json = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value


def read_error(body: Json) -> ErrorBody:
    """What an error body says.

    >>> read_error({"error": {"message": "No.", "code": "invalid_api_key"}}).codes
    ('invalid_api_key',)
    """
    layers = [layer for level in reversed([*_levels(body)]) for layer in level]
    objects = [layer for layer in layers if isinstance(layer, dict)]
    statuses = (str(layer.get(key)) for layer in objects for key in _STATUS_KEYS)
    messages = (
        text
        for layer in layers
        for text in ([layer] if isinstance(layer, str) else _texts(layer, _MESSAGE_KEYS))
        if not _holds_json(text)
    )
    codes = (code.lower() for layer in objects for code in _texts(layer, _CODE_KEYS))
    return ErrorBody(
        reasons=tuple(dict.fromkeys(map(_own_words, messages))),
        codes=tuple(dict.fromkeys(code for code in codes if not _STATUS.fullmatch(code))),
        param=next(filter(None, map(_param, objects)), ""),
        status=next((int(status) for status in statuses if _STATUS.fullmatch(status)), None),
        is_flagged=any(map(_is_flagged, objects)),
        has_generation=any(layer.get("failed_generation") for layer in objects),
    )


def _levels(body: Json) -> Iterator[list[Any]]:
    """The error objects and texts in a body, level by level, outermost first."""
    level: list[Any] = [body]
    for _ in range(_MAX_LEVELS):
        yield level
        level = [inner for layer in level for inner in _inside(layer)][:_MAX_LAYERS]


def _inside(layer: Any) -> Iterable[Any]:
    """What may hold a more exact error than what is around it."""
    if isinstance(layer, str):
        # Some gateways put the body of the provider behind them into a text.
        return [body_json(layer.encode("utf-8", "replace"))] if _holds_json(layer) else []
    if isinstance(layer, list):
        return layer[:1]
    if not isinstance(layer, dict):
        return []
    inside = [layer[key] for key in _ERROR_KEYS if layer.get(key)]
    message, metadata = layer.get("message"), layer.get("metadata")
    # Mistral wraps the errors of its validator like this.
    if isinstance(message, dict | list) or (isinstance(message, str) and _holds_json(message)):
        inside.append(message)
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        # OpenRouter says "Provider returned error" and keeps the provider's own body here.
        inside.append(metadata["raw"])
    for key in _DETAIL_KEYS:
        found = layer.get(key)
        inside += found if isinstance(found, list) else [found] if isinstance(found, dict) else []
    return inside


def _holds_json(text: str) -> bool:
    # Bytes need not be text: a lone surrogate can stand in JSON and in no encoding.
    return text.startswith(_JSON) and body_json(text.encode("utf-8", "replace")) is not None


def _texts(layer: Any, keys: Iterable[str]) -> list[str]:
    if not isinstance(layer, dict):
        return []
    found = (layer.get(key) for key in keys)
    return [str(v) for v in found if isinstance(v, str | int) and not isinstance(v, bool)]


def _param(layer: dict[str, Any]) -> str:
    """The parameter in `param`, in Google's `field`, or in the `loc` of pydantic's errors."""
    loc = layer.get("loc")
    parts = loc if isinstance(loc, list) else []
    path = ".".join(str(part) for part in parts if part != "body")
    return next(filter(None, _texts(layer, ("param", "field"))), path)


def _is_flagged(layer: dict[str, Any]) -> bool:
    metadata = layer.get("metadata")
    return isinstance(metadata, dict) and bool({"flagged_input", "reasons"} & metadata.keys())


def _own_words(message: str) -> str:
    """The beginning of a message, without what it quotes: tickets, answers, the request."""
    text = _QUOTED.sub(" ", message[:_READ_CHARS].lower())
    return _ECHO.split(text, maxsplit=1)[0][:_REASON_CHARS]
