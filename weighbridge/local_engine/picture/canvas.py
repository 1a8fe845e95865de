"""Canvas: an image in pixels whose texts cannot warn, hide, or be taken for formulae."""

from __future__ import annotations

import io
import itertools
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from weighbridge.errors import ExtraMissing
from weighbridge.local_engine.picture.visible import named, visible
from weighbridge.local_engine.picture.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

INK, DIM, LINE, CARD, PAPER = "#1c232b", "#5a6673", "#d5dbe1", "#ffffff", "#f6f7f9"
MASS, TRACK, BITS = "#1f7a8c", "#dfe6ea", "#bf3b2b"

_DPI = 100  # of the coordinates: one unit is a pixel of a plain screen
_SCALE = 1.5  # of the file: sharp on a fine screen
_COLOURS = 128  # of the file's palette; the letters' soft edges need most of them


Dash: TypeAlias = Literal["-"] | tuple[float, tuple[float, ...]]
Weight: TypeAlias = Literal["normal", "bold"]


class Canvas:
    """A white sheet; x to the right, y downwards, in pixels.

    Matplotlib's object interface alone: pyplot would keep every figure alive.

    Args:
        width: in pixels.
        height: in pixels.

    Raises:
        ExtraMissing: matplotlib is not installed.
    """

    def __init__(self, width: float, height: float) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise ExtraMissing("plot", "matplotlib") from None
        self.width, self.height = width, height
        figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI * _SCALE, facecolor=PAPER)
        self._canvas: Any = FigureCanvasAgg(figure)  # has no types
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        self._axes = axes
        self._order = itertools.count(1)  # what is drawn later lies on top, lines and texts too

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        edge: str | None = None,
        hatch: str | None = None,
    ) -> None:
        """A filled rectangle, (x, y) its upper left corner."""
        from matplotlib.patches import Rectangle

        self._axes.add_patch(
            Rectangle(
                (x, y),
                width,
                height,
                facecolor=fill,
                edgecolor=edge or "none",
                linewidth=0.7,
                hatch=hatch,
                zorder=next(self._order),
            )
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str,
        *,
        thickness: float = 1.0,
        dash: Dash = "-",
    ) -> None:
        """A line; `dash` is a line style of matplotlib."""
        from matplotlib.lines import Line2D

        (x, y), (to_x, to_y) = start, end
        self._axes.add_line(
            Line2D(
                (x, to_x),
                (y, to_y),
                color=colour,
                linewidth=thickness,
                linestyle=dash,
                zorder=next(self._order),
            )
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        colour: str = INK,
        weight: Weight = "normal",
        family: Literal["sans", "mono"] = "sans",
        align: Literal["left", "center", "right"] = "left",
        width: float | None = None,
    ) -> None:
        """A line of text, cut to a width.

        Args:
            x: where it begins, is centred, or ends.
            y: of its baseline.
            text: anything; what the font lacks is named instead.
            size: of the letters, in pixels.
            colour: of the letters.
            weight: of the letters.
            family: fonts that come with matplotlib.
            align: what x is.
            width: the longest it may be; None leaves it whole.
        """
        font, shown = _font(visible(text, keep=" "), size, weight, family)
        if width is not None:
            shown = self._cut(shown, font, width)
        self._axes.text(
            x,
            y,
            shown,
            color=colour,
            fontproperties=font,
            horizontalalignment=align,
            verticalalignment="baseline",
            parse_math=False,  # a token may be a dollar sign
            usetex=False,
            zorder=next(self._order),
        )

    def paragraph(
        self, x: float, y: float, text: str, *, size: float, width: float, lines: int
    ) -> None:
        """Text in lines of a width, the first on the baseline y; the last is cut if need be."""
        font, _ = _font(visible(text, keep=" "), size, "normal", "sans")
        words, number = text.split(" "), 1
        while words:
            taken = 1
            while taken < len(words) and self._width(" ".join(words[: taken + 1]), font) <= width:
                taken += 1
            taken = len(words) if number == lines else taken
            self.text(x, y, " ".join(words[:taken]), size=size, width=width)
            words, number, y = words[taken:], number + 1, y + 1.4 * size

    def save(self, path: Path) -> None:
        """Write a PNG, whole or not at all; the same picture is the same bytes.

        Raises:
            OSError: the file cannot be written.
        """
        from PIL import Image

        self._canvas.draw()
        size = self._canvas.get_width_height()
        image = Image.frombuffer("RGBA", size, self._canvas.buffer_rgba()).convert("RGB")
        data = io.BytesIO()
        image.quantize(_COLOURS).save(data, "PNG", optimize=True)
        write_whole(path, data.getvalue())

    def _cut(self, text: str, font: FontProperties, width: float) -> str:
        """The text, or as much of its beginning as fits with an ellipsis."""
        if self._width(text, font) <= width:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self._width(f"{text[:middle]}…", font) <= width:
                low = middle
            else:
                high = middle - 1
        return f"{text[:low]}…"

    def _width(self, text: str, font: FontProperties) -> float:
        measured, _, _ = self._canvas.get_renderer().get_text_width_height_descent(
            text, font, ismath=False
        )
        return float(measured) / _SCALE


def _font(text: str, size: float, weight: str, family: str) -> tuple[FontProperties, str]:
    """The font for a text, and the text with stand-ins for what the font lacks."""
    from matplotlib.font_manager import FontProperties

    bold = "-Bold" if weight == "bold" else ""
    names = [f"DejaVuSans{bold}", f"DejaVuSansMono{bold}"]
    if family == "mono":
        names.reverse()
    needed = set(map(ord, text))
    name = next((name for name in names if needed <= _glyphs(name)), names[0])
    glyphs = _glyphs(name)
    shown = "".join(c if ord(c) in glyphs else named(c) for c in text)
    points = size * 72 / _DPI
    return FontProperties(fname=_file(name), size=points), shown


def _file(name: str) -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"


@lru_cache(maxsize=8)
def _glyphs(name: str) -> frozenset[int]:
    """The characters that a font can draw."""
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(_file(name)).get_charmap())
