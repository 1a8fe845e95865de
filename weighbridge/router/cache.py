"""Cache: decisions that were accepted, for the next ticket that says the same.

A record holds the answer, the evidence for its fields, and who gave it; neither the ticket, nor its
id, nor the model's reasons, nor the trail. A text of the ticket is in it only where the answer
itself quotes one. Keys are hashes.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import ValidationError

import weighbridge  # for its version alone: another one may read the same answer otherwise
from weighbridge.decision import Attempt, Decision, FieldEvidence, Json, Reason
from weighbridge.errors import JsonInvalid
from weighbridge.providers.protocol import Approach, Provider
from weighbridge.router.chain import Policy
from weighbridge.router.gate import Gate
from weighbridge.router.visit import planned
from weighbridge.router.weighing import Rulings
from weighbridge.schemas.strict_json import loads
from weighbridge.schemas.task import JudgedField, Task
from weighbridge.schemas.ticket import Ticket

if TYPE_CHECKING:
    from weighbridge.schemas.redaction import RedactedText

FROM_CACHE = "from the cache"


class Cache(Protocol):
    """Records by key, both texts. It may lose any at any time, and never raises."""

    async def get(self, key: str) -> str | None:
        """The record; None where none is kept, or none can be read quickly."""
        ...

    def put(self, key: str, record: str) -> None:
        """Keep a record in place of any older one of its key, without waiting for anything."""
        ...

    def close(self) -> None:
        """Let go of what it holds; harmless when repeated."""
        ...


class MemoryCache:
    """A `Cache` of one process; safe to use from any number of loops and threads.

    Args:
        max_entries: where there are more, the one that was used least lately goes.
        max_age_s: after it was put, whether used or not.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        max_entries: int = 10_000,
        max_age_s: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries, self._max_age_s, self._clock = max_entries, max_age_s, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, float]] = OrderedDict()  # the next to go first

    async def get(self, key: str) -> str | None:
        """See `Cache.get`."""
        with self._lock:
            if key not in self._kept:
                return None
            record, put_at = self._kept[key]
            if self._clock() - put_at >= self._max_age_s:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return record

    def put(self, key: str, record: str) -> None:
        """See `Cache.put`."""
        with self._lock:
            self._kept[key] = record, self._clock()
            self._kept.move_to_end(key)
            while len(self._kept) > self._max_entries:
                self._kept.popitem(last=False)

    def close(self) -> None:
        """See `Cache.close`."""
        with self._lock:
            self._kept.clear()


class Recalled(NamedTuple):
    """A decision that was kept, and its answer as the original schema has it."""

    decision: Decision
    value: Json


class Learned(Protocol):
    """What verdicts taught the local engine; answers from memory."""

    @property
    def mark(self) -> str:
        """Another one whenever something else counts."""
        ...


