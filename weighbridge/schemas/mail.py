"""Mail: the newest message of a text, with the quoted ones and the signature set apart.

mail-parser-reply knows how mail programs introduce what they quote, and how people close a letter,
in thirteen languages; its patterns are asked about a few short windows of a text only. Where to cut
is decided here, on whole lines, so that each line of the text ends up in exactly one part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_MOST_CANDIDATES = 40  # places that the patterns are asked about; a ticket is no place to search on
_WINDOW_CHARACTERS = 400
_MOST_WRAPPED = 3  # lines that an introduction is wrapped over
_SIGNATURE_LINES = 15
_CLOSING_LINES = 8
_LINE_WORDS = 8  # a line with more is a sentence, and no part of a name and address

_COLONS = (":", "\uff1a")
_QUOTED = re.compile(r"\s*>")
_HEADER_LINE = re.compile(r"[ *]*[^\W\d_][^:\uff1a\n]{0,24}[:\uff1a]")
_RULED = re.compile(
    r" {0,9}[-_=]{3,99}(?P<words>[^-_=\n]{0,60})[-_=]{3,99} {0,9}| {0,9}[-_]{5,99} {0,9}"
)
_ORIGINAL = re.compile(
    "origin|ursprüngl|oorspronkelijk|oprindelig|ursprung|původn|oryginaln|原始|元の|원본",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d[:.]\d\d")
_ADDRESS = re.compile(r"<(?:mailto:)?[^<>\s@]{1,80}@[^<>\s@]{1,80}>")
_FORWARDED = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|i|vs|vb|doorst|pd)\s*:", re.IGNORECASE)
_DELIMITER = "-- "  # RFC 3676, section 4.3: with the space


@dataclass(frozen=True, slots=True, kw_only=True)
class MailParts:
    """A text in parts.

    Args:
        body: the newest message; the whole text if nothing clearly is a quote or a signature.
        quoted: earlier messages, with the line that introduces them.
        signature: what stands below the newest message.
    """

    body: str
    quoted: str = ""
    signature: str = ""


def set_apart(text: str, *, subject: str = "", is_mail: bool = False) -> MailParts:
    r"""The parts of a text.

    A quote is clear when it is introduced as mail programs do: "… wrote:" with lines behind ">"
    below, or with time and address; or a block of header lines. What is forwarded is no quote: it
    is what the mail is about. Answers written between quoted lines stay where they are, since they
    mean little without; so does everything if no message would be left.

    Args:
        text: plain text with LF.
        subject: tells what was forwarded.
        is_mail: it is known to be a mail, so that a signature needs no delimiter. A text with a
            quote is one; of others only what stands below the line "-- " is a signature.

    >>> parts = set_apart("Thanks!\n\nOn May 3, 2024 at 9:12, Al <a@b.example> wrote:\n> Fixed?")
    >>> parts.body, parts.quoted
    ('Thanks!', 'On May 3, 2024 at 9:12, Al <a@b.example> wrote:\n> Fixed?')
    """
    lines = text.split("\n")
    found = None if _FORWARDED.match(subject) else _quote(lines)
    message, quoted = found or (lines, [])
    if not _is_said(message):
        message, quoted = lines, []
    cut = _signature(message, is_mail=is_mail or bool(quoted))
    signature = message[cut:]
    if not quoted and not signature:
        return MailParts(body=text)
    return MailParts(
        body=_joined(message[:cut]), quoted=_joined(quoted), signature=_joined(signature)
    )


def _quote(lines: list[str]) -> tuple[list[str], list[str]] | None:
    """The lines of the newest message and those quoted; None if there is no clear quote."""
    num_asked = 0
    for at, line in enumerate(lines):
        if num_asked == _MOST_CANDIDATES:
            break
        if not line.strip() or _QUOTED.match(line):
            continue
        if num_headers := _num_header_lines(lines, at):
            num_asked += 1
            if _is_header_block(lines[at : at + num_headers]):
                return _cut_above_rule(lines, at)
        if line.rstrip().endswith(_COLONS):
            num_asked += 1
            if (start := _introduction(lines, at)) is not None:
                return _introduced(lines, start, at + 1)
        if _is_original_rule(line):
            return lines[:at], lines[at:]
    return None


def _introduction(lines: list[str], last: int) -> int | None:
    """Where the introduction of a quote begins that ends in this line; None if it is none."""
    below = next((line for line in lines[last + 1 :] if line.strip()), "")
    is_quoted_below = bool(_QUOTED.match(below))
    windows = []
    for start in range(last, max(last - _MOST_WRAPPED, -1), -1):
        if not lines[start].strip():
            break
        windows.append((start, "\n".join(line.strip() for line in lines[start : last + 1])))
    for start, window in windows:
        if len(window) > _WINDOW_CHARACTERS:
            break
        has_both = "@" in window and bool(_TIME.search(window))
        if (is_quoted_below or has_both) and _introductions().fullmatch(window):
            return start
    # Any other language: a time, a person's address, and quoted lines below.
    for start, window in windows[:2] if is_quoted_below else ():
        if len(window) <= _WINDOW_CHARACTERS and _TIME.search(window) and _ADDRESS.search(window):
            return start
    return None


def _introduced(lines: list[str], at: int, below: int) -> tuple[list[str], list[str]] | None:
    """The message around a quote that lines `at` to `below` introduce; None if it runs through."""
    while below < len(lines) and not lines[below].strip():
        below += 1
    if below == len(lines) or not _QUOTED.match(lines[below]):
        return lines[:at], lines[at:]
    while below < len(lines) and (not lines[below].strip() or _QUOTED.match(lines[below])):
        below += 1
    if any(map(_QUOTED.match, lines[below:])):
        return None  # answers between the lines
    # Who writes below the quote means that as the message.
    return lines[:at] + lines[below:], lines[at:below]


def _cut_above_rule(lines: list[str], at: int) -> tuple[list[str], list[str]] | None:
    """Cut before a header block and the rule above it; None if the rule says "forwarded"."""
    above = at - 1
    while above >= 0 and not lines[above].strip():
        above -= 1
    if above < 0:
        return None
    ruled = _RULED.fullmatch(lines[above])
    words = (ruled["words"] or "").strip() if ruled else ""
    if (words and not _ORIGINAL.search(words)) or lines[above].rstrip().endswith(_COLONS):
        return None
    cut = above if ruled else at
    return lines[:cut], lines[cut:]


def _num_header_lines(lines: list[str], at: int) -> int:
    """How many lines from here look like a mail's header; 0 if too few."""
    number = 0
    while at + number < len(lines) and number < 6 and _HEADER_LINE.match(lines[at + number]):
        number += 1
    return number if number > 2 else 0


