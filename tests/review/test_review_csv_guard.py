"""What a spreadsheet would evaluate never begins a cell, for any reader of the file."""

from __future__ import annotations

import csv
import io
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weighbridge.review.exporting.csv_guard import guarded

PIECES = st.sampled_from(
    [
        *"=+-@\t\r\n ,;|\"'",
        "\ufeff",
        "\u200b",
        "\u00a0",
        "\uff1d",
        "\uff0b",
        "\uff0d",
        "\uff20",
        "a",
        "1",
        "\u202e",
    ]
)
TEXTS = st.one_of(st.text(PIECES, max_size=12), st.text(max_size=20))


def is_evaluated(cell: str) -> bool:
    """Whether a reader that passes over blanks, quotes and what is invisible finds a formula."""
    for character in cell:
        if unicodedata.normalize("NFKC", character)[:1] in tuple("=+-@"):
            return True
        is_blank = character.isspace() or character == '"'
        if not is_blank and unicodedata.category(character) not in ("Cc", "Cf"):
            return False
    return False


@given(st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(",;\t|"))
@example(["x;=1+1", "b"], ";")
@example(['a;"=1', "b"], ";")
@example(["a\n-2+3", "b"], ";")
def test_no_reader_finds_a_formula_in_a_guarded_file(cells, delimiter):
    """Not even one that takes another character for what parts cells."""
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerow([guarded(cell) for cell in cells])
    for row in csv.reader(io.StringIO(file.getvalue(), newline=""), delimiter=delimiter):
        assert not any(map(is_evaluated, row))


@given(TEXTS)
def test_guard_only_adds_apostrophes(text):
    """Nothing is lost, and guarding twice changes nothing more than once."""
    safe = guarded(text)
    assert safe.replace("'", "") == text.replace("'", "")
    assert len(safe) >= len(text)


@pytest.mark.parametrize(
    "cell",
    [
        "=1",
        "+1",
        "-1",
        "@A1",
        " =1",
        "\ufeff=1",
        "\uff1d1",
        "\uff20SUM",
        "\t",
        "\r",
        "\nhello",
        '"=1',
        "\u200b-1",
    ],
)
def test_cell_that_could_be_a_formula_is_guarded(cell):
    assert guarded(cell) == f"'{cell}" or guarded(cell).startswith("'")


@pytest.mark.parametrize(
    "cell", ["", "a", "1", "1 + 1 = 2", "a-b", "me@example.com", "'=1", "it, and then; so", "3|4"]
)
def test_harmless_cell_stays_as_it_is(cell):
    assert guarded(cell) == cell
