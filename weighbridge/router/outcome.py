"""How a chain of providers ended: who answered, and every attempt on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weighbridge.decision import Attempt, FieldEvidence
from weighbridge.providers.protocol import Provider, Reply
from weighbridge.router.acceptance import Accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A valid answer.

    Args:
        provider: whose it is.
        reply: what came.
        accepted: what was made of it.
        evidence: what is known about its fields.
        second: what another provider answered, where its opinion was wanted.
        weaker: the unsure answer that this one was asked for in place of.
    """

    provider: Provider
    reply: Reply
    accepted: Accepted
    evidence: Mapping[str, FieldEvidence]
    second: Answered | None = None
    weaker: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the chain ended.

    Args:
        answered: None if nobody gave a valid answer.
        refused: somebody declined to answer.
        trail: every attempt in order.
    """

    answered: Answered | None
    refused: bool
    trail: tuple[Attempt, ...]
