"""What the engine asks of a language model: hidden states after a prefix, and raw logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Cache(Protocol):
    """What a model remembers of the tokens it has read; a value, shared freely between branches."""

    @property
    def num_tokens(self) -> int:
        """How many tokens have been read."""
        ...

    def prefix(self, num_tokens: int) -> Cache:
        """What the model remembers of the first of them alone."""
        ...


class LanguageModel(Protocol):
    """A causal language model over token ids."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits; may be wider than the tokenizer's vocabulary."""
        ...

    @property
    def max_positions(self) -> int:
        """The longest sequence that the model can read, in tokens."""
        ...

    def empty_cache(self) -> Any:
        """A `Cache` of no tokens."""
        ...

    def forward(
        self, ids: Tensor, past: Any, *, parents: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Read new tokens after `past`; `past` itself stays as it is.

        Args:
            ids: int64 [N], N ≥ 1.
            past: a cache that this model made.
            parents: int64 [N]; token i follows token `parents[i]` < i of this call, -1 the end of
                `past`. None: each follows the one before, plain causal text.

        Returns:
            One row [N, D] for each token, to be given to `logits`, and the longer cache. Of a tree
            it holds the first tokens alone, as far as each follows the one before.

        Raises:
            ContextTooLong: more positions than the model has.
        """
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Raw next-token logits, float32 [N, vocab_size], of rows that `forward` returned."""
        ...


class Read(NamedTuple):
    """The arguments of one `LanguageModel.forward`."""

    ids: Tensor
    past: Any
    parents: Tensor | None = None


def read_batch(model: LanguageModel, reads: Sequence[Read]) -> list[tuple[Tensor, Any]]:
    """Several independent forward passes; in one, where the model has a `forward_batch` of its own.

    Args:
        model: the model.
        reads: at least one.

    Returns:
        What `forward` returns of each, in order.
    """
    together = getattr(model, "forward_batch", None)
    if together is not None:
        results: list[tuple[Tensor, Any]] = together(reads)
        return results
    return [model.forward(ids, past, parents=parents) for ids, past, parents in reads]
