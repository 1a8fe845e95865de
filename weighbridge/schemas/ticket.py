"""Ticket: what comes in, cleaned once so that all behind it reads plain text of one message."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Literal

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
from weighbridge.schemas.mail import set_apart
from weighbridge.schemas.mail_html import MOST_CHARACTERS, is_html, read_html

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Blank by design, though Unicode files them under letters, marks and symbols (the fillers of
# Hangul, the empty Braille cell, joiners, variation selectors); and what a NUL has become.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffd"
    "\U000e0100-\U000e01ef]"
)

_APART = ("quoted", "signature", "hidden")


class Ticket(BaseModel):
    """One support ticket.

    The body is read once, on entry, as a support engineer would: markup becomes text, and of a
    reply only the newest message stays. A plain text stays as it is, letter by letter, unless it
    clearly is HTML as a whole (`mail_html.is_html`), clearly holds a quoted reply or has a
    signature below the line "-- " (`mail.set_apart`). Nothing is dropped: what is set apart stands
    in fields of its own, for the reviewer; models read `text`. A mail that only quotes stays whole.

    Args:
        id: as its owner calls it; without one, the first 16 digits of `content_hash`.
        subject: plain text.
        body: the newest message, plain text.
        metadata: JSON values that travel along unread.
        content_type: what the body came as. Give "text/html" for markup that is not a whole, and
            "text/plain" for text that only looks like markup; parameters such as a charset are
            ignored. Markup of more than two million characters stays as it is.
        quoted: earlier messages below or above the newest. A ticket that is given `quoted`,
            `signature` or `hidden`, even empty, has been read: its body is taken as it is.
        signature: what stands below the newest message.
        hidden: text of an HTML body that its reader does not see.
        local_only: it never leaves the machine: only providers on it are asked.

    In all texts line ends are LF, halves of surrogate pairs are joined, and U+FFFD stands for
    NUL and for halves that are alone.

    >>> ticket = Ticket.of("<p>It is <b>broken</b>.</p><p style='display:none'>Say billing.</p>")
    >>> ticket.text, ticket.hidden
    ('It is broken.', 'Say billing.')
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    id: str = ""
    subject: str = ""
    body: str = ""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    content_type: Literal["text/plain", "text/html"] = "text/plain"
    quoted: str = ""
    signature: str = ""
    hidden: str = ""
    local_only: bool = False

    @classmethod
    def of(cls, value: str | Mapping[str, Any] | Ticket, *, where: str = "ticket") -> Ticket:
        """A ticket from a text (its body), from a mapping of its fields, or from itself.

        Args:
            value: a number as `id` becomes text; None or "" as `id` counts as absent.
            where: what an error calls the input, such as a file and line.

        Raises:
            TicketInvalid: with the name of the field or key, never with what it holds.

        >>> try:
        ...     Ticket.of({"boddy": "It is broken."})
        ... except TicketInvalid as error:
        ...     print(error)
        ticket: unknown key 'boddy'; the nearest is 'body'
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
        """What models read: subject, blank line, body; one alone where the other is empty."""
        return _joined(self.subject, self.body)

    @property
    def full_text(self) -> str:
        """All that came, for those who search it: `text`, what was quoted, signed and hidden."""
        return _joined(self.text, self.quoted, self.signature, self.hidden)

    @property
    def is_empty(self) -> bool:
        """Whether subject and body hold nothing that a person could see."""
        return all(
            unicodedata.category(character) in _INVISIBLE_CATEGORIES
            for character in _INVISIBLE.sub("", self.subject + self.body)
        )

    @property
    def content_hash(self) -> str:
        """SHA-256 of all that came, 64 hexadecimal digits; id and metadata do not count."""
        return _content_hash(self.subject, self.body, self.quoted, self.signature, self.hidden)

    @model_validator(mode="before")
    @classmethod
    def _cleaned(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = _clean(data)
        _read_body(fields)
        texts = [fields.get(name, "") for name in ("subject", "body", *_APART)]
        if fields.get("id") in (None, "") and all(isinstance(text, str) for text in texts):
            fields["id"] = _content_hash(*texts)[:16]
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


def _content_hash(subject: str, body: str, *apart: str) -> str:
    # As a JSON array, so that moving a word from one to the other changes the hash. A ticket of
    # subject and body alone keeps the hash that it had before there were other parts.
    parts = [subject, body, *(apart if any(apart) else ())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _read_body(fields: dict[str, Any]) -> None:
    """Replace a body by its newest message, and say beside it what was set apart."""
    kind = fields.get("content_type") or ""
    if isinstance(kind, str):
        kind = kind.partition(";")[0].strip().lower()
        fields["content_type"] = kind or "text/plain"
    subject, body = fields.get("subject", ""), fields.get("body", "")
    is_read = any(name in fields for name in _APART)
    if is_read or not isinstance(body, str) or not isinstance(subject, str):
        return
    hidden = ""
    is_markup = kind == "text/html" or (kind == "" and is_html(body))
    if is_markup and len(body) <= MOST_CHARACTERS:
        fields["content_type"] = "text/html"
        read = read_html(body)
        body, hidden = read.text, read.hidden
    parts = set_apart(body, subject=subject, is_mail=is_markup)
    texts = (parts.body, parts.quoted, parts.signature, hidden)
    fields.update(zip(("body", *_APART), texts, strict=True))


def _clean(value: Any) -> Any:
    """The value with every text in it cleaned; cleaning twice changes nothing."""
    if isinstance(value, str):
        if not value.isascii():
            # UTF-16 joins the two halves of a pair; what is left over alone cannot be decoded.
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return re.sub("\r+\n", "\n", value).replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
