"""Visitor: who asks, known from a session cookie or an API token and from nothing they write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from weighbridge.store.credentials import Credentials
from weighbridge.store.people import People, Person
from weighbridge.store.roles import Role

COOKIE: Final = "weighbridge_session"
SESSION_S: Final = 12 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A person who was let in.

    Args:
        person: as stored now.
        role: what they may do here: their own role, or less with a token of narrower scope.
        secret: of the session; "" for whoever came with a token.
    """

    person: Person
    role: Role
    secret: str = ""

    @property
    def name(self) -> str:
        """Of the person; what verdicts are signed with."""
        return self.person.name


def identify(request: HTTPConnection, people: People, credentials: Credentials) -> Visitor | None:
    """Who sent a request; None if nobody we know. Reads the database."""
    secret, credential = request.cookies.get(COOKIE, ""), None
    if secret:
        credential = credentials.find("session", secret)
    elif token := _bearer(request):
        credential = credentials.find("token", token)
    person = people.get(credential.person) if credential else None
    if credential is None or person is None:
        return None
    role = person.role if credential.scope.includes(person.role) else credential.scope
    return Visitor(person=person, role=role, secret=secret)


def give_cookie(response: Response, secret: str, *, path: str, is_secure: bool) -> None:
    """Let the browser send a session along: to us alone, and not when others' pages post to us."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=round(SESSION_S),
        path=path,
        secure=is_secure,
        httponly=True,
        samesite="lax",
    )


def take_cookie(response: Response, *, path: str, is_secure: bool) -> None:
    """Have the browser forget the session."""
    response.delete_cookie(COOKIE, path=path, secure=is_secure, httponly=True, samesite="lax")


def _bearer(request: HTTPConnection) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
