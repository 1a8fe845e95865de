"""Cutting a long text in the middle, where a ticket says least."""

from __future__ import annotations

from weighbridge.local_engine.vocabulary import Vocabulary

_CUT = "\n[…]\n"


def cut_middle(vocabulary: Vocabulary, text: str, max_tokens: int) -> tuple[list[int], int]:
    """A text as tokens, its middle left out if it is too long, and how many it has in full.

    Where it is longer than `max_tokens`, the first three quarters and the last quarter of that many
    are kept, with a mark between them.
    """
    ids = vocabulary.encode(text)
    if len(ids) <= max_tokens:
        return ids, len(ids)
    tail = max_tokens // 4
    kept = [*ids[: max_tokens - tail], *vocabulary.encode(_CUT), *ids[len(ids) - tail :]]
    return kept, len(ids)
