"""HTML mail: what a reader sees is text, what none sees is set apart, and nothing runs or hangs."""

import gc
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.schemas.mail_html import MOST_CHARACTERS, is_html, read_html

TAGS = [
    *("<p>", "</p>", "<div>", "</div>", "<b>", "</i>", "<ul>", "<li>", "<br>", "<pre>", "</pre>"),
    *("<table>", "<tr>", "<td>", "</td>", "<td hidden>", "<blockquote>", "</blockquote>"),
    *("<!--", "-->", "<script>", "</script>", "<style>", "</style>", "<svg>", "<select>", "<"),
    *("<span style='display:none'>", "</span>", "<font color=white>", "&amp;", "a"),
]
fragments = st.lists(st.sampled_from([*TAGS, " ", "\n"]) | st.text(max_size=5)).map("".join)


@given(words=st.lists(st.text("abcäß漢<&>\"'", min_size=1), min_size=1))
def test_escaped_words_come_out_as_they_went_in(words):
    """Entities are letters again, a paragraph is a line."""
    from html import escape

    html = "".join(f"<p>{escape(word)}</p>" for word in words)
    assert read_html(html).text == "\n\n".join(words)


@given(html=fragments)
def test_any_markup_is_read(html):
    """However broken; without blank lines at the edges, two in a row, or space at line ends."""
    text = read_html(html).text
    assert text == text.strip("\n")
    assert "\n\n\n" not in text or "<pre>" in html
    assert all(line == line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Hi,<br>all   of\nyou</p>\n<p>&lt;3 &nbsp; &pound;</p>", "Hi,\nall of you\n\n<3 £"),
        ("<ul><li>a<ul><li>b</ul><li><p>c</p></ul>d", "- a\n  - b\n- c\n\nd"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ("<table><tr><th>x<th>y<tr><td><p>1</p><td><p>2</p></table>z", "x | y\n1 | 2\n\nz"),
        ("<table><tr><td>only<td></tr></table>", "only"),
        ("<pre>a\n  b\n\nc</pre>", "a\n  b\n\nc"),
        ("a<blockquote>b<blockquote>c</blockquote></blockquote>d", "a\n\n> b\n>\n> > c\n\nd"),
        ("<div>a</div><div><br></div><div>b</div>", "a\n\nb"),
        ("<p>un<b>closed <i>and</b> crossed", "unclosed and crossed"),
        ("<title>t</title><style>p{}</style><script>s()</script><!-- c -->x", "x"),
        ("x<noscript> y</noscript><template>t</template>", "x y"),
        (
            'see <img src="https://a.example/x.png" alt="a  shot"><img width=1 alt=p>',
            "see [image: a shot]",
        ),
        ("<option>a</option><option>b</option>", "a\nb"),
        ("", ""),
        ("<p></p><br><br>", ""),
    ],
)
def test_what_a_reader_sees(html, text):
    assert read_html(html).text == text
    assert read_html(html).hidden == ""


HIDING = [
    '<p style="display: NONE !important">X</p>',
    '<p style="visibility:hidden">X</p>',
    "<p hidden>X</p>",
    '<p style="font-size:0">X</p>',
    '<p style="font-size: 1px">X</p>',
    '<p style="opacity:0">X</p>',
    '<p style="color:#fff">X</p>',
    '<p style="color:#fdfdfd">X</p>',
    '<p style="color:rgb(255, 255, 255)">X</p>',
    '<p style="color:transparent">X</p>',
    '<p style="color:rgba(0,0,0,0)">X</p>',
    "<font color=white>X</font>",
    '<div style="background:#06f"><p style="color:#06f">X</p></div>',
    "<table bgcolor=black><tr><td>X</table>",
    '<div style="max-height:0;overflow:hidden">X</div>',
    '<div style="text-indent:-9999px">X</div>',
    '<div style="position:absolute; left:-2000px">X</div>',
    '<p style="mso-hide:all">X</p>',
    "<style>.x, #y {display:none}</style><p class='a x'>X</p>",
    "<style>/* c */ p#y {color: white}</style><p id=y>X</p>",
    '<p style="display:none"><b style="display:block">X</b></p>',
]
SHOWING = [
    '<p style="display:block">X</p>',
    '<p style="font-size:10px">X</p>',
    '<div style="font-size:0"><p style="font-size:14px">X</p></div>',
    '<div style="background:#06f"><p style="color:#fff">X</p></div>',
    '<div style="background:url(x.png)"><p style="color:#fff">X</p></div>',
    "<table bgcolor=black><tr><td><font color=white>X</font></table>",
    '<p style="color:#999">X</p>',
    '<p style="opacity:0.8; height:0">X</p>',
    "<style>.b {background: navy}</style><p class=b style='color:white'>X</p>",
    "<style>@media print {.x{display:none}} .y .x{display:none}</style><p class=x>X</p>",
    "<style>.other{display:none}</style><p class=x>X</p>",
    '<p style="color:rgba(0,0,0,.9);text-indent:-2px">X</p>',
]


