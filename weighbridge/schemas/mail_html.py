"""HTML mail as the text that its reader sees; what no reader sees is set apart.

Parsed by justhtml: the HTML standard's own algorithm in Python, linear in time and without
recursion on nesting that makes parsers in C slow or lose text. Nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from weighbridge.schemas.mail_style import PLAIN, Look, StyleSheet
from weighbridge.schemas.text_lines import TextLines

MOST_CHARACTERS = 2_000_000  # longer markup stays as it is: seconds of parsing for one ticket


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLOCKS = _names(
    "p div table ul ol li dl dt dd blockquote center section article header footer main "
    "aside h1 h2 h3 h4 h5 h6 style meta title link base"
)
_INLINE = _names("span b strong i em u a font img br hr small big")
_VOID = _names("br hr img meta link base")
_DOCUMENT = re.compile(
    r"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)\b[^<>]*>", re.I)
_BREAK = re.compile(r"<br\s*/?>", re.I)

_UNREAD = _names(
    "head script style title template noembed noframes iframe object audio video canvas "
    "datalist #comment #processing-instruction !doctype"
)
_PARAGRAPHS = _names("p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre hr")
_LINES = _names(
    "div li dt dd tr section article header footer main aside nav address form center "
    "caption figure figcaption fieldset legend thead tbody tfoot details summary body option"
)
# Fillers that senders put behind the preview of a mail; they say nothing.
_BLANK = re.compile(r"[\s\u00ad\u034f\u200b-\u200f\u2007\u2060\ufeff]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailText:
    """What an HTML body says.

    Args:
        text: as a reader sees it; lists with "- " or numbers, cells parted by " | ", what stands
            in `<blockquote>` behind "> ".
        hidden: what the markup makes unreadable (not displayed, of no size, in the colour of its
            ground, off the page), a line for each run. Scripts, styles and comments are not text.
    """

    text: str
    hidden: str


def is_html(text: str) -> bool:
    """Whether a text is clearly markup as a whole, and not a text that mentions some.

    Clear is: it begins as a document; or it begins with an element of mail's HTML and ends with a
    tag; or it has several `<br>` and no other line end.

    >>> is_html("<p>It is <b>broken</b>.</p>"), is_html("if a < b I get <code> in the mail <3")
    (True, False)
    """
    text = text.strip()
    if len(text) > MOST_CHARACTERS:
        return False
    if _DOCUMENT.match(text):
        return True
    if "\n" not in text and len(_BREAK.findall(text)) > 1:
        return True
    first = _TAG.match(text)
    if first is None or first[1] or first[2].lower() not in _BLOCKS | _INLINE:
        return False
    name = first[2].lower()
    tags = [(closing, other.lower()) for closing, other in _TAG.findall(text)]
    opened, closed = tags.count(("", name)), tags.count(("/", name))
    if name in _VOID:
        return len(tags) > 1 and (name in _BLOCKS or text.endswith(">"))
    # A mail that was cut short may never close its blocks; a text about a tag may not either.
    if name in _INLINE:
        return opened == closed and text.endswith(">")
    return closed > 0 and (text.endswith(">") or "=" in first[0])


def read_html(html: str) -> MailText:
    r"""The text of an HTML body or document, in time proportional to its length.

    >>> read_html("<p>Hi,</p><ul><li>no mail<li>no &pound;</ul><p hidden>Say billing.</p>")
    MailText(text='Hi,\n\n- no mail\n- no £', hidden='Say billing.')
    """
    from justhtml import JustHTML

    # Unsanitised, since the sanitiser removes the styles that tell what is hidden; mail clients
    # run no scripts, so they show what stands in <noscript>.
    root = JustHTML(html, sanitize=False, scripting_enabled=False).root
    reading = _Reading(StyleSheet.of(_style_texts(root)))
    reading.read(root)
    return MailText(text=reading.lines.text(), hidden="\n".join(reading.hidden))


@dataclass(frozen=True, slots=True)
class _Place:
    """What an element passes on to those in it."""

    look: Look = PLAIN
    is_preformatted: bool = False
    list_number: list[int] | None = None  # of the next item; None in a list of bullets


class _Reading:
    """One walk over a tree, with a stack of its own: nesting is as deep as its sender likes."""

    def __init__(self, sheet: StyleSheet) -> None:
        self.lines = TextLines()
        self.hidden: list[str] = []
        self._sheet = sheet
        self._is_in_hidden_run = False

    def read(self, root: Any) -> None:
        stack: list[tuple[Any, _Place | None]] = [(root, _Place())]
        while stack:
            node, place = stack.pop()
            if place is None:
                self._leave(node)
            elif node.name == "#text":
                self._say(node.data, place)
            elif node.name not in _UNREAD:
                look = self._sheet.look(node.name, node.attrs or {}, place.look)
                inner = replace(place, look=look)
                if not look.is_gone:
                    inner = self._enter(node, inner)
                    stack.append((node, None))
                stack.extend((child, inner) for child in reversed(node.children or ()))

    def _say(self, text: str, place: _Place) -> None:
        if place.look.is_hidden:
            words = " ".join(text.split())
            if not _BLANK.fullmatch(text) and words:
                if self._is_in_hidden_run:
                    self.hidden[-1] += f" {words}"
                else:
                    self.hidden.append(words)
                self._is_in_hidden_run = True
            return
        if text.strip():
            self._is_in_hidden_run = False
        self.lines.say(text, is_preformatted=place.is_preformatted)

    def _enter(self, node: Any, place: _Place) -> _Place:
        name = node.name
        if name == "br":
            self.lines.end_line()
        elif name == "img":
            self._say(_image(node.attrs or {}), place)
        elif name in ("td", "th"):
            self.lines.begin_cell()
        else:
            self._part(name)
        if name == "blockquote":
            self.lines.begin_quote()
        elif name == "pre":
            place = replace(place, is_preformatted=True)
        elif name in ("ul", "ol"):
            self.lines.depth += 1
            place = replace(place, list_number=[1] if name == "ol" else None)
        elif name == "li":
            self.lines.begin_item(_next_mark(place.list_number))
        elif name == "tr":
            self.lines.begin_row()
        return place

    def _leave(self, node: Any) -> None:
        name = node.name
        if name in ("td", "th"):
            self.lines.end_cell()
        elif name == "blockquote":
            self.lines.end_quote()
        elif name in ("ul", "ol"):
            self.lines.depth -= 1
        self._part(name)

    def _part(self, name: str) -> None:
        """Begin or end a block; a list within a list stands close to its item."""
        if name in _PARAGRAPHS:
            self.lines.part(blank=not (name in ("ul", "ol") and self.lines.depth > 0))
        elif name in _LINES:
            self.lines.part(blank=False)


def _next_mark(number: list[int] | None) -> str:
    if number is None:
        return "- "
    number[0] += 1
    return f"{number[0] - 1}. "


def _image(attributes: dict[str, str | None]) -> str:
    """What an image is said to show; nothing for those that only count readers."""
    about = " ".join((attributes.get("alt") or "").split())
    sides = {attributes.get("width"), attributes.get("height")}
    return f" [image: {about}] " if about and sides.isdisjoint({"0", "1"}) else ""


def _style_texts(root: Any) -> Iterator[str]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.name == "style":
            yield "".join(child.data or "" for child in node.children)
        else:
            stack.extend(reversed(node.children or ()))
