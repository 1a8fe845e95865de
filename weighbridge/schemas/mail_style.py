"""StyleSheet and Look: whether a mail's own styles let a reader see a text.

Of CSS it knows what senders hide text with: inline styles and rules for one element, class or id.
Rules for some screens only (`@media`) and for nested selectors are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_SIMPLE = re.compile(r"([a-z][a-z0-9]*)?(?:([.#])([\w-]+))?", re.IGNORECASE)
_NUMBER = re.compile(r"(-?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))\s*([a-z%]*)", re.IGNORECASE)
_FUNCTION = re.compile(r"rgba?\(([^()]{0,80})\)")
_NAMED = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "snow": (255, 250, 250),
    "ghostwhite": (248, 248, 255),
    "whitesmoke": (245, 245, 245),
    "ivory": (255, 255, 240),
    "floralwhite": (255, 250, 240),
}
_SAME_COLOUR = 24  # sum of the three differences, of 765: nobody reads #f8f8f8 on white
_FAR_OFF = -500.0  # left or above the page, in pixels or points
_TINY = {"px": 1.0, "pt": 1.0, "em": 0.1, "rem": 0.1, "%": 10.0, "": 1.0}
_MOST_RULES = 5_000

Rgb = tuple[int, int, int]
Declarations = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How text looks here; colours are None where they are not known."""

    is_gone: bool = False  # not displayed, and nothing in it can be
    is_tiny: bool = False
    colour: Rgb | None = (0, 0, 0)
    ground: Rgb | None = (255, 255, 255)

    @property
    def is_hidden(self) -> bool:
        """Whether no reader sees the text."""
        return self.is_gone or self.is_tiny or _is_same(self.colour, self.ground)


PLAIN = Look()


class StyleSheet:
    """The rules of all `<style>` elements of a mail."""

    def __init__(self, rules: Mapping[str, Declarations]) -> None:
        self._rules = rules

    @classmethod
    def of(cls, texts: Iterable[str]) -> StyleSheet:
        """From what stands in `<style>`, later rules before earlier ones.

        >>> StyleSheet.of([".x { display: none }"]).look("p", {"class": "x"}, PLAIN).is_hidden
        True
        """
        rules: dict[str, Declarations] = {}
        number = 0
        for text in texts:
            for selectors, body in _top_rules(_COMMENT.sub(" ", text)):
                for selector in selectors.split(","):
                    number += 1
                    simple = _SIMPLE.fullmatch(selector.strip())
                    if simple and simple[0] and number <= _MOST_RULES:
                        rules.setdefault(simple[0].lower(), {}).update(_declarations(body))
        return cls(rules)

    def look(self, name: str, attributes: Mapping[str, str | None], around: Look) -> Look:
        """How an element's own text looks, given the look around it."""
        if around.is_gone:
            return around
        style = self._declared(name, attributes)
        if _is_gone(style) or "hidden" in attributes:
            return replace(around, is_gone=True)
        look = around
        if size := style.get("font-size", ""):
            look = replace(look, is_tiny=_is_tiny(size))
        ground = style.get("background-color") or style.get("background")
        if ground is not None:
            look = replace(look, ground=_ground(ground, around))
        if "background-image" in style or attributes.get("background"):
            look = replace(look, ground=None)  # a picture; whatever its colours are
        if (colour := style.get("color")) is not None:
            if _is_transparent(colour):
                return replace(look, is_gone=True)
            look = replace(look, colour=_colour(colour))
        return look

    def _declared(self, name: str, attributes: Mapping[str, str | None]) -> Declarations:
        style: Declarations = {}
        if attributes.get("bgcolor"):
            style["background-color"] = attributes["bgcolor"] or ""
        if name == "font" and attributes.get("color"):
            style["color"] = attributes["color"] or ""
        if self._rules:
            style.update(self._rules.get(name, {}))
            classes = (attributes.get("class") or "").lower().split()
            keys = [f".{one}" for one in classes[:50]]
            if identity := (attributes.get("id") or "").lower():
                keys.append(f"#{identity}")
            for key in keys:
                style.update(self._rules.get(key, {}))
                style.update(self._rules.get(name + key, {}))
        style.update(_declarations(attributes.get("style") or ""))
        return style


def _top_rules(text: str) -> Iterable[tuple[str, str]]:
    """Selector and body of each rule that stands in no block; `@` blocks are left out."""
    at, depth, begin, selector = 0, 0, 0, ""
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            if depth == 0:
                selector, begin = text[at : brace.start()].rpartition(";")[2].strip(), brace.end()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                at = brace.end()
                if not selector.startswith("@"):
                    yield selector.removeprefix("<!--").strip(), text[begin : brace.start()]


def _declarations(text: str) -> Declarations:
    found: Declarations = {}
    for part in text[:20_000].split(";"):
        name, colon, value = part.partition(":")
        if colon:
            found[name.strip().lower()] = value.lower().replace("!important", "").strip()
    return found


def _is_gone(style: Declarations) -> bool:
    if style.get("display") == "none" or style.get("visibility") in ("hidden", "collapse"):
        return True
    if style.get("mso-hide") == "all" or _number(style.get("opacity")) == 0:
        return True
    if style.get("overflow") == "hidden" and any(
        _number(style.get(side)) == 0 for side in ("height", "max-height", "width", "max-width")
    ):
        return True
    off = ("text-indent", "left", "top", "margin-left", "margin-top")
    return any((_number(style.get(side)) or 0) <= _FAR_OFF for side in off)


def _is_tiny(size: str) -> bool:
    found = _NUMBER.fullmatch(size)
    return found is not None and float(found[1]) <= _TINY.get(found[2], -1)


def _number(value: str | None) -> float | None:
    found = _NUMBER.fullmatch(value) if value else None
    return float(found[1]) if found else None


def _is_transparent(value: str) -> bool:
    found = _FUNCTION.fullmatch(value)
    parts = re.split(r"[,/\s]+", found[1].strip()) if found else []
    return value == "transparent" or (len(parts) == 4 and _number(parts[3]) == 0)


def _ground(value: str, around: Look) -> Rgb | None:
    """The colour of a `background`; what is transparent shows the ground around."""
    if "url(" in value or "gradient" in value:
        return None
    if value in ("none", "inherit", "initial", "unset", "") or _is_transparent(value):
        return around.ground
    for part in (value, *value.split()):
        if (colour := _colour(part)) is not None:
            return colour
    return None


def _colour(value: str) -> Rgb | None:
    """As red, green and blue; None for names that hide nothing by themselves."""
    if value in _NAMED:
        return _NAMED[value]
    if found := _FUNCTION.fullmatch(value):
        parts = [_number(part) for part in re.split(r"[,/\s]+", found[1].strip())[:3]]
        if len(parts) == 3 and None not in parts:
            red, green, blue = (int(part or 0) for part in parts)
            return red, green, blue
        return None
    digits = value.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    if re.fullmatch(r"[0-9a-f]{6}", digits):
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    return None


def _is_same(one: Rgb | None, other: Rgb | None) -> bool:
    if one is None or other is None:
        return False
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) <= _SAME_COLOUR
