"""A `tokenizer.json` taken apart: plain text stays plain, and what cannot be read is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.local_engine.tokenizer_file import take_apart

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level(**options: Any) -> Tokenizer:
    words = [*BYTES, "ab", "Ġa", "Ġab", "<s>"]
    merges = [("a", "b"), ("Ġ", "a"), ("Ġa", "b")]
    bpe = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken("<s>"), AddedToken("<|late|>")])
    bpe.add_tokens([AddedToken("<tool>")])
    return bpe


def sentencepiece() -> Tokenizer:
    words = ["<unk>", "</s>", *BYTE_NAMES, "▁", "a", "b", "▁a"]
    vocabulary = {word: i for i, word in enumerate(words)}
    bpe = Tokenizer(models.BPE(vocabulary, [("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    bpe.add_special_tokens([AddedToken("<unk>"), AddedToken("</s>")])
    return bpe


def content(tokenizer: Tokenizer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.to_str())
    return found


def test_control_tokens_beyond_the_vocabulary_are_known_by_name():
    """Llama 3 has all of them there."""
    tokenizer = ByteTokenizer.from_json(byte_level().to_str(), {260})
    assert tokenizer.special_ids == {259, 260}
    assert tokenizer.control("<|late|>") == 260
    assert tokenizer.added_tokens["<tool>"] == 261
    assert tokenizer.vocab_size == len(tokenizer.token_bytes) == 262
    assert tokenizer.token_bytes[259:] == [b"", b"", b"<tool>"]
    with pytest.raises(KeyError):
        tokenizer.control("<tool>")


@pytest.mark.parametrize("build", [byte_level, sentencepiece])
@given(pieces=st.lists(st.sampled_from(["<s>", "</s>", "<|late|>", "<tool>", "<unk>", " ", "a▁b"])))
def test_no_text_becomes_an_added_token(build, pieces):
    tokenizer, text = ByteTokenizer.from_json(build().to_str(), {1}), "".join(pieces)
    ids = tokenizer.encode(text)
    assert set(tokenizer.added_tokens.values()).isdisjoint(ids)
    assert tokenizer.decode(ids) == text.encode()


def test_merges_that_make_a_control_token_are_left_out():
    """Else a text could write it after all."""
    found = content(byte_level())
    found["added_tokens"].append({**found["added_tokens"][0], "id": 256, "content": "ab"})
    tokenizer = ByteTokenizer.from_json(json.dumps(found), {256})
    assert 256 in tokenizer.special_ids
    assert [tokenizer.token_bytes[i] for i in tokenizer.encode("abab")] == [b"a", b"b"] * 2


@pytest.mark.parametrize("special", [True, False])
def test_added_token_is_none_that_a_text_can_spell(special):
    """Not by another name for its id, nor by merges or a whole word of its own name."""
    entry = {**content(byte_level())["added_tokens"][0], "special": special}
    renamed, merged = content(byte_level()), content(byte_level())
    renamed["added_tokens"].append({**entry, "id": 256, "content": "<|end|>"})
    merged["added_tokens"].append({**entry, "id": 256, "content": "ab"})
    merged["model"]["ignore_merges"] = True
    for found in (renamed, merged):
        tokenizer = ByteTokenizer.from_json(json.dumps(found), {256})
        assert [tokenizer.token_bytes[i] for i in tokenizer.encode("abab")] == [b"a", b"b"] * 2
        assert 256 not in tokenizer.encode("ab")
        name = found["added_tokens"][-1]["content"].encode()
        assert tokenizer.token_bytes[256] == (b"" if special else name)


def test_byte_that_is_a_control_token_leaves_the_vocabulary_incomplete():
    """Characters with that byte would be dropped without a word."""
    found = content(sentencepiece())
    found["added_tokens"].append({**found["added_tokens"][0], "id": 67, "content": "<0x41>"})
    with pytest.raises(EngineError, match="every byte"):
        take_apart(json.dumps(found))


PREFIXES = [
    (byte_level(), "never"),
    (byte_level(add_prefix_space=True), "always"),
    *(
        (pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False), scheme)
        for scheme in ("never", "first", "always")
    ),
    (normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), "legacy"),
    (normalizers.Replace(" ", "▁"), "never"),
]


@pytest.mark.parametrize(("part", "prefix"), PREFIXES)
def test_space_before_a_text_is_reported_and_taken_out(part, prefix):
    """However the file says it."""
    tokenizer = part
    if not isinstance(part, Tokenizer):
        tokenizer = sentencepiece()
        kind = "normalizer" if isinstance(part, normalizers.Normalizer) else "pre_tokenizer"
        setattr(tokenizer, kind, part)
    read = ByteTokenizer.from_json(tokenizer.to_str(), {1})
    assert read.space_prefix == prefix
    for text in ("a", " a", "  a b"):
        assert read.decode(read.encode(text)) == text.encode()


def test_old_way_to_write_metaspace_is_understood():
    tokenizer = sentencepiece()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    found = content(tokenizer)
    found["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    read = ByteTokenizer.from_json(json.dumps(found), {1})
    assert read.space_prefix == "always"
    assert read.decode(read.encode("a b")) == b"a b"


def test_normaliser_that_would_change_the_text_is_left_out():
    """NFC would spell a label otherwise than its owner does."""
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    read = ByteTokenizer.from_json(tokenizer.to_str(), {259})
    assert read.decode(read.encode("e\u0301")) == b"e\xcc\x81"


def other(change: str) -> Tokenizer:
    tokenizer = byte_level()
    match change:
        case "Unigram":
            tokenizer = Tokenizer(models.Unigram([("a", 0.0)], unk_id=0))
        case "WordPiece":
            tokenizer = Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1}))
        case "dropout":
            tokenizer.model.dropout = 0.1
        case "end_of_word_suffix":
            tokenizer.model.end_of_word_suffix = "</w>"
        case "Lowercase":
            tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase()])
        case "Strip":
            tokenizer.normalizer = normalizers.Strip()
        case "Whitespace":
            splits = [pre_tokenizers.Whitespace(), tokenizer.pre_tokenizer]
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
        case "Split":
            splits = [pre_tokenizers.Split(" ", "removed"), tokenizer.pre_tokenizer]
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(splits)
        case "byte-level":
            tokenizer.pre_tokenizer = pre_tokenizers.Digits()
    return tokenizer


@pytest.mark.parametrize(
    "change",
    [
        "Unigram",
        "WordPiece",
        "dropout",
        "end_of_word_suffix",
        "Lowercase",
        "Strip",
        "Whitespace",
        "Split",
        "byte-level",
    ],
)
def test_tokenizer_that_would_lose_or_change_text_is_refused(change):
    with pytest.raises(EngineError, match=change):
        take_apart(other(change).to_str())


def test_refusal_is_no_damage(tmp_path):
    """The one says what is not supported, the other that a download went wrong."""
    path = tmp_path / "tokenizer.json"
    path.write_text(other("Strip").to_str())
    with pytest.raises(EngineError) as refused:
        ByteTokenizer.load(path, {0})
    assert not isinstance(refused.value, ModelCorrupt)
    for damaged in ("", "{}", '{"model": {}}', "null"):
        path.write_text(damaged)
        with pytest.raises(ModelCorrupt, match=r"tokenizer\.json"):
            ByteTokenizer.load(path, {0})


def test_model_narrower_than_its_tokenizer_is_refused():
    text = byte_level().to_str()
    assert ByteTokenizer.from_json(text, {259}, vocab_size=300).token_bytes[262:] == [b""] * 38
    with pytest.raises(EngineError, match="262 tokens"):
        ByteTokenizer.from_json(text, {259}, vocab_size=261)


@pytest.mark.filterwarnings("default")  # transformers' own
def test_tokenizer_of_transformers_is_the_same_one():
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="<s>")
    read = ByteTokenizer.from_transformers(fast, eos_ids=[260])
    assert read.eos_ids == {259, 260}
    assert read.encode("ab ab") == fast.encode("ab ab", add_special_tokens=False)
    assert read.control("<|late|>") == 260
    with pytest.raises(EngineError, match="no end-of-text token"):
        ByteTokenizer.from_transformers(PreTrainedTokenizerFast(tokenizer_object=byte_level()))
    with pytest.raises(EngineError, match="object is no fast tokenizer"):
        ByteTokenizer.from_transformers(object())
