"""The picture of an answer: its totals, and that no token can act, hide or be lost in it."""

from __future__ import annotations

import html.parser
import io
import json
import math
import os
import re
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from png_pixels import read_png
from rich.cells import cell_len
from rich.console import Console

from weighbridge.errors import ExtraMissing
from weighbridge.local_engine import guides
from weighbridge.local_engine.decoding.generation import Candidate, Generation, Step
from weighbridge.local_engine.guides.protocol import Spec
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.picture import drawing, page_style, terminal, whole_file
from weighbridge.local_engine.picture.cells import LEVEL_COLOURS, cells, share, totals
from weighbridge.local_engine.picture.explanation import Explanation
from weighbridge.local_engine.picture.guide_names import guide_name
from weighbridge.local_engine.picture.visible import spelled, visible
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.schemas.finite import language

HOSTILE = (
    b"<script>",
    b"alert(1)</script>",
    b'"><img src=x onerror=y>',
    b"\x1b[31mred\x1b]0;title\x07",
    b"a\nb\tc\rd\x00",
    "\u202eevil\u2066\u200b".encode(),
    "\u0301 mark".encode(),
    "日本語".encode(),
    "\U0001f469\u200d\U0001f4bb".encode(),
    "\u0645\u0631\u062d\u0628\u0627".encode(),
    b"\xf0\x9f",
    b"\x98",
    b"\x80!",
    b"\xff\xfe",
    b"$\\frac{1}{0}$",
    b"&lt;[red]:bomb:{0}%s",
    b" " * 40,
    b"x" * 300,
)
NEVER = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

tokens = st.lists(st.binary(max_size=6) | st.text(max_size=4).map(str.encode), max_size=8)


def step(text: bytes, *, logprob: float = -1.0, mass: float = 0.5, **given: Any) -> Step:
    candidates = (
        Candidate(token=7, text=text, probability=0.9),
        Candidate(token=8, text=b"", probability=0.1),
    )
    values: dict[str, Any] = {
        "token": 7,
        "rank": 2,
        "source": "model",
        "allowed_count": 3,
        "free": candidates,
        "allowed": candidates,
        **given,
    }
    return Step(text=text, logprob=logprob, mass=mass, **values)


def explained(pieces: list[bytes] | tuple[bytes, ...], **given: Any) -> Explanation:
    steps = tuple(step(piece) if piece else step(b"", token=2) for piece in pieces)
    text = b"".join(pieces).decode("utf-8", "replace")
    generation = Generation(text=text, steps=steps, finish="guide", forward_passes=len(steps))
    values: dict[str, Any] = {"prompt_tokens": 12, "model": "tiny", "guide": "choice", **given}
    return Explanation(generation=generation, **values)


@pytest.fixture(scope="module")
def real(tiny: Llama, tiny_tokenizer: ByteTokenizer) -> Explanation:
    """Twenty greedy tokens of the tiny model under a random mask each, by the plainest of means."""
    random = torch.Generator().manual_seed(3)
    ids, steps = tiny_tokenizer.encode("the bug report"), list[Step]()
    for number in range(20):
        hidden, _ = tiny.forward(torch.tensor(ids), tiny.empty_cache())
        logits = tiny.logits(hidden[-1:])[0]
        probabilities = logits.double().softmax(-1)
        allowed = torch.rand(len(logits), generator=random) < (0.02 if number % 3 else 0.5)
        allowed[3:6] = True
        token = int(logits.masked_fill(~allowed, -torch.inf).argmax())
        steps.append(
            Step(
                token=token,
                text=tiny_tokenizer.token_bytes[token],
                logprob=math.log(probabilities[token]),
                rank=1 + int((probabilities > probabilities[token]).sum()),
                mass=float(probabilities[allowed].sum()),
                source="guide" if number % 4 == 1 else "model",
                allowed_count=int(allowed.sum()),
            )
        )
        ids.append(token)
    text = b"".join(one.text for one in steps).decode("utf-8", "replace")
    generation = Generation(text=text, steps=tuple(steps), finish="length", forward_passes=20)
    return Explanation(generation=generation, prompt_tokens=4, model="tiny", guide="random")


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: tags, attributes, and the tokens in their cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes = set[str](), list[tuple[str, str]]()
        self.texts, self.written = list[str](), list[str]()
        self._in_header = self._in_token = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._in_header |= ("role", "rowheader") in attrs
        if self._in_header and tag in ("bdi", "em"):
            self._in_token = True
            self.written.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_header &= tag != "th"
        self._in_token &= tag not in ("bdi", "em")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._in_token:
            self.written[-1] += data


