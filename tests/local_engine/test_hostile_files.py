"""Model files that lie: an error names file and fault, and no memory is filled, no time lost."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gguf_files
import numpy
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from tiny_model import CONFIG, SPECIALS, tiny_tokenizer, tiny_weights
from tokenizers import AddedToken, Tokenizer

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.gguf import read_gguf
from weighbridge.local_engine.models.load import load_generator

ABSURD = (2**63, 2**64 - 1, 2**32, 2**31 - 1, 2**24)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def gguf_bytes(scratch: Path) -> bytes:
    return gguf_files.write(scratch / "whole.gguf").read_bytes()


def header_size(content: bytes) -> int:
    """All but the tensors, which end the file."""
    sizes = [numpy.prod(shape) * 4 for shape in gguf_files.SHAPES.values()]
    return len(content) - int(sum(sizes))


def read_or_refused(path: Path, read: Callable[[Path], object] = read_gguf) -> str:
    """What was said of the file, which must name it; nothing if it was read."""
    try:
        read(path)
    except EngineError as error:
        said = str(error)
    else:
        return ""
    assert path.name in said
    assert len(said) < len(str(path)) + 500
    return said


def convert_and_load(path: Path) -> None:
    load_generator(converted(path, path.parent / "cache", "float32"))


def test_gguf_cut_short_anywhere_in_its_header_is_corrupt(scratch, gguf_bytes):
    path = scratch / "short.gguf"
    for size in range(0, header_size(gguf_bytes), 3):
        path.write_bytes(gguf_bytes[:size])
        with pytest.raises(ModelCorrupt, match=r"short\.gguf"):
            read_gguf(path)


def test_gguf_cut_short_anywhere_in_its_tensors_is_corrupt(scratch, gguf_bytes):
    path, start = scratch / "short.gguf", header_size(gguf_bytes)
    for size in (start, *numpy.linspace(start + 1, len(gguf_bytes) - 1, 50, dtype=int)):
        path.write_bytes(gguf_bytes[:size])
        with pytest.raises(ModelCorrupt, match=r"short\.gguf: the tensor .* is not in the file"):
            read_gguf(path)


@settings(max_examples=400)
@given(
    at=st.floats(0, 1, exclude_max=True),
    new=st.binary(min_size=1, max_size=8)
    | st.sampled_from([struct.pack("<Q", n) for n in ABSURD])
    | st.sampled_from([struct.pack("<I", n) for n in (0, 2**31, 2**32 - 1)]),
)
@example(at=8 / 1500, new=struct.pack("<Q", 2**64 - 1))
def test_gguf_with_other_bytes_in_its_header_is_read_or_refused(scratch, gguf_bytes, at, new):
    path, start = scratch / "changed.gguf", int(at * header_size(gguf_bytes))
    path.write_bytes(gguf_bytes[:start] + new + gguf_bytes[start + len(new) :])
    read_or_refused(path)


def gguf_header(*values: bytes, num_tensors: int = 0, num_fields: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_fields) + b"".join(values)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


@pytest.mark.parametrize("count", ABSURD)
@pytest.mark.parametrize("kind", range(13))
def test_array_that_claims_more_than_the_file_holds_is_corrupt(scratch, count, kind):
    """At once: it is not read element by element until memory is full."""
    path = scratch / "array.gguf"
    claimed = struct.pack("<IIQ", 9, kind, count)
    path.write_bytes(gguf_header(text("general.big"), claimed, b"\0" * 100))
    with pytest.raises(ModelCorrupt, match=r"array\.gguf"):
        read_gguf(path)


@pytest.mark.parametrize("count", ABSURD)
def test_counts_of_keys_tensors_and_characters_are_held_against_the_file(scratch, count):
    path = scratch / "count.gguf"
    for content in (
        gguf_header(num_fields=count),
        gguf_header(num_fields=0, num_tensors=count),
        gguf_header(struct.pack("<Q", count)),
        gguf_header(text("a"), struct.pack("<IQ", 8, count)),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelCorrupt, match=r"count\.gguf: ends after"):
            read_gguf(path)


@pytest.mark.parametrize(
    ("shape", "offset"),
    [
        ((2**63, 2), 0),
        ((2**32, 2**32), 0),
        ((0, 2**40), 0),
        ((4,), 2**64 - 16),
        ((4,), 2**63),
        ((), 0),
        ((1,) * 5, 0),
    ],
)
def test_tensor_that_cannot_be_in_the_file_is_corrupt(scratch, shape, offset):
    path = scratch / "tensor.gguf"
    place = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
    content = gguf_header(text("output_norm.weight"), place, num_tensors=1, num_fields=0)
    path.write_bytes(content + b"\0" * 200)
    with pytest.raises(ModelCorrupt, match=r"tensor\.gguf: the tensor 'output_norm"):
        read_gguf(path)


def test_name_that_stands_there_twice_is_corrupt(scratch):
    """One of the two would go unread."""
    path = scratch / "twice.gguf"
    field = text("general.name") + struct.pack("<II", 4, 1)
    path.write_bytes(gguf_header(field, field, num_fields=2))
    with pytest.raises(ModelCorrupt, match=r"'general\.name' stands there twice"):
        read_gguf(path)
    place = text("output_norm.weight") + struct.pack("<IQIQ", 1, 4, 0, 0)
    path.write_bytes(gguf_header(place, place, num_tensors=2, num_fields=0) + b"\0" * 200)
    with pytest.raises(ModelCorrupt, match=r"'output_norm\.weight' stands there twice"):
        read_gguf(path)


WRONG: tuple[Any, ...] = (0, -1, 2**40, float("nan"), "x", True, [1, 2], ["a"])
UNUSED = ("general.architecture", "llama.feed_forward_length")
KEYS = [key for key in gguf_files.FIELDS if key not in UNUSED]
MORE_KEYS = ["llama.attention.key_length", "llama.rope.freq_base", "tokenizer.ggml.bos_token_id"]


@pytest.mark.parametrize("key", [*KEYS, *MORE_KEYS, "tokenizer.chat_template"])
def test_value_of_the_wrong_kind_or_size_is_refused_or_harmless(scratch, key, monkeypatch):
    """Before anything is converted, and never as an error of another library."""
    import gguf

    monkeypatch.setitem(gguf_files._ADDERS, int, gguf.GGUFWriter.add_int64)
    for value in WRONG:
        path = gguf_files.write(scratch / "value.gguf", {key: value})
        read_or_refused(path, convert_and_load)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", gguf_files.SHAPES)
def test_tensor_of_another_shape_is_corrupt_before_anything_is_written(scratch, name, precision):
    path = scratch / "shape.gguf"
    rows, *columns = gguf_files.SHAPES[name]
    for shape in ((rows + 32, *columns), (rows, *(c + 32 for c in columns), 32), (32,)):
        data = numpy.zeros(shape, numpy.float32)
        gguf_files.write(path, tensors={name: (data, Kind.F32)})
        if name == "token_embd" and shape == (rows + 32, *columns):
            continue  # padding
        with pytest.raises(ModelCorrupt, match=r"shape\.gguf: .*(shape|is missing)"):
            converted(path, scratch / "shapes", precision)
    assert not (scratch / "shapes").exists()


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_weights_that_are_not_finite_are_named_with_their_file(scratch, precision):
    data = numpy.full(gguf_files.SHAPES["blk.0.attn_k"], numpy.nan, numpy.float32)
    path = gguf_files.write(scratch / "nan.gguf", tensors={"blk.0.attn_k": (data, Kind.F32)})
    with pytest.raises(ModelCorrupt, match=r"nan\.gguf: model\.layers\.0\.self_attn\.qkv_proj"):
        converted(path, scratch / "cache", precision)


def test_embedding_of_fewer_rows_than_tokens_is_refused_in_every_precision(scratch):
    """int8 would look tokens of its sample up beyond the end."""
    embedding = numpy.zeros((5, gguf_files.HIDDEN), numpy.float32)
    path = gguf_files.write(scratch / "few.gguf", tensors={"token_embd": (embedding, Kind.F32)})
    for precision in ("float32", "int8"):
        with pytest.raises(EngineError, match=r"few\.gguf: the tokenizer has 9 tokens"):
            converted(path, scratch / "cache", precision)


def test_begin_of_text_that_is_no_control_token_is_refused(scratch):
    more = {"tokenizer.ggml.bos_token_id": 3, "tokenizer.ggml.add_bos_token": True}
    path = gguf_files.write(scratch / "bos.gguf", more)
    with pytest.raises(EngineError, match=r"bos\.gguf: 'a'"):
        converted(path, scratch / "cache", "float32")


def test_very_long_piece_of_a_vocabulary_takes_no_time(scratch):
    """Trying each way to cut it takes the square of its length."""
    from gguf import TokenType

    bytes_of_all = [(f"<0x{byte:02X}>", 0.0, TokenType.BYTE) for byte in range(256)]
    tokens = [("</s>", 0.0, TokenType.CONTROL), ("a" * 1_000_000, -1.0, TokenType.NORMAL)]
    fields = gguf_files.tokenizer_fields([*tokens, *bytes_of_all])
    embedding = numpy.zeros((258, gguf_files.HIDDEN), numpy.float32)
    path = gguf_files.write(
        scratch / "long.gguf", fields, tensors={"token_embd": (embedding, Kind.F32)}
    )
    assert read_gguf(path).eos_ids == {0}


NUMBERS: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": CONFIG.hidden_size,
    "num_hidden_layers": CONFIG.num_layers,
    "num_attention_heads": CONFIG.num_heads,
    "num_key_value_heads": CONFIG.num_kv_heads,
    "head_dim": CONFIG.head_size,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
    "rope_parameters": None,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
}


@cache
def safetensors_bytes() -> bytes:
    return save(tiny_weights())


@pytest.fixture(scope="module")
def folder(scratch: Path) -> Path:
    folder = scratch / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(NUMBERS))
    (folder / "model.safetensors").write_bytes(safetensors_bytes())
    whole = Tokenizer.from_str(tiny_tokenizer()._tokenizer.to_str())
    whole.add_special_tokens([AddedToken(token) for token in SPECIALS])
    whole.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    return folder


JSON_FILES = ("config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json")
JSON_WRONG = (*WRONG, None, {}, {"rope_type": []}, [[]], 1e400, 10**30)


def said_with(folder: Path, name: str, content: str | bytes) -> str:
    """What is said of a folder in which one file is another; the old one is put back."""
    path = folder / name
    old = path.read_bytes() if path.exists() else None
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    try:
        return read_or_refused(folder, convert_and_load)
    finally:
        path.unlink()
        if old is not None:
            path.write_bytes(old)


def test_folder_that_is_whole_is_read(folder):
    convert_and_load(folder)


@pytest.mark.parametrize("key", NUMBERS)
def test_setting_of_the_wrong_kind_or_size_is_refused_or_harmless(folder, key):
    for value in JSON_WRONG:
        said_with(folder, "config.json", json.dumps({**NUMBERS, key: value}))


@pytest.mark.parametrize("name", JSON_FILES)
@pytest.mark.parametrize(
    "content", ["[" * 100_000, "null", "[1]", '{"added_tokens": 1}', "9" * 5000, b"\xff\xfe", b""]
)
def test_json_that_is_something_else_is_corrupt(folder, name, content):
    said_with(folder, name, content)


def test_safetensors_cut_short_anywhere_is_corrupt(folder):
    whole = safetensors_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for size in (*range(0, header, 37), header, *range(header + 1, len(whole), 5_000)):
        said = said_with(folder, "model.safetensors", whole[:size])
        assert "not a readable model" in said


@settings(max_examples=100)
@given(at=st.floats(0, 1, exclude_max=True), new=st.binary(min_size=1, max_size=8))
def test_safetensors_with_other_bytes_in_its_header_is_read_or_refused(folder, at, new):
    whole = safetensors_bytes()
    start = int(at * (8 + int.from_bytes(whole[:8], "little")))
    changed = whole[:start] + new + whole[start + len(new) :]
    said_with(folder, "model.safetensors", changed)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bool, torch.uint8])
def test_safetensors_of_a_type_that_is_no_weight_is_refused(folder, dtype):
    tensors = {name: tensor.to(dtype) for name, tensor in tiny_weights().items()}
    assert "is stored as" in said_with(folder, "model.safetensors", save(tensors))
