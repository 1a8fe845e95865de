"""Redaction: what identifies a person is replaced by placeholders before a provider reads a text.

Patterns find what has a form that can be checked: e-mail addresses, telephone numbers, payment
cards (Luhn) and IBANs (modulo 97). Names and postal addresses have none; whoever must hide them
plugs a recogniser of their own in wherever a `Redacts` is taken.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from weighbridge.decision import Json
from weighbridge.schemas.personal_patterns import BUILT_IN, Pattern

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_]*_[0-9]+\]")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
# One pass finds nearly all; a second sees what only a replacement has laid bare.
_MOST_PASSES = 4


class RedactedText(Protocol):
    """What a redaction gives back."""

    @property
    def text(self) -> str:
        """What a provider may read."""

    def restore(self, value: Json) -> Json:
        """An answer with the originals put back."""


class Redacts(Protocol):
    """Anything that redacts: a `Redactor`, or a function around another recogniser."""

    def __call__(self, text: str, /) -> RedactedText:
        """Redact one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """A text without its findings.

    Args:
        text: with placeholders such as "[EMAIL_1]"; one value has one placeholder.
        originals: from placeholder to what stood there; never shown.
    """

    text: str
    originals: Mapping[str, str] = field(default_factory=dict, repr=False)

    def restore(self, value: Json) -> Json:
        """The value with the originals in place of whole placeholders of ours, in all its strings.

        Keys stay as they are, for they are the schema's. A placeholder that the text did not get
        from us stays too, such as one that the ticket itself contained.
        """
        if isinstance(value, str):
            return _restored(value, self.originals)
        if isinstance(value, list):
            return [self.restore(item) for item in value]
        if isinstance(value, dict):
            return {key: self.restore(item) for key, item in value.items()}
        return value


class Redactor:
    """Replaces what its patterns find.

    Args:
        patterns: asked in this order.
        extra: asked after them; yours.

    Raises:
        ValueError: a pattern's name is not of the form that a placeholder can carry.

    >>> redacted = Redactor().redact("I am al@b.example, not [EMAIL_1]. Write to al@b.example!")
    >>> redacted.text
    'I am [EMAIL_2], not [EMAIL_1]. Write to [EMAIL_2]!'
    >>> redacted.restore({"reply_to": "[EMAIL_2]"})
    {'reply_to': 'al@b.example'}
    """

    def __init__(
        self, patterns: Sequence[Pattern] = BUILT_IN, extra: Sequence[Pattern] = ()
    ) -> None:
        self.patterns = (*patterns, *extra)
        for pattern in self.patterns:
            if not _NAME.fullmatch(pattern.name):
                raise ValueError(
                    f"{pattern.name!r} cannot name a pattern: capital letters, digits and _ can"
                )

    def redact(self, text: str) -> Redacted:
        """The text without what is found, in time proportional to its length."""
        book = _Book(text)
        for _ in range(_MOST_PASSES):
            before = text
            for pattern in self.patterns:
                text = _replaced(text, pattern, book)
            if text == before:
                break
        return Redacted(text=text, originals=book.originals)

    __call__ = redact


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """Settings: what is redacted.

    Args:
        built_in: names of built-in patterns: EMAIL, IBAN, CARD, PHONE.
        extra: your own, from a name in capitals to a regular expression; all that it matches is
            replaced. Write it so that it takes linear time: tickets are hostile.
    """

    built_in: tuple[str, ...] = tuple(dict.fromkeys(pattern.name for pattern in BUILT_IN))
    extra: Mapping[str, str] = field(default_factory=dict)

    def redactor(self) -> Redactor:
        """What does it.

        Raises:
            ValueError: an unknown name, with the nearest; or not a regular expression.
        """
        known = {pattern.name for pattern in BUILT_IN}
        for name in self.built_in:
            if name not in known:
                near = difflib.get_close_matches(name.upper(), sorted(known), 1, cutoff=0)[0]
                raise ValueError(f"no built-in pattern is called {name!r}; the nearest is {near!r}")
        return Redactor(
            [pattern for pattern in BUILT_IN if pattern.name in self.built_in],
            [Pattern.of(name, expression) for name, expression in self.extra.items()],
        )


class _Book:
    """Which placeholder stands for which value."""

    def __init__(self, text: str) -> None:
        self.originals: dict[str, str] = {}
        self._placeholders: dict[tuple[str, str], str] = {}
        self._taken = set(_PLACEHOLDER.findall(text))  # the ticket's own words
        self._numbers: dict[str, int] = {}

    def placeholder(self, name: str, value: str) -> str:
        if (name, value) not in self._placeholders:
            number = self._numbers.get(name, 0) + 1
            while (free := f"[{name}_{number}]") in self._taken:
                number += 1
            self._numbers[name] = number
            self._placeholders[name, value] = free
            self.originals[free] = value
        return self._placeholders[name, value]


def _replaced(text: str, pattern: Pattern, book: _Book) -> str:
    pieces, at = [], 0
    for begin, end in _whole(text, pattern, book):
        # What a later pattern finds around an earlier finding is put back in one step.
        value = _restored(text[begin:end], book.originals)
        pieces += [text[at:begin], book.placeholder(pattern.name, value)]
        at = end
    return "".join([*pieces, text[at:]])


def _restored(text: str, originals: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: originals.get(found[0], found[0]), text)


def _whole(text: str, pattern: Pattern, book: _Book) -> Iterator[tuple[int, int]]:
    """Findings that cut through no placeholder of ours, and lie in none."""
    ours = [found.span() for found in _PLACEHOLDER.finditer(text) if found[0] in book.originals]
    following = last = 0
    for found_begin, found_end in pattern.findings(text):
        begin, end = max(found_begin, last), found_end
        while following < len(ours) and ours[following][1] <= begin:
            following += 1
        at = following
        while at < len(ours) and ours[at][0] < end:
            begin, end = min(begin, ours[at][0]), max(end, ours[at][1])
            at += 1
        is_ours = at == following + 1 and (begin, end) == ours[following]
        if begin < end and not is_ours:
            yield begin, end
            last = end
