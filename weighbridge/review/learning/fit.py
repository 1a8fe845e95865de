"""Fitting a head: a linear layer that changes the zero-shot logits as far as verdicts demand.

It maximises the likelihood of the verdicts under softmax(s zero-shot + W x + b), with a Gaussian
penalty on W and b that pulls towards no change. Without verdicts there is none; each one more may
cost a little more. The share s is 1 without verdicts and falls as they come: what the penalty lets
a few of them say, names that are louder would drown out. Where customers' phrases place the labels
it stays 1: they know more than names do. Options that no verdict named take no
part: their logits stay as they are, and since all changes sum to zero over the others, the two
kinds stay comparable.

The constants were chosen on the development draws (`python -m bench.learning_curve` prints what
they give). They are a plateau: half and twice the penalty, or the worth of a name, are within two
tickets of 200.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weighbridge.review.statistics.learn_extra import learn_module

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

PENALTY: Final = 0.05
# Mean square length of a ticket's features, by their source: how much each may decide.
EMBEDDING_SHARE: Final = 30.0
HIDDEN_SHARE: Final = 7.0  # for each of the two states
# Verdicts for each label that tell as much as its name. Phrases tell more than sixteen do: beside
# the built-in ones this costs three of a hundred development tickets.
NAME_WORTH: Final = 8.0

MIN_DISTANCES: Final = 20
KEPT: Final = 0.95  # of in-scope tickets have a support of 0.5 or more
_TYPICAL_SUPPORT: Final = 0.9  # that of the median one

_MODEL_WEIGHTS: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
_FEW: Final = 10.0  # verdicts that would have to speak for another temperature or weight
_TINY: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """What the models make of N tickets, before anything is learned.

    Args:
        embeddings: [N, E], unit length.
        hidden: [N, H], two states of H / 2 side by side.
        zero_shot: [N, K], log of the label prior's posterior over the options.
        has_phrases: whether the prior read phrases of every option, not names alone.
    """

    embeddings: Array
    hidden: Array
    zero_shot: Array
    has_phrases: bool = False

    def __len__(self) -> int:
        return len(self.embeddings)

    @property
    def both(self) -> Array:
        """[N, E + H]."""
        return np.concatenate([self.embeddings, self.hidden], axis=1)

    def at(self, rows: Indices) -> Features:
        """Some of them."""
        return replace(
            self,
            embeddings=self.embeddings[rows],
            hidden=self.hidden[rows],
            zero_shot=self.zero_shot[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """A fitted head; the arrays of `local_engine.learned.head.Head`.

    Args:
        learned: [L], places among the options of those that verdicts named, rising.
        mean: [F].
        scale: [F].
        weight: [L, F].
        bias: [L].
        zero_shot_share: s, 0 to 1.
        centroids: [L, E].
        temperature: see `tempered`.
        model_weight: see `tempered`.
        cut: None where there are too few verdicts to say what is near.
        spread: see `Head`.
    """

    learned: Indices
    mean: Array
    scale: Array
    weight: Array
    bias: Array
    zero_shot_share: float
    centroids: Array
    temperature: float = 1.0
    model_weight: float
    cut: float | None
    spread: float

    def logits(self, features: Features) -> Array:
        """[N, K], before temperature."""
        logits = features.zero_shot.copy()
        scaled = (features.both - self.mean) / self.scale
        named = logits[:, self.learned]
        lost = (1 - self.zero_shot_share) * (named - named.mean(1, keepdims=True))
        logits[:, self.learned] += scaled @ self.weight.T + self.bias - lost
        return logits

    def distances(self, embeddings: Array) -> Array:
        """[N], to the nearest centroid."""
        nearest: Array = _distances(embeddings, self.centroids).min(1)
        return nearest


def fit(features: Features, places: Indices, *, model_weight: float) -> Fit:
    """Fit a head.

    Args:
        features: of at least one ticket.
        places: int [N], of the answers among the K options.
        model_weight: of the language model's lift, until `tempered` knows better.
    """
    learned, rows = np.unique(places, return_inverse=True)
    both = features.both
    mean, scale = both.mean(0), _scale(features)
    scaled = (both - mean) / scale
    share = 1.0
    if not features.has_phrases:
        share = NAME_WORTH / (NAME_WORTH + len(places) / len(learned))
    weight, bias = _solve(scaled, rows, share * features.zero_shot[:, learned])
    centroids = np.stack([features.embeddings[rows == row].mean(0) for row in range(len(learned))])
    cut, spread = _cut(features.embeddings, rows, centroids)
    return Fit(
        learned=learned,
        mean=mean,
        scale=scale,
        weight=weight,
        bias=bias,
        zero_shot_share=share,
        centroids=centroids,
        model_weight=model_weight,
        cut=cut,
        spread=spread,
    )


def tempered(
    head: Fit, logits: Array, places: Indices, lifts: Array | None, lifted: Indices
) -> Fit:
    """The head with the temperature, and the weight of the language model, that fit best.

    Args:
        head: fitted on all verdicts.
        logits: [N, K], of tickets by heads that had not seen them.
        places: int [N], what was right.
        lifts: [M, K], log of the language model's lift for some of the tickets; None for none.
        lifted: int [M], which tickets these are.
    """
    optimize = learn_module("scipy.optimize")

    def cost(log_inverse: float) -> float:
        # The second part keeps few verdicts from saying much: they are easily all right.
        total = float(losses(logits * np.exp(log_inverse), places).sum())
        return total + _FEW / 2 * log_inverse**2

    found = optimize.minimize_scalar(cost, bounds=(-1.5, 1.5), method="bounded")
    inverse = float(np.exp(found.x))
    weight = head.model_weight
    if lifts is not None and len(lifted):
        costs = {
            each: losses(logits[lifted] * inverse + each * lifts, places[lifted]).sum()
            for each in _MODEL_WEIGHTS
        }
        weight = min(costs, key=lambda each: costs[each])
    return replace(head, temperature=1 / inverse, model_weight=weight)


def losses(logits: Array, places: Indices) -> Array:
    """[N], -log of the probability that the softmax gives to what is right."""
    found: Array = -_log_softmax(logits)[np.arange(len(places)), places]
    return found


def _solve(scaled: Array, rows: Indices, offsets: Array) -> tuple[Array, Array]:
    """Weight [L, F] and bias [L] of the penalised maximum likelihood."""
    optimize = learn_module("scipy.optimize")
    inputs = np.concatenate([scaled, np.ones((len(scaled), 1))], axis=1)
    turn = None
    if len(inputs) < inputs.shape[1]:
        # A solution lies where the tickets do, and the penalty is blind to turns: as many
        # directions as there are tickets are enough, and several times quicker.
        _, _, turn = np.linalg.svd(inputs, full_matrices=False)
        inputs = inputs @ turn.T
    num_labels, width = offsets.shape[1], inputs.shape[1]
    truth = np.eye(num_labels)[rows]

    def cost(flat: Array) -> tuple[float, Array]:
        layer = flat.reshape(num_labels, width)
        log_probs = _log_softmax(offsets + inputs @ layer.T)
        total = -float((log_probs * truth).sum()) + PENALTY / 2 * float(flat @ flat)
        slope = (np.exp(log_probs) - truth).T @ inputs + PENALTY * layer
        return total, slope.ravel()

    start = np.zeros(num_labels * width)
    found = optimize.minimize(
        cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "gtol": 1e-3}
    )
    layer: Array = found.x.reshape(num_labels, width)
    if turn is not None:
        layer = layer @ turn
    # Zero up to rounding already: what the softmax takes from one label it gives to the others.
    layer -= layer.mean(0)
    return layer[:, :-1], layer[:, -1]


def _scale(features: Features) -> Array:
    """[F]: the embedding keeps its shape, hidden states, whose sizes differ a lot, are levelled."""
    embeddings, hidden = features.embeddings, features.hidden
    length = np.sqrt(((embeddings - embeddings.mean(0)) ** 2).sum(1).mean()) + _TINY
    of_embedding = np.full(embeddings.shape[1], length / np.sqrt(EMBEDDING_SHARE))
    # A state that hardly varies among few tickets would otherwise be blown up by the next one.
    deviation = hidden.std(0)
    deviation = np.maximum(deviation, max(0.1 * float(np.median(deviation)), _TINY))
    of_hidden = deviation * np.sqrt(hidden.shape[1] / (2 * HIDDEN_SHARE))
    return np.concatenate([of_embedding, of_hidden])


def _cut(embeddings: Array, rows: Indices, centroids: Array) -> tuple[float | None, float]:
    """Where support is 0.5, and how fast it falls, by tickets left out of their own centroid."""
    sizes = np.bincount(rows)
    distances = _distances(embeddings, centroids)
    counted = sizes[rows] > 1
    if int(counted.sum()) < MIN_DISTANCES:
        return None, 1.0
    # Without its own part, a centroid lies n / (n - 1) times as far from a ticket.
    own = np.arange(len(rows))
    distances[own, rows] *= sizes[rows] / np.maximum(sizes[rows] - 1, 1)
    nearest = distances[counted].min(1)
    cut, median = np.quantile(nearest, [KEPT, 0.5])
    typical = np.log(_TYPICAL_SUPPORT / (1 - _TYPICAL_SUPPORT))
    return float(cut), max(float((cut - median) / typical), _TINY)


def _distances(embeddings: Array, centroids: Array) -> Array:
    """[N, L], Euclidean."""
    squares = (
        (embeddings**2).sum(1)[:, None]
        - 2 * embeddings @ centroids.T
        + (centroids**2).sum(1)[None, :]
    )
    distances: Array = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(1, keepdims=True)
    log_probs: Array = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return log_probs
