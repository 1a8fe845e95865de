"""The label prior: what a sentence encoder makes of a ticket and the labels, before any answer.

A label is a point: the middle of its phrases, or without any of its name and description, each said
in a few ways. A label's score is the cosine between ticket and point, less the label's mean cosine
with a fixed background, since some labels lie near everything. The posterior is the softmax of the
scaled scores.

*Support* asks another question: is the ticket near any label at all? It compares the best label
with the nearest text of the background, and is the prior's analogue of mass.

Every constant was chosen on development tickets (`python -m bench.accuracy` prints what they give).
With names only, the 20-way banking77 draws give 0.845 and 0.765 accuracy; at probability ≥ 0.8 and
support ≥ 0.5 more than half of the tickets pass, 0.98 and 0.92 of them right.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F  # noqa: N812  # the name everybody knows it by
from torch import Tensor

from weighbridge.local_engine.background import BACKGROUND
from weighbridge.local_engine.encoder import Encoder
from weighbridge.local_engine.kept_embeddings import embed_kept

Key = TypeVar("Key", bound=Hashable)

# A bare name lies apart from whole sentences; as tickets are spoken of, it lies nearer to them. The
# middle of a few such ways gets more right than the name alone; no single one does on all of the
# development sets.
_WAYS = ("{}", "Customer request: {}", "Support ticket: {}", "Customer question: {}")

# Sharper where every label has phrases: the middle of a dozen sentences is a less noisy point than
# a bare name, so the same distance means more.
SCALE_NAMES = 15.0
SCALE_PHRASES = 25.0

# Support is 0.5 where 95 % of the in-scope development tickets are kept.
_BACKGROUND_SHARE = 0.5
_SUPPORT_CUT = 0.04
_SUPPORT_SCALE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelText:
    """What the prior reads of one option.

    Args:
        name: the label.
        description: may be empty.
        phrases: how customers put it; may be empty.
    """

    name: str
    description: str = ""
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelPoints:
    """A field's options in the space of the encoder; made once for each field.

    Args:
        points: float32 [K, D], unit length.
        offsets: float32 [K], mean cosine of each label with the background.
        scale: of the cosines, inside the softmax.
    """

    points: Tensor
    offsets: Tensor
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorOpinion:
    """What the prior thinks of one field of one ticket.

    Args:
        log_probs: float64 [K], natural log of the posterior over the options.
        support: 0 to 1; 0.5 where 95 % of in-scope development tickets are kept.
        model_weight: of the language model beside it, as fitted on verdicts; None for the default.
    """

    log_probs: Tensor
    support: float
    model_weight: float | None = None


class LabelPrior:
    """Opinions about options from sentence embeddings alone.

    Args:
        encoder: an English sentence encoder.
        cache: a folder to keep the vectors of labels and background in; None for none.
    """

    def __init__(self, encoder: Encoder, cache: Path | None = None) -> None:
        self._encoder, self._cache = encoder, cache

    def points(self, labels: Sequence[LabelText]) -> LabelPoints:
        """Place the options of one field; at least one."""
        texts = [_texts(label) for label in labels]
        flat = embed_kept(self._encoder, [text for each in texts for text in each], self._cache)
        own = torch.split(flat, [len(each) for each in texts])
        points = torch.stack([F.normalize(part.mean(0), dim=-1) for part in own])
        sharp = all(label.phrases for label in labels)
        offsets = (self._background @ points.T).mean(0)
        return LabelPoints(points, offsets, SCALE_PHRASES if sharp else SCALE_NAMES)

    @property
    def fingerprint(self) -> str:
        """Of the encoder: tells its vectors from those of another."""
        return self._encoder.fingerprint

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors, float32 [number of texts, D]."""
        return self._encoder.embed(texts)

    def opinions(
        self, ticket: Tensor, fields: Mapping[Key, LabelPoints]
    ) -> dict[Key, PriorOpinion]:
        """What the prior thinks of each field of a ticket, by the keys given.

        Args:
            ticket: float32 [D], its vector.
            fields: the points of each field's options.
        """
        nearest_background = float((self._background @ ticket).max())
        opinions = {}
        for name, labels in fields.items():
            cosines = labels.points @ ticket
            scores = (cosines - labels.offsets).double() * labels.scale
            near = float(cosines.max()) - _BACKGROUND_SHARE * nearest_background
            opinions[name] = PriorOpinion(
                log_probs=scores.log_softmax(0),
                support=float(torch.tensor(_SUPPORT_SCALE * (near - _SUPPORT_CUT)).sigmoid()),
            )
        return opinions

    @cached_property
    def _background(self) -> Tensor:
        return embed_kept(self._encoder, BACKGROUND, self._cache)


def without_opinion(num_options: int) -> PriorOpinion:
    """On options that name no topics, of which embeddings of their names say nothing."""
    even = torch.zeros(num_options, dtype=torch.float64).log_softmax(0)
    return PriorOpinion(log_probs=even, support=0.0)


def _texts(label: LabelText) -> list[str]:
    if label.phrases:
        return list(label.phrases)
    name = label.name.replace("_", " ").replace("-", " ")
    said = [name, f"{name}: {label.description}"] if label.description else [name]
    return [way.format(text) for text in said for way in _WAYS]
