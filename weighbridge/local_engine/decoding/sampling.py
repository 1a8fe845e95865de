"""How one token is chosen among those that the guide allows.

Order: bias and mask on raw float32 logits first, then temperature, then top-k, top-p and min-p
among what remains. Greedy is the argmax of the masked logits, so a forbidden favourite never
matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weighbridge.local_engine.checks import check_kind, check_number, check_whole
from weighbridge.local_engine.guides.protocol import Guide, State
from weighbridge.local_engine.vocabulary import Vocabulary

# Where a guide allows more tokens than this, none of them is the only way to go on.
_MAX_COMPARED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of the choice; they never touch a mass.

    Args:
        temperature: 0 is greedy; the bias of a guide is divided by it like the logits.
        top_k: only so many of the most likely allowed tokens; None for all.
        top_p: the fewest most likely allowed tokens that hold this share; 1 for all.
        min_p: only tokens at least this share of the most likely allowed one; 0 for all.
        seed: of the random numbers; the same seed gives the same text.
        prefer_long: of the tokens that spell the same text, favour the fewest: one is set aside
            where the guide would allow nothing after it but the rest of a longer one.

    Raises:
        ValueError: a number outside its range.
        TypeError: no number.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    prefer_long: bool = False

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p"):
            check_number(getattr(self, name), name)
        check_whole(self.seed, "seed")
        check_kind(self.prefer_long, bool, "prefer_long", "True or False")
        if self.top_k is not None:
            check_whole(self.top_k, "top_k", 1)
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be 0 or more, not {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0.0 <= self.min_p <= 1.0:
            raise ValueError(f"min_p must be from 0 to 1, not {self.min_p}")


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """The probabilities that a token is drawn from.

    Args:
        logits: float32 [V], the guide's bias added; at least one is finite.
        sampling: its seed does not matter here.

    Returns:
        float32 [V], summing to 1; 0 for banned tokens. All on the best token where greedy; of equal
        ones the lowest id.

    >>> logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.2, -torch.inf])
    >>> [round(100 * p, 1) for p in distribution(logits, Sampling(temperature=0.5)).tolist()]
    [63.3, 23.3, 8.6, 3.2, 1.7, 0.0]
    """
    if sampling.temperature == 0:
        return torch.zeros_like(logits).index_fill_(0, logits.argmax(), 1.0)
    if sampling.top_k is not None and sampling.top_k < len(logits):
        kept = logits.topk(sampling.top_k)
        logits = torch.full_like(logits, -torch.inf).scatter_(0, kept.indices, kept.values)
    # Less the largest, so that no temperature divides into infinity; in float64, since there are
    # temperatures that float32 takes for 0 or infinity.
    scaled = (logits - logits.max()).double().div(sampling.temperature).float()
    probs = scaled.softmax(-1)
    if sampling.top_p < 1.0:
        ordered, order = probs.sort(descending=True, stable=True)
        # A token stays while those before it hold less than top_p: the first always stays.
        dropped = order[ordered.cumsum(0) - ordered >= sampling.top_p]
        probs = probs.index_fill(0, dropped, 0.0)
    if sampling.min_p > 0.0:
        probs = probs.where(probs >= sampling.min_p * probs.max(), 0.0)
    return probs / probs.sum()


def preferring_long(logits: Tensor, guide: Guide, state: State, vocabulary: Vocabulary) -> Tensor:
    """Logits with tokens set aside that only begin what a longer one spells whole.

    A token is set aside where, behind it, the guide allows nothing but the rest of an allowed
    longer token: whichever is taken, the text is the same. Behind "bug" of "bug" and "bugfix" there
    is a choice, so both stay; so does "b" of "bug" and "bus" where "bug" is a token and "bus" none.

    Args:
        logits: float32 [V], the bias of `guide` in `state` added.
        guide: the guide.
        state: where it is.
        vocabulary: of the model.
    """
    table, allowed = vocabulary.token_bytes, (logits > -torch.inf).nonzero().flatten().tolist()
    texts = {i: table[i] for i in allowed if table[i] and i not in vocabulary.eos_ids}
    if len(texts) > _MAX_COMPARED:
        return logits
    aside = [
        token
        for token, text in texts.items()
        if any(
            len(longer) > len(text)
            and longer.startswith(text)
            and _must_follow(longer[len(text) :], guide, guide.advance(state, token), table)
            for longer in texts.values()
        )
    ]
    return logits.index_fill(0, torch.tensor(aside, dtype=torch.int64), -torch.inf)


def _must_follow(rest: bytes, guide: Guide, state: State, table: Sequence[bytes]) -> bool:
    """Whether all that a guide allows spells `rest`, or begins with it, in whatever tokens."""
    reached: list[list[State]] = [[] for _ in rest]  # by how much of the rest is spelled
    reached[0].append(state)
    for spelled, states in enumerate(reached):
        left = rest[spelled:]
        for here in states:
            for token in (guide.bias(here) > -torch.inf).nonzero().flatten().tolist():
                text = table[token]
                if text and text.startswith(left):
                    continue
                if not text or not left.startswith(text):
                    return False
                after = guide.advance(here, token)
                if after not in reached[spelled + len(text)]:
                    reached[spelled + len(text)].append(after)
    return True
