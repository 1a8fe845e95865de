from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.decision import Reason
from weighbridge.service import words
from weighbridge.service.marks import legible, marked

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
JOINERS = "\u200c\u200d"


@given(ANY_TEXT)
def test_marks_keep_every_character(text):
    """Plain pieces and marks put together are the text; a mark is one character."""
    rebuilt = "".join(
        chr(int(piece.text[2:], 16)) if piece.name else piece.text for piece in marked(text)
    )
    assert rebuilt == text.replace("\r\n", "\n")


@given(ANY_TEXT)
def test_nothing_invisible_is_left_in_plain_pieces(text):
    """By Unicode's own categories, joiners in scripts that need them left aside."""
    for piece in marked(text):
        for character in piece.text:
            hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
            assert not hidden or character in "\n\t" + JOINERS


@pytest.mark.parametrize(
    "text", ["naïve café", "日本語", "שלום", "5\u00a0€", "tab\tline\n", "👍🏽"]
)
def test_what_people_write_is_left_as_it_is(text):
    assert "".join(piece.text for piece in marked(text)) == text


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧", "\u0645\u06cc\u200c\u062e\u0648", "क्\u200dष"]
)
def test_joiners_stay_where_scripts_and_emoji_need_them(text):
    assert [piece.name for piece in marked(text)] == [""]


@pytest.mark.parametrize("text", ["pay\u200dpal", "\u200dx", "a\u200b\u200c\u200d", "x\u202e"])
def test_joiners_and_the_like_are_marked_where_they_only_hide(text):
    assert any(piece.name for piece in marked(text))


def test_marks_end_where_a_page_could_not_bear_more():
    """The rest is replaced one by one, so that nothing acts and the length stays."""
    pieces = list(marked("\u202e" * 5000))
    assert len(pieces) == 2001
    assert pieces[-1] == ("\ufffd" * 3000, "")


@given(ANY_TEXT, st.integers(2, 300))
def test_a_line_is_one_line_and_no_longer_than_asked(text, limit):
    """Marks aside, which spell a character out in ten at the most."""
    line = legible(text, limit)
    assert "\n" not in line
    assert len(line) <= 10 * limit


@given(st.floats(0, 1))
def test_shares_are_said_in_at_most_three_figures(share):
    """And never rounded to a certainty that they are not."""
    said = words.percent(share)
    assert len(said) <= len("more than 99.9 %")
    assert (said == "100\xa0%") is (share == 1)
    assert (said == "0\xa0%") is (share == 0)


@pytest.mark.parametrize("code", Reason)
def test_every_reason_has_words_of_its_own(code):
    """A chip with a code in it explains nothing."""
    assert words.reason_hint(code)
    assert "_" not in words.reason(code)


@given(st.floats(0, 1e9))
def test_lengths_of_time_have_at_most_two_units(seconds):
    assert 2 <= len(words.duration(seconds).split()) <= 4
