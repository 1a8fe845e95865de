"""The JSON of a body: whichever parser reads it, it says what Python's own says."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weighbridge.providers.error_bodies import body_json

TEXT = st.text(st.characters(codec=None))  # halves of surrogate pairs as well
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def of_python(body: bytes) -> str | None:
    """The spelling of what Python's parser reads: True is not 1 there, and NaN is NaN."""
    try:
        return repr(json.loads(body.decode("utf-8-sig")))
    except (ValueError, RecursionError):
        return None


def check(body: bytes) -> None:
    read, expected = body_json(body), of_python(body)
    if expected is None:
        assert read is None
    else:
        assert repr(read) == expected


@given(value=VALUES, is_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
def test_what_is_written_as_json_is_read(value: object, is_ascii: bool, indent: int | None) -> None:
    """Odd numbers, empty keys and lone surrogates included."""
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    check(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=400)
@given(body=st.text('{}[]",:\\/ \t\n0123456789.eE+-truefalsnNIity\u00e9\x00\ufeff').map(str.encode))
@example(b'{"a": 1, "a": 2}')
@example(b'{"a": "\\ud83d"}')
@example(b'{"a": "\\ud83d\\ude00"}')
@example(b'"\\u0000"')
@example(b'"\x01"')
@example(b'"\xff"')
@example(b"\xef\xbb\xbf1")
@example(b"\xef\xbb\xbf\xef\xbb\xbf1")
@example(b"[1, -0, -0.0, 1e400, -1e400, 5e-324, 0.1000000000000000055511151231257827, 1E2]")
@example(b"[01]")
@example(b"[1.]")
@example(b"[.5]")
@example(b"[+1]")
@example(b"[1,]")
@example(b"[NaN, Infinity, -Infinity]")
@example(b"1 1")
@example(b"nul")
@example(b" \x0b1")
@example(b" 1\xc2\xa0")
def test_nothing_is_read_that_python_refuses(body: bytes) -> None:
    check(body)


@given(value=VALUES, place=st.integers(0, 200), octet=st.integers(0, 255), cut=st.booleans())
def test_damaged_bodies_are_read_as_python_reads_them(
    value: object, place: int, octet: int, cut: bool
) -> None:
    body = bytearray(json.dumps(value).encode())
    at = place % len(body)
    if cut:
        del body[at:]
    else:
        body[at] = octet
    check(bytes(body))


@pytest.mark.parametrize("depth", [10, 199, 200, 201, 900, 100_000])
def test_depth_changes_nothing(depth: int) -> None:
    """The quick parser gives up long before Python's does."""
    check(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("num_digits", [19, 20, 400, 4300, 4301])
def test_integers_stay_exact(num_digits: int) -> None:
    check(b"9" * num_digits)
    check(b"-" + b"9" * num_digits)
