"""The style sheet of the page: cards that wrap, with the names of the bands before each row."""

from __future__ import annotations

from weighbridge.local_engine.picture.cells import LEVEL_COLOURS

_CARD_REM, _GUTTER_REM, _MAX_CARDS = 7.5, 5.5, 12

# Paper and ink of the levels on a dark page; each pair has a contrast of at least 4.5 to 1.
_DARK = (
    ("#2a313a", "#e6ebf0"),
    ("#4b4119", "#fdf3cf"),
    ("#6d4b10", "#ffeccb"),
    ("#8d4413", "#fff0e4"),
    ("#b02a1c", "#ffffff"),
)

_BASE = """\
:root { --page: #f6f7f9; --card: #fff; --ink: #1c232b; --dim: #5a6673; --line: #d5dbe1;
  --mass: #1f7a8c; --bits: #bf3b2b; --track: #dfe6ea; }
*, ::before { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 98rem; margin: 0 auto; padding: 1.6rem 1.4rem 2.4rem; }
h1 { margin: 0; font-size: 1.3rem; font-weight: 650; letter-spacing: -.01em; }
header p { margin: .15rem 0 0; color: var(--dim); }
bdi, em, pre, .answer { font-family: ui-monospace, "Cascadia Mono", Menlo, "DejaVu Sans Mono",
  monospace; }
.answer { margin: 1rem 0 1.4rem; padding: .7rem .9rem; background: var(--card);
  border: 1px solid var(--line); border-left: 4px solid var(--mass); border-radius: 6px;
  font-size: 1.05rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.answer:has(bdi:empty) { display: none; }
table, tbody, tr, th, td { display: block; }
thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
tbody { display: flex; flex-wrap: wrap; gap: 1.1rem 0; }
tr { position: relative; width: CARD; border: solid var(--line); border-width: 1px 1px 1px 0;
  background: var(--card); }
tbody tr:first-child { border-left-width: 1px; border-radius: 6px 0 0 6px; }
tbody tr:last-child { border-radius: 0 6px 6px 0; }
th, td { padding: .4rem .55rem; overflow: hidden; text-align: left; font-weight: 400; }
th { height: 4.5rem; }
td { height: 5.4rem; border-top: 1px solid var(--line); font-size: .8rem; }
th small, td span { display: block; color: var(--dim); font-size: .72rem; white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; }
th small { color: inherit; opacity: .85; }
th bdi, th em { display: block; margin-top: .1rem; font-size: 1rem; font-weight: 600;
  line-height: 1.2; max-height: 2.4em; overflow: hidden; overflow-wrap: anywhere; }
td bdi { display: block; font-size: .72rem; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
td b { display: block; font-size: .92rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { display: block; height: 5px; margin: .15rem 0 .25rem; border-radius: 3px;
  background: var(--track); overflow: hidden; }
.bar i { display: block; height: 100%; min-width: 1px; background: var(--mass); }
td.free .bar i { background: var(--bits); }
.forced th { border-bottom: 2px dashed currentColor; }
.given th { border-bottom: 2px dotted currentColor; }
.chosen th { border-bottom: 2px solid currentColor; }
.legend { margin-top: 1.3rem; color: var(--dim); font-size: .85rem; }
.legend p { max-width: 62rem; margin: 0; }
.legend p b { color: var(--ink); }
.legend ul { display: flex; flex-wrap: wrap; gap: .4rem; margin: .6rem 0 0; padding: 0;
  list-style: none; }
.legend li { padding: .15rem .6rem; border-radius: 4px; }
.totals { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .7rem;
  margin: 1.5rem 0 0; }
.totals div { padding: .6rem .8rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; }
.totals dt { color: var(--dim); font-size: .8rem; }
.totals dd { margin: 0; font-size: .85rem; overflow-wrap: anywhere; }
.totals dd b { display: block; font-size: 1.25rem; font-weight: 650; line-height: 1.3; }
details { margin-top: 1.5rem; }
summary { cursor: pointer; color: var(--dim); }
pre { padding: .8rem; background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; }
"""

_DARK_BASE = (
    ":root { --page: #14181d; --card: #1c2229; --ink: #e6ebf0; --dim: #9aa7b4; --line: #343d47;"
    " --mass: #4fb3c6; --bits: #e0705f; --track: #2f3842; }"
)

# The names of the bands, hung into the gutter beside the first card of each row.
_LABELS = """\
FIRST th::before, FIRST td::before { position: absolute; left: calc(-1 * GUTTER); width: GUTTER;
  padding-right: .8rem; color: var(--dim); font-size: .8rem; text-align: right; }
FIRST th::before { content: "written"; }
FIRST td.allowed::before { content: "allowed"; }
FIRST td.free::before { content: "free"; }
FIRST { border-left-width: 1px; }
"""


def _levels(colours: tuple[tuple[str, str], ...]) -> str:
    return "".join(
        f".l{level} th, li.l{level} {{ background: {paper}; color: {ink}; }}\n"
        for level, (paper, ink) in enumerate(colours)
    )


def _gutters() -> str:
    """For each width of the page, which cards are the first of a row."""
    rules = []
    for cards in range(3, _MAX_CARDS + 1):
        fits = _GUTTER_REM + _CARD_REM * cards + 3.5  # the padding of the page, a scroll bar
        upper = f" and (width < {fits + _CARD_REM}rem)" if cards < _MAX_CARDS else ""
        labels = _LABELS.replace("FIRST", f"tbody tr:nth-child({cards}n+1)")
        table = f"table {{ padding-left: GUTTER; width: {_GUTTER_REM + _CARD_REM * cards}rem; }}"
        rules.append(f"@media (width >= {fits}rem){upper} {{\n{table}\n{labels}}}\n")
    return "".join(rules)


STYLE = (_BASE + _levels(LEVEL_COLOURS) + _gutters()).replace("CARD", f"{_CARD_REM}rem").replace(
    "GUTTER", f"{_GUTTER_REM}rem"
) + f"@media (prefers-color-scheme: dark) {{\n{_DARK_BASE}\n{_levels(_DARK)}}}\n"
