r"""Patterns: regular expressions of JSON Schema (ECMA-262) in the spelling of the grammar engine.

Validators disagree about some classes: `\d` of Python has the digits of every script, `.` of
ECMAScript stops at four line ends. A pattern of values is translated so that what the grammar
writes matches whatever the dialect; a pattern of names to ECMAScript's own meaning, as there what
does *not* match counts too.
"""

from __future__ import annotations

import re

# (as one class among others, as one among others in a negated class), without the brackets.
_DIGIT, _ANY_DIGIT = "0-9", r"\p{Nd}"
_WORD, _ANY_WORD = "0-9A-Za-z_", r"\p{L}\p{M}\p{N}_"
_SPACE = r"\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_ECMA_SPACE, _ANY_SPACE = rf"{_SPACE}\x{{feff}}", rf"{_SPACE}\x{{feff}}\x{{1c}}-\x{{1f}}\x{{85}}"

_AGREED = {
    "d": (_DIGIT, _ANY_DIGIT),
    "D": (f"[^{_ANY_DIGIT}]", f"[^{_DIGIT}]"),
    "w": (_WORD, _ANY_WORD),
    "W": (f"[^{_ANY_WORD}]", f"[^{_WORD}]"),
    "s": (_SPACE, _ANY_SPACE),
    "S": (f"[^{_ANY_SPACE}]", f"[^{_SPACE}]"),
}
_ECMA = {
    "d": (_DIGIT, _DIGIT),
    "D": (f"[^{_DIGIT}]", f"[^{_DIGIT}]"),
    "w": (_WORD, _WORD),
    "W": (f"[^{_WORD}]", f"[^{_WORD}]"),
    "s": (_ECMA_SPACE, _ECMA_SPACE),
    "S": (f"[^{_ECMA_SPACE}]", f"[^{_ECMA_SPACE}]"),
}

_NO_LINE_END = r"[^\n\r\x{2028}\x{2029}]"
_CONTROLS = {"t": "9", "n": "a", "v": "b", "f": "c", "r": "d", "0": "0"}
_CODE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\})")
_PROPERTY = re.compile(r"\\[pP]\{[A-Za-z_]+(?:=[A-Za-z_]+)?\}")
_COUNTS = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_OPEN_COUNTS = re.compile(r"\{,[0-9]*\}")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?")
_SPECIAL = frozenset(r"\.+*?()|[]{}^$/#&-~")


class Untranslatable(Exception):
    """A pattern that the engine has no equal for, or that is none."""


def translated(pattern: str, *, exact: bool = False, dot_is_any: bool = False) -> str:
    r"""The pattern for the engine; like the original it may match anywhere.

    Args:
        pattern: ECMA-262, as JSON Schema has it.
        exact: exactly ECMA's meaning, not only where all dialects agree.
        dot_is_any: `.` is any character, line ends among them.

    Raises:
        Untranslatable: look-around, back references, word boundaries, what ECMA-262 does not have.

    >>> print(translated(r"^\d{2}-[^\W-z]$"))
    ^[0-9]{2}\-[^[^0-9A-Za-z_]\-z]$
    """
    dot = "(?s:.)" if dot_is_any else _NO_LINE_END
    return _Translation(pattern, _ECMA if exact else _AGREED, dot).whole()


def literal(text: str) -> str:
    """The pattern of one text; not anchored."""
    return "".join(_char(ord(c)) for c in text)


def none_of(texts: list[str]) -> str:
    """The pattern of every other text than these."""
    return f"^(?:{_others(sorted(set(texts)))})$"


def _others(texts: list[str]) -> str:
    """Texts that are none of these, by first character; `texts` sorted."""
    firsts: dict[str, list[str]] = {}
    for text in texts:
        if text:
            firsts.setdefault(text[0], []).append(text[1:])
    ways = [] if "" in texts else [""]
    if firsts:
        ways.append(f"[^{''.join(_char(ord(c)) for c in firsts)}](?s:.)*")
        ways += [f"{literal(first)}(?:{_others(rest)})" for first, rest in firsts.items()]
    else:
        ways.append("(?s:.)+")
    return "|".join(ways)


