"""One block of a Llama: attention and a gated MLP, each behind an RMS norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # the name everybody knows it by
from torch import Tensor

from weighbridge.local_engine.models.cache import KVCache
from weighbridge.local_engine.models.linear import Linear, take, take_linear


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


class Slot(NamedTuple):
    """The new tokens of one text: where they are kept, and what they see of each other."""

    cache: KVCache  # with room for them
    mask: Tensor | None  # see `attention_mask`; None where a single token sees everything


class Rotation(NamedTuple):
    """The turn of each new token's position, the same for every head."""

    cos: Tensor  # [N, 1, head_size]
    sin: Tensor


def rotation(config: LlamaConfig, positions: Tensor, dtype: torch.dtype) -> Rotation:
    """The turns for some positions, int64 [N]."""
    exponents = torch.arange(0, config.head_size, 2, device=positions.device) / config.head_size
    angles = positions[:, None].float() * config.rope_base ** -exponents.float()
    return Rotation(*(f(angles).repeat(1, 2)[:, None].to(dtype) for f in (torch.cos, torch.sin)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The weights of one block, and what they do to the tokens of several texts at once.

    The linear layers see all tokens together, attention each text by itself.
    """

    config: LlamaConfig
    attention_norm: Tensor
    qkv: Linear
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear

    @classmethod
    def take(
        cls, config: LlamaConfig, weights: Mapping[str, Tensor], index: int, dtype: torch.dtype
    ) -> Block:
        """A block of a checkpoint.

        Raises:
            ModelCorrupt: a tensor is missing or has another shape.
        """
        prefix = f"model.layers.{index}."
        hidden, size = config.hidden_size, config.head_size
        heads, kv_heads = config.num_heads, config.num_kv_heads
        down = weights.get(f"{prefix}mlp.down_proj.weight")
        inner = -1 if down is None else down.shape[1]

        def norm(name: str) -> Tensor:
            return take(weights, f"{prefix}{name}.weight", hidden).to(dtype)

        def linear(name: str, *shape: int) -> Linear:
            return take_linear(weights, prefix + name, *shape, dtype=dtype)

        return cls(
            config=config,
            attention_norm=norm("input_layernorm"),
            qkv=linear("self_attn.qkv_proj", (heads + 2 * kv_heads) * size, hidden),
            output=linear("self_attn.o_proj", hidden, heads * size),
            mlp_norm=norm("post_attention_layernorm"),
            gate_up=linear("mlp.gate_up_proj", 2 * inner, hidden),
            down=linear("mlp.down_proj", hidden, inner),
        )

    def forward(self, x: Tensor, index: int, slots: Sequence[Slot], turn: Rotation) -> Tensor:
        """The next states of all new tokens, [N, hidden_size]; keys and values go to the caches.

        Args:
            x: [N, hidden_size], the texts one behind the other.
            index: of this block, in the caches.
            slots: one for each text.
            turn: for all N positions.
        """
        c = self.config
        normed = rms_norm(x, self.attention_norm, c.norm_eps)
        qkv = self.qkv(normed).view(len(x), -1, c.head_size)
        turned, values = torch.split(qkv, [c.num_heads + c.num_kv_heads, c.num_kv_heads], 1)
        turned = _rotate(turned, turn)
        queries, keys = torch.split(turned, [c.num_heads, c.num_kv_heads], 1)
        mixed, row = [], 0
        for cache, mask in slots:
            end = row + cache.num_new
            cache.write(index, keys[row:end], values[row:end])
            mixed.append(_attend(queries[row:end], *cache.layer(index), mask))
            row = end
        x = x + self.output(mixed[0] if len(mixed) == 1 else torch.cat(mixed))
        gate, up = self.gate_up(rms_norm(x, self.mlp_norm, c.norm_eps)).chunk(2, -1)
        return x + self.down(F.silu(gate).mul_(up))


def attention_mask(
    config: LlamaConfig, sees: Tensor, past_tokens: int, dtype: torch.dtype
) -> Tensor:
    """What is added to attention scores: 0 or -inf, [shared * N, T], for heads laid end to end.

    Args:
        config: says how many query heads share a key head.
        sees: bool [N, N], which new token sees which; all see the past.
        past_tokens: how many there are of those.
        dtype: of the scores.
    """
    count = len(sees)
    mask = torch.zeros(count, past_tokens + count, dtype=dtype, device=sees.device)
    mask[:, past_tokens:].masked_fill_(~sees, -torch.inf)
    return mask.repeat(config.num_heads // config.num_kv_heads, 1)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row over its root mean square, times a weight for each column."""
    return F.rms_norm(x, weight.shape, weight, eps)


def _rotate(x: Tensor, turn: Rotation) -> Tensor:
    """Turn each pair (i, i + D/2) of [N, H, D] by its position's angle."""
    left, right = x.chunk(2, dim=-1)
    return x * turn.cos + torch.cat([-right, left], dim=-1) * turn.sin


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of [N, H, D] over [Hkv, T, D]: [N, H * D].

    The query heads that share a key head are laid end to end, so that keys are never copied.
    """
    count, num_heads, size = query.shape
    grouped = query.transpose(0, 1).reshape(1, len(key), -1, size)  # [1, Hkv, shared * N, D]
    mixed = F.scaled_dot_product_attention(grouped, key[None], value[None], attn_mask=mask)
    return mixed.view(num_heads, count, size).transpose(0, 1).reshape(count, -1)
