"""The bands as a page on its own: no script, nothing loaded, every character of others escaped."""

from __future__ import annotations

from html import escape

from weighbridge.local_engine.picture.cells import (
    LEVEL_NAMES,
    LEVEL_SPANS,
    Band,
    Cell,
    Total,
    bands,
    cells,
    heading,
    legend,
    totals,
)
from weighbridge.local_engine.picture.explanation import Explanation
from weighbridge.local_engine.picture.page_style import STYLE
from weighbridge.local_engine.picture.visible import visible

_TITLES = {"allowed": "Allowed", "free": "Without the guide"}

# Roles are written out because a table that is laid out as cards would lose its own.
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>An answer, token by token</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>An answer, token by token</h1>
<p>{heading}</p>
</header>
<p class="answer" aria-label="The answer"><bdi>{answer}</bdi></p>
{bands}
<section aria-label="Legend" class="legend">
{legend}
<p>Hold the pointer over a cell for the next best.</p>
<ul aria-label="Surprisal in bits">{levels}</ul>
</section>
<dl class="totals">{totals}</dl>
{prompt}</main>
</body>
</html>
"""


def page(explanation: Explanation) -> str:
    """The HTML document."""
    return _PAGE.format(
        style=STYLE,
        heading=_safe(heading(explanation)),
        answer=_safe(visible(explanation.generation.text, keep=" \n")),
        bands=_bands(explanation),
        legend="\n".join(f"<p><b>{band}</b>: {text}.</p>" for band, text in legend(explanation)),
        levels="".join(
            f'<li class="l{level}">{LEVEL_SPANS[level]}: {LEVEL_NAMES[level]}</li>'
            for level in range(len(LEVEL_NAMES))
        ),
        totals="".join(map(_total, totals(explanation))),
        prompt=_prompt(explanation),
    )


def _bands(explanation: Explanation) -> str:
    rows = "".join(_row(cell, is_guided=explanation.is_guided) for cell in cells(explanation))
    if not rows:
        return '<p class="nothing">Nothing was written.</p>'
    titles = "".join(
        f'<th role="columnheader" scope="col">{band}</th>' for band, _ in legend(explanation)
    )
    return f"""\
<table role="table" aria-label="Tokens">
<thead role="rowgroup"><tr role="row">{titles}</tr></thead>
<tbody role="rowgroup">
{rows}</tbody>
</table>"""


def _row(cell: Cell, *, is_guided: bool) -> str:
    tag = "em" if cell.is_end else "bdi"
    return (
        f'<tr role="row" class="l{cell.level} {cell.source}">'
        f'<th role="rowheader" scope="row" title="{_safe(cell.token)}">'
        f"<small>{cell.number} {cell.source}</small><{tag}>{_safe(cell.token)}</{tag}></th>"
        f"{''.join(map(_band, bands(cell, is_guided=is_guided)))}</tr>\n"
    )


def _band(band: Band) -> str:
    first, second, third = map(_safe, band.lines)
    candidates = "\n".join([f"{_TITLES[band.name]}, likeliest first:", *band.candidates])
    title = f' title="{_safe(candidates)}"' if band.candidates else ""
    return (
        f'<td role="cell" class="{band.name}"{title}><span>{first}</span><b>{second}</b>'
        f'<i aria-hidden="true" class="bar"><i style="width:{100 * band.filled:.4g}%"></i></i>'
        f'<bdi dir="ltr">{third}</bdi></td>'
    )


def _total(total: Total) -> str:
    value = f"<b>{_safe(total.value)}</b> {_safe(total.meaning)}"
    return f"<div><dt>{_safe(total.name)}</dt><dd>{value}</dd></div>"


def _prompt(explanation: Explanation) -> str:
    if not explanation.prompt:
        return ""
    text = _safe(visible(explanation.prompt, keep=" \n"))
    return (
        f"<details><summary>What the model read</summary><pre><bdi>{text}</bdi></pre></details>\n"
    )


def _safe(text: str) -> str:
    return escape(text, quote=True)