def hidden(text: str, *, keep: str = "\n") -> set[str]:
    """Characters that act or cannot be seen."""
    return {c for c in text if c not in keep and unicodedata.category(c) in NEVER}


# Totals


def test_mean_surprisal_says_how_likely_the_answer_was(real: Explanation) -> None:
    """As many bits a token as the whole has."""
    total_bits = real.mean_surprisal_bits * len(real.generation.steps)
    assert total_bits * math.log(2) == pytest.approx(-real.generation.logprob)


def test_answer_is_never_likelier_than_its_path(real: Explanation) -> None:
    """A token is one of those allowed, so its probability is at most their mass."""
    steps = real.generation.steps
    assert math.exp(real.log_path_mass) == pytest.approx(math.prod(one.mass for one in steps))
    assert real.generation.logprob <= real.log_path_mass <= 0
    assert real.hardest is not None
    assert steps[real.hardest].mass == min(one.mass for one in steps)


def test_prefill_is_shown_and_counts_for_nothing(real: Explanation) -> None:
    given_before = (step(b"{", source="prefill", logprob=-50.0, mass=1e-9),) * 2
    steps = given_before + real.generation.steps
    longer = replace(real, generation=replace(real.generation, steps=steps))
    assert longer.log_path_mass == real.log_path_mass
    assert longer.mean_surprisal_bits == real.mean_surprisal_bits
    assert [t.value for t in totals(longer)] == [t.value for t in totals(real)]
    assert real.hardest is not None
    assert longer.hardest == real.hardest + 2
    assert [cell.source for cell in cells(longer)[:3]] == ["given", "given", cells(real)[0].source]
    assert "2 given before" in totals(longer)[0].meaning


def test_step_without_mass_leaves_a_path_without_mass() -> None:
    """A mass can underflow; JSON has no infinity, so there it is null."""
    explanation = explained([b"a"])
    generation = replace(explanation.generation, steps=(step(b"a", mass=0.0, logprob=-900.0),))
    explanation = replace(explanation, generation=generation)
    assert explanation.log_path_mass == -math.inf
    assert explanation.to_json()["log_path_mass"] is None
    assert "path mass: 0 %" in explanation.text()


def test_mass_just_above_one_is_one() -> None:
    """Sums of float32 may be."""
    generation = replace(explained([b"a"]).generation, steps=(step(b"a", mass=1.0000002),))
    explanation = replace(explained([b"a"]), generation=generation)
    assert explanation.log_path_mass == 0.0
    assert "width:100%" in explanation.html()


@given(logprob=st.floats(-2000, 0))
def test_probability_in_words_is_the_probability(logprob: float) -> None:
    """To a digit, however small."""
    words = share(logprob)
    if words.endswith(" %"):
        said = math.log(float(words.removesuffix(" %")) / 100)
    else:
        digit, exponent = words.split("e")
        said = math.log(int(digit)) + int(exponent) * math.log(10)
    assert said == pytest.approx(logprob, abs=0.42)  # 1.5 rounded to a digit
    if logprob > math.log(0.001):
        assert said == pytest.approx(logprob, abs=0.051)


# What a token may do to the picture


@given(text=st.text(st.characters()))
def test_visible_text_hides_nothing(text: str) -> None:
    """One line without a control, format, private or blank character."""
    shown = visible(text)
    assert hidden(shown, keep="") == set()
    assert not any(c.isspace() for c in shown)
    assert visible(shown) == shown
    assert bool(shown) == bool(text)


@pytest.mark.parametrize("text", ["plain", "naïve-é", "日本語", "😀", "नमस्ते", "a\u0301b"])
def test_visible_text_leaves_what_can_be_seen(text: str) -> None:
    assert visible(text) == text


def test_marks_neither_lean_on_neighbours_nor_pile_up() -> None:
    assert visible("\u0301a") == "◌\u0301a"
    assert visible("a" + 7 * "\u0301").count("◌") == 2


@given(pieces=tokens)
def test_every_byte_of_every_token_is_in_the_picture(pieces: list[bytes]) -> None:
    """A character that lies in several tokens is spelled in hex, and named where it ends."""
    shown = spelled(pieces)
    assert [bool(text) for text in shown] == [bool(piece) for piece in pieces]
    assert hidden("".join(shown), keep="") == set()
    try:
        whole = [visible(piece.decode()) for piece in pieces]
    except UnicodeDecodeError:
        assert any("⟨" in text for text in shown)
    else:
        # Apart from a letter's marks: they are set apart where the token begins with one.
        assert shown == whole


