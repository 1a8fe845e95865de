"""Token log-probabilities in every shape that OpenAI's wire format has them in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.providers.protocol import TokenLogprob
from weighbridge.providers.token_logprobs import of_answer, read_logprobs


def of_content(*entries):
    return read_logprobs({"content": list(entries), "refusal": None})


def test_tokens_are_bytes_and_stand_ins_are_unknown():
    """Half a character has bytes alone; -9999 is no probability; a rounding error is zero."""
    assert of_content(
        {"token": "\\xc3", "bytes": [195], "logprob": -0.5, "top_logprobs": []},
        {"token": "é", "bytes": None, "logprob": 1e-6},
        {
            "token": "a",
            "logprob": -9999.0,
            "top_logprobs": [
                {"token": "a", "bytes": [97], "logprob": -9999},
                {"token": "b", "logprob": -1},
                {"logprob": -2},
            ],
        },
    ) == (
        TokenLogprob(token=b"\xc3", logprob=-0.5),
        TokenLogprob(token="é".encode(), logprob=0.0),
        TokenLogprob(token=b"a", logprob=None, top=((b"b", -1.0),)),
    )


def test_fields_that_only_some_servers_send_change_nothing():
    """llama-server adds the token's id."""
    plain = {"token": "a", "bytes": [97], "logprob": -0.5}
    top = {"top_logprobs": [{"id": 64, **plain}]}
    assert of_content({"id": 64, **plain, **top}) == of_content({**plain, "top_logprobs": [plain]})


def test_alternatives_are_sorted_and_none_counts_twice():
    """The greater number stays: a sum over them must not exceed one."""
    listed = [("b", -2), ("a", -0.5), ("b", -3), ("é", -1), ("a", -0.5)]
    [token] = of_content(
        {
            "token": "a",
            "logprob": -0.5,
            "top_logprobs": [{"token": t, "logprob": n} for t, n in listed],
        }
    )
    assert token.top == ((b"a", -0.5), ("é".encode(), -1.0), (b"b", -2.0))


def test_alternatives_are_what_a_tuple_of_them_is():
    """They are read when somebody looks; nobody can tell by looking."""
    listed = [{"token": t, "logprob": n} for t, n in (("b", -2), ("a", -0.5), ("c", None), (7, -1))]
    expected = ((b"a", -0.5), (b"b", -2.0))
    for look in (len, list, repr, hash, bool, lambda top: top[0], lambda top: top[1:]):
        [token] = of_content({"token": "a", "logprob": -0.5, "top_logprobs": listed})
        assert look(token.top) == look(expected)
    twin = of_content({"token": "a", "logprob": -0.5, "top_logprobs": listed[:2]})
    assert [token] == list(twin)
    assert token == TokenLogprob(token=b"a", logprob=-0.5, top=expected)
    assert token != TokenLogprob(token=b"a", logprob=-0.5, top=expected[:1])
    [alone] = of_content({"token": "a", "logprob": -0.5, "top_logprobs": listed[2:]})
    assert not alone.top


def test_the_older_shape_says_the_same():
    """Lists of equal length, and alternatives as mappings: Together, for some models."""
    older = {
        "tokens": ["{", "é"],
        "token_logprobs": [-0.5, None],
        "top_logprobs": [{"{": -0.5, " {": -2}, None],
        "token_ids": [1, 2],
    }
    assert read_logprobs(older) == of_content(
        {
            "token": "{",
            "logprob": -0.5,
            "top_logprobs": [{"token": "{", "logprob": -0.5}, {"token": " {", "logprob": -2}],
        },
        {"token": "é", "logprob": None},
    )


