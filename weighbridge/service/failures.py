"""Failures: what a visitor sees when something goes wrong; never a trace, a ticket or a secret."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from weighbridge.errors import (
    ChangeRefused,
    ItemNotFound,
    LeaseLost,
    PersonRefused,
    QueueUnavailable,
    VerdictInvalid,
    WeighbridgeError,
)
from weighbridge.service.pages import Page
from weighbridge.service.words import mistake

_logger = logging.getLogger(__name__)

_UNAVAILABLE: Final = (
    "The review database cannot be used just now. Nothing was lost; try again in a moment."
)
_TEXTS: Final = {
    400: "The request could not be read.",
    404: "There is nothing at this address.",
    405: "This address does not do that.",
    413: "The request is too long.",
    415: "Send a form (application/x-www-form-urlencoded) or JSON (application/json).",
    500: "Something went wrong here; nothing of yours was changed. The server's log says more.",
    503: _UNAVAILABLE,
}
_STATUSES: Final[dict[type[WeighbridgeError], int]] = {
    ChangeRefused: 409,
    ItemNotFound: 404,
    LeaseLost: 409,
    PersonRefused: 422,
    VerdictInvalid: 422,
}


def unavailable(error: QueueUnavailable) -> str:
    """What a visitor is told of it; which database it is and what ails it goes to the log."""
    _logger.warning("%s", error)
    return _UNAVAILABLE


def install(app: FastAPI) -> None:
    """Have every exception answered here."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(WeighbridgeError, _failed)
    app.add_exception_handler(Exception, _broken)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    own = error.detail if error.status_code == 422 else ""  # in words of ours, see `sent_with`
    return _page(error.status_code, _TEXTS.get(error.status_code, own))


def _unreadable(request: Request, error: Exception) -> Response:
    return _page(400, _TEXTS[400])


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, WeighbridgeError)
    if isinstance(error, QueueUnavailable):
        return _page(503, unavailable(error))
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    # Where the database is, is nobody's business out there; our other messages hold ids only.
    told = mistake(error) if isinstance(error, PersonRefused) else f"{error}."
    return _page(status, _TEXTS.get(status) or told)


def _broken(request: Request, error: Exception) -> Response:
    return _page(500, _TEXTS[500])


def _page(status: int, text: str) -> Page:
    title = HTTPStatus(status).phrase
    return Page("message.html", {"title": title, "text": text or title}, status_code=status)
