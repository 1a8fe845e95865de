"""Float matrices made fit for int8, by moving outliers of the inputs into the weights.

A few input channels of every layer are ten to a thousand times larger than the rest, always the
same ones. Rounded with one scale a row, they would leave the others three bits. So each channel is
divided by a factor where it is made (a norm's weight, the rows of the layer before) and the column
of weights behind it is multiplied by the same: the model computes what it did, in numbers of
like size. How large the inputs are is seen on a fixed text, block by block.

On a 135M Llama, 7-bit weights and 8-bit inputs: mean divergence from float32 0.05 nats a token;
0.15 to 0.28 without.

Source: SmoothQuant, Xiao et al. 2023, with its exponent of one half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from weighbridge.local_engine.models.block import (
    Block,
    LlamaConfig,
    Slot,
    attention_mask,
    rms_norm,
    rotation,
)
from weighbridge.local_engine.models.cache import KVCache
from weighbridge.local_engine.models.linear import Linear, largest_of

# Written for this: instructions, several tickets, JSON, another language, code.
CALIBRATION_TEXT = """system
You read support tickets and answer with one JSON object and nothing else.
user
Hello, I was charged twice for the Team plan in March, please refund one of the payments. The
app crashes when I open the export page, error 504. How do I add a colleague to my workspace? I
cannot log in: the reset mail never comes. Please cancel my subscription at the end of the month! It
would be great if the dashboard had a dark mode.
assistant
{"category": "account_access", "priority": "high", "reason": "No reset mail, 3 tries since May."}
La factura no es correcta, por favor.
def total(rows): return sum(row["price"] * 2 for row in rows)
"""

_SMALLEST = 1e-5  # a channel that is never used must not divide by zero


class Smoother:
    """Smooths the float32 tensors of a Llama, block by block in order, the output last.

    Args:
        config: of the model.
        x: float32 [N, hidden_size], embeddings of the calibration text.
    """

    def __init__(self, config: LlamaConfig, x: Tensor) -> None:
        self._config, self._x = config, x
        self._turn = rotation(config, torch.arange(len(x)), torch.float32)
        sees = torch.ones(len(x), len(x), dtype=torch.bool).tril()
        self._mask = attention_mask(config, sees, 0, torch.float32)

    @torch.no_grad()
    def block(self, weights: Mapping[str, Tensor], index: int) -> dict[str, Tensor]:
        """The tensors of block `index`, by the same names."""
        c = self._config
        block = Block.take(c, weights, index, torch.float32)
        qkv, output = _Watched(block.qkv), _Watched(block.output)
        gate_up, down = _Watched(block.gate_up), _Watched(block.down)
        cache = KVCache.empty(torch.empty(1, c.num_kv_heads, 0, c.head_size))
        slot = Slot(cache.extended(len(self._x), kept=len(self._x)), self._mask)
        watched = replace(block, qkv=qkv, output=output, gate_up=gate_up, down=down)
        self._x = watched.forward(self._x, 0, [slot], self._turn)

        prefix = f"model.layers.{index}."
        w = {name.removeprefix(prefix): tensor.clone() for name, tensor in weights.items()}
        values = w["self_attn.qkv_proj.weight"][-c.num_kv_heads * c.head_size :]
        # All query heads of a group read the same values, so they share the factors.
        shared = _factors(output.largest, w["self_attn.o_proj.weight"])
        shared = shared.view(c.num_kv_heads, -1, c.head_size).amax(1)
        values.div_(shared.reshape(-1, 1))
        groups = c.num_heads // c.num_kv_heads
        w["self_attn.o_proj.weight"].mul_(shared.repeat_interleave(groups, 0).reshape(-1))
        factors = _factors(down.largest, w["mlp.down_proj.weight"])
        w["mlp.gate_up_proj.weight"][len(factors) :].div_(factors[:, None])
        w["mlp.down_proj.weight"].mul_(factors)
        _move(w, "input_layernorm.weight", "self_attn.qkv_proj.weight", qkv.largest)
        _move(w, "post_attention_layernorm.weight", "mlp.gate_up_proj.weight", gate_up.largest)
        return {prefix + name: tensor for name, tensor in w.items()}

    @torch.no_grad()
    def output(self, norm: Tensor, head: Tensor) -> tuple[Tensor, Tensor]:
        """The last norm, [hidden_size], and the output head, [V, hidden_size], overwritten."""
        hidden = rms_norm(self._x, norm, self._config.norm_eps)
        factors = _factors(hidden.abs().amax(0), head)
        return norm / factors, head.mul_(factors)


class _Watched:
    """A linear layer that remembers the largest input of each channel."""

    def __init__(self, linear: Linear) -> None:
        self._linear = linear
        self.largest = torch.empty(0)

    def __call__(self, x: Tensor) -> Tensor:
        self.largest = x.abs().amax(0)
        return self._linear(x)


def _move(w: dict[str, Tensor], norm: str, matrix: str, largest: Tensor) -> None:
    """Divide a norm and multiply the matrix behind it, in place."""
    factors = _factors(largest, w[matrix])
    w[norm].div_(factors)
    w[matrix].mul_(factors)


def _factors(largest: Tensor, matrix: Tensor) -> Tensor:
    """What to divide each input channel by: [K] of the largest inputs [K] and a matrix [N, K]."""
    weights = largest_of(matrix, 0).clamp_min_(_SMALLEST)
    return largest.clamp_min(_SMALLEST).div(weights).sqrt()
