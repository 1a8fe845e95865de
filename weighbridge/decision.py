"""Decision, FieldEvidence, Attempt, Reason: the words that all parts share."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NewType, TypeAlias

from pydantic import BaseModel

from weighbridge.capability import Mode

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
ReviewId = NewType("ReviewId", str)

Status = Literal["accepted", "review"]

Source = Literal[
    "exact",  # a local model scored every option; its mass comes from raw logits
    "premask",  # a provider's logprobs, known to be taken before its grammar mask
    "postmask",  # the same, known to be taken after it: says nothing about mass
    "unknown_mask",  # the same, and nobody knows
    "prior",  # the label prior alone
    "combined",  # the label prior and a local model's posterior
    "vendor",  # a vendor's own confidence
    "agreement",  # several answers compared
    "none",
]


class Reason(StrEnum):
    """Why a person must look. Compares equal to its text."""

    LOW_MASS = "low_mass"
    LOW_PROBABILITY = "low_probability"
    LOW_SUPPORT = "low_support"
    UNCALIBRATED = "uncalibrated"
    NO_EVIDENCE = "no_evidence"
    NO_ANSWER = "no_answer"
    EMPTY_TICKET = "empty_ticket"
    REFUSAL = "refusal"
    DISAGREEMENT = "disagreement"
    INJECTION_SUSPECTED = "injection_suspected"
    LANGUAGE = "language"
    AUDIT = "audit"  # drawn by the audit coin; nothing is wrong with the answer
    ALARM = "alarm"  # audits say that answers of this kind have got worse than was certified


class FailureKind(StrEnum):
    """Why one attempt did not count. Every failure has exactly one kind."""

    TRANSIENT = "transient"  # 5xx, 529, a broken connection, a timeout
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"  # waiting does not help
    CREDENTIAL = "credential"
    MODEL_GONE = "model_gone"
    CAPABILITY = "capability"  # this model or server lacks a feature the request used
    CALLER_FAULT = "caller_fault"  # bad for every provider
    TOO_LONG = "too_long"
    INVALID = "invalid"  # an answer that breaks the schema, or no answer at all
    TRUNCATED = "truncated"
    REFUSAL = "refusal"
    FILTERED = "filtered"
    DEADLINE = "deadline"
    COOLING = "cooling"  # not asked: the provider is cooling down or disabled
    LIMIT = "limit"  # not asked: no room within our own limits in time
    BUDGET = "budget"  # not asked: no money is left, or nobody knows what it would cost
    CANCELLED = "cancelled"  # another provider was quicker
    UNAVAILABLE = "unavailable"  # the local engine cannot run here
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEvidence:
    """What is known about one field of an answer, and where each number comes from.

    Args:
        value: the option that was chosen.
        source: where `probability` comes from; numbers of unlike sources are not comparable.
        probability: of the chosen option among the allowed ones, 0 to 1; None if unknown.
        mass: (low, high), raw probability that the model put on all allowed options before any
            mask, 0 to 1; None if unknown.
        support: how near the ticket is to any label at all against a fixed background, 0 to 1;
            known only where a label prior was asked.
        options: probability of each allowed option, summing to 1, by label; empty if unknown.
        required: whether the decision depends on this field.
        accepted: whether software may act on this field.
        reason: why not; None when accepted.
        notes: facts that change nothing but that a reader should know.
    """

    value: Json
    source: Source
    probability: float | None = None
    mass: tuple[float, float] | None = None
    support: float | None = None
    options: Mapping[str, float] = dataclasses.field(default_factory=dict)
    required: bool = True
    accepted: bool = False
    reason: Reason | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request to one provider, or the reason why none was sent.

    Args:
        provider: the configured name.
        model: the model that was asked.
        failure: why the attempt did not count; None for the one that answered.
        status: HTTP status, if there was one.
        seconds: wall time of the attempt, without the wait before it.
        waited_s: pause before the attempt.
        detail: what happened, without any ticket text or vendor text.
        prompt_tokens: as reported by the provider.
        completion_tokens: as reported by the provider.
        cost_usd: None where no price is configured or no usage was reported.
        mode: how the schema was enforced; None where nobody was asked.
        dropped: tuning parameters that were left out because the provider lacks them.
        losses: constraints that the wire schema could not carry; they were checked locally.
    """

    provider: str
    model: str
    failure: FailureKind | None = None
    status: int | None = None
    seconds: float = 0.0
    waited_s: float = 0.0
    detail: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    mode: Mode | None = None
    dropped: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """The certificate behind an acceptance: P(error rate of such answers > risk) ≤ 1 - confidence.

    Args:
        certificate: its id.
        risk: highest error rate among the answers that it accepts.
        confidence: that this holds. None: the certificate promises less, namely that on average no
            more than `risk` of all tickets are accepted and wrong.
        threshold: an answer is accepted from this confidence on.
        num_labels: audited answers that it rests on.
        expires_at: UTC.
    """

    certificate: str
    risk: float
    confidence: float | None
    threshold: float
    num_labels: int
    expires_at: datetime

    def __str__(self) -> str:
        if self.confidence is None:
            return f"≤{_percent(self.risk)} of all tickets on average"
        return f"≤{_percent(self.risk)} at {_percent(self.confidence)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What audits say of the answers of one calibration key; nothing: the gate's own rules apply.

    Args:
        guarantee: of a certificate in force, whose threshold decides.
        is_alarmed: answers have got worse than was certified, so a person looks at all of them.
        probability: of being right, by confidence; None where nobody has calibrated.
    """

    guarantee: Guarantee | None = None
    is_alarmed: bool = False
    probability: Callable[[float], float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What weighbridge makes of one ticket.

    Args:
        ticket_id: of the ticket.
        task: name of the task.
        status: "accepted": software may act; "review": a person must look.
        value: the answer, as the task's pydantic model if it has one; None if nobody answered.
        fields: evidence for each judged field.
        reasons: why a person must look, the weightiest first; empty when accepted.
        reasoning: the reasons that the model gave before its answer, where the task asks for them;
            "" if none were given. They are a model's words about a stranger's text.
        provider: who answered; None if nobody did.
        model: the model that answered.
        trail: every attempt in order.
        review_id: the item in the review queue, or None.
        guarantee: what covers this acceptance, the weakest of the required fields; None says
            "accepted, uncertified".
    """

    ticket_id: str
    task: str
    status: Status
    value: Any
    fields: Mapping[str, FieldEvidence] = dataclasses.field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    reasoning: str = ""
    provider: str | None = None
    model: str | None = None
    trail: tuple[Attempt, ...] = ()
    review_id: ReviewId | None = None
    guarantee: Guarantee | None = None

    def to_json(self) -> dict[str, Json]:
        """The decision as plain JSON values, for output and storage."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked about one field.

    Args:
        field: name of the field.
        options: the permitted values, in the task's order; empty if any value may be given.
        descriptions: what the options mean, by label.
        machine: what the machine answered; None if nothing.
        required: whether the item stays open until this field has an answer.
    """

    field: str
    options: tuple[Json, ...]
    descriptions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    machine: Json = None
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationKey:
    """What a confidence depends on; calibrator and certificate hold for one key only.

    Args:
        provider: the configured name.
        model: with its version.
        prompt: hash of the prompt.
        schema: hash of the schema.
        field: of the answer.
        source: of the number; unlike numbers are never compared.

    Raises:
        ValueError: a part is empty.
    """

    provider: str
    model: str
    prompt: str
    schema: str
    field: str
    source: Source

    def __post_init__(self) -> None:
        for part in fields(self):
            if not getattr(self, part.name):
                raise ValueError(f"want a calibration key with a {part.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toss:
    """One toss of the audit coin, kept with the ticket: an estimate needs the rate it was drawn at.

    Args:
        u: uniform in [0, 1).
        rate: audit rate at the time.
    """

    u: float
    rate: float

    @property
    def is_audit(self) -> bool:
        """Whether a person sees the ticket whatever the machine makes of it."""
        return self.u < self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """How one field of an answer was weighed, for statistics; holds no text.

    Args:
        key: what the number depends on.
        confidence: what thresholds are applied to, 0 to 1: the probability before any calibration,
            and 0 where something else forbids acceptance whatever the probability.
        passed: whether the field would have been accepted, the audit coin left aside.
    """

    key: CalibrationKey
    confidence: float
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEntry:
    """What the router hands to the queue: a decision, its ticket, and what to ask.

    Args:
        dedupe_key: equal for the same ticket text under the same task; enqueued once.
        decision: with status "review" and no `review_id` yet.
        ticket: as plain JSON values: id, subject, body, metadata.
        questions: one for each field that a person should judge.
        weighings: by field; empty if nobody answered.
        toss: of the audit coin; None without a coin.
    """

    dedupe_key: str
    decision: Decision
    ticket: Mapping[str, Json]
    questions: tuple[Question, ...]
    weighings: Mapping[str, Weighing] = dataclasses.field(default_factory=dict)
    toss: Toss | None = None

    @property
    def is_audit(self) -> bool:
        """Whether the ticket belongs to the uniform sample, and is to be judged blind."""
        return self.toss is not None and self.toss.is_audit


def label(value: Json) -> str:
    """How an option is called in tables and mappings: a string is its own label.

    >>> label("bug"), label(3), label(None)
    ('bug', '3', 'null')
    """
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _percent(share: float) -> str:
    """A share as people write it.

    >>> _percent(0.02), _percent(0.975)
    ('2 %', '97.5 %')
    """
    return f"{100 * share:.4g} %"


def _plain(value: Any) -> Json:
    """JSON values of the dataclasses above, of pydantic models, and of what they hold."""
    if isinstance(value, BaseModel):
        plain: Json = value.model_dump(mode="json")
        return plain
    if isinstance(value, FieldEvidence | Attempt | Guarantee):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    assert value is None or isinstance(value, bool | int | float | str)
    return value
