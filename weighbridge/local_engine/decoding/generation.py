"""What came out, token by token, and how likely the free model had found it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Finish: TypeAlias = Literal["eos", "guide", "stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A token that might have come.

    Args:
        token: its id.
        text: its bytes; empty for control tokens, padding and end of text.
        probability: premask for a free candidate; postmask for an allowed one, at temperature 1.
    """

    token: int
    text: bytes
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One token of an answer.

    Every number is premask: raw logits at temperature 1, before guide and bias.

    Args:
        token: its id.
        text: its bytes; empty for end of text.
        logprob: natural log of its probability, ≤ 0.
        rank: 1 where no token was likelier.
        mass: step mass: the probability of all tokens that the guide allowed here, 0 to 1; where
            the token was given, of that one alone.
        source: "model" chose it, "guide" left no choice, or it was given as "prefill".
        allowed_count: how many tokens the guide allowed.
        free: the likeliest tokens before the guide, if a trace was asked for.
        allowed: the likeliest allowed tokens after the guide, if a trace was asked for.
    """

    token: int
    text: bytes
    logprob: float
    rank: int
    mass: float
    source: Literal["model", "guide", "prefill"]
    allowed_count: int
    free: tuple[Candidate, ...] = ()
    allowed: tuple[Candidate, ...] = ()

    @property
    def surprisal_bits(self) -> float:
        """How surprising the free model found it: 0 for a certain token."""
        return -self.logprob / math.log(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A finished answer.

    Args:
        text: what was written, prefill included, stop string and end of text excluded.
        steps: one for each token, those of the prefill included, and the closing end of text where
            the model was asked for it: behind an answer that nothing can follow it is not. Where a
            token of the prompt or the prefill was taken back, what spells it again is a step too.
        finish: "eos" the model ended it; "guide" nothing could follow; "stop" a stop string came;
            "length" max_tokens came, where no hard guide was broken by that.
        forward_passes: of the model; the one that reads prompt and prefill is not counted.
    """

    text: str
    steps: tuple[Step, ...]
    finish: Finish
    forward_passes: int

    @property
    def written(self) -> tuple[Step, ...]:
        """The steps without the prefill."""
        return tuple(step for step in self.steps if step.source != "prefill")

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens written."""
        return tuple(step.token for step in self.written)

    @property
    def logprob(self) -> float:
        """Natural log of the probability that the free model writes exactly these tokens."""
        return math.fsum(step.logprob for step in self.written)

    @property
    def forced_share(self) -> float:
        """Share of the tokens that the guide left no choice about; 0 for an empty answer."""
        forced = sum(step.source == "guide" for step in self.steps)
        return forced / max(1, len(self.written))
