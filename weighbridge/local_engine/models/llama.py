"""A compact Llama: RMS norm, rotary positions, grouped-query attention, SwiGLU; no sampling.

Weights carry the names of the `transformers` checkpoint, so a folder of safetensors loads as it is.
Everything is float32: on a CPU without AMX, bfloat16 is slower and less exact.

Source: Touvron et al. 2023; rotary positions in the rotate-half form of the `transformers` port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  # the name everybody knows it by
from torch import Tensor

from weighbridge.errors import ModelCorrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """The numbers that a Llama is built from."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    max_positions: int
    rope_base: float
    norm_eps: float


@dataclass(frozen=True, slots=True)
class KVCache:
    """Keys and values of the tokens seen so far; never changed in place, so branches can share it.

    Args:
        keys: float32 [num_layers, num_kv_heads, T, head_size].
        values: the same shape.
    """

    keys: Tensor
    values: Tensor

    @property
    def num_tokens(self) -> int:
        """How many tokens are cached."""
        return self.keys.shape[2]


class Llama:
    """Weights and the forward pass.

    Args:
        config: must agree with the weights.
        weights: float32 tensors by `transformers` name; `lm_head.weight` absent means tied.

    Raises:
        ModelCorrupt: a tensor is missing or has another shape.
    """

    def __init__(self, config: LlamaConfig, weights: Mapping[str, Tensor]) -> None:
        self.config = config
        self._layers = [_layer(config, weights, index) for index in range(config.num_layers)]
        hidden = config.hidden_size
        self._embedding = _take(weights, "model.embed_tokens.weight", config.vocab_size, hidden)
        self._norm = _take(weights, "model.norm.weight", hidden)
        self._head = (
            _take(weights, "lm_head.weight", config.vocab_size, hidden)
            if "lm_head.weight" in weights
            else self._embedding
        )
        exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
        self._inverse_frequencies = config.rope_base**-exponents

    def empty_cache(self) -> KVCache:
        """A cache of no tokens."""
        c = self.config
        none = torch.empty(c.num_layers, c.num_kv_heads, 0, c.head_size)
        return KVCache(none, none)

    @torch.inference_mode()
    def forward(
        self, ids: Tensor, past: KVCache, *, parents: Tensor | None = None
    ) -> tuple[Tensor, KVCache]:
        """Hidden states of new tokens after `past`.

        Args:
            ids: int64 [N], N ≥ 1.
            past: the tokens before them.
            parents: int64 [N]; token i follows token `parents[i]` < i of this call, -1 the end of
                `past`. None: each follows the one before, plain causal text.

        Returns:
            float32 [N, hidden_size] after the last norm, and the cache with the N tokens appended
            (only useful for plain text: a packed tree's branches lie side by side in it).

        Raises:
            ValueError: more positions than the model has.
        """
        sees, depths = _visibility(len(ids), parents)
        positions = past.num_tokens + depths
        if int(positions.max()) >= self.config.max_positions:
            raise ValueError(f"the model has {self.config.max_positions} positions")
        blocked = torch.zeros(len(ids), past.num_tokens + len(ids))
        blocked[:, past.num_tokens :].masked_fill_(~sees, float("-inf"))
        angles = positions[:, None].float() * self._inverse_frequencies  # [N, head_size / 2]
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

        x = self._embedding[ids]
        keys, values = [], []
        for index, layer in enumerate(self._layers):
            x, key, value = self._block(
                x, layer, past.keys[index], past.values[index], cos, sin, blocked
            )
            keys.append(key)
            values.append(value)
        return _rms_norm(x, self._norm, self.config.norm_eps), KVCache(
            torch.stack(keys), torch.stack(values)
        )

    @torch.inference_mode()
    def log_probs(self, hidden: Tensor) -> Tensor:
        """Natural log of next-token probabilities at temperature 1: float32 [N, V] from [N, D]."""
        return F.linear(hidden, self._head).log_softmax(-1)

    def _block(
        self,
        x: Tensor,
        w: _Layer,
        past_key: Tensor,
        past_value: Tensor,
        cos: Tensor,
        sin: Tensor,
        blocked: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        c = self.config
        normed = _rms_norm(x, w.attention_norm, c.norm_eps)
        query = _rotate(_heads(F.linear(normed, w.query), c.num_heads), cos, sin)
        new_key = _rotate(_heads(F.linear(normed, w.key), c.num_kv_heads), cos, sin)
        key = torch.cat([past_key, new_key], dim=1)  # [Hkv, T, D]
        value = torch.cat([past_value, _heads(F.linear(normed, w.value), c.num_kv_heads)], dim=1)
        x = x + F.linear(_attend(query, key, value, blocked), w.output)
        normed = _rms_norm(x, w.mlp_norm, c.norm_eps)
        x = x + F.linear(F.silu(F.linear(normed, w.gate)).mul_(F.linear(normed, w.up)), w.down)
        return x, key, value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    attention_norm: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    mlp_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


def _layer(config: LlamaConfig, weights: Mapping[str, Tensor], index: int) -> _Layer:
    prefix = f"model.layers.{index}."
    hidden, size = config.hidden_size, config.head_size
    mlp = weights.get(f"{prefix}mlp.gate_proj.weight")
    inner = -1 if mlp is None else mlp.shape[0]

    def take(name: str, *shape: int) -> Tensor:
        return _take(weights, f"{prefix}{name}.weight", *shape)

    return _Layer(
        attention_norm=take("input_layernorm", hidden),
        query=take("self_attn.q_proj", config.num_heads * size, hidden),
        key=take("self_attn.k_proj", config.num_kv_heads * size, hidden),
        value=take("self_attn.v_proj", config.num_kv_heads * size, hidden),
        output=take("self_attn.o_proj", hidden, config.num_heads * size),
        mlp_norm=take("post_attention_layernorm", hidden),
        gate=take("mlp.gate_proj", inner, hidden),
        up=take("mlp.up_proj", inner, hidden),
        down=take("mlp.down_proj", hidden, inner),
    )


def _take(weights: Mapping[str, Tensor], name: str, *shape: int) -> Tensor:
    tensor = weights.get(name)
    if tensor is None or tuple(tensor.shape) != shape:
        found = "is missing" if tensor is None else f"has shape {tuple(tensor.shape)}"
        raise ModelCorrupt(name, f"the tensor {found}, wanted {shape}")
    return tensor.float()


def _visibility(count: int, parents: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which new token sees which: bool [N, N]; and each one's depth, int64 [N], 0 the first."""
    if parents is None:
        return torch.ones(count, count, dtype=torch.bool).tril(), torch.arange(count)
    sees = torch.eye(count, dtype=torch.bool)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            sees[node] |= sees[parent]
    return sees, sees.sum(1) - 1


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def _heads(x: Tensor, count: int) -> Tensor:
    """[N, H * D] to [H, N, D]."""
    return x.view(len(x), count, -1).transpose(0, 1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (i, i + D/2) of [H, N, D] by its position's angle."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def _attend(query: Tensor, key: Tensor, value: Tensor, blocked: Tensor) -> Tensor:
    """Attention of [H, N, D] over [Hkv, T, D]; `blocked` is 0 or -inf, [N, T]. Returns [N, H * D].

    The query heads that share a key head are laid end to end, so that keys are never copied.
    """
    num_heads, count, size = query.shape
    shared = num_heads // len(key)
    grouped = query.reshape(len(key), shared * count, size)
    scores = torch.bmm(grouped, key.transpose(1, 2)).mul_(size**-0.5)  # [Hkv, shared * N, T]
    scores.view(len(key), shared, count, -1).add_(blocked)
    mixed = torch.bmm(scores.softmax(-1), value)
    return mixed.view(num_heads, count, size).transpose(0, 1).reshape(count, -1)