class DecisionCache:
    """Which decisions may be kept, under which key, and how they come back.

    Args:
        kept: where.
        providers: in their configured order.
        gate: its thresholds.
        policy: how the providers are gone through.
        rulings: what audits say; a decision is good only while none of that changes.
        learned: what verdicts taught the local engine; the same holds for that.
        settings: a digest of all else that shapes an answer and that no argument here tells, such
            as a provider's temperature.
    """

    def __init__(
        self,
        kept: Cache,
        *,
        providers: Sequence[Provider],
        gate: Gate,
        policy: Policy,
        rulings: Rulings | None = None,
        learned: Learned | None = None,
        settings: str = "",
    ) -> None:
        self._kept, self._providers, self._rulings = kept, tuple(providers), rulings
        self._learned = learned
        self._same_for_all: dict[str, Any] = {
            "version": weighbridge.__version__,
            "gate": asdict(gate),
            "strategy": policy.strategy,
            "stronger": sorted(policy.stronger),
            "settings": settings,
        }

    def key(
        self, task: Task, ticket: Ticket, redacted: RedactedText | None, *, is_suspicious: bool
    ) -> str | None:
        """What the decision on a ticket is kept under; None for one that is not kept at all.

        Two tickets have the same key if the providers would be shown the same of them, in the same
        way. Where an answer can quote its ticket, what is hidden from the providers must be the
        same too: it is put back into the answer, and belongs to nobody else.

        Args:
            task: what is asked.
            ticket: about what.
            redacted: its text as providers away from this machine may read it; None: as it is.
            is_suspicious: the ticket shows signs of an injection.
        """
        if is_suspicious or ticket.local_only:
            return None
        parts = {
            **self._same_for_all,
            "rulings": "" if self._rulings is None else self._rulings.version,
            "learned": "" if self._learned is None else self._learned.mark,
            "task": task.fingerprint,
            "fields": [_beside_fingerprint(field) for field in task.fields],
            "providers": [[p.identity, *_way(p, task, ticket)] for p in self._providers],
            "texts": self._texts(task, ticket, redacted),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    async def recall(self, key: str, task: Task, ticket: Ticket) -> Recalled | None:
        """The decision that is kept, as one on this ticket; None if there is none.

        What the task no longer permits is none.
        """
        record = await self._kept.get(key)
        return None if record is None else _recalled(record, task, ticket)

    def keep(self, key: str, decision: Decision, value: Json) -> None:
        """Keep a decision, if it was accepted.

        Args:
            key: of its ticket.
            decision: of any status.
            value: its answer as the original schema has it, not as a pydantic model.
        """
        if decision.status == "accepted" and (record := _record(decision, value)) is not None:
            self._kept.put(key, record)

    def close(self) -> None:
        """Let go of what is kept in memory."""
        self._kept.close()

    def _texts(
        self, task: Task, ticket: Ticket, redacted: RedactedText | None
    ) -> dict[str, str | None]:
        """All that may show in an answer."""
        is_told_here = any(not provider.is_remote for provider in self._providers)
        return {
            "away": ticket.text if redacted is None else redacted.text,
            # Of a finite language every answer stands in the task: it can quote nobody.
            "here": ticket.text if is_told_here or task.language is None else None,
        }


def _beside_fingerprint(field: JudgedField) -> list[Any]:
    """What a decision depends on though no model that writes text is told."""
    phrases = {name: known.phrases for name, known in field.labels.items()}
    return [field.name, field.required, field.has_topics, phrases]


def _way(provider: Provider, task: Task, ticket: Ticket) -> tuple[str, Sequence[str]]:
    """How a provider would be asked now; that changes with what is learned of it."""
    way = planned(provider, task, ticket)
    return (way.mode, way.dropped) if isinstance(way, Approach) else ("not asked", ())


def _record(decision: Decision, value: Json) -> str | None:
    """What is kept of a decision; None where JSON cannot spell a number of its evidence."""
    content = {
        "value": value,
        "fields": decision.to_json()["fields"],
        "provider": decision.provider,
        "model": decision.model,
    }
    try:
        return json.dumps(content, allow_nan=False)
    except ValueError:
        return None


def _recalled(record: str, task: Task, ticket: Ticket) -> Recalled | None:
    try:
        stored: Any = loads(record)
        value, provider, model = stored["value"], stored["provider"], stored["model"]
        fields = {name: _evidence(found) for name, found in stored["fields"].items()}
    except (JsonInvalid, AttributeError, KeyError, TypeError, ValueError):
        return None  # not whole: as good as not there
    if task.violations(value):
        return None
    try:
        typed = task.typed(value)
    except ValidationError:
        return None
    decision = Decision(
        ticket_id=ticket.id,
        task=task.name,
        status="accepted",
        value=typed,
        fields=fields,
        provider=provider,
        model=model,
        trail=(Attempt(provider=provider, model=model, detail=FROM_CACHE, cost_usd=0.0),),
    )
    return Recalled(decision, value)


def _evidence(stored: Any) -> FieldEvidence:
    """Evidence from its JSON.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    mass, reason = stored["mass"], stored["reason"]
    return FieldEvidence(
        **{
            **stored,
            "mass": None if mass is None else tuple(mass),
            "reason": None if reason is None else Reason(reason),
            "notes": tuple(stored["notes"]),
        }
    )