class _Translation:
    """One pass over a pattern, from the left."""

    def __init__(self, pattern: str, classes: dict[str, tuple[str, str]], dot: str) -> None:
        self._text, self._at, self._classes, self._dot = pattern, 0, classes, dot

    def whole(self) -> str:
        out = []
        while self._at < len(self._text):
            out.append(self._next())
        return "".join(out)

    def _next(self) -> str:
        char = self._text[self._at]
        match char:
            case "\\":
                code = self._code()
                return self._escape() if code is None else _char(code)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case "{" if counts := _COUNTS.match(self._text, self._at):
                self._at = counts.end()
                return counts[0] + self._after_quantifier()
            case "{" if _OPEN_COUNTS.match(self._text, self._at):
                raise Untranslatable("it has `{,`, which is a quantifier in some dialects only")
            case "*" | "+" | "?":
                self._at += 1
                return char + self._after_quantifier()
        self._at += 1
        if char in ")|^$":
            return char
        return self._dot if char == "." else _char(ord(char))

    def _after_quantifier(self) -> str:
        rest = self._text[self._at : self._at + 1]
        if rest == "?":
            self._at += 1  # how eagerly it matches changes nothing about what matches
        elif rest in {"*", "+"} or _COUNTS.match(self._text, self._at):
            raise Untranslatable("it has a quantifier on a quantifier")
        return ""

    def _group(self) -> str:
        opening = _GROUP.match(self._text, self._at)
        assert opening is not None
        if self._text[opening.end() : opening.end() + 1] == "?":
            raise Untranslatable("it looks around, or sets flags")
        self._at = opening.end()
        return "(?:"

    def _escape(self) -> str:
        """An escape that stands for more than one character."""
        name = self._text[self._at + 1 : self._at + 2]
        if name in self._classes:
            self._at += 2
            return f"[{self._classes[name][0]}]"
        if found := _PROPERTY.match(self._text, self._at):
            self._at = found.end()
            return found[0]
        raise Untranslatable(f"it has the escape \\{name}")

    def _code(self) -> int | None:
        """The code point of the escape here, if it stands for one."""
        if found := _CODE.match(self._text, self._at):
            self._at = found.end()
            code = int(found[1] or found[2] or found[3], 16)
            if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                raise Untranslatable("it has half a surrogate pair")
            return code
        name = self._text[self._at + 1 : self._at + 2]
        if name == "0" and self._text[self._at + 2 : self._at + 3].isdigit():
            raise Untranslatable("it has an octal escape")
        if name in _CONTROLS:
            self._at += 2
            return int(_CONTROLS[name], 16)
        if name and not name.isalnum():
            self._at += 2
            return ord(name)
        return None

    def _class(self) -> str:
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        items: list[str] = []
        while not self._text.startswith("]", self._at):
            items.append(self._class_item(negated=negated))
        self._at += 1
        if not items:
            raise Untranslatable("it has an empty class, or one that begins with `]`")
        return f"[{'^' if negated else ''}{''.join(items)}]"

    def _class_item(self, *, negated: bool) -> str:
        low = self._class_char()
        if low is None:
            return self._class_escape(negated=negated)
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            dash = self._at
            self._at += 1
            high = self._class_char()
            if high is None:
                self._at = dash  # a class is no end of a range: the dash is one
            elif high < low:
                raise Untranslatable("it has a range that ends before it begins")
            else:
                return f"{_char(low)}-{_char(high)}"
        return _char(low)

    def _class_char(self) -> int | None:
        if self._at >= len(self._text):
            raise Untranslatable("it has a class without an end")
        if self._text[self._at] == "\\":
            if self._text.startswith("\\b", self._at):
                self._at += 2
                return 8
            return self._code()
        self._at += 1
        return ord(self._text[self._at - 1])

    def _class_escape(self, *, negated: bool) -> str:
        name = self._text[self._at + 1 : self._at + 2]
        if name in self._classes:
            self._at += 2
            return self._classes[name][negated]
        return self._escape()


def _char(code: int) -> str:
    """One character, inside or outside a class."""
    char = chr(code)
    if char in _SPECIAL:
        return f"\\{char}"
    return char if 0x20 <= code < 0x7F else f"\\x{{{code:x}}}"
