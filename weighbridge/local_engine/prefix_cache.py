"""Prompts that begin alike are read once: the newest ones are kept, found by their token ids."""

from __future__ import annotations

from collections.abc import Sequence

from weighbridge.local_engine.models.protocol import LanguageModel
from weighbridge.local_engine.scoring import Prompt

_KEPT = 2  # prompts; a cache of 500 tokens of a 135M model takes 35 MB
_WORTH_IT = 16  # tokens in common; copying the cache of fewer saves nothing


class PrefixCache:
    """The newest prompts of one model.

    Args:
        model: whose caches are kept.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._kept: list[tuple[tuple[int, ...], Prompt]] = []  # newest last

    def prompt(self, ids: Sequence[int], num_given: int = 0) -> Prompt:
        """A prompt of which as much as possible has been read.

        Args:
            ids: at least one.
            num_given: so many of the last are the first words of the answer; fewer than all.
        """
        whole = tuple(ids)
        past, common = self._model.empty_cache(), 0
        for known, prompt in self._kept:
            # At least one token is read anew: its row says what follows. The same for those given.
            limit = min(prompt.cache.num_tokens, len(whole) - 1 - num_given)
            length = _common(known[:limit], whole)
            if length >= max(_WORTH_IT, common):
                past, common = prompt.cache.prefix(length), length
        fresh = Prompt(past, whole[common:], given=whole[len(whole) - num_given :])
        self._kept = [*self._kept[1 - _KEPT :], (whole, fresh)]
        return fresh


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens two texts share."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
