r"""Guard: cells of a CSV file that no spreadsheet takes for a formula.

A spreadsheet evaluates a cell that begins with one of a few characters, and a ticket can say
`=HYPERLINK(...)`. An apostrophe before it makes a text of it. Quotes around a cell do not help, and
they do not always keep it together either: where the list separator is a semicolon, as in most of
Europe, a file of commas falls apart at the semicolons *within* its cells. So the guard stands at
every place where some reader may begin a cell.
"""

from __future__ import annotations

import re
from typing import Final

# A column of this name is in every guarded file, and in no other.
MARK: Final = "guarded_cells"

# ASCII, and all that Unicode's compatibility forms (NFKC) take for the same; and the minus sign.
_FORMULA: Final = (
    "=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207a\u207c\u208a\u208c\u2a75\u2a76\ufb29"
    "\u2212"
)
# What readers pass over before a cell: spaces and controls, quotes, invisible characters.
_BLANK: Final = (
    '\\s\\x00-\\x1f\\x7f-\\x9f"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e'
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc"
)
# What may stand between cells or rows, for one reader or another.
_PARTS: Final = ",;|\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
# A whole run at once, with or without a formula behind it: so the time stays proportional.
_RUN: Final = re.compile(rf"\A(?=[{_FORMULA}])|[{_BLANK}{_PARTS}]++(?P<formula>[{_FORMULA}])?")
_LAST_PART: Final = re.compile(rf".*[{_PARTS}]", re.DOTALL)


def guarded(cell: str) -> str:
    r"""The cell with an apostrophe wherever a formula could begin; most cells stay as they are.

    >>> guarded('=SUM(A1)'), guarded(' \ufeff+1'), guarded('1 + 1 = 2')
    ("'=SUM(A1)", "' \ufeff+1", '1 + 1 = 2')
    >>> guarded('hello;=SUM(A1)')
    "hello;'=SUM(A1)"
    """
    return _RUN.sub(_guarded_run, cell)


def _guarded_run(found: re.Match[str]) -> str:
    run = found[0]
    if found.start() == 0 and (not run or run[0] in "\t\r\n" or found["formula"]):
        run = f"'{run}"
    if not found["formula"]:
        return run
    # After the last part: whoever begins a cell earlier passes over blanks and finds it too.
    last = _LAST_PART.match(run)
    return run if last is None else f"{last[0]}'{run[last.end() :]}"
