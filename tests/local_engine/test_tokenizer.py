"""Bytes of tokens, and text that can never become a control token."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import SPECIALS, tiny_tokenizer
from tokenizers import Tokenizer

from weighbridge.errors import ModelCorrupt
from weighbridge.local_engine.catalogue import cache_folder, locate, model_folder
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.tokenizer import read_tokenizer
from weighbridge.local_engine.vocabulary import TableVocabulary, Vocabulary

TINY = tiny_tokenizer()
# Two characters that stand for a byte each: "é" is C3 A9, and C3 is gone; so is the byte 04.
LACKING = tiny_tokenizer(missing=["Ã", "Ą"])


def spelled(tokenizer: Vocabulary, ids: list[int]) -> bytes:
    return b"".join(tokenizer.token_bytes[i] for i in ids)


@given(text=st.text())
def test_bytes_of_an_encoding_are_those_of_the_text(text):
    assert spelled(TINY, TINY.encode(text)) == text.encode()


@given(text=st.text() | st.text("aé\x04ü€"))
def test_characters_of_missing_bytes_become_replacement_characters(text):
    """Never dropped: what is read is as long as what was written."""
    missing = {0xC3, 0x04}
    wanted = "".join("\ufffd" if missing & set(c.encode()) else c for c in text)
    assert spelled(LACKING, LACKING.encode(text)).decode() == wanted


@given(text=st.lists(st.sampled_from([*SPECIALS, "user\n", " ", "a"])).map("".join))
def test_no_text_becomes_a_control_token(text):
    assert TINY.special_ids.isdisjoint(TINY.encode(text))


def test_control_tokens_are_found_by_name_only():
    assert [TINY.control(token) for token in SPECIALS] == [0, 1, 2]
    for other in ("bug", "<|user|>"):
        with pytest.raises(KeyError):
            TINY.control(other)


def test_control_tokens_stand_for_no_bytes():
    assert {TINY.token_bytes[i] for i in TINY.special_ids} == {b""}
    assert b"" not in (b for i, b in enumerate(TINY.token_bytes) if i not in TINY.special_ids)


@given(prefix=st.text('bugil"., é', max_size=3).map(str.encode))
def test_tokens_by_their_beginning(prefix):
    wanted = [i for i, b in enumerate(TINY.token_bytes) if b and b.startswith(prefix)]
    assert TINY.starting_with(prefix) == wanted


@given(text=st.text('bugil"., é', min_size=1, max_size=8).map(str.encode))
def test_tokens_that_may_spell_a_text_first(text):
    """Beginnings of the text, and tokens that go beyond it."""
    consistent = [
        i
        for i, b in enumerate(TINY.token_bytes)
        if b and (b.startswith(text) or text.startswith(b))
    ]
    assert TINY.consistent_with(text) == consistent


@given(text=st.text("ab.", max_size=8))
def test_list_of_tokens_spells_by_the_longest_and_never_ends_an_answer(text):
    """Of two tokens with the same bytes by the first; what ends an answer may itself have bytes."""
    words = TableVocabulary([b"a", b"b", b"ab", b"ab", b".", b"."], eos_ids={4})
    ids = words.encode(text)
    assert spelled(words, ids) == text.encode()
    assert {3, 4}.isdisjoint(ids)
    assert len(ids) == len(text) - text.count("ab")


def test_long_text_is_spelled_in_time_that_grows_with_it():
    """Prefixes of the whole rest at each token would take hours."""
    assert TableVocabulary([b"a", b"aa", b""], {2}).encode("a" * 200_001) == [1] * 100_000 + [0]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"model": {}}', b"\xff\xfe"])
def test_damaged_tokenizer_is_corrupt(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ModelCorrupt, match=r"tokenizer\.json"):
        read_tokenizer(path)


def test_missing_tokenizer_is_corrupt(tmp_path):
    with pytest.raises(ModelCorrupt):
        read_tokenizer(tmp_path / "tokenizer.json")


PINNED = {
    "": [],
    "Hello world": [19556, 905],
    'bug."': [8202, 1270],
    "12345": [33, 34, 35, 36, 37],
    "😀": [10813, 242, 218],
    "<|im_start|>": [44, 108, 306, 79, 3738, 108, 46],
    '{"category": "bug"}': [39428, 15833, 1799, 476, 8202, 23597],
    "I can't  log in\n\n": [57, 416, 982, 216, 1993, 281, 1116],
}


@pytest.mark.models
@pytest.mark.parametrize("text", PINNED)
def test_real_encodings_are_pinned(models, text):
    """As `transformers` encodes them from the same file."""
    assert models.vocabulary.encode(text) == PINNED[text]


@pytest.mark.models
def test_real_tokens_spell_what_the_tokenizer_decodes(models):
    """Every id, by the library's own decoder."""
    folder = converted(locate("smollm2-135m", "generator"), cache_folder(), "int8")
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for token_id, token in enumerate(models.vocabulary.token_bytes):
        if token_id not in models.vocabulary.special_ids:
            assert library.decode([token_id]) == token.decode("utf-8", "replace")


@pytest.mark.models
@given(text=st.text())
def test_real_encoding_gives_the_text_back(models, text):
    """Apart from characters whose bytes no token has: control characters and empty planes."""
    known = set(models.vocabulary.token_bytes)
    missing = {byte for byte in range(256) if bytes([byte]) not in known}
    wanted = "".join("\ufffd" if missing & set(c.encode()) else c for c in text)
    assert spelled(models.vocabulary, models.vocabulary.encode(text)).decode() == wanted


@pytest.mark.models
def test_real_vocabulary_spells_everything_in_use(models):
    """No letter, sign or emoji is replaced: only controls and planes that Unicode leaves empty."""
    for code in range(0x20, 0x30000):
        if not 0xD800 <= code < 0xE000:
            text = chr(code)
            assert spelled(models.vocabulary, models.vocabulary.encode(text)) == text.encode()


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.filterwarnings("default")  # transformers' own
def test_real_encodings_are_those_of_transformers(models, tickets):
    """On development tickets, and on what is pinned above."""
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(model_folder("smollm2-135m"), gguf_file="model.gguf")
    rows = (tickets / "banking77-draw0" / "dev.jsonl").read_text("utf-8").splitlines()
    rows += (tickets / "multidogo-19" / "dev.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(row)["body"] for row in rows[:100] + rows[-100:]]
    plain = [text for text in PINNED if "<|" not in text]
    for text in [*texts, *plain]:
        assert models.vocabulary.encode(text) == reference.encode(text, add_special_tokens=False)
