"""A soft guide that carries a prior over whole texts to the tokens where they part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

from weighbridge.errors import TaskInvalid
from weighbridge.local_engine.checks import encoded, pairs
from weighbridge.local_engine.guides.byte_language import SortedTexts
from weighbridge.local_engine.guides.lexicon import Lexicon
from weighbridge.local_engine.guides.logit_bias import check_value
from weighbridge.local_engine.guides.texts import refuse_unspellable
from weighbridge.local_engine.vocabulary import Vocabulary

# A range of the sorted texts that go on from here or end here, and how many bytes are spelled.
Reach: TypeAlias = tuple[int, int, int]

_ENDED: Reach = (0, 0, 0)
_ELSEWHERE: Reach = (0, 0, 1)  # the text is none of the options; there is no opinion on it

_KEPT_STATES = 256


def label_prior(log_probs: Mapping[str, float]) -> LabelPrior:
    """Reweight the texts of a choice, softly.

    Meant for `both(choice(labels), label_prior(log_probs))`: by itself it demands nothing, and the
    engine refuses to write with it alone. A token's bias is the log of the share
    of the prior that it keeps: log Σ over the options still open after it, minus log Σ over those
    open before; end of text counts as a token. Along any spelling of an option the biases add up to
    its normalised log prior, so the score of an option is the model's log-probability plus that.
    (Sampling follows the weighted model token by token, as it follows the model without a prior;
    only scoring whole options is exact.)

    Args:
        log_probs: natural log of each option's prior; they need not sum to 1. -inf bans.

    Raises:
        TaskInvalid: a value that is NaN, +inf or above 1e30, or no option that is not banned.
    """
    return LabelPrior(pairs(log_probs, "log_probs", str, "texts"))


@dataclass(frozen=True, slots=True)
class LabelPrior:
    """See `label_prior`."""

    log_probs: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        for place, (text, value) in enumerate(self.log_probs):
            encoded(text, f"/{place}")
            check_value(value, f"/{place}")
        if all(value == -math.inf for _, value in self.log_probs):
            raise TaskInvalid("", "every option is banned, or there is none")

    def bind(self, vocabulary: Vocabulary) -> LabelPriorGuide:
        """See `Spec.bind`.

        Raises:
            TaskInvalid: the vocabulary cannot spell an option; the pointer names it.
        """
        by_text = {text.encode(): value for text, value in self.log_probs}
        lexicon = Lexicon.of(vocabulary)
        refuse_unspellable([list(by_text)], lexicon, lambda _, place: f"/{place}")
        return LabelPriorGuide(by_text, lexicon)


class LabelPriorGuide:
    """Adds the change of the log prior to each token that leads on in an option.

    Where the text has left all options it has no opinion.

    Args:
        log_probs: by the bytes of an option; finite or -inf.
        lexicon: of the vocabulary.
    """

    is_hard = False

    def __init__(self, log_probs: Mapping[bytes, float], lexicon: Lexicon) -> None:
        self._lexicon, self._options = lexicon, SortedTexts(list(log_probs))
        self._log_probs = torch.tensor(
            [log_probs[text] for text in self._options.texts], dtype=torch.float64
        )
        self._shifts = lru_cache(_KEPT_STATES)(self._find_shifts)

    def init(self) -> Reach:
        """See `Guide.init`."""
        return (0, len(self._options), 0)

    def bias(self, state: Reach) -> Tensor:
        """See `Guide.bias`."""
        if state == _ENDED:
            return self._lexicon.row([], ends=True)
        ids, values = self._shifts(state)
        return self._lexicon.open_row().index_copy_(0, ids, values)

    def advance(self, state: Reach, token: int) -> Reach:
        """See `Guide.advance`."""
        if not 0 <= token < self._lexicon.vocab_size or self.bias(state)[token] == -math.inf:
            raise ValueError(f"token {token} is banned here")
        if token in self._lexicon.eos_ids:
            return _ENDED
        for byte in self._lexicon.spelled(token):
            state = dict(self._branches(state)).get(byte, _ELSEWHERE)
        return state

    def finished(self, state: Reach) -> bool:
        """See `Guide.finished`; never by itself, only behind an end of text."""
        return state == _ENDED

    def forced(self, state: Reach) -> tuple[int, ...]:
        """See `Guide.forced`; an opinion forces nothing."""
        return ()

    def _branches(self, state: Reach) -> Iterator[tuple[int, Reach]]:
        depth = state[2] + 1
        for byte, start, stop in self._options.branches(*state):
            yield byte, (start, stop, depth)

    def _find_shifts(self, state: Reach) -> tuple[Tensor, Tensor]:
        """The tokens on which there is an opinion, and what it is."""
        ids, values = list[int](), list[float]()
        if state != _ELSEWHERE:
            now = self._log_sum(state)
            for tokens, after in self._lexicon.walk(state, self._branches):
                ids += tokens
                values += [self._log_sum(after) - now] * len(tokens)
            start, _, depth = state
            if len(self._options.texts[start]) == depth:
                ids += self._lexicon.eos_ids
                shift = float(self._log_probs[start]) - now
                values += [shift] * len(self._lexicon.eos_ids)
        return torch.tensor(ids, dtype=torch.int64), torch.tensor(values, dtype=torch.float32)

    def _log_sum(self, state: Reach) -> float:
        start, stop, _ = state
        return float(self._log_probs[start:stop].logsumexp(0))
