"""GGUF files: every kind of weight, every known tokenizer; nothing that would be read wrongly."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from random import Random

import numpy
import pytest
import torch
from dequantisation import BLOCKS, FACTORS, weights
from gguf import GGMLQuantizationType as Kind
from gguf import TokenType
from gguf_files import FIELDS, HEADS, HIDDEN, SHAPES, TOKENS, write
from tokenizers import Tokenizer

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.models.checkpoint import Checkpoint
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.gguf import read_gguf
from weighbridge.local_engine.models.gguf_tokenizer import tokenizer_json
from weighbridge.local_engine.models.load import load_generator
from weighbridge.local_engine.tokenizer import ByteTokenizer

PLAIN_KINDS = (Kind.F32, Kind.F16, Kind.BF16)


def stored(kind: Kind, shape: tuple[int, int], seed: int = 0) -> numpy.ndarray:
    """Random bytes of a kind; only the factors are numbers of a sensible size."""
    random, (size, decode) = Random(seed), BLOCKS[kind]
    per_block = len(decode(bytes(size)))
    blocks = []
    for _ in range(shape[0] * shape[1] // per_block):
        block = bytearray(random.randbytes(size))
        if kind in PLAIN_KINDS:
            value = random.uniform(-2, 2)
            block[:] = {
                Kind.F32: struct.pack("<f", value),
                Kind.F16: struct.pack("<e", value),
                Kind.BF16: struct.pack("<f", value)[2:],
            }[kind]
        else:
            for at in FACTORS[kind]:
                struct.pack_into("<e", block, at, random.uniform(-0.1, 0.1))
        blocks.append(bytes(block))
    data = numpy.frombuffer(b"".join(blocks), numpy.uint8).reshape(shape[0], -1)
    plain = {Kind.F32: numpy.float32, Kind.F16: numpy.float16}.get(kind)
    return data if plain is None else data.view(plain)


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.name)
def test_weights_are_what_the_format_says(tmp_path, kind):
    """Of every kind that is read, weight by weight."""
    shape = SHAPES["blk.0.attn_v"]
    data = stored(kind, shape)
    path = write(tmp_path / "tiny.gguf", tensors={"blk.0.attn_v": (data, kind)})
    found = read_gguf(path).tensors["model.layers.0.self_attn.v_proj.weight"]
    wanted = torch.tensor(weights(kind, data.tobytes())).view(shape)
    assert found.shape == shape
    torch.testing.assert_close(found.read(), wanted, rtol=1e-5, atol=1e-6)
    assert wanted.abs().max() > 0.5


def test_kinds_that_are_not_known_to_be_right_are_refused(tmp_path):
    data = numpy.zeros((HIDDEN // 2, 84), numpy.uint8)
    path = write(tmp_path / "tiny.gguf", tensors={"blk.0.attn_v": (data, Kind.Q2_K)})
    with pytest.raises(EngineError, match=r"attn_v\.weight' is quantised as Q2_K"):
        read_gguf(path)


def test_query_and_key_rows_turn_in_halves(tmp_path):
    """GGUF pairs rows 2i and 2i + 1 of a head, the forward pass rows i and i + D/2."""
    size = HIDDEN // HEADS
    rows = numpy.arange(HIDDEN, dtype=numpy.float32)[:, None].repeat(HIDDEN, 1)
    path = write(tmp_path / "tiny.gguf", tensors={"blk.0.attn_q": (rows, Kind.F32)})
    read = read_gguf(path).tensors["model.layers.0.self_attn.q_proj.weight"].read()[:, 0]
    for head in read.view(HEADS, size):
        assert torch.equal(head[: size // 2] + 1, head[size // 2 :])


def test_every_tensor_is_read_into_memory_of_its_own(tmp_path):
    """Converting overwrites what it has read."""
    tensor = read_gguf(write(tmp_path / "tiny.gguf")).tensors["model.norm.weight"]
    tensor.read().fill_(1.0)
    assert tensor.read().sum() == 0


def test_numbers_are_those_of_the_file(tmp_path):
    path = write(tmp_path / "tiny.gguf", {"llama.rope.freq_base": 500_000.0})
    numbers = dict(read_gguf(path).llama)
    assert numbers.pop("norm_eps") == pytest.approx(1e-5)
    assert numbers == {
        "num_layers": 1,
        "hidden_size": HIDDEN,
        "num_heads": HEADS,
        "num_kv_heads": HEADS // 2,
        "head_size": HIDDEN // HEADS,
        "vocab_size": len(TOKENS),
        "max_positions": 64,
        "rope_base": 500_000.0,
    }


HARMLESS = {
    "llama.rope.scaling.type": "none",
    "llama.rope.scaling.factor": 1.0,
    "llama.rope.dimension_count": HIDDEN // HEADS,
    "llama.attention.key_length": HIDDEN // HEADS,
    "llama.attention.value_length": HIDDEN // HEADS,
    "llama.attention.scale": (HIDDEN // HEADS) ** -0.5,
    "llama.attention.sliding_window": 0,
    "llama.expert_count": 0,
    "llama.vocab_size": len(TOKENS),
}
HARMFUL = {
    "general.architecture": "qwen2",
    "llama.rope.scaling.type": "yarn",
    "llama.rope.scaling.factor": 4.0,
    "llama.rope.scale_linear": 2.0,
    "llama.rope.dimension_count": HIDDEN // HEADS // 2,
    "llama.attention.value_length": 2 * HIDDEN // HEADS,
    "llama.attention.scale": 0.5,
    "llama.attention.sliding_window": 32,
    "llama.attention.causal": False,
    "llama.expert_count": 8,
    "llama.logit_scale": 0.5,
    "llama.attention.head_count_kv": [2, 4],
    "tokenizer.ggml.model": "bert",
    "tokenizer.ggml.pre": "tekken",
}


def test_keys_that_change_nothing_are_accepted(tmp_path):
    plain = read_gguf(write(tmp_path / "plain.gguf")).llama
    assert read_gguf(write(tmp_path / "more.gguf", HARMLESS)).llama == plain


@pytest.mark.parametrize("key", HARMFUL)
def test_key_that_the_forward_pass_does_not_know_is_refused(tmp_path, key):
    """By its name or its value."""
    fields = {key: HARMFUL[key]}
    if key == "general.architecture":
        fields |= {k.replace("llama.", "qwen2."): v for k, v in FIELDS.items() if "llama." in k}
    with pytest.raises(EngineError, match=f"{key}|{HARMFUL[key]}") as caught:
        read_gguf(write(tmp_path / "tiny.gguf", fields))
    assert not isinstance(caught.value, ModelCorrupt)


@pytest.mark.parametrize("key", ["llama.block_count", "tokenizer.ggml.tokens"])
def test_missing_key_is_corrupt_and_named(tmp_path, key):
    with pytest.raises(ModelCorrupt, match=key):
        read_gguf(write(tmp_path / "tiny.gguf", {key: None}))


def test_rotary_frequencies_may_only_be_the_usual_ones(tmp_path):
    """Llama 3.1 stretches its positions with them."""
    ones = numpy.ones(HIDDEN // HEADS // 2, numpy.float32)
    read_gguf(write(tmp_path / "ones.gguf", tensors={"rope_freqs": (ones, Kind.F32)}))
    path = write(tmp_path / "more.gguf", tensors={"rope_freqs": (ones * 8, Kind.F32)})
    with pytest.raises(EngineError, match="rope_freqs"):
        read_gguf(path)


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "blk.1.ffn_up", "blk.0.ffn_gate_exps"])
def test_tensor_of_no_llama_is_refused(tmp_path, name):
    """It must not go unread."""
    more = numpy.zeros((HIDDEN, HIDDEN), numpy.float32)
    path = write(tmp_path / "tiny.gguf", tensors={name: (more, Kind.F32)})
    with pytest.raises(EngineError, match=r"attn_q\.bias|layers\.1\.mlp\.up_proj|ffn_gate_exps"):
        converted(path, tmp_path / "cache", "float32")


def test_padded_vocabulary_is_as_wide_as_the_embedding(tmp_path):
    """Its last rows spell nothing, and no text becomes one of them."""
    embedding = numpy.zeros((32, HIDDEN), numpy.float32)
    path = write(tmp_path / "tiny.gguf", tensors={"token_embd": (embedding, Kind.F32)})
    generator = load_generator(converted(path, tmp_path / "cache", "float32"))
    hidden, _ = generator.model.forward(torch.tensor([3, 31]), generator.model.empty_cache())
    assert generator.model.logits(hidden).shape == (2, 32)
    assert generator.tokenizer.vocab_size == 32
    assert set(generator.tokenizer.token_bytes[len(TOKENS) :]) == {b""}


def test_embedding_of_fewer_rows_than_tokens_is_refused(tmp_path):
    embedding = numpy.zeros((5, HIDDEN), numpy.float32)
    path = write(tmp_path / "tiny.gguf", tensors={"token_embd": (embedding, Kind.F32)})
    with pytest.raises(EngineError, match="9 tokens"):
        load_generator(converted(path, tmp_path / "cache", "float32"))


def read_tokenizer(checkpoint: Checkpoint) -> ByteTokenizer:
    return ByteTokenizer.from_json(checkpoint.tokenizer, checkpoint.eos_ids)


def test_tokens_of_each_kind_stand_for_what_they_should(tmp_path):
    """Control and unused ones for nothing, user-defined ones for their name; none comes of text."""
    tokenizer = read_tokenizer(read_gguf(write(tmp_path / "tiny.gguf")))
    assert tokenizer.special_ids == {0, 2}
    assert tokenizer.added_tokens == {"<|endoftext|>": 0, "<think>": 1, "[PAD]": 2}
    assert tokenizer.token_bytes[:3] == [b"", b"<think>", b""]
    assert tokenizer.encode("ab c") == [TOKENS.index("ab"), TOKENS.index("Ġc")]
    assert {0, 1, 2}.isdisjoint(tokenizer.encode("<think>[PAD]<|endoftext|>"))


def test_every_end_of_a_turn_ends_an_answer(tmp_path):
    """The file's own, its end of turn, and control tokens known to end one; no plain text does."""
    tokens = ["<|eot_id|>", "<|im_end|>", "</s>", *TOKENS[3:]]
    types = [int(TokenType.CONTROL)] * 2 + [int(TokenType.NORMAL)] * (len(tokens) - 2)
    fields = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.eot_token_id": 4,
    }
    path = write(tmp_path / "tiny.gguf", {**fields, "tokenizer.ggml.bos_token_id": 1})
    checkpoint = read_gguf(path)
    assert checkpoint.eos_ids == {0, 1, 3, 4}
    assert (checkpoint.bos_token, checkpoint.eos_token) == ("<|im_end|>", "a")


