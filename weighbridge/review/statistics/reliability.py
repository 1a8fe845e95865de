"""Reliability: how far stated confidences are from observed shares of right answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from weighbridge.review.statistics.calibration import bin_of
from weighbridge.review.statistics.intervals import Interval, wilson
from weighbridge.review.statistics.labels import Labels, NotYet
from weighbridge.review.statistics.learn_extra import learn_module


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """One row of the table.

    Args:
        low: confidences above this (the first bin: from this) ...
        high: ... up to this.
        num_labels: in the bin; may be 0.
        num_correct: right among them.
        mean_confidence: None in an empty bin.
        accuracy: None in an empty bin.
        interval: Wilson, 95 %, of the accuracy.
    """

    low: float
    high: float
    num_labels: int
    num_correct: int
    mean_confidence: float | None
    accuracy: float | None
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How good confidences are, in the usual numbers.

    Args:
        num_labels: behind all of them.
        accuracy: share of right answers.
        mean_confidence: what the machine thinks of itself.
        brier: mean squared distance from the outcome; lower is better.
        log_loss: in nats; scikit-learn cuts confidences off just beside 0 and 1.
        calibration_error: mean distance of accuracy and confidence over bins of equal mass. Depends
            on their number, so look at the table as well.
    """

    num_labels: int
    accuracy: float
    mean_confidence: float
    brier: float
    log_loss: float
    calibration_error: float


def scores(labels: Labels, num_bins: int = 10) -> Scores | NotYet:
    """The scores of labelled confidences; `NotYet` without any label.

    Raises:
        ValueError: fewer than one bin.
    """
    edges = equal_mass_edges(labels.confidences, num_bins)
    error = calibration_error(reliability_table(labels, edges))
    if isinstance(error, NotYet):
        return error
    metrics = learn_module("sklearn.metrics")
    outcomes = [int(right) for right in labels.correct]
    return Scores(
        num_labels=len(labels),
        accuracy=sum(outcomes) / len(labels),
        mean_confidence=math.fsum(labels.confidences) / len(labels),
        brier=float(metrics.brier_score_loss(outcomes, labels.confidences, pos_label=1)),
        log_loss=float(metrics.log_loss(outcomes, labels.confidences, labels=[0, 1])),
        calibration_error=error,
    )


def reliability_table(labels: Labels, edges: tuple[float, ...]) -> tuple[ReliabilityBin, ...]:
    """Stated and observed in each bin.

    Args:
        labels: may be empty; the bins then are.
        edges: rising from 0 to 1, as of `equal_mass_edges` or `equal_width_edges`.

    Raises:
        ValueError: edges that do not rise from 0 to 1.
    """
    rises = all(low < high for low, high in itertools.pairwise(edges))
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or not rises:
        raise ValueError("want edges that rise from 0 to 1")
    members: list[list[tuple[float, bool]]] = [[] for _ in edges[1:]]
    for confidence, right in zip(labels.confidences, labels.correct, strict=True):
        members[bin_of(confidence, edges)].append((confidence, right))
    table = []
    for (low, high), rows in zip(itertools.pairwise(edges), members, strict=True):
        num_labels, num_correct = len(rows), sum(right for _, right in rows)
        total = math.fsum(confidence for confidence, _ in rows)
        table.append(
            ReliabilityBin(
                low=low,
                high=high,
                num_labels=num_labels,
                num_correct=num_correct,
                mean_confidence=total / num_labels if rows else None,
                accuracy=num_correct / num_labels if rows else None,
                interval=wilson(num_correct, num_labels),
            )
        )
    return tuple(table)


def calibration_error(table: Sequence[ReliabilityBin]) -> float | NotYet:
    """ECE: |accuracy - confidence| over the bins, weighted by their labels.

    Source: Naeini et al. 2015.
    """
    num_labels = sum(row.num_labels for row in table)
    if not num_labels:
        return NotYet(what="estimable", reason="too_few_labels", needed=1)
    return math.fsum(
        row.num_labels / num_labels * abs(row.accuracy - row.mean_confidence)
        for row in table
        if row.accuracy is not None and row.mean_confidence is not None
    )


def equal_mass_edges(confidences: Sequence[float], num_bins: int) -> tuple[float, ...]:
    """Edges of at most `num_bins` bins with about equally many confidences; ties stay together.

    Raises:
        ValueError: fewer than one bin.
    """
    if num_bins < 1:
        raise ValueError(f"want at least one bin, got {num_bins}")
    ordered = sorted(confidences)
    last = (-(-len(ordered) * part // num_bins) - 1 for part in range(1, num_bins))
    inner = {ordered[place] for place in last if place >= 0}
    return (0.0, *sorted(inner - {0.0, 1.0}), 1.0)


def equal_width_edges(num_bins: int) -> tuple[float, ...]:
    """Edges of `num_bins` bins of one width.

    Raises:
        ValueError: fewer than one bin.
    """
    if num_bins < 1:
        raise ValueError(f"want at least one bin, got {num_bins}")
    return tuple(place / num_bins for place in range(num_bins + 1))
