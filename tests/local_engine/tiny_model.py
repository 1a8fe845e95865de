"""A tiny random Llama over a small byte-level vocabulary, as objects and as a GGUF file.

The vocabulary is small enough to try every tokenization of a short text, and its merges are those
that make trouble: labels that share beginnings, and ends that merge with the closing quote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from weighbridge.local_engine.models.llama import Llama, LlamaConfig
from weighbridge.local_engine.tokenizer import ByteTokenizer

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_OF_TEXT_ID, END_OF_TURN_ID = 0, 2

_WORDS = (
    "bug",
    "bill",
    "billing",
    "report",
    "Ġthe",
    "low",
    "high",
    '."',
    '!"',
    '"}',
    '",',
    '":',
    'Ġ"',
)


def vocabulary(missing: Iterable[str] = ()) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens by id, control tokens first, and merges; `missing` characters stand for no token."""
    characters = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(missing))
    merges: dict[tuple[str, str], None] = {}
    for word in _WORDS:
        for end in range(1, len(word)):
            merges[word[:end], word[end]] = None
    joined = dict.fromkeys(left + right for left, right in merges)
    return [*SPECIALS, *characters, *joined], list(merges)


def tiny_tokenizer(missing: Iterable[str] = ()) -> ByteTokenizer:
    tokens, merges = vocabulary(missing)
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    ends = frozenset({END_OF_TEXT_ID, END_OF_TURN_ID})
    return ByteTokenizer(bpe, special_ids=frozenset(range(len(SPECIALS))), eos_ids=ends)


CONFIG = LlamaConfig(
    num_layers=2,
    hidden_size=32,
    num_heads=4,
    num_kv_heads=2,
    head_size=8,
    vocab_size=len(vocabulary()[0]),
    max_positions=4096,
    rope_base=1_000.0,
    norm_eps=1e-5,
)
INNER_SIZE = 64


def tiny_weights(seed: int = 0, *, tied: bool = True) -> dict[str, Tensor]:
    """Random weights, large enough that the model has strong opinions."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) * 0.3

    c = CONFIG
    queries, keys = c.num_heads * c.head_size, c.num_kv_heads * c.head_size
    weights = {
        "model.embed_tokens.weight": random(c.vocab_size, c.hidden_size),
        "model.norm.weight": 1 + random(c.hidden_size),
    }
    if not tied:
        weights["lm_head.weight"] = random(c.vocab_size, c.hidden_size)
    for index in range(c.num_layers):
        layer = {
            "input_layernorm": 1 + random(c.hidden_size),
            "self_attn.q_proj": random(queries, c.hidden_size),
            "self_attn.k_proj": random(keys, c.hidden_size),
            "self_attn.v_proj": random(keys, c.hidden_size),
            "self_attn.o_proj": random(c.hidden_size, queries),
            "post_attention_layernorm": 1 + random(c.hidden_size),
            "mlp.gate_proj": random(INNER_SIZE, c.hidden_size),
            "mlp.up_proj": random(INNER_SIZE, c.hidden_size),
            "mlp.down_proj": random(c.hidden_size, INNER_SIZE),
        }
        weights.update({f"model.layers.{index}.{k}.weight": w for k, w in layer.items()})
    return weights


def fused(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights by the names that `Llama` reads: matrices of one input lie together."""
    joined = dict(weights)
    for index in range(CONFIG.num_layers):
        layer = f"model.layers.{index}."
        for name, parts in (
            ("self_attn.qkv_proj", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
            ("mlp.gate_up_proj", ("mlp.gate_proj", "mlp.up_proj")),
        ):
            rows = [joined.pop(f"{layer}{part}.weight") for part in parts]
            joined[f"{layer}{name}.weight"] = torch.cat(rows)
    return joined


def tiny_llama(seed: int = 0, *, part_tokens: int = 256) -> Llama:
    return Llama(CONFIG, fused(tiny_weights(seed)), part_tokens=part_tokens)


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    path: Path,
    weights: Mapping[str, Tensor],
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    *,
    architecture: str = "llama",
    pre_tokenizer: str = "smollm",
) -> None:
    """Write a model as llama.cpp's own converter would: its names, its row order."""
    writer = gguf.GGUFWriter(path, architecture)
    _add_numbers(writer)
    tokens, merges = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if token in SPECIALS else normal for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(END_OF_TURN_ID)
    for name, tensor in weights.items():
        stored = _interleaved(name, tensor).numpy()
        if stored.ndim == 1:  # norms are never quantized
            writer.add_tensor(_gguf_name(name), stored)
        else:
            data = gguf.quants.quantize(stored, kind)
            writer.add_tensor(_gguf_name(name), data, raw_dtype=kind)
    writer.add_tensor("rope_freqs.weight", numpy.ones(CONFIG.head_size // 2, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rounded(tensor: Tensor, kind: gguf.GGMLQuantizationType) -> Tensor:
    """What is left of a weight matrix after quantization."""
    if tensor.ndim == 1:
        return tensor
    stored: Any = gguf.quants.quantize(tensor.numpy(), kind)
    return torch.from_numpy(gguf.quants.dequantize(stored, kind))


def _add_numbers(writer: gguf.GGUFWriter) -> None:
    c = CONFIG
    writer.add_block_count(c.num_layers)
    writer.add_context_length(c.max_positions)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(INNER_SIZE)
    writer.add_head_count(c.num_heads)
    writer.add_head_count_kv(c.num_kv_heads)
    writer.add_rope_dimension_count(c.head_size)
    writer.add_rope_freq_base(c.rope_base)
    writer.add_layer_norm_rms_eps(c.norm_eps)


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem.startswith("model.layers."):
        _, _, layer, rest = stem.split(".", 3)
        return f"blk.{layer}.{_GGUF_NAMES[rest]}.weight"
    return f"{_GGUF_NAMES[stem]}.weight"


def _interleaved(name: str, tensor: Tensor) -> Tensor:
    """Query and key rows in the order of interleaved rotary positions."""
    heads = {"q_proj": CONFIG.num_heads, "k_proj": CONFIG.num_kv_heads}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    rows, columns = tensor.shape
    halves = tensor.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns).contiguous()