@pytest.mark.parametrize(
    ("fields", "adds"),
    [
        ({}, False),
        ({"tokenizer.ggml.add_bos_token": True}, True),
        ({"tokenizer.ggml.pre": "llama-bpe"}, True),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, False),
    ],
)
def test_text_is_read_after_a_begin_of_text_where_the_kind_or_the_file_says_so(
    tmp_path, fields, adds
):
    path = write(tmp_path / "tiny.gguf", {"tokenizer.ggml.bos_token_id": 0, **fields})
    assert read_gguf(path).adds_bos is adds
    assert not read_gguf(write(tmp_path / "none.gguf", fields)).adds_bos


TEXT = "I'LL pay 12345€ for  a+b.\n\n  OK it's"
# As llama.cpp splits it.
SPLITS = {
    "gpt-2": "I|'|LL| pay| 12345|€| for| | a|+|b|.|\n\n | OK| it|'s",
    "smollm": "I|'|LL| pay| |1|2|3|4|5|€| for| | a|+|b|.|\n\n | OK| it|'s",
    "llama-bpe": "I|'LL| pay| |123|45|€| for| | a|+b|.\n\n| | OK| it|'s",
    "qwen2": "I|'LL| pay| |1|2|3|4|5|€| for| | a|+b|.\n\n| | OK| it|'s",
    "default": "I|'|LL| pay| |123|45|€| for| | a|+|b|.|\n\n | OK| it|'|s",
}


def pieces(pre: str, text: str) -> Iterable[str]:
    fields = {**FIELDS, "tokenizer.ggml.pre": pre}
    splitter = Tokenizer.from_str(tokenizer_json(fields, Path("tiny.gguf"))).pre_tokenizer
    return [text[start:end] for _, (start, end) in splitter.pre_tokenize_str(text)]


@pytest.mark.parametrize("pre", SPLITS)
def test_text_is_split_as_the_name_of_the_pre_tokenizer_says(pre):
    assert pieces(pre, TEXT) == SPLITS[pre].split("|")


@pytest.mark.parametrize(
    ("pre", "wanted"), [("llama-bpe", ["word"]), ("gpt-2", ["w", "o", "r", "d"])]
)
def test_whole_word_that_is_a_token_needs_no_merges_in_llama_3(pre, wanted):
    tokens = ["<|end|>", "w", "o", "r", "d", "word"]
    fields = {
        **FIELDS,
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 1],
        "tokenizer.ggml.merges": [],
    }
    tokenizer = ByteTokenizer.from_json(tokenizer_json(fields, Path("tiny.gguf")), {0})
    assert [tokens[i] for i in tokenizer.encode("word")] == wanted
