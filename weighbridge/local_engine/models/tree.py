"""Trees of tokens as a model is asked to read them: a parent for each token, -1 for the root.

Parents come before their children. See `LanguageModel.forward`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def chain_length(parents: Sequence[int]) -> int:
    """How many of the first tokens are plain text, each behind the one before.

    >>> chain_length([-1, 0, 1, 0]), chain_length([-1, -1])
    (3, 1)
    """
    return next((i for i, parent in enumerate(parents) if parent != i - 1), len(parents))


def shared_length(parents: Sequence[int]) -> int:
    """How many of the first tokens are plain text that every later one comes after.

    >>> shared_length([-1, 0, 1, 1]), shared_length([-1, 0, -1]), shared_length([-1, 0])
    (2, 0, 2)
    """
    chain = chain_length(parents)
    return min([chain, *(parent + 1 for parent in parents[chain:])])


def longest_path(parents: Sequence[int]) -> int:
    """How many tokens the longest text has.

    >>> longest_path([-1, 0, 1, 0])
    3
    """
    lengths: list[int] = []
    for parent in parents:
        lengths.append(1 + (lengths[parent] if parent >= 0 else 0))
    return max(lengths)


def leaf_paths(parents: Sequence[int]) -> list[list[int]]:
    """The tokens from the root to each leaf.

    >>> leaf_paths([-1, 0, 1, 0])
    [[0, 1, 2], [0, 3]]
    """
    paths: list[list[int]] = []
    for parent in parents:
        paths.append([*(paths[parent] if parent >= 0 else ()), len(paths)])
    inner = set(parents)
    return [path for path in paths if path[-1] not in inner]


def visibility(parents: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Which token sees which: bool [N, N]; and each one's depth: int64 [N], 0 at the root.

    >>> visibility([-1, 0, 0])[0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    """
    sees = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            sees[node] |= sees[parent]
    return sees, sees.sum(1) - 1
