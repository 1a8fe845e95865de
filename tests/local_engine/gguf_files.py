"""Tiny GGUF files whose every key and tensor a test may set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy
from gguf import GGMLQuantizationType as Kind
from gguf import TokenType

HIDDEN = INNER = 256  # a row is one block of the widest kinds
HEADS = 4
TOKENS = ("<|endoftext|>", "<think>", "[PAD]", "a", "b", "c", "Ġ", "ab", "Ġc")
TYPES = (
    TokenType.CONTROL,
    TokenType.USER_DEFINED,
    TokenType.UNUSED,
    *[TokenType.NORMAL] * (len(TOKENS) - 3),
)

SHAPES = {
    "token_embd": (len(TOKENS), HIDDEN),
    "output_norm": (HIDDEN,),
    "blk.0.attn_norm": (HIDDEN,),
    "blk.0.attn_q": (HIDDEN, HIDDEN),
    "blk.0.attn_k": (HIDDEN // 2, HIDDEN),
    "blk.0.attn_v": (HIDDEN // 2, HIDDEN),
    "blk.0.attn_output": (HIDDEN, HIDDEN),
    "blk.0.ffn_norm": (HIDDEN,),
    "blk.0.ffn_gate": (INNER, HIDDEN),
    "blk.0.ffn_up": (INNER, HIDDEN),
    "blk.0.ffn_down": (HIDDEN, INNER),
}

FIELDS: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 64,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": INNER,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": HEADS // 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": list(TOKENS),
    "tokenizer.ggml.token_type": [int(kind) for kind in TYPES],
    "tokenizer.ggml.merges": ["a b", "Ġ c"],
    "tokenizer.ggml.eos_token_id": 0,
}


def tokenizer_fields(tokens: Sequence[tuple[str, float, TokenType]], **more: Any) -> dict[str, Any]:
    """The keys of a SentencePiece tokenizer: tokens with scores and kinds."""
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [token for token, _, _ in tokens],
        "tokenizer.ggml.scores": [score for _, score, _ in tokens],
        "tokenizer.ggml.token_type": [int(kind) for _, _, kind in tokens],
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def write(
    path: Path,
    fields: Mapping[str, Any] | None = None,
    tensors: Mapping[str, tuple[numpy.ndarray, Kind]] | None = None,
) -> Path:
    """Write a model.

    Args:
        path: of the file.
        fields: keys to change; None leaves a key out.
        tensors: stored bytes and their kind, by name without `.weight`, in the place of zeros or
            beside what there is.
    """
    found = {**FIELDS, **(fields or {})}
    writer = gguf.GGUFWriter(path, found.pop("general.architecture"))
    for key, value in found.items():
        if value is not None:
            _ADDERS[type(value)](writer, key, value)
    zeros = {name: (numpy.zeros(shape, numpy.float32), Kind.F32) for name, shape in SHAPES.items()}
    for name, (data, kind) in {**zeros, **(tensors or {})}.items():
        full_name = name if name.endswith(".bias") else f"{name}.weight"
        writer.add_tensor(full_name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


_ADDERS = {
    bool: gguf.GGUFWriter.add_bool,
    int: gguf.GGUFWriter.add_uint32,
    float: gguf.GGUFWriter.add_float32,
    str: gguf.GGUFWriter.add_string,
    list: gguf.GGUFWriter.add_array,
}
