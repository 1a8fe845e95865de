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
from weighbridge.local_engine.models.checkpoint import TURN_ENDS, Checkpoint, StoredTensor
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
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        fields = {key: field.contents() for key, field in reader.fields.items()}
        return _checkpoint(reader, fields, path)
    except EngineError:
        raise
    except KeyError as error:
        raise ModelCorrupt(str(path), f"the key {error} is missing") from None
    except Exception as error:  # noqa: BLE001  # the reader raises whatever the bytes lead it to
        raise ModelCorrupt(str(path), f"not a readable GGUF ({type(error).__name__})") from None


def _checkpoint(reader: Any, fields: dict[str, Any], path: Path) -> Checkpoint:
    _refuse_what_differs(fields, path)
    numbers = _numbers(fields)
    tensors = dict(_tensors(reader, numbers, path))
    numbers["vocab_size"] = tensors["model.embed_tokens.weight"].shape[0]
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    eos_id = fields["tokenizer.ggml.eos_token_id"]
    ends = {i for i, t in enumerate(tokens) if t in TURN_ENDS and kinds[i] == CONTROL}
    bos_id = fields.get("tokenizer.ggml.bos_token_id")
    return Checkpoint(
        llama=numbers,
        tensors=tensors,
        tokenizer=tokenizer_json(fields, path),
        # An answer may end with the model's own end of turn or with the end of text.
        eos_ids=frozenset({eos_id, fields.get("tokenizer.ggml.eot_token_id", eos_id), *ends}),
        chat_template=fields.get("tokenizer.chat_template", ""),
        bos_token="" if bos_id is None else tokens[bos_id],
        eos_token=tokens[eos_id],
        adds_bos=bos_id is not None and reads_bos(fields),
    )


def _refuse_what_differs(fields: dict[str, Any], path: Path) -> None:
    if fields["general.architecture"] != "llama":
        raise EngineError(f"{path}: architecture {fields['general.architecture']!r} is not llama")
    for key in ("llama.attention.head_count", "llama.attention.head_count_kv"):
        if isinstance(fields.get(key), list):
            raise EngineError(f"{path}: {key} differs by layer; not supported")
    head_size = _numbers(fields)["head_size"]
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
            raise EngineError(f"{path}: {key} = {found!r} is not supported")


def _numbers(fields: dict[str, Any]) -> dict[str, int | float]:
    hidden, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    return {
        "num_layers": fields["llama.block_count"],
        "hidden_size": hidden,
        "num_heads": heads,
        "num_kv_heads": fields.get("llama.attention.head_count_kv", heads),
        "head_size": fields.get("llama.attention.key_length", hidden // heads),
        "vocab_size": 0,
        "max_positions": fields["llama.context_length"],
        "rope_base": fields.get("llama.rope.freq_base", 10_000.0),
        "norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
    }


def _tensors(
    reader: Any, numbers: dict[str, int | float], path: Path
) -> Iterator[tuple[str, StoredTensor]]:
    heads = {"attn_q": int(numbers["num_heads"]), "attn_k": int(numbers["num_kv_heads"])}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":  # Llama 3 stretches its positions with these
            if (tensor.data != 1.0).any():
                raise EngineError(f"{path}: scaled rotary positions (rope_freqs) are not supported")
            continue
        *layer, stem, suffix = tensor.name.split(".")
        if stem not in _TENSOR_NAMES or suffix != "weight":
            raise EngineError(f"{path}: a Llama has no tensor {tensor.name!r}")
        if tensor.tensor_type.name not in _KINDS:
            kind = tensor.tensor_type.name
            raise EngineError(f"{path}: {tensor.name} is quantised as {kind}; not supported")
        prefix = f"model.layers.{layer[1]}." if layer else ""
        shape = tuple(int(size) for size in reversed(tensor.shape))
        name = f"{prefix}{_TENSOR_NAMES[stem]}.weight"
        yield name, StoredTensor(shape, _reading(tensor, shape, heads.get(stem)))


def _reading(tensor: Any, shape: tuple[int, ...], num_heads: int | None) -> Callable[[], Tensor]:
    def read() -> Tensor:
        import numpy
        from gguf.quants import dequantize

        values = numpy.empty(shape, numpy.float32)
        for start in range(0, len(values), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            values[rows] = dequantize(tensor.data[rows], tensor.tensor_type)
        weight = torch.from_numpy(values)
        return weight if num_heads is None else _to_rotate_half(weight, num_heads)

    return read


def _to_rotate_half(weight: Tensor, num_heads: int) -> Tensor:
    """Undo the row order that GGUF uses for interleaved rotary positions."""
    rows, columns = weight.shape
    pairs = weight.view(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)
