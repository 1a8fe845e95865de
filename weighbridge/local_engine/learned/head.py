"""Head: one field's learned opinion, as a change to the zero-shot one.

A linear layer over what encoder and language model make of the ticket is added to the logits of the
label prior. It was fitted with a penalty on its size, so where verdicts are few it is small, and
without any the prior is left as it is. The better labels are known from verdicts, the less their
names need to say: of the differences between the zero-shot logits of learned labels a share is
kept. Both changes sum to zero over these labels, so one that came later competes on equal terms
with its zero-shot logit.

*Support* becomes a matter of distance as well: is the ticket as near to the middle of some label's
tickets as those were to theirs that people judged?
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from weighbridge.decision import Json
from weighbridge.local_engine.prior import PriorOpinion


def option_key(value: Json) -> str:
    """An option as text that tells 1, "1" and true apart."""
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """What was learned about the options of one field.

    Args:
        keys: `option_key` of each learned option; K of them.
        mean: float32 [F], of the features: embedding [E], then hidden states.
        scale: float32 [F], what the centred features are divided by.
        weight: float32 [K, F].
        bias: float32 [K].
        zero_shot_share: 0 to 1, how much counts of the differences between the zero-shot logits.
        centroids: float32 [K, E], mean embedding of each option's tickets.
        temperature: what the logits are divided by; above 0.
        model_weight: of the language model's lift beside them, see `weighing`.
        cut: distance to the nearest centroid at which support is 0.5; None leaves support to the
            label prior.
        spread: distance over which support falls; above 0.

    Raises:
        ValueError: shapes that do not fit together, or numbers out of range.
    """

    keys: tuple[str, ...]
    mean: Tensor
    scale: Tensor
    weight: Tensor
    bias: Tensor
    zero_shot_share: float
    centroids: Tensor
    temperature: float
    model_weight: float
    cut: float | None
    spread: float

    def __post_init__(self) -> None:
        options, width = len(self.keys), len(self.mean)
        wanted = {
            "scale": (width,),
            "weight": (options, width),
            "bias": (options,),
            "centroids": (options, self.centroids.shape[-1]),
        }
        for name, shape in wanted.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"want {name} of shape {shape}")
        if self.centroids.shape[-1] > width:
            raise ValueError("want centroids no wider than the features")
        tensors = [getattr(self, field.name) for field in fields(self)]
        if not all(bool(t.isfinite().all()) for t in tensors if isinstance(t, Tensor)):
            raise ValueError("want finite numbers")
        if not 0 <= self.zero_shot_share <= 1:
            raise ValueError("want zero_shot_share from 0 to 1")
        if not (self.temperature > 0 and self.spread > 0 and bool((self.scale > 0).all())):
            raise ValueError("want temperature, spread and scale above 0")

    def opinion(
        self, zero_shot: PriorOpinion, options: Sequence[Json], embedding: Tensor, hidden: Tensor
    ) -> PriorOpinion:
        """What is known of one ticket now.

        Args:
            zero_shot: of the label prior, over `options`.
            options: of the field today; learned ones may be missing, and others have been added.
            embedding: float32 [E], of the ticket.
            hidden: float32 [F - E], of the ticket.
        """
        features = (torch.cat([embedding, hidden]) - self.mean) / self.scale
        row = {key: place for place, key in enumerate(self.keys)}
        rows = [row.get(option_key(option)) for option in options]
        learned = torch.tensor([place for place in rows if place is not None], dtype=torch.long)
        change = torch.zeros(len(options), dtype=torch.float64)
        known = torch.tensor([place is not None for place in rows])
        change[known] = (self.weight[learned] @ features + self.bias[learned]).double()
        named = zero_shot.log_probs[known]
        change[known] -= (1 - self.zero_shot_share) * (named - named.mean())
        logits = (zero_shot.log_probs + change) / self.temperature
        return PriorOpinion(
            log_probs=logits.log_softmax(0),
            support=self._support(zero_shot, embedding, learned, is_whole=bool(known.all())),
            model_weight=self.model_weight,
        )

    def _support(
        self, zero_shot: PriorOpinion, embedding: Tensor, learned: Tensor, *, is_whole: bool
    ) -> float:
        if self.cut is None or not len(learned):
            return zero_shot.support
        distance = float((self.centroids[learned] - embedding).norm(dim=1).min())
        support = float(torch.tensor((self.cut - distance) / self.spread).sigmoid())
        # A ticket of an option that nothing is known of lies far from all others, and rightly so.
        return support if is_whole else max(support, zero_shot.support)