def test_character_split_over_tokens_is_named_where_it_ends() -> None:
    first, second, third = "a😀b".encode()[:3], "a😀b".encode()[3:4], "a😀b".encode()[4:]
    assert spelled([first, second, third]) == ["a⟨F0 9F⟩", "⟨98⟩", "⟨80⟩=😀b"]
    assert spelled([first, b"?", third]) == ["a⟨F0 9F⟩", "?", "⟨80⟩b"]


@settings(max_examples=40)
@given(pieces=tokens, prompt=st.text(max_size=20), name=st.text(max_size=5))
def test_page_shows_tokens_as_text_alone(pieces: list[bytes], prompt: str, name: str) -> None:
    """Whatever they spell: the page keeps its tags, and every token is read back from its cell."""
    explanation = explained(pieces, prompt=prompt, model=name, guide=name)
    source = explanation.html()
    page, plain = Page(source), Page(explained([b"a", b""], prompt="p").html())
    assert page.tags <= plain.tags
    assert {key for key, _ in page.attributes} <= {key for key, _ in plain.attributes}
    assert page.written == [cell.token for cell in cells(explanation)]
    assert hidden(source) == set()


def test_hostile_tokens_stay_text_everywhere() -> None:
    explanation = explained([*HOSTILE, b""], prompt="</pre><script>\u202e\x1b")
    page = Page(explanation.html())
    assert page.written == [*spelled(HOSTILE), "end"]
    assert "script" not in page.tags
    assert hidden(explanation.text()) == set()
    assert "⟨U+202E⟩evil" in explanation.text()


def test_page_runs_and_loads_nothing() -> None:
    """No script, no address, and a policy that would refuse both."""
    source = explained([*HOSTILE, b""], prompt="p").html()
    page = Page(source)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("content", policy) in page.attributes
    assert not page.tags & {"script", "link", "img", "iframe", "object", "form", "base", "a"}
    keys = {key for key, _ in page.attributes}
    assert not any(key.startswith("on") for key in keys)
    assert not keys & {"src", "href", "srcset", "action"}
    assert "url(" not in page_style.STYLE
    assert "@import" not in page_style.STYLE
    styles = [value for key, value in page.attributes if key == "style"]
    assert all(re.fullmatch(r"width:[\d.]+%", style) for style in styles)


def test_page_keeps_the_roles_of_a_table() -> None:
    """Cards have none of their own: each token is a row of a header and two cells."""
    roles = [
        value for key, value in Page(explained([b"a", b"b"]).html()).attributes if key == "role"
    ]
    row = ["row", "rowheader", "cell", "cell"]
    head = ["table", "rowgroup", "row", "columnheader", "columnheader", "columnheader", "rowgroup"]
    assert roles == [*head, *row, *row]


def test_candidates_are_named_with_their_probability() -> None:
    """The likeliest in the cell, all of them in its title."""
    titles = dict(
        value.split(":\n", 1)
        for key, value in Page(explained([b"<b>", b""]).html()).attributes
        if key == "title" and ":\n" in value
    )
    assert titles["Allowed, likeliest first"] == "90 % end\n10 % end"
    first = cells(explained([b"<b>"]))[0]
    assert first.all_free == ("90 % <b>", "10 % end")
    assert first.best_allowed == "90 % <b>"


def test_without_a_guide_only_a_written_end_is_called_one() -> None:
    """A control token among the candidates is no end of text."""
    free = cells(explained([b"a"], guide=""))[0]
    assert free.all_free[1] == "10 % control 8"
    text = explained([b"a"], guide="").text()
    assert "no guide" in text
    assert "path mass" not in text
    assert "path mass" in explained([b"a"]).text()


FINITE = language({"const": "CANARY"})
assert FINITE is not None
OWN: dict[str, Spec] = {
    "allowed": guides.allowed(lambda _: ()),
    "both(choice, soft)": guides.biased(guides.choice(["a", "b"]), {1: 2.0}),
    "choice": guides.choice(["CANARY", "b"]),
    "finite": guides.finite(FINITE),
    "free": guides.free("CANARY"),
    "gbnf": guides.gbnf('root ::= "CANARY"'),
    "json_schema": guides.json_schema({"const": "CANARY"}),
    "label_prior": guides.label_prior({"CANARY": -1.0}),
    "lark": guides.lark('start: "CANARY"'),
    "literal": guides.literal("CANARY"),
    "regex": guides.regex("CANARY"),
    "soft": guides.soft({1: 2.0}),
    "then(free, choice)": guides.then(guides.free("."), guides.choice(["a", "b"])),
}


