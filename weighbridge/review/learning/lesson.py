"""Learning: from verdicts to a head for the local engine, measured beside what is cheaper.

Every accuracy is cross-validated: a text is judged by what was learned from others. A version that
does worse than the names of the labels, or their frequencies, is not worth keeping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

import numpy as np

from weighbridge.decision import Json
from weighbridge.review.learning import baselines
from weighbridge.review.learning.examples import Gathered
from weighbridge.review.learning.fit import Array, Features, Fit, Indices, fit, losses, tempered
from weighbridge.review.statistics.intervals import wilson

MIN_EXAMPLES: Final = 10
MIN_OF_LABEL: Final = 2  # for at least two labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How often somebody was right.

    Args:
        hits: may be fractional, where ties are shared.
        num: of how many.
        log_loss: mean of -log of the probability given to the right label; None where nobody gave
            probabilities.
    """

    hits: float
    num: int
    log_loss: float | None = None

    @property
    def accuracy(self) -> float:
        """Share of hits; 0 of nothing."""
        return self.hits / self.num if self.num else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, Wilson."""
        low, high = wilson(round(self.num - self.hits), self.num)
        return 1 - high, 1 - low

    def to_json(self) -> dict[str, Json]:
        """As plain JSON."""
        low, high = self.interval
        return {
            "accuracy": self.accuracy,
            "interval": [low, high],
            "num": self.num,
            "log_loss": self.log_loss,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a head was learned from, and what it is worth.

    Args:
        num_by_label: examples of each option.
        left_out: examples that were not used, by why.
        unknown: answers that are no option, and how often each was given.
        scores: by method: "majority" (its probabilities are the labels' frequencies), "lexical",
            "tf-idf", "names alone" (the label prior before any verdict), "learned".
        newer: the version in use and the new one, on texts that came after the former was made; the
            new one as cross-validated. Empty without any.
        temperature: of the head.
        model_weight: of the language model beside the head.
        has_distance: whether there are enough verdicts to say which tickets lie far from all.
        is_worth_keeping: see `_is_worth_keeping`.
    """

    num_by_label: Mapping[str, int]
    left_out: Mapping[str, int]
    unknown: Mapping[str, int]
    scores: Mapping[str, Score]
    newer: Mapping[Literal["old", "new"], Score]
    temperature: float
    model_weight: float
    has_distance: bool
    is_worth_keeping: bool

    def to_json(self) -> dict[str, Json]:
        """As plain JSON; no text is in it."""
        return {
            "num_by_label": dict(self.num_by_label),
            "left_out": dict(self.left_out),
            "unknown": dict(self.unknown),
            "scores": {name: score.to_json() for name, score in self.scores.items()},
            "newer": {name: score.to_json() for name, score in self.newer.items()},
            "temperature": self.temperature,
            "model_weight": self.model_weight,
            "has_distance": self.has_distance,
            "is_worth_keeping": self.is_worth_keeping,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A fitted head, and its report."""

    head: Fit
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLearnable:
    """What comes back where verdicts are too few, or all the same.

    Args:
        reason: what is missing.
        needed: verdicts that must still come, at the least.
        detail: the same in words.
    """

    reason: Literal["too_few_verdicts", "one_label"]
    needed: int
    detail: str

    def __str__(self) -> str:
        return f"not learnable yet: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous:
    """What the version in use says of the same texts.

    Args:
        made_at: UTC.
        places: its answers, one for each text.
    """

    made_at: datetime
    places: Sequence[int]


def shortfall(gathered: Gathered) -> NotLearnable | None:
    """What is missing before anything can be learned; None if nothing is.

    >>> print(shortfall(Gathered(texts=(), places=(), times=(), num_by_label={"bug": 0, "how": 0},
    ...                          left_out={}, unknown={})))
    not learnable yet: 0 verdicts are usable, at least 10 are needed: 10 more
    """
    counts = sorted(gathered.num_by_label.values(), reverse=True)
    if len(gathered) and sum(count > 0 for count in counts) < 2:
        needed = max(MIN_OF_LABEL, MIN_EXAMPLES - len(gathered))
        said = next(name for name, count in gathered.num_by_label.items() if count)
        detail = (
            f"all {len(gathered)} verdicts say {said!r}; at least {needed} more are needed,"
            f" {MIN_OF_LABEL} of them for another label"
        )
        return NotLearnable(reason="one_label", needed=needed, detail=detail)
    if len(gathered) < MIN_EXAMPLES:
        needed = MIN_EXAMPLES - len(gathered)
        detail = (
            f"{len(gathered)} verdicts are usable, at least {MIN_EXAMPLES} are needed:"
            f" {needed} more"
        )
        return NotLearnable(reason="too_few_verdicts", needed=needed, detail=detail)
    missing = sum(max(0, MIN_OF_LABEL - count) for count in counts[:2])
    if missing:
        detail = f"two labels need {MIN_OF_LABEL} verdicts each: {missing} more"
        return NotLearnable(reason="too_few_verdicts", needed=missing, detail=detail)
    return None


def learn(
    gathered: Gathered,
    features: Features,
    *,
    model_weight: float,
    lifts: Array | None = None,
    lifted: Sequence[int] = (),
    previous: Previous | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Learned | NotLearnable:
    """Fit a head and measure it.

    Args:
        gathered: the examples.
        features: of the same tickets in the same order.
        model_weight: of the language model's lift, where nothing is known about it.
        lifts: [M, K], log of the lift for some tickets.
        lifted: which tickets these are.
        previous: what the version in use says.
        progress: called with the share that is done.

    Raises:
        ExtraMissing: scikit-learn or SciPy is not installed.
        ValueError: features of other tickets than the examples.
    """
    if len(features) != len(gathered):
        raise ValueError(f"want features of {len(gathered)} tickets, got {len(features)}")
    if missing := shortfall(gathered):
        return missing
    places = np.asarray(gathered.places, dtype=np.int64)
    unseen = _cross_validated(gathered, features, places, model_weight, progress)
    whole = fit(features, places, model_weight=model_weight)
    whole = tempered(whole, unseen.logits, places, lifts, np.asarray(lifted, dtype=np.int64))
    progress(1.0)
    learned = unseen.logits / whole.temperature
    by_words = baselines.lexical_hits(gathered.texts, gathered.places, list(gathered.num_by_label))
    scores = {
        "majority": _score(unseen.frequencies, places),
        "lexical": Score(hits=sum(by_words), num=len(by_words)),
        "tf-idf": Score(hits=float((unseen.tfidf == places).sum()), num=len(places)),
        "names alone": _score(features.zero_shot, places),
        "learned": _score(learned, places),
    }
    return Learned(
        head=whole,
        report=Report(
            num_by_label=gathered.num_by_label,
            left_out=gathered.left_out,
            unknown=gathered.unknown,
            scores=scores,
            newer=_newer(gathered, previous, unseen.logits.argmax(1), places),
            temperature=whole.temperature,
            model_weight=whole.model_weight,
            has_distance=whole.cut is not None,
            is_worth_keeping=_is_worth_keeping(
                learned, [features.zero_shot, unseen.frequencies], places
            ),
        ),
    )


class _Unseen(NamedTuple):
    """What each method says of every ticket, fitted without it and those of its fold.

    Args:
        logits: of the head, float64 [N, K].
        frequencies: log of the labels' counts, float64 [N, K].
        tfidf: places of the options, int64 [N].
    """

    logits: Array
    frequencies: Array
    tfidf: Indices


def _cross_validated(
    gathered: Gathered,
    features: Features,
    places: Indices,
    model_weight: float,
    progress: Callable[[float], None],
) -> _Unseen:
    fold = np.asarray(baselines.folds(gathered.texts, gathered.places))
    logits = np.empty_like(features.zero_shot)
    frequencies = np.empty_like(features.zero_shot)
    tfidf = np.empty_like(places)
    num_folds = int(fold.max()) + 1
    for number in range(num_folds):
        inside, outside = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        head = fit(features.at(inside), places[inside], model_weight=model_weight)
        logits[outside] = head.logits(features.at(outside))
        known = places[inside].tolist()
        # One more of each: a label without any is rare, not impossible.
        frequencies[outside] = np.log(np.bincount(known, minlength=logits.shape[1]) + 1.0)
        tfidf[outside] = baselines.tfidf_says(
            [gathered.texts[row] for row in inside],
            known,
            [gathered.texts[row] for row in outside],
        )
        progress((number + 1) / (num_folds + 1))
    return _Unseen(logits, frequencies, tfidf)


def _newer(
    gathered: Gathered, previous: Previous | None, said: Indices, places: Indices
) -> dict[Literal["old", "new"], Score]:
    if previous is None:
        return {}
    # Of older texts the version in use may know the answers: it was learned from them.
    is_newer = np.asarray([time > previous.made_at for time in gathered.times], dtype=bool)
    if not is_newer.any():
        return {}
    old = np.asarray(previous.places, dtype=np.int64)
    num = int(is_newer.sum())
    return {
        "old": Score(hits=float((old == places)[is_newer].sum()), num=num),
        "new": Score(hits=float((said == places)[is_newer].sum()), num=num),
    }


def _is_worth_keeping(learned: Array, others: Sequence[Array], places: Indices) -> bool:
    """Whether the learned probabilities are not clearly worse than those that take no learning.

    By log loss, of which all verdicts tell something; few of them change what is right or wrong.
    Clearly is more than one standard error: half of few verdicts, as cross-validation has them,
    teach less than all, so a small disadvantage is no bad sign.
    """
    for other in others:
        worse = losses(learned, places) - losses(other, places)
        if worse.mean() > worse.std() / math.sqrt(len(worse)):
            return False
    return True


def _score(logits: Array, places: Indices) -> Score:
    return Score(
        hits=float((logits.argmax(1) == places).sum()),
        num=len(places),
        log_loss=float(losses(logits, places).mean()),
    )
