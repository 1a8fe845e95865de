"""The bands as a page on its own: no script, nothing loaded, every character of others escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from weighbridge.local_engine.picture.cells import (
    FULL_BITS,
    LEVEL_NAMES,
    LEVEL_SPANS,
    Cell,
    Total,
    cells,
    heading,
    totals,
)
from weighbridge.local_engine.picture.explanation import Explanation
from weighbridge.local_engine.picture.page_style import STYLE
from weighbridge.local_engine.picture.visible import visible

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
<p><b>written</b>: the token; the redder, the more it surprised the free model. A dashed line:
the guide had left no choice of text. <b>allowed</b>: how many tokens the guide allowed, how much of
the free model's probability was on them, and the likeliest of them. <b>free</b>: probability, rank
and surprisal of the token without the guide, and the likeliest token of all. Hold the pointer over
a cell for the next best.</p>
<ul aria-label="Surprisal in bits">{legend}</ul>
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
        bands=_bands(cells(explanation)),
        legend="".join(
            f'<li class="l{level}">{LEVEL_SPANS[level]}: {LEVEL_NAMES[level]}</li>'
            for level in range(len(LEVEL_NAMES))
        ),
        totals="".join(map(_total, totals(explanation))),
        prompt=_prompt(explanation),
    )


def _bands(shown: Iterable[Cell]) -> str:
    rows = "".join(map(_row, shown))
    if not rows:
        return '<p class="nothing">Nothing was written.</p>'
    return f"""\
<table role="table" aria-label="Tokens">
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">written</th>\
<th role="columnheader" scope="col">allowed by the guide</th>\
<th role="columnheader" scope="col">free model</th></tr></thead>
<tbody role="rowgroup">
{rows}</tbody>
</table>"""


def _row(cell: Cell) -> str:
    tag = "em" if cell.is_end else "bdi"
    return (
        f'<tr role="row" class="l{cell.level} {cell.source}">'
        f'<th role="rowheader" scope="row" title="{_safe(cell.token)}">'
        f"<small>{cell.number} {cell.source}</small><{tag}>{_safe(cell.token)}</{tag}></th>"
        f'<td role="cell"{_title("Allowed, likeliest first", cell.all_allowed)}>'
        f"<span>{cell.allowed} allowed</span><b>{_safe(cell.mass_text)}</b>"
        f"{_bar('mass', cell.mass)}"
        f'<bdi dir="ltr">{_safe(cell.best_allowed)}</bdi></td>'
        f'<td role="cell"{_title("Without the guide, likeliest first", cell.all_free)}>'
        f"<span>{cell.probability}, {cell.rank}</span>"
        f"<b>{cell.bits_text}</b>{_bar('bits', cell.bits / FULL_BITS)}"
        f'<bdi dir="ltr">{_safe(cell.best_free)}</bdi></td></tr>\n'
    )


def _bar(name: str, filled: float) -> str:
    width = f"{100 * min(filled, 1.0):.4g}%"
    return f'<i aria-hidden="true" class="bar {name}"><i style="width:{width}"></i></i>'


def _title(name: str, candidates: Iterable[str]) -> str:
    lines = _safe("\n".join([f"{name}:", *candidates])) if candidates else ""
    return f' title="{lines}"' if lines else ""


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
