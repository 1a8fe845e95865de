"""How far the estimate of tokens can be trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.providers.token_estimate import estimate_tokens

WORDS = {
    "English": "I was charged twice for the Team plan. Refund please, my card is nearly empty.",
    "angry": "WHY IS MY ACCOUNT LOCKED AGAIN?! I NEED ACCESS NOW!!!",
    "German": "Guten Tag, ich wurde zweimal für den Team-Tarif belastet. Bitte erstatten Sie mir"
    " den Betrag zurück. Rechnungsnummer 2026-11-0099, Kundennummer 88412.",
    "Russian": "Здравствуйте, деньги за подписку списали дважды. Пожалуйста, верните их.",
    "Japanese": "こんにちは。チームプランの料金が二重に請求されました。返金をお願いします。",
    "Chinese": "你好,我的团队套餐被重复扣费了,请尽快退款,谢谢。",
    "Arabic": "مرحبا، تم خصم المبلغ مرتين من بطاقتي. أرجو استرداد المبلغ",
    "Hindi": "नमस्ते, मेरे कार्ड से दो बार पैसे कट गए हैं। कृपया वापस करें।",
    "emoji": "😡😡😡 why?? 🙏🙏 refund!!! 💳",
    "schema": '{"type": "object", "properties": {"category": {"enum": ["billing", "how_to"]}}}',
    "log": '[2026-11-30T00:00:01Z] ERROR api.billing {"id": 99812, "err": null} at main.py:42',
}


@given(first=st.text(), second=st.text())
def test_estimate_of_two_texts_is_that_of_both(first, second):
    """To within one token: it makes no difference how a prompt is put together."""
    apart, together = (
        estimate_tokens(first) + estimate_tokens(second),
        estimate_tokens(first + second),
    )
    assert apart - 1 <= together <= apart


@given(text=st.text(st.characters(exclude_categories=())))
def test_estimate_lies_between_a_third_of_the_bytes_and_all(text):
    """No byte-level tokenizer needs more tokens than there are bytes; half a pair is three."""
    num_bytes = len(text.encode("utf-8", "surrogatepass"))
    assert num_bytes / 3 <= estimate_tokens(text) <= num_bytes


@pytest.mark.models
@pytest.mark.parametrize("kind", WORDS)
def test_estimate_is_above_a_small_vocabulary_and_not_far(kind):
    """Of texts in words, in whatever language."""
    from weighbridge.local_engine.models.convert import converted  # with torch

    folder = converted(locate("smollm2-135m", "generator"), cache_folder(), "int8")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    num_tokens = len(tokenizer.encode(WORDS[kind]).ids)
    assert num_tokens <= estimate_tokens(WORDS[kind]) <= 2.5 * num_tokens
