"""Values of a body in the characters in which they were sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.providers.raw_json import as_sent

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def paths(value, path=()):
    """Every path in a value, with what stands there."""
    yield path, value
    inside = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else inside:
        yield from paths(item, (*path, key))


@given(value=values, indent=st.sampled_from([None, 1]), is_ascii=st.booleans())
def test_whatever_stands_at_a_path_is_found_as_it_was_written(value, indent, is_ascii):
    """Over all paths of all values, however the body is laid out."""
    body = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    for path, there in paths(value):
        found = as_sent(f" \n{body}\n".encode("utf-8", "surrogatepass"), path)
        if found is None:  # only what is no UTF-8 has no text
            with pytest.raises(UnicodeDecodeError):
                body.encode("utf-8", "surrogatepass").decode()
        else:
            assert found in body
            assert json.loads(found) == there


@pytest.mark.parametrize(
    "raw", ["1.10", "0.10000000000000000001", "1e400", "-0", '{"a": 1, "a": 2}', '"\\u00e9"', "[ ]"]
)
def test_nothing_is_read_and_written_again(raw):
    """A number of many digits, a key that stands twice, an escape: as they came."""
    assert as_sent(f'{{"x": [0, {raw} ]}}'.encode(), ("x", 1)) == raw


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b'{"a": 1}', ("b",)),
        (b'{"a": 1}', (0,)),
        (b'{"a": 1}', ("a", "b")),
        (b"[1]", (1,)),
        (b"[1]", ("0",)),
        (b"{}", ("a",)),
        (b"[]", (0,)),
        (b'"a"', ("a",)),
        (b'{"a": ', ("a",)),
        (b"", ()),
        (b"\xff", ()),
        (b"[" * 100_000, (0,)),
    ],
)
def test_where_nothing_stands_nothing_is_found(body, path):
    """Neither a wrong key nor a broken body is an exception."""
    assert as_sent(body, path) is None


def test_of_a_key_that_stands_twice_the_last_counts():
    """As for the reader that found out that the value is an object."""
    assert as_sent(b'\xef\xbb\xbf{"a": {"b": 1}, "a": {"b": 2}}', ("a", "b")) == "2"