def test_a_list_of_chosen_tokens_alone_is_a_list():
    """Some routes return no alternatives, whatever was asked for."""
    expected = (TokenLogprob(token=b"a", logprob=-1.0),)
    assert of_content({"token": "a", "logprob": -1}) == expected
    assert read_logprobs({"tokens": ["a"], "token_logprobs": [-1]}) == expected
    assert read_logprobs({"tokens": ["a"], "token_logprobs": [-1], "content": None}) == expected


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        7,
        [],
        "no",
        {},
        {"content": None},
        {"content": []},
        {"content": {}},
        {"content": "no"},
        {"content": [None]},
        {"content": [{"token": "a", "logprob": -1}, {"bytes": [97], "logprob": -1}]},
        {"content": [{"token": 7, "logprob": -1}]},
        {"tokens": [], "token_logprobs": []},
        {"tokens": ["a"]},
        {"tokens": ["a"], "token_logprobs": []},
        {"tokens": ["a"], "token_logprobs": [-1], "top_logprobs": [{}, {}]},
        {"tokens": ["a"], "token_logprobs": [-1], "top_logprobs": {"a": -1}},
        {"tokens": ["a", None], "token_logprobs": [-1, -1]},
        {"reasoning_content": [{"token": "a", "logprob": -1}]},
    ],
)
def test_a_gap_in_the_tokens_is_no_list_of_tokens(logprobs):
    """Behind a gap nothing could be aligned."""
    assert read_logprobs(logprobs) is None


@pytest.mark.parametrize(
    "logprob",
    [None, "0", 3.0, True, False, {}, math.nan, -math.inf, math.inf, -9999, -1e9, -3.4e38],
)
def test_what_is_no_logprob_is_unknown(logprob):
    """Unknown, neither 0 nor 1."""
    [token] = of_content({"token": "a", "logprob": logprob})
    assert token.logprob is None


@pytest.mark.parametrize("octets", [None, "no", [256], [-1], [True], [97.0], ["97"]])
def test_what_are_no_bytes_are_those_of_the_text(octets):
    """As many servers leave them out."""
    [token] = of_content({"token": "é", "bytes": octets, "logprob": -1})
    assert token.token == "é".encode()


def tokens_of(*pieces):
    return tuple(TokenLogprob(token=piece.encode(), logprob=-0.5) for piece in pieces)


@given(
    thought=st.lists(st.text(max_size=3), max_size=4),
    answer=st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=4),
    mark=st.sampled_from(["<|im_end|>", "</s>", ""]),
)
def test_tokens_of_thoughts_and_marks_are_not_tokens_of_the_answer(thought, answer, mark):
    """What is left spells the answer, unless the mark does as well."""
    text = "".join(answer)
    spelled = text.encode().strip()
    kept = of_answer(tokens_of(*thought, "</think>", *answer, mark), text)
    if spelled and spelled not in mark.encode():
        assert b"".join(token.token for token in kept).strip() == spelled


@pytest.mark.parametrize(
    ("pieces", "text", "kept"),
    [
        (["{", "}"], "{}", ["{", "}"]),
        ([" {", "}\n"], "{}", [" {", "}\n"]),
        (["{}", "</think>", "\n", "{", "}", "</s>"], "{}", ["{", "}"]),
        (["</think>", "\n{", "}\n"], "{}", ["\n{", "}\n"]),
        (["<t>", "aa", "a</s>"], "aa", ["aa"]),
        # Where the answer begins or ends inside a token, nobody can say whose the number is.
        (["</think>{", "}"], "{}", ["</think>{", "}"]),
        (["<t>", "{", "}}"], "{}", ["<t>", "{", "}}"]),
        (["no"], "{}", ["no"]),
        (["no"], "", ["no"]),
        ([], "{}", []),
    ],
)
def test_tokens_are_left_out_only_between_tokens(pieces, text, kept):
    """Otherwise they stay, and do not align with the text."""
    assert of_answer(tokens_of(*pieces), text) == tokens_of(*kept)


def test_what_comes_before_may_have_tried_the_answer_out():
    """The last time that it stands there is the answer."""
    tried, meant = tokens_of("bug"), (TokenLogprob(token=b"bug", logprob=-3.0),)
    assert of_answer((*tried, *tokens_of("</think>"), *meant), "bug") == meant
