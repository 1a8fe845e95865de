"""A compact Llama: RMS norm, rotary positions, grouped-query attention, SwiGLU; no sampling.

Weights carry the names of the `transformers` checkpoint, but for two pairs of layers that are read
as one: `qkv_proj` (the rows of query, key and value) and `gate_up_proj` (those of gate and up).

Source: Touvron et al. 2023; rotary positions in the rotate-half form of the `transformers` port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from weighbridge.errors import ContextTooLong
from weighbridge.local_engine.models.block import (
    Block,
    LlamaConfig,
    Slot,
    attention_mask,
    rms_norm,
    rotation,
)
from weighbridge.local_engine.models.cache import KVCache
from weighbridge.local_engine.models.linear import take, take_linear
from weighbridge.local_engine.models.protocol import Read
from weighbridge.local_engine.models.tree import (
    chain_length,
    longest_path,
    shared_length,
    visibility,
)

__all__ = ["Llama", "LlamaConfig"]


_HEAD_ROWS = 64  # read through the head at once: what it holds meanwhile is twice the result


class Llama:
    """Weights and the forward pass.

    Args:
        config: must agree with the weights.
        weights: by name; `lm_head.weight` absent means tied. Matrices are float, or int8 with a
            `.scale` beside the `.weight`.
        dtype: of everything that is not int8. bfloat16 is for GPUs: on a CPU it is slower.
        device: where the weights go.
        part_tokens: of a long text in one pass; more are not quicker to read, and what a pass holds
            of each token adds up to a hundred megabytes for a thousand of a small model.

    Raises:
        ModelCorrupt: a tensor is missing or has another shape.
    """

    def __init__(
        self,
        config: LlamaConfig,
        weights: Mapping[str, Tensor],
        *,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        part_tokens: int = 256,
    ) -> None:
        self.config, self._part_tokens = config, part_tokens
        self._dtype, self._device = dtype, torch.device(device)
        weights = {name: tensor.to(self._device) for name, tensor in weights.items()}
        self._blocks = [Block.take(config, weights, i, dtype) for i in range(config.num_layers)]
        shape = config.vocab_size, config.hidden_size
        self._embedding = take_linear(weights, "model.embed_tokens", *shape, dtype=dtype)
        self._norm = take(weights, "model.norm.weight", config.hidden_size).to(dtype)
        self._head = (
            take_linear(weights, "lm_head", *shape, dtype=dtype)
            if "lm_head.weight" in weights
            else self._embedding
        )

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self.config.vocab_size

    @property
    def max_positions(self) -> int:
        """The longest sequence that can be read, in tokens."""
        return self.config.max_positions

    def empty_cache(self) -> KVCache:
        """A cache of no tokens."""
        c = self.config
        shape = c.num_layers, c.num_kv_heads, 0, c.head_size
        return KVCache.empty(torch.empty(shape, dtype=self._dtype, device=self._device))

    def forward(
        self, ids: Tensor, past: KVCache, *, parents: Tensor | None = None
    ) -> tuple[Tensor, KVCache]:
        """Read new tokens after `past`; see `LanguageModel.forward`."""
        return self.forward_batch([Read(ids, past, parents)])[0]

    @torch.inference_mode()
    def forward_batch(self, reads: Sequence[Read]) -> list[tuple[Tensor, KVCache]]:
        """Several independent `forward`s in one pass.

        The tokens of all go through the linear layers together, each text through attention by
        itself: nothing is padded, and no text depends on its neighbours.

        Raises:
            ContextTooLong: more positions than the model has.
        """
        begun = [self._begun(read) for read in reads]
        ends = self._pass([beginning.rest for beginning in begun])
        return [
            (torch.cat([*beginning.hidden, hidden]), cache)
            for beginning, (hidden, cache) in zip(begun, ends, strict=True)
        ]

    def _begun(self, read: Read) -> _Begun:
        """Read the beginning of a long text part by part; a text that is too long, not at all."""
        parents = None if read.parents is None else read.parents.tolist()
        shared, depth = len(read.ids), len(read.ids)
        if parents is not None:
            shared, depth = shared_length(parents), longest_path(parents)
        needed = read.past.num_tokens + depth
        if needed > self.config.max_positions:
            raise ContextTooLong(needed, self.config.max_positions)
        size, hidden = self._part_tokens, []
        while len(read.ids) > size and shared >= size:
            [(rows, cache)] = self._pass([Read(read.ids[:size], read.past)], ahead=len(read.ids))
            hidden.append(rows)
            rest = read.parents
            if rest is not None:
                rest = (rest[size:] - size).clamp(min=-1)
            read = Read(read.ids[size:], cache, rest)
            shared -= size
        return _Begun(hidden, read)

    def _pass(self, reads: Sequence[Read], ahead: int = 0) -> list[tuple[Tensor, KVCache]]:
        places = [self._place(read, ahead) for read in reads]
        ids = torch.cat([read.ids for read in reads]).to(self._device)
        positions = torch.cat([place.positions for place in places]).to(self._device)
        turn = rotation(self.config, positions, self._dtype)
        slots = [place.slot for place in places]
        x = self._embedding.rows(ids)
        for index, block in enumerate(self._blocks):
            x = block.forward(x, index, slots, turn)
        hidden = rms_norm(x, self._norm, self.config.norm_eps)
        parts = torch.split(hidden, [len(read.ids) for read in reads])
        kept = [place.slot.cache.prefix(place.num_kept) for place in places]
        return list(zip(parts, kept, strict=True))

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Raw next-token logits, float32 [N, V], in main memory whatever the device."""
        parts = torch.split(hidden, _HEAD_ROWS)
        logits = torch.empty(len(hidden), self.vocab_size)
        for part, rows in zip(parts, torch.split(logits, _HEAD_ROWS), strict=True):
            rows.copy_(self._head(part))
        return logits

    def _place(self, read: Read, ahead: int) -> _Place:
        count, past = len(read.ids), read.past.num_tokens
        if read.parents is None:
            sees, depths, kept = torch.ones(count, count, dtype=torch.bool).tril(), None, count
        else:
            parents = read.parents.tolist()
            (sees, depths), kept = visibility(parents), chain_length(parents)
        positions = past + (torch.arange(count) if depths is None else depths)
        mask = None
        if count > 1:
            mask = attention_mask(self.config, sees.to(self._device), past, self._dtype)
        return _Place(Slot(read.past.extended(count, kept, ahead), mask), positions, past + kept)


class _Begun(NamedTuple):
    """A text of which the beginning has been read."""

    hidden: list[Tensor]  # of the parts, each [part_tokens, hidden_size]
    rest: Read  # at least one token


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the new tokens of one text stand."""

    slot: Slot
    positions: Tensor  # int64 [N]
    num_kept: int  # tokens of the cache afterwards: of a tree, only its first plain text
