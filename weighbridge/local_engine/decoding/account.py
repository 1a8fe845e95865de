"""The account of one token: what the free model thought of it, and what the guide left of that."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from weighbridge.local_engine.decoding.generation import Candidate, Step
from weighbridge.local_engine.logprobs import log_total
from weighbridge.local_engine.vocabulary import Vocabulary


class Accountant:
    """Writes the account of each token.

    Args:
        vocabulary: of the model.
        num_candidates: how many candidates to list beside each token; 0 for none.
    """

    def __init__(self, vocabulary: Vocabulary, num_candidates: int) -> None:
        self._vocabulary, self._num_candidates = vocabulary, num_candidates

    def step(
        self,
        token: int,
        logits: Tensor,
        bias: Tensor,
        source: Literal["model", "guide", "prefill"],
    ) -> Step:
        """The account of a token.

        Args:
            token: the one that came.
            logits: float32 [V], raw, of the place where it came.
            bias: float32 [V], the guide's; -inf bans.
            source: who chose it.

        Raises:
            EngineError: the logits are not finite.
        """
        total = log_total(logits[None])[0]
        masked = logits.where(bias > -torch.inf, -torch.inf)
        return Step(
            token=token,
            text=self._text(token),
            logprob=min(0.0, float(logits[token] - total)),
            rank=1 + int((logits > logits[token]).sum()),
            mass=min(1.0, float((masked.logsumexp(0) - total).exp())),
            source=source,
            allowed_count=int((bias > -torch.inf).sum()),
            free=self._likeliest(logits),
            allowed=self._likeliest(logits + bias),
        )

    def _text(self, token: int) -> bytes:
        """The bytes that a token writes: none at the end of text, which may have a name of some."""
        is_end = token in self._vocabulary.eos_ids
        return b"" if is_end else self._vocabulary.token_bytes[token]

    def _likeliest(self, logits: Tensor) -> tuple[Candidate, ...]:
        """The candidates with the largest probabilities, those with none left out."""
        if self._num_candidates == 0:
            return ()
        probabilities, ids = logits.softmax(0).topk(min(self._num_candidates, len(logits)))
        return tuple(
            Candidate(token=i, text=self._text(i), probability=p)
            for i, p in zip(ids.tolist(), probabilities.tolist(), strict=True)
            if p > 0.0
        )
