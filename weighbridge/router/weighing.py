"""Scales: how each field of an answer is weighed, under which key, and what audits say of it.

A confidence is one number that thresholds alone are applied to. So whatever speaks against an
answer apart from its probability makes the confidence 0, as it would keep the answer from being
accepted: a certificate over such numbers then holds for what the gate really accepts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

from weighbridge.decision import (
    CalibrationKey,
    Decision,
    FieldEvidence,
    Guarantee,
    Json,
    Ruling,
    Source,
    Toss,
    Weighing,
)
from weighbridge.router.gate import VETOES, Gate
from weighbridge.schemas.task import Task

NO_RULING: Final = Ruling()

_MOST_KEYS: Final = 1024  # that are remembered


class Coin(Protocol):
    """Draws tickets for review before anything is known of them."""

    def toss(self, ticket_id: str) -> Toss:
        """Toss for one ticket; the same ticket always falls the same way."""
        ...


class Rulings(Protocol):
    """What audits say of each kind of answer; answers from memory."""

    def ruling(self, key: CalibrationKey) -> Ruling:
        """What the gate goes by for an answer of this key, now."""
        ...

    @property
    def version(self) -> str:
        """Another one whenever any ruling has become another."""
        ...

    def close(self) -> None:
        """Let go of what they hold; harmless when repeated."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """What answers are weighed by.

    Args:
        gate: thresholds where audits have said nothing yet.
        rulings: what audits say; None: nothing of any answer.
        stronger: names of the providers that are asked where an answer is unsure.
    """

    gate: Gate
    rulings: Rulings | None = None
    stronger: Collection[str] = ()
    _beside: str = field(init=False)

    def __post_init__(self) -> None:
        # All that makes a confidence 0, or lets an answer be replaced: another setting is another
        # kind of number, which no earlier label speaks of.
        gate = self.gate
        parts: list[Json] = [gate.mass, gate.support, gate.without_evidence == "second_opinion"]
        if self.stronger:
            parts += [gate.probability, *sorted(self.stronger)]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:6]
        object.__setattr__(self, "_beside", digest)

    def key(
        self, task: Task, name: str, source: Source, *, provider: str, model: str
    ) -> CalibrationKey:
        """What the confidence of a field depends on.

        Args:
            task: what was asked.
            name: of the field.
            source: of its number.
            provider: who answered.
            model: as the provider reported it.
        """
        return _known_key(
            provider=provider,
            model=model,
            prompt=f"{task.fingerprint}-{task.hints_hash}{self._beside}",
            schema=task.schema_hash,
            field=name,
            source=source,
        )

    def ruling(self, task: Task, name: str, source: Source, *, provider: str, model: str) -> Ruling:
        """What audits say of a field; see `key`."""
        return self._ruling(self.key(task, name, source, provider=provider, model=model))

    def weighings(
        self, task: Task, decision: Decision, *, is_suspicious: bool
    ) -> dict[str, Weighing]:
        """How each field was weighed; empty where nobody answered.

        Args:
            task: what was asked.
            decision: as the gate has judged it.
            is_suspicious: something speaks against the whole answer, whatever its fields' numbers.
        """
        provider, model = decision.provider, decision.model
        if provider is None or model is None:
            return {}
        return {
            name: Weighing(
                key=self.key(task, name, found.source, provider=provider, model=model),
                confidence=0.0 if is_suspicious else _confidence(found),
                passed=found.accepted and not is_suspicious,
            )
            for name, found in decision.fields.items()
        }

    def guarantee(self, decision: Decision, weighings: Mapping[str, Weighing]) -> Guarantee | None:
        """What covers a decision: the weakest certificate of the fields that it depends on.

        One that would not accept the answer covers nothing: it may have come into force after the
        gate has judged.

        Args:
            decision: accepted.
            weighings: of its fields.
        """
        if not weighings:
            return None
        needed = [weighings[name] for name, found in decision.fields.items() if found.required]
        covering = []
        for weighing in needed:
            guarantee = self._ruling(weighing.key).guarantee
            if guarantee is None or not weighing.confidence >= guarantee.threshold:
                return None
            covering.append(guarantee)
        return max(covering, key=lambda one: (one.confidence is None, one.risk), default=None)

    def _ruling(self, key: CalibrationKey) -> Ruling:
        return NO_RULING if self.rulings is None else self.rulings.ruling(key)


# The same few in every answer; a key looks at all its parts when it is made.
_known_key = lru_cache(maxsize=_MOST_KEYS)(CalibrationKey)


def _confidence(evidence: FieldEvidence) -> float:
    probability = evidence.probability
    if evidence.reason in VETOES or probability is None or not probability >= 0:
        return 0.0  # NaN too: no comparison with it is true
    return min(1.0, probability)
