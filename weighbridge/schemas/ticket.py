"""Ticket: what comes in, cleaned once so that nothing behind it can choke on the text."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from weighbridge.errors import TicketInvalid

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Blank by design, though Unicode files them under letters, marks and symbols (the fillers of
# Hangul, the empty Braille cell, joiners, variation selectors); and what a NUL has become.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffd"
    "\U000e0100-\U000e01ef]"
)


class Ticket(BaseModel):
    """One support ticket.

    Args:
        id: as its owner calls it; without one, the first 16 digits of `content_hash`.
        subject: plain text.
        body: plain text.
        metadata: JSON values that travel along unread.
        local_only: it never leaves the machine: only providers on it are asked.

    In all texts line ends are LF, halves of surrogate pairs are joined, and U+FFFD stands for
    NUL and for halves that are alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    id: str = ""
    subject: str = ""
    body: str = ""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    local_only: bool = False

    @classmethod
    def of(cls, value: str | Mapping[str, Any] | Ticket, *, where: str = "ticket") -> Ticket:
        """A ticket from a text (its body), from a mapping of its fields, or from itself.

        Args:
            value: a number as `id` becomes text; None or "" as `id` counts as absent.
            where: what an error calls the input, such as a file and line.

        Raises:
            TicketInvalid: with the name of the field or key, never with what it holds.

        >>> Ticket.of({"boddy": "It is broken."})
        Traceback (most recent call last):
        weighbridge.errors.TicketInvalid: ticket: unknown key 'boddy'; the nearest is 'body'
        """
        if isinstance(value, Ticket):
            return value
        fields = {"body": value} if isinstance(value, str) else value
        if not isinstance(fields, Mapping):
            raise TicketInvalid(where, f"a value of type {type(value).__name__} is no ticket")
        for key in fields:
            if key not in cls.model_fields:
                near = difflib.get_close_matches(str(key).lower(), cls.model_fields, 1, cutoff=0)
                raise TicketInvalid(
                    where, f"unknown key {str(key)[:40]!r}; the nearest is {near[0]!r}"
                )
        try:
            return cls(**fields)
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
            name = problem["loc"][0]
            raise TicketInvalid(where, f"{name}: {problem['msg']}") from None
        except RecursionError:
            raise TicketInvalid(where, "metadata: nested too deeply") from None

    @property
    def text(self) -> str:
        """Subject, blank line, body; one alone where the other is empty."""
        return "\n\n".join(part for part in (self.subject, self.body) if part)

    @property
    def is_empty(self) -> bool:
        """Whether subject and body hold nothing that a person could see."""
        return all(
            unicodedata.category(character) in _INVISIBLE_CATEGORIES
            for character in _INVISIBLE.sub("", self.subject + self.body)
        )

    @property
    def content_hash(self) -> str:
        """SHA-256 of subject and body, 64 hexadecimal digits; id and metadata do not count."""
        return _content_hash(self.subject, self.body)

    @model_validator(mode="before")
    @classmethod
    def _cleaned(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = _clean(data)
        subject, body = fields.get("subject", ""), fields.get("body", "")
        if fields.get("id") in (None, "") and isinstance(subject, str) and isinstance(body, str):
            fields["id"] = _content_hash(subject, body)[:16]
        elif type(fields.get("id")) is int:  # True is no id
            fields["id"] = str(fields["id"])
        return fields

    @field_validator("metadata")
    @classmethod
    def _is_json(cls, metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
        try:
            json.dumps(metadata, allow_nan=False)
        except ValueError:
            raise PydanticCustomError("json", "holds a number that JSON cannot spell") from None
        return metadata


def _content_hash(subject: str, body: str) -> str:
    # As a JSON array, so that moving a word from one to the other changes the hash.
    return hashlib.sha256(json.dumps([subject, body]).encode()).hexdigest()


def _clean(value: Any) -> Any:
    """The value with every text in it cleaned; cleaning twice changes nothing."""
    if isinstance(value, str):
        # UTF-16 joins the two halves of a pair; what is left over alone cannot be decoded.
        whole = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return re.sub("\r+\n", "\n", whole).replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
