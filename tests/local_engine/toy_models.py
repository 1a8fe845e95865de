"""Models small enough to know by heart: tables of logits, and a tiny Llama in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from tiny_model import CONFIG, fused, tiny_tokenizer, tiny_weights
from torch import Tensor, nn

from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.models.module import ModuleModel
from weighbridge.local_engine.models.protocol import Read
from weighbridge.local_engine.vocabulary import TableVocabulary

TINY = tiny_tokenizer()


class Table(nn.Module):
    """Says the same everywhere, or by the last token alone, or something else after a while.

    Args:
        rows: logits [V], or [V, V] by the last token.
        later: what it says, whatever came before, once `after` tokens have been read.
        after: at least the four tokens on which a module is tried when it is wrapped.
    """

    def __init__(
        self, rows: Sequence[float] | Tensor, later: Sequence[float] = (), after: int = 5
    ) -> None:
        super().__init__()
        table = torch.as_tensor(rows, dtype=torch.float32)
        self.table = nn.Parameter(table.expand(table.shape[-1], -1).clone(), requires_grad=False)
        self.later, self.after = torch.tensor(later), after

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.table[ids]
        if len(self.later):
            logits[:, self.after - 1 :] = self.later
        return logits


class Memory(nn.Module):
    """The next token depends on all before it and on where they stand."""

    def __init__(self, vocab_size: int, seed: int, spread: float = 2.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        table = torch.randn(3, vocab_size, vocab_size, generator=generator, dtype=torch.float64)
        self.table = nn.Parameter(table * spread, requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1]) % 3
        told = self.table[places, ids]
        return (told + 0.5 * told.cumsum(1).sin()).float()


class Counting:
    """A model that counts the tokens it reads and the passes it takes."""

    def __init__(self, model: Any) -> None:
        self._model, self.num_tokens, self.num_passes = model, 0, 0
        self.vocab_size, self.max_positions = model.vocab_size, model.max_positions
        self.empty_cache, self.logits = model.empty_cache, model.logits

    def forward(self, ids: Tensor, past: Any, *, parents: Tensor | None = None) -> Any:
        return self.forward_batch([Read(ids, past, parents)])[0]

    def forward_batch(self, reads: Sequence[Read]) -> Any:
        self.num_tokens += sum(len(read.ids) for read in reads)
        self.num_passes += 1
        return self._model.forward_batch(reads)


def toy(
    words: Sequence[bytes],
    rows: Sequence[float] | Tensor,
    later: Sequence[float] = (),
    *,
    eos_ids: Sequence[int] = (),
    positions: int = 64,
) -> Engine:
    """An engine over a table; the last token ends an answer, unless others are named."""
    model = ModuleModel(Table(rows, later), len(words), positions)
    return Engine(model, TableVocabulary(words, set(eos_ids) or {len(words) - 1}))


def remembering(
    words: Sequence[bytes], seed: int, *, positions: int = 64, spread: float = 2.0
) -> Engine:
    """An engine over a random model that remembers; the last token ends an answer."""
    model = ModuleModel(Memory(len(words), seed, spread), len(words), positions)
    return Engine(model, TableVocabulary(words, {len(words) - 1}))


@cache
def exact_llama(seed: int = 0) -> Llama:
    """A tiny Llama whose logits are the same to the last bit however its text is divided.

    In single precision a draw between two tokens may fall the other way once in many thousands.
    """
    return Llama(CONFIG, fused(tiny_weights(seed)), dtype=torch.float64)


def exact_engine(seed: int = 0) -> Engine:
    """A new engine, which has read nothing yet, over `exact_llama`."""
    return Engine(exact_llama(seed), TINY)
