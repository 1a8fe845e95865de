"""A key-value cache that is a value: it can be branched, and appending never copies without need.

Several caches may look at one buffer, each at its own beginning of it. The first to append writes
behind its own tokens in place; whoever branches off earlier gets a buffer of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

_MIN_ROOM = 64  # tokens


@dataclass(slots=True)
class _Buffer:
    """Storage for keys and values, and how many of its tokens belong to some cache."""

    keys: Tensor  # [num_layers, num_kv_heads, capacity, head_size]
    values: Tensor
    used: int


@dataclass(frozen=True, slots=True)
class KVCache:
    """Keys and values of the tokens seen so far.

    Args:
        num_tokens: how many there are, the newest included.
        num_new: how many of them the newest pass is adding.
    """

    _buffer: _Buffer
    num_tokens: int
    num_new: int = 0

    @classmethod
    def empty(cls, like: Tensor) -> KVCache:
        """No tokens; `like` is [num_layers, num_kv_heads, 0, head_size], of the type to keep."""
        return cls(_Buffer(like, like, 0), 0)

    def extended(self, count: int, kept: int, ahead: int = 0) -> KVCache:
        """This cache with room for more tokens, to be written layer by layer.

        Args:
            count: how many; at least 1.
            kept: how many of them, from the first on, will be kept; whatever is appended next may
                overwrite the others.
            ahead: at least so many will be appended from here on, `count` among them.
        """
        total = self.num_tokens + count
        buffer = self._buffer
        if buffer.used != self.num_tokens or buffer.keys.shape[2] < total:
            buffer = self._copied(max(total, self.num_tokens + ahead))
        buffer.used = self.num_tokens + kept
        return KVCache(buffer, total, count)

    def prefix(self, num_tokens: int) -> KVCache:
        """The cache of the first tokens alone."""
        return KVCache(self._buffer, num_tokens)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Keep the newest tokens' keys and values of a layer, each [num_new, Hkv, D]."""
        start = self.num_tokens - self.num_new
        self._buffer.keys[layer, :, start : self.num_tokens] = keys.transpose(0, 1)
        self._buffer.values[layer, :, start : self.num_tokens] = values.transpose(0, 1)

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, views [Hkv, num_tokens, D]."""
        return (
            self._buffer.keys[index, :, : self.num_tokens],
            self._buffer.values[index, :, : self.num_tokens],
        )

    def _copied(self, total: int) -> _Buffer:
        old = self._buffer
        capacity = total + max(_MIN_ROOM, total // 4)
        layers, heads, _, size = old.keys.shape
        keys = old.keys.new_empty(layers, heads, capacity, size)
        values = keys.new_empty(keys.shape)
        keys[:, :, : self.num_tokens] = old.keys[:, :, : self.num_tokens]
        values[:, :, : self.num_tokens] = old.values[:, :, : self.num_tokens]
        return _Buffer(keys, values, self.num_tokens)
