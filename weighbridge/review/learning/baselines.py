"""Baselines: what cheaper means get right, since an accuracy by itself says nothing.

Each says how many it gets right of the texts of a fold, given those of all others.
"""

from __future__ import annotations

import math
import re
import statistics
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Final

from weighbridge.review.statistics.learn_extra import learn_module

MAX_FOLDS: Final = 5

_ENDING = re.compile(r"(ing|ed|es|s|e)$")
_WORD = re.compile(r"[^\W\d_]+")


def folds(texts: Sequence[str], places: Sequence[int]) -> list[int]:
    """The fold of each text, from 0; every label is spread evenly over them.

    There are as many as most labels have texts, so that a text's own label has not been heard of
    more rarely than the others when its turn comes; at least two and at most five. Which fold a
    text is in depends on the texts and their labels, not on their order.
    """
    number = min(max(2, round(statistics.median(Counter(places).values()))), MAX_FOLDS)
    order = sorted(range(len(texts)), key=lambda row: (places[row], texts[row]))
    found = [0] * len(texts)
    for turn, row in enumerate(order):
        found[row] = turn % number
    return found


def majority(places: Sequence[int]) -> int:
    """The most frequent label; of several the first."""
    counts = Counter(places)
    return min(counts, key=lambda place: (-counts[place], place))


def lexical_hits(texts: Sequence[str], places: Sequence[int], labels: Sequence[str]) -> list[float]:
    """1 where the words of the right label's name are the best match for a text's, else 0.

    Where several labels match equally well, each has its share.
    """
    names = [_words(label.replace("_", " ")) for label in labels]
    hits = []
    for text, place in zip(texts, places, strict=True):
        words = _words(text)
        scores = [len(name & words) / math.sqrt(len(name) or 1) for name in names]
        best = [place for place, score in enumerate(scores) if score == max(scores)]
        hits.append((place in best) / len(best))
    return hits


def tfidf_says(texts: Sequence[str], places: Sequence[int], asked: Sequence[str]) -> list[int]:
    """What logistic regression over words and pairs of words says of the texts asked about.

    Args:
        texts: to learn from; at least one.
        places: their labels.
        asked: others.
    """
    if len(set(places)) < 2:
        return [places[0]] * len(asked)
    words = learn_module("sklearn.feature_extraction.text").TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True
    )
    try:
        inputs = words.fit_transform(texts)
    except ValueError:  # not a single word of two letters
        return [majority(places)] * len(asked)
    regression = learn_module("sklearn.linear_model").LogisticRegression(C=10.0, max_iter=1000)
    with warnings.catch_warnings():
        # It takes many labels with few texts each for numbers that were meant as such.
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        regression.fit(inputs, list(places))
    return [int(place) for place in regression.predict(words.transform(asked))]


def _words(text: str) -> set[str]:
    return {_ENDING.sub("", word) for word in _WORD.findall(text.lower())}