@pytest.mark.parametrize("html", HIDING)
def test_text_that_no_reader_sees_is_set_apart(html):
    """It does not reach a model, and is not lost: a person must be able to see it."""
    read = read_html(f"<p>before</p>{html}<p>after</p>")
    assert (read.text.split(), read.hidden) == (["before", "after"], "X")


@pytest.mark.parametrize("html", SHOWING)
def test_text_that_readers_see_stays(html):
    """Buttons, dark mails, gaps of size nothing around text of some size, other screens."""
    read = read_html(f"<p>before</p>{html}<p>after</p>")
    assert (read.text.split(), read.hidden) == (["before", "X", "after"], "")


def test_fillers_of_previews_are_no_hidden_text():
    """Senders hide a hundred joiners behind the line that inboxes show."""
    read = read_html(f"<div style='display:none'>{'&zwnj;&nbsp;&#847; ' * 100}</div>x")
    assert (read.text, read.hidden) == ("x", "")


def test_each_hidden_run_is_a_line():
    html = "<i hidden>a <b>b</b></i> seen <i hidden>c</i>"
    assert read_html(html).hidden == "a b\nc"


@pytest.mark.parametrize(
    "html",
    [
        "<p>Hi</p>",
        "<div dir=ltr>Hello<br>you</div>\n",
        "<!DOCTYPE html><html><body>x",
        "<html>cut sho",
        "  <BODY>x</BODY>",
        "<!-- mail --><html><p>x",
        '<div class="c">a</div><div>cut sho',
        "<p>one<p>two</p>",
        "<b>Hi</b> all <i>there</i>",
        "Hello<br>world<br/>bye",
        "<br>x<br>",
        "<style>p{}</style><p>x</p>",
    ],
)
def test_clear_markup_is_html(html):
    assert is_html(html)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I <3 your product",
        "if a < b and c > d then it fails",
        "<code>x = 1</code>",
        "Use <code> in the mail",
        "The button <div class='x'>Pay</div> does nothing",
        "<div> is not centred in <p>",
        "<b> does not work when I write <b>bold</b>",
        "<ticket><id>1</id></ticket>",
        '<?xml version="1.0"?><p>x</p>',
        "<al@b.example> wrote to me",
        "a<br>b",
        "one<br>\ntwo<br>\nwhy do I see <br>?",
        "<Team plan> is too dear </3",
        "</p>",
    ],
)
def test_text_that_mentions_markup_is_no_html(text):
    assert not is_html(text)


def test_a_text_too_long_to_parse_is_no_html():
    assert is_html("<p>" + "x" * 100 + "</p>")
    assert not is_html("<p>" + "x" * MOST_CHARACTERS + "</p>")


HOSTILE = {
    "div": "<div>",
    "bold": "<b>",
    "table": "<table><tr><td>",
    "anchors": "<a><div>",
    "lists": "<ul><li>",
    "quotes": "<blockquote>",
    "foster": "<table>x",
    "unclosed": "<a ",
    "comments": "<!--",
    "closed": "</p>",
    "attributes": "<p a=1 b=2 ",
    "style": "<p style='color:red;",
    "sheet": "<style>.a{",
    "entities": "&",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_time_and_text_grow_as_the_markup_does(piece):
    """Four times the nesting takes nowhere near sixteen times as long; nothing recurses."""
    used = []
    for length in (15_000, 60_000):
        html = piece * (length // len(piece)) + "<i>deep"
        gc.disable()  # else it looks through all that the tests before have left
        try:
            begun = time.process_time()
            is_html(html)
            read = read_html(html)
            used.append(time.process_time() - begun)
        finally:
            gc.enable()
        assert len(read.text) < 30 * length
    assert used[1] < 11 * used[0] + 0.2


def test_a_megabyte_of_nesting_keeps_its_innermost_word():
    """Parsers in C stop at a depth, and lose what is below it."""
    assert read_html("<div>" * 200_000 + "deep").text == "deep"