@pytest.mark.parametrize(("name", "guide"), OWN.items())
def test_guide_is_called_what_its_user_wrote(name: str, guide: Spec) -> None:
    assert guide_name(guide) == name


def test_every_guide_has_a_name() -> None:
    """A new one is not called by its class."""
    makers = {word for name in OWN for word in re.findall(r"\w+", name)}
    assert makers | {"biased"} == set(guides.__all__)


def test_without_a_guide_no_picture_says_what_was_allowed(tmp_path: Path) -> None:
    """All was: a band of nothing but 100 % would only be in the way."""
    guided, free = explained([b"a", b"b"]), explained([b"a", b"b"], guide="")
    for shown in (free.text(), *Page(free.html()).texts, *map(str, totals(free))):
        assert "allowed" not in shown.replace(page_style.STYLE, "")
        assert "the guide" not in shown
    assert re.search("^allowed ", guided.text(), re.MULTILINE)
    assert [value for key, value in Page(free.html()).attributes if value == "cell"] == ["cell"] * 2
    for name, explanation in (("guided", guided), ("free", free)):
        explanation.png(tmp_path / name)
    heights = [len(read_png(tmp_path / name)) for name in ("guided", "free")]
    assert heights[0] - heights[1] == 1.5 * drawing._BAND


@pytest.mark.parametrize(("mass", "pulled"), [(1.0, "nowhere"), (0.9, "hardest")])
def test_guide_that_took_nothing_away_did_not_pull(mass: float, pulled: str) -> None:
    explanation = explained([b"a"])
    generation = replace(explanation.generation, steps=(step(b"a", mass=mass),))
    assert f"the guide pulled {pulled}" in replace(explanation, generation=generation).text()