def _is_header_block(lines: list[str]) -> bool:
    block = "\n".join(line.rstrip() for line in lines)[:_WINDOW_CHARACTERS]
    if "@" not in block and len(lines) < 4:
        return False  # "From: Berlin", "To: Paris", "Date: …" is a journey
    found = _introductions().match(block)
    return found is not None and found[0].count("\n") >= 2


def _is_original_rule(line: str) -> bool:
    ruled = _RULED.fullmatch(line)
    return ruled is not None and bool(_ORIGINAL.search(ruled["words"] or ""))


def _signature(lines: list[str], *, is_mail: bool) -> int:
    """The line at which the signature begins; the number of lines if there is none."""
    said = [at for at, line in enumerate(lines) if line.strip()]
    for position, at in enumerate(said[-_SIGNATURE_LINES:], max(0, len(said) - _SIGNATURE_LINES)):
        # HTML loses the space.
        is_delimiter = lines[at] == _DELIMITER or (is_mail and lines[at].strip() == "--")
        if is_delimiter and position > 0:
            return at
    if is_mail:
        for position in range(max(1, len(said) - _CLOSING_LINES), len(said)):
            rest = [lines[at].strip() for at in said[position:]]
            if _is_closing(rest[0], is_last=len(rest) == 1) and all(map(_is_card_line, rest)):
                return said[position]
    return len(lines)


def _is_closing(line: str, *, is_last: bool) -> bool:
    closings, devices = _closings()
    return bool(closings.fullmatch(line) or (is_last and devices.match(line)))


def _is_card_line(line: str) -> bool:
    return len(line.split()) <= _LINE_WORDS and not line.endswith(("?", "!")) and line[:2] != "PS"


@cache
def _introductions() -> re.Pattern[str]:
    from mailparser_reply.constants import MAIL_LANGUAGES
    from mailparser_reply.parser import EmailMessage

    message = EmailMessage("", languages=[name for name in MAIL_LANGUAGES if len(name) == 2])
    pattern: re.Pattern[str] = message.HEADER_REGEX
    return pattern


@cache
def _closings() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Lines that close a letter, and lines that a telephone adds."""
    from mailparser_reply.constants import MAIL_LANGUAGES

    closings, devices = [], []
    for language in MAIL_LANGUAGES.values():
        # Swedish has "/name", which is a path in a ticket.
        closings += [one.rstrip(",") for one in language.get("signatures", []) if one[0] != "/"]
        devices += [one for one in [language.get("sent_from", "")] if one]
    return (
        re.compile(rf"(?:{'|'.join(closings)})[\s,.!]*", re.IGNORECASE),
        re.compile(rf"(?:{'|'.join(devices)})", re.IGNORECASE),
    )


def _is_said(lines: list[str]) -> bool:
    return any(line.strip() for line in lines)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n")
