"""TextLines: words, line ends, cells, items and quotes in; plain text out."""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\n\r\f\u00a0]+")
_DEEPEST = 8  # deeper indents and quotes say nothing more, and would make the text grow as n²


class TextLines:
    """Builds a text line by line; white space is collapsed as a browser would."""

    def __init__(self) -> None:
        self.depth = 0  # lists around the current place
        self._lines: list[str] = []
        self._current: list[str] = []
        self._pending = ""  # what stands before the next words: a list's mark, a cell's bar
        self._quotes = self._quotes_before = 0
        self._ends_in_space = True
        self._wants_blank = False
        self._num_full = 0  # lines that are not blank
        self._num_full_before_cell = 0
        self._is_first_cell = True
        self._is_cell_empty = False

    def text(self) -> str:
        """All lines; none at the edges is blank."""
        self._flush()
        return "\n".join(self._lines).strip("\n")

    def say(self, text: str, *, is_preformatted: bool) -> None:
        """Words, wherever they stand in the line."""
        if is_preformatted:
            first, *others = text.split("\n")
            self._put(first)
            for line in others:
                self.end_line()
                self._put(line)
            return
        words = _SPACE.sub(" ", text)
        self._put(words.removeprefix(" ") if self._ends_in_space else words)

    def end_line(self) -> None:
        """What `<br>` does: also an empty line ends."""
        if not self._flush():
            self._wants_blank = True

    def part(self, *, blank: bool) -> None:
        """What follows begins a line, after a blank one if wanted; no item or cell is left so."""
        if not self._pending:
            self._flush()
            self._wants_blank = self._wants_blank or (blank and not self._is_cell_empty)

    def begin_item(self, mark: str) -> None:
        """A list's item; its mark stands before its first word."""
        self._flush()
        self._pending = "  " * min(max(self.depth - 1, 0), _DEEPEST) + mark

    def begin_row(self) -> None:
        """A row of a table."""
        self._is_first_cell = True

    def begin_cell(self) -> None:
        """A cell; it stays in the line of the one before it, where that was one line."""
        if self._current and not self._is_first_cell:
            self._pending = " | ".removeprefix(" " if self._ends_in_space else "")
            self._ends_in_space = True
        self._is_first_cell, self._is_cell_empty = False, True
        self._num_full_before_cell = self._num_full

    def end_cell(self) -> None:
        """The end of a cell; a paragraph that was all of it parts nothing."""
        self._is_cell_empty = False
        if self._num_full == self._num_full_before_cell + 1 and not self._current:
            self._current = [self._lines.pop().removeprefix(self._quote(self._quotes))]
            self._num_full -= 1
            self._pending, self._wants_blank, self._ends_in_space = "", False, False

    def begin_quote(self) -> None:
        """What follows is quoted."""
        self._flush()
        self._quotes += 1

    def end_quote(self) -> None:
        """The quote ends, and its last line with it."""
        self._flush()
        self._quotes -= 1

    def _put(self, words: str) -> None:
        if not words:
            return
        if not words.isspace():
            self._current.append(self._pending)
            self._pending, self._is_cell_empty = "", False
        self._current.append(words)
        self._ends_in_space = words.endswith(" ")

    def _flush(self) -> bool:
        """End the current line; False if there was nothing in it."""
        line = "".join(self._current).rstrip()
        self._current = []
        self._ends_in_space = True
        if not line:
            return False
        self._pending = ""
        if self._wants_blank and self._lines:
            self._lines.append(self._quote(min(self._quotes, self._quotes_before)).rstrip())
        self._lines.append(self._quote(self._quotes) + line)
        self._wants_blank, self._quotes_before = False, self._quotes
        self._num_full += 1
        return True

    @staticmethod
    def _quote(depth: int) -> str:
        return "> " * min(depth, _DEEPEST)