@pytest.mark.parametrize("colours", [LEVEL_COLOURS, page_style._DARK])
def test_ink_can_be_read_on_its_paper(colours: tuple[tuple[str, str], ...]) -> None:
    """WCAG 2.2, success criterion 1.4.3: a contrast of at least 4.5 to 1."""

    def luminance(colour: str) -> float:
        channels = [int(colour[1 + 2 * i : 3 + 2 * i], 16) / 255 for i in range(3)]
        red, green, blue = (
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for paper, ink in colours:
        low, high = sorted((luminance(paper), luminance(ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5


# Terminal


@pytest.mark.parametrize("width", [12, 30, 80, 200])
@pytest.mark.parametrize("pieces", [HOSTILE, (b"",), (), (b"a",) * 200])
def test_bands_never_exceed_the_terminal(pieces: tuple[bytes, ...], width: int) -> None:
    """Wide characters count for two columns."""
    lines = explained(pieces).text(width).split("\n")
    assert max(map(cell_len, lines)) <= width


def test_each_token_has_a_column_of_its_own() -> None:
    """All bands of a token begin in the same column."""
    explanation = explained([b"one", "日本".encode(), b"three"])
    lines = explanation.text(120).split("\n")
    block = lines[lines.index("") + 1 :][:9]
    starts = [
        cell_len(block[0][: block[0].index(mark)]) for mark in ("1 chosen", "2 chosen", "3 chosen")
    ]
    written = block[1]
    assert [cell_len(written[: written.index(t)]) for t in ("one", "日本", "three")] == starts
    masses = [m.start() for m in re.finditer("50 %", block[3])]
    assert masses == starts


@pytest.mark.parametrize("count", [0, 1, 200])
def test_every_token_is_on_the_terminal_once(count: int) -> None:
    pieces = [f"t{number:03}".encode() for number in range(count)]
    text = explained(pieces).text(100)
    written = " ".join(line for line in text.split("\n") if line.startswith("written"))
    assert re.findall(r"t\d{3}", written) == [piece.decode() for piece in pieces]


def test_bands_without_trace_leave_the_candidates_out() -> None:
    explanation = explained([b"a"])
    bare = replace(step(b"a"), free=(), allowed=())
    generation = replace(explanation.generation, steps=(bare,))
    assert "likeliest" in explanation.text()
    assert "likeliest" not in replace(explanation, generation=generation).text()


@pytest.mark.parametrize("no_color", [False, True])
def test_colour_follows_the_terminal_alone(no_color: bool) -> None:
    """Tokens bring no colour of their own, and NO_COLOR takes ours away."""
    environment = {"NO_COLOR": "1"} if no_color else {}
    console = Console(
        file=io.StringIO(),
        width=100,
        force_terminal=True,
        color_system="truecolor",
        _environ=environment,
    )
    console.print(explained(HOSTILE))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    codes = {int(n) for code in re.findall(r"\x1b\[([\d;]+)m", printed) for n in code.split(";")}
    # Of 16 or of 16 million colours: the library keeps the code that it made first for a style.
    colours = {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}
    assert bool(codes & colours) != no_color
    assert "\x1b" not in re.sub(r"\x1b\[[\d;]*m", "", printed)
    assert "\x1b[31mred" not in printed


def test_plain_text_has_no_colour_whatever_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in terminal.plain(explained(HOSTILE), 80)


# Files


@pytest.mark.parametrize("pieces", [(), (b"a",), HOSTILE, (b"a",) * 30])
def test_image_shows_its_cards(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    """Decoded, it has ink, and a row of cards for every nine tokens; no glyph warns."""
    explained(pieces).png(tmp_path / "a.png")
    pixels = read_png(tmp_path / "a.png")
    assert pixels.float().std() > 5
    rows = -(-len(pieces) // 9)
    row = drawing._card_height(explained(pieces)) + drawing._ROW_GAP
    assert len(pixels) == int(1.5 * (drawing._TOP + rows * row + drawing._BOTTOM))


@pytest.mark.parametrize(
    ("logprob", "level"), [(-0.1, 0), (-1.0, 1), (-3.0, 2), (-5.0, 3), (-20.0, 4)]
)
def test_image_is_heated_by_surprisal(tmp_path: Path, logprob: float, level: int) -> None:
    """The corner of a card has the colour of its level."""
    explanation = explained([])
    generation = replace(explanation.generation, steps=(step(b"word", logprob=logprob),))
    replace(explanation, generation=generation).png(tmp_path / "a.png")
    x, y = drawing._MARGIN + drawing._GUTTER + drawing._CARD - 4, drawing._TOP + 4
    found = read_png(tmp_path / "a.png")[int(1.5 * y), int(1.5 * x)].tolist()
    paper = bytes.fromhex(LEVEL_COLOURS[level][0][1:])
    assert found == pytest.approx(list(paper), abs=4)  # the file has a palette


def test_same_picture_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        explained([b"a", b"b"]).png(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    explained([b"a", b"c"]).png(str(tmp_path / "c.png"))
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "c.png").read_bytes()
    assert "matplotlib.pyplot" not in sys.modules


def test_tokens_that_are_not_drawn_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image has a limit; it grows no further, and says so."""
    drawn = list[str]()
    text = drawing.Canvas.text

    def noted(self: drawing.Canvas, x: float, y: float, shown: str, **given: Any) -> None:
        drawn.append(shown)
        text(self, x, y, shown, **given)

    monkeypatch.setattr(drawing.Canvas, "text", noted)
    monkeypatch.setattr(drawing, "_MAX_CARDS", 9)
    explained([b"a"] * 9).png(tmp_path / "a.png")
    assert not any("not drawn" in shown for shown in drawn)
    explained([b"a"] * 1200).png(tmp_path / "b.png")
    assert any("1,191 more tokens" in shown for shown in drawn)
    assert read_png(tmp_path / "a.png").shape == read_png(tmp_path / "b.png").shape


def test_image_without_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ExtraMissing, match="plot"):
        explained([b"a"]).png(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "a").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space"):
            whole_file.write_whole(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]
    (link := tmp_path / "link").symlink_to(path)
    whole_file.write_whole(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("name", ["", "none/a"])
def test_file_in_no_folder_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="directory"):
        whole_file.write_whole(tmp_path / name, b"new")
    assert list(tmp_path.iterdir()) == []


@given(pieces=tokens)
def test_json_holds_every_byte(pieces: list[bytes]) -> None:
    """As text where it is text, as hex where it is not."""
    plain = json.loads(json.dumps(explained(pieces).to_json(), allow_nan=False))
    read = [
        bytes.fromhex(t["bytes"]) if "bytes" in t else t["text"].encode() for t in plain["tokens"]
    ]
    assert read == pieces


def test_answer_is_in_no_log(real: Explanation) -> None:
    """A representation names the model and no text."""
    shown = repr(replace(real, prompt="CANARY"))
    assert "tiny" in shown
    assert "CANARY" not in shown
    assert "Step" not in shown
