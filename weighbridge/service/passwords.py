"""Passwords, hashed with Argon2 so that a stolen database gives none away soon."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from weighbridge.errors import ExtraMissing, PersonRefused

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_CHARACTERS: Final = 12
_MAX_CHARACTERS: Final = 1000

# Each check takes 64 MiB: more than a few at once would let anybody fill the memory.
_at_once = threading.BoundedSemaphore(2)


def hash_password(password: str) -> str:
    """What is stored in place of a password.

    Raises:
        PersonRefused: too short or too long; the message repeats nothing of it.
        ExtraMissing: the extra [serve] is not installed.
    """
    if not MIN_CHARACTERS <= len(password) <= _MAX_CHARACTERS:
        raise PersonRefused(
            "password",
            "too short" if len(password) < MIN_CHARACTERS else "too long",
            f"Take {MIN_CHARACTERS} to {_MAX_CHARACTERS} characters; several words are good.",
        )
    with _at_once:
        return _hasher().hash(_bytes(password))


def is_password(password: str, hashed: str | None) -> bool:
    """Whether a password is the one that was hashed.

    Takes as long when there is none, so that the time does not tell which names exist.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    with _at_once:
        try:
            return _hasher().verify(hashed or _hash_of_nobody(), _bytes(password)) and (
                hashed is not None
            )
        except (InvalidHashError, VerificationError):
            return False


def _bytes(password: str) -> bytes:
    # A program can send half a surrogate pair, which has no encoding of its own.
    return password.encode("utf-8", "surrogatepass")


@cache
def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ModuleNotFoundError:
        raise ExtraMissing("serve", "argon2-cffi") from None
    return PasswordHasher()


@cache
def _hash_of_nobody() -> str:
    return _hasher().hash("")
