"""Weighing a finite language: exact posteriors of its choices, one after the other.

Each choice is scored in one packed pass, under every likely value of the choices before it. Its
posterior is softmax(PRIOR_WEIGHT * log prior + model weight * log lift), the model's weight being
MODEL_WEIGHT until one is learned from verdicts. An option's lift is its
probability for this ticket over that for one that says nothing: it takes out what the model would
say to anything (contextual calibration, Zhao et al. 2021). Where there is no prior it is uniform.

The weights were chosen on the development draws, for the 135M generator (`python -m bench.accuracy`
prints accuracy by weight). With the prior at 1, model weights from 0 to 0.1 are within two tickets
of each other on both banking77 draws; larger ones lose. The same small weight holds where the model
stands alone: raw, it named a priority with 0.8 or more for 6 of 90 development tickets, and was
right for 2 of them; weighed so, it stays far below any threshold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from weighbridge.decision import Json
from weighbridge.local_engine.posterior import behind
from weighbridge.local_engine.prior import LabelText, PriorOpinion
from weighbridge.local_engine.scoring import Branch, ChoiceScores, Scores
from weighbridge.local_engine.spellings import Text
from weighbridge.schemas.finite import Choice, FiniteLanguage, Path

PRIOR_WEIGHT = 1.0
MODEL_WEIGHT = 0.05

# Later choices are scored under the likely values of the earlier ones only.
MAX_BRANCHES = 8
MAX_DROPPED = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """A field to be weighed.

    Args:
        path: property names from the root of the answer.
        options: the permitted values.
        labels: what the prior reads of them, in the same order; empty where it must not judge.
    """

    path: Path
    options: tuple[Json, ...]
    labels: tuple[LabelText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWeights:
    """What is known about one field.

    Args:
        value: the option in the answer: the most probable one, by itself or, where whole values
            are chosen between, together with the rest of its value.
        options: the permitted values; with None where an answer may leave the field out.
        posterior: probability of each option, summing to 1.
        model: the same by the language model alone, raw and renormalised over the options.
        lift: the same by the language model alone, less what it would say to anything.
        prior: the same by the label prior alone; None without one.
        mass: (low, high), raw probability of all options together, see `scoring`.
        support: see `prior`; None without one.
    """

    value: Json
    options: tuple[Json, ...]
    posterior: tuple[float, ...]
    model: tuple[float, ...]
    lift: tuple[float, ...]
    prior: tuple[float, ...] | None
    mass: tuple[float, float]
    support: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """An answer and what is known about it.

    Args:
        value: the answer, every choice at its most probable option.
        fields: in the order given.
        dropped: posterior probability of the branches that were not followed.
    """

    value: Json
    fields: tuple[FieldWeights, ...]
    dropped: float


def weigh(
    language: FiniteLanguage,
    fields: Sequence[FieldSpec],
    opinions: Mapping[Path, PriorOpinion],
    *,
    encode: Callable[[str], list[int]],
    scores: Scores,
    baseline: Scores,
) -> Weights:
    """Weigh every answer of a language.

    Args:
        language: its first literal must stand at the end of the prompt already.
        fields: the fields to report.
        opinions: of the label prior by path; empty without one.
        encode: the model's tokenizer.
        scores: at the prompt of this ticket.
        baseline: the same without a ticket.
    """
    tallies = []
    followed, dropped = [_Followed(weight=1.0, prefix=())], 0.0
    for number, (choice, literal) in enumerate(language.turns):
        tally = _Tally(
            choice, _prior_over(choice, fields, opinions), _model_weight(choice, fields, opinions)
        )
        tallies.append(tally)
        ahead: list[Branch] = []
        is_last = number == len(language.turns) - 1
        if not is_last:  # by the prior alone, which mostly decides
            guess = [tally.log_prior.softmax(0)] * len(followed)
            likely, _ = _follow(followed, guess, choice, literal, encode)
            ahead = _branches(likely, language.turns[number + 1][0])
        branches = _branches(followed, choice)
        both = zip(scores.of(branches, ahead), baseline.of(branches, ahead), strict=True)
        posteriors = [
            tally.add(place.weight, here, empty.estimates)
            for place, (here, empty) in zip(followed, both, strict=True)
        ]
        if not is_last:
            followed, lost = _follow(followed, posteriors, choice, literal, encode)
            dropped += (1.0 - dropped) * lost
    return Weights(
        value=language.value({tally.choice.path: tally.best() for tally in tallies}),
        fields=tuple(_field(spec, tallies, opinions.get(spec.path)) for spec in fields),
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """Values chosen so far: their posterior weight, and their tokens after the prompt."""

    weight: float
    prefix: tuple[int, ...]


@dataclass(slots=True)
class _Tally:
    """What the branches say about one choice, summed up by their weights."""

    choice: Choice
    log_prior: Tensor  # float64 [K]
    model_weight: float
    posterior: Tensor = field(init=False)
    model: Tensor = field(init=False)
    lift: Tensor = field(init=False)
    low: float = 0.0
    high: float = 0.0

    def __post_init__(self) -> None:
        self.posterior = torch.zeros(len(self.choice.options), dtype=torch.float64)
        self.model = torch.zeros_like(self.posterior)
        self.lift = torch.zeros_like(self.posterior)

    def add(self, weight: float, scores: ChoiceScores, empty: Tensor) -> Tensor:
        """Take in one branch; returns its posterior, float64 [K]."""
        log_lift = scores.estimates - empty
        posterior = (PRIOR_WEIGHT * self.log_prior + self.model_weight * log_lift).softmax(0)
        self.posterior += weight * posterior
        self.model += weight * scores.estimates.softmax(0)
        self.lift += weight * log_lift.softmax(0)
        self.low += weight * scores.mass[0]
        self.high += weight * scores.mass[1]
        return posterior

    def best(self) -> Json:
        return self.choice.options[int(self.posterior.argmax())].value


def _branches(followed: Sequence[_Followed], choice: Choice) -> list[Branch]:
    texts = tuple(Text(option.stem, option.closer) for option in choice.options)
    return [Branch(prefix=place.prefix, texts=texts) for place in followed]


def _follow(
    followed: Sequence[_Followed],
    posteriors: Sequence[Tensor],
    choice: Choice,
    literal: str,
    encode: Callable[[str], list[int]],
) -> tuple[list[_Followed], float]:
    """The likely places behind a choice, weights summing to 1, and the probability left out."""
    places = [
        (place.weight * float(probability), place, option)
        for place, posterior in zip(followed, posteriors, strict=True)
        for option, probability in zip(choice.options, posterior, strict=True)
    ]
    places.sort(key=lambda entry: -entry[0])
    kept, total = [], 0.0
    for weight, place, option in places[:MAX_BRANCHES]:
        kept.append((weight, (*place.prefix, *behind(option, literal, encode))))
        total += weight
        if total >= 1.0 - MAX_DROPPED:
            break
    return [_Followed(weight=w / total, prefix=prefix) for w, prefix in kept], 1.0 - total


def _prior_over(
    choice: Choice, fields: Sequence[FieldSpec], opinions: Mapping[Path, PriorOpinion]
) -> Tensor:
    """Log prior of each option of a choice: of its field, or of all fields inside it together.

    Uniform (zero, up to a constant) where nobody has an opinion.
    """
    total = torch.zeros(len(choice.options), dtype=torch.float64)
    for spec in fields:
        if not _covers(choice, spec) or spec.path not in opinions:
            continue
        log_probs = opinions[spec.path].log_probs
        position = {_key(value): index for index, value in enumerate(spec.options)}
        for index, option in enumerate(choice.options):
            found = position.get(_key(_inside(option.value, choice, spec)))
            # The prior has no opinion on a field that is left out: as good as the average option.
            total[index] += -math.log(len(log_probs)) if found is None else log_probs[found]
    return total


def _model_weight(
    choice: Choice, fields: Sequence[FieldSpec], opinions: Mapping[Path, PriorOpinion]
) -> float:
    """As fitted on verdicts for a field of the choice; where several say, the smallest."""
    found = [
        opinions[spec.path] for spec in fields if _covers(choice, spec) and spec.path in opinions
    ]
    fitted = [each.model_weight for each in found if each.model_weight is not None]
    return min(fitted, default=MODEL_WEIGHT)


def _field(
    spec: FieldSpec, tallies: Sequence[_Tally], opinion: PriorOpinion | None
) -> FieldWeights:
    """A field's share of the choice that it stands in."""
    tally = next(tally for tally in tallies if _covers(tally.choice, spec))
    values = {_key(value): value for value in spec.options}
    sums = {name: dict.fromkeys(values, 0.0) for name in ("posterior", "model", "lift")}
    for index, option in enumerate(tally.choice.options):
        value = _inside(option.value, tally.choice, spec)
        key = _key(value)
        values.setdefault(key, value)
        for name, table in sums.items():
            table[key] = table.get(key, 0.0) + float(getattr(tally, name)[index])
    return FieldWeights(
        value=_inside(tally.best(), tally.choice, spec),
        options=tuple(values.values()),
        posterior=tuple(sums["posterior"].values()),
        model=tuple(sums["model"].values()),
        lift=tuple(sums["lift"].values()),
        prior=None if opinion is None else tuple(opinion.log_probs.exp().tolist()),
        mass=(tally.low, tally.high),
        support=None if opinion is None else opinion.support,
    )


def _covers(choice: Choice, spec: FieldSpec) -> bool:
    return spec.path[: len(choice.path)] == choice.path


def _inside(value: Json, choice: Choice, spec: FieldSpec) -> Json:
    """The field's value inside an option of the choice; None where it is left out."""
    for part in spec.path[len(choice.path) :]:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _key(value: Json) -> str:
    """Tells 1, "1" and true apart, as Python's == does not."""
    return json.dumps(value)
