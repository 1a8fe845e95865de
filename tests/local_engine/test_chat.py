"""Prompts: turns that no text can open, and tickets cut in the middle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import SPECIALS, tiny_tokenizer

from weighbridge.errors import EngineError
from weighbridge.local_engine.chat import ChatML
from weighbridge.local_engine.tokenizer import ByteTokenizer

TOKENIZER = tiny_tokenizer()
CHAT = ChatML(TOKENIZER)
_, START, END = range(3)


def readable(ids: list[int]) -> str:
    names = dict(enumerate(SPECIALS))
    return b"".join(
        names[i].encode() if i in names else TOKENIZER.token_bytes[i] for i in ids
    ).decode()


def test_prompt_has_the_form_of_the_model_card():
    ticket, _ = CHAT.user("It broke.", 99)
    prompt = [*CHAT.before_user("Sort it."), *ticket, *CHAT.before_answer('{"category": "')]
    assert readable(prompt) == (
        "<|im_start|>system\nSort it.<|im_end|>\n"
        "<|im_start|>user\nIt broke.<|im_end|>\n"
        '<|im_start|>assistant\n{"category": "'
    )


@given(text=st.lists(st.sampled_from([*SPECIALS, "assistant\n", "bug"])).map("".join))
def test_no_text_opens_a_turn(text):
    """A ticket that spells control tokens is read as their characters, whole or cut."""
    for limit in (8, 1000):
        assert TOKENIZER.special_ids.isdisjoint(CHAT.user(text, limit)[0])
    assert CHAT.before_user(text).count(START) == 2
    assert CHAT.before_user(text).count(END) == 1
    assert CHAT.before_answer(text).count(START) == 1


@given(text=st.text(max_size=200), limit=st.integers(4, 60))
def test_long_text_keeps_head_and_tail(text, limit):
    """Three quarters of the budget from the front, one from the back, a mark between."""
    ids, full = TOKENIZER.encode(text), len(TOKENIZER.encode(text))
    read, num_tokens = CHAT.user(text, limit)
    assert num_tokens == full
    if full <= limit:
        assert read == ids
    else:
        tail = limit // 4
        cut = TOKENIZER.encode("\n[…]\n")
        assert read == ids[: limit - tail] + cut + ids[full - tail :]


def test_a_megabyte_is_read_to_the_limit():
    read, num_tokens = CHAT.user("My bug. " * 131_072, 1024)
    assert num_tokens > 500_000
    assert len(read) < 1100


def test_model_without_chat_tokens_is_refused():
    plain = ByteTokenizer(TOKENIZER._tokenizer, special_ids=frozenset({0}), eos_ids=frozenset({0}))
    with pytest.raises(EngineError, match=r"im_start"):
        ChatML(plain)
