"""A model of the Llama family in a GGUF file.

What the file asks for and the forward pass does not do is refused by name: a model that would be
read wrongly is not read at all.

Source: the GGUF specification (ggml, docs/gguf.md) and the tensor names of llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.models.checkpoint import (
    TURN_ENDS,
    Checkpoint,
    StoredTensor,
    damage_named,
    positive_number,
    whole_number,
)
from weighbridge.local_engine.models.gguf_file import GgufTensor, open_gguf
from weighbridge.local_engine.models.gguf_tokenizer import CONTROL, reads_bos, tokenizer_json

_KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")

_TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

_BLOCK_ROWS = 4096  # dequantising makes several copies of what it works on


def read_gguf(path: Path) -> Checkpoint:
    """Read everything but the weights, and find out where those are.

    Raises:
        ModelCorrupt: the file is no readable GGUF.
        EngineError: a readable GGUF of a model that cannot be read exactly.
    """
    with damage_named(path):
        fields, tensors = open_gguf(path)
        return _checkpoint(fields, tensors, path)


def _checkpoint(fields: dict[str, Any], stored: list[GgufTensor], path: Path) -> Checkpoint:
    _refuse_what_differs(fields, path)
    numbers = _numbers(fields, path)
    tensors = dict(_tensors(stored, numbers, path))
    numbers["vocab_size"] = tensors["model.embed_tokens.weight"].shape[0]
    tokenizer = tokenizer_json(fields, path)
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    eos_id = fields["tokenizer.ggml.eos_token_id"]
    ends = {i for i, t in enumerate(tokens) if t in TURN_ENDS and kinds[i] == CONTROL}
    bos_id = fields.get("tokenizer.ggml.bos_token_id")
    return Checkpoint(
        path=path,
        llama=numbers,
        tensors=tensors,
        tokenizer=tokenizer,
        # An answer may end with the model's own end of turn or with the end of text.
        eos_ids=frozenset({eos_id, fields.get("tokenizer.ggml.eot_token_id", eos_id), *ends}),
        chat_template=str(fields.get("tokenizer.chat_template", "")),
        bos_token="" if bos_id is None else _token(tokens, bos_id, path),
        eos_token=_token(tokens, eos_id, path),
        adds_bos=bos_id is not None and reads_bos(fields),
    )


def _token(tokens: list[str], token_id: Any, path: Path) -> str:
    if type(token_id) is not int or not 0 <= token_id < len(tokens):
        raise ModelCorrupt(str(path), f"{_shown(token_id)} is no id of its {len(tokens)} tokens")
    return tokens[token_id]


def _refuse_what_differs(fields: dict[str, Any], path: Path) -> None:
    if fields["general.architecture"] != "llama":
        raise EngineError(
            f"{path}: architecture {_shown(fields['general.architecture'])} is not llama"
        )
    for key in ("llama.attention.head_count", "llama.attention.head_count_kv"):
        if isinstance(fields.get(key), list):
            raise EngineError(f"{path}: {key} differs by layer; not supported")
    head_size = _numbers(fields, path)["head_size"]
    usual: dict[str, Any] = {  # what a key may say without any effect on a Llama
        "llama.rope.scaling.type": "none",
        "llama.rope.scaling.factor": 1.0,
        "llama.rope.scale_linear": 1.0,
        "llama.rope.dimension_count": head_size,
        "llama.attention.value_length": head_size,
        "llama.attention.causal": True,
        "llama.attention.scale": head_size**-0.5,
        "llama.attention.sliding_window": 0,
        "llama.expert_count": 0,
        "llama.logit_scale": 1.0,
        "llama.residual_scale": 1.0,
        "llama.embedding_scale": 1.0,
    }
    for key, value in usual.items():
        found = fields.get(key, value)
        is_close = isinstance(found, float) and math.isclose(found, value, rel_tol=1e-6)
        if found != value and not is_close:
            raise EngineError(f"{path}: {key} = {_shown(found)} is not supported")


def _numbers(fields: dict[str, Any], path: Path) -> dict[str, int | float]:
    hidden = whole_number(path, fields, "llama.embedding_length")
    heads = whole_number(path, fields, "llama.attention.head_count")
    kv_heads = whole_number(path, fields, "llama.attention.head_count_kv", heads)
    eps = "llama.attention.layer_norm_rms_epsilon"
    return {
        "num_layers": whole_number(path, fields, "llama.block_count"),
        "hidden_size": hidden,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_size": whole_number(path, fields, "llama.attention.key_length", hidden // heads),
        "vocab_size": 0,
        "max_positions": whole_number(path, fields, "llama.context_length"),
        "rope_base": positive_number(path, fields, "llama.rope.freq_base", 10_000.0),
        "norm_eps": positive_number(path, fields, eps),
    }


def _tensors(
    stored: list[GgufTensor], numbers: dict[str, int | float], path: Path
) -> Iterator[tuple[str, StoredTensor]]:
    heads = {"attn_q": int(numbers["num_heads"]), "attn_k": int(numbers["num_kv_heads"])}
    for tensor in stored:
        if tensor.kind.name not in _KINDS:
            raise EngineError(
                f"{path}: {tensor.name!r} is quantised as {tensor.kind.name}; not supported"
            )
        if tensor.name == "rope_freqs.weight":  # Llama 3 stretches its positions with these
            if bool((_reading(tensor, None)() != 1.0).any()):
                raise EngineError(f"{path}: scaled rotary positions (rope_freqs) are not supported")
            continue
        *layer, stem, suffix = tensor.name.split(".")
        is_placed = not layer or (len(layer) == 2 and layer[0] == "blk")
        if stem not in _TENSOR_NAMES or suffix != "weight" or not is_placed:
            raise EngineError(f"{path}: a Llama has no tensor {tensor.name!r}")
        prefix = f"model.layers.{layer[1]}." if layer else ""
        name = f"{prefix}{_TENSOR_NAMES[stem]}.weight"
        yield name, StoredTensor(tensor.shape, _reading(tensor, heads.get(stem)))


def _shown(value: Any) -> str:
    """A value out of a file, fit for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _reading(tensor: GgufTensor, num_heads: int | None) -> Callable[[], Tensor]:
    def read() -> Tensor:
        import numpy
        from gguf.quants import dequantize

        values = numpy.empty((len(tensor.rows), tensor.shape[-1]), numpy.float32)
        for start in range(0, len(values), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            values[rows] = dequantize(tensor.rows[rows], tensor.kind)
        weight = torch.from_numpy(values).view(tensor.shape)
        return weight if num_heads is None else _to_rotate_half(weight, num_heads)

    return read


def _to_rotate_half(weight: Tensor, num_heads: int) -> Tensor:
    """Undo the row order that GGUF uses for interleaved rotary positions."""
    rows, columns = weight.shape
    pairs = weight.view(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)
