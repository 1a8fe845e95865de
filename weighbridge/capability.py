"""Capabilities: what a model at an endpoint can do, who says so, and until when it is believed.

Facts are *declared* (the table that is shipped), *probed* (asked on purpose) or *learned* (an
answer or a refusal showed it). A later kind overrides an earlier one: a refusal beats a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias

Mode: TypeAlias = Literal[
    "native",  # the provider's own strict schema mode
    "tool",  # a strict tool that the model is forced to call
    "json_mode",  # any JSON object; the schema stands in the prompt
    "prompted",  # nothing is enforced; the schema stands in the prompt
]


class Feature(StrEnum):
    """What a request may use. The names are those of the table in `capabilities.toml`."""

    JSON_SCHEMA = "json_schema_strict"
    TOOL = "tool_strict"
    JSON_OBJECT = "json_object"
    THINKING_WITH_SCHEMA = "thinking_with_schema"  # the pair is a capability of its own
    LOGPROBS = "logprobs"
    TOP_LOGPROBS = "top_logprobs"  # `limit`: how many alternatives, at most
    MASK_ORDER = "logprobs_vs_mask"  # `value`: before_mask, after_mask or unknown
    LOGIT_BIAS = "logit_bias"
    SEED = "seed"
    TEMPERATURE = "temperature"
    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    REASONING = "reasoning_control"


class Status(StrEnum):
    """How far a feature is there."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    CONDITIONAL = "conditional"  # depends on model, setting or version
    PARTIAL = "partial"
    IGNORED = "ignored"  # accepted with a 200, and without any effect
    UNKNOWN = "unknown"


class Origin(StrEnum):
    """Who says so; a later one overrides an earlier one."""

    DECLARED = "declared"
    PROBED = "probed"
    LEARNED = "learned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that is known about a feature.

    Args:
        status: how far the feature is there.
        origin: who says so.
        limit: the largest value that is taken; None where there is no limit or none is known.
        value: what `status` cannot say, such as the order of mask and log-probabilities.
        note: the condition or the vendor's code; never a sentence of a vendor's.
        source: where a declared fact comes from.
        checked: when it was found out, with a time zone; None if unknown.
        expires: from then on it is not believed any more; None: never.
        server: name and version of the server, where it tells.
    """

    status: Status
    origin: Origin = Origin.DECLARED
    limit: float | None = None
    value: str | None = None
    note: str = ""
    source: str = ""
    checked: datetime | None = None
    expires: datetime | None = None
    server: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether it is worth asking: only a clear no is a no."""
        return self.status not in (Status.UNSUPPORTED, Status.IGNORED)


NOTHING_KNOWN = Fact(status=Status.UNKNOWN)
ORIGINS = tuple(Origin)  # in the order in which they override


class Ledger(Protocol):
    """Where probed and learned facts are kept, by (base URL, model, feature).

    A feature may carry a suffix behind a colon: `json_schema_strict:1f0c…` is one schema's.
    """

    def facts(self, base_url: str, model: str) -> Mapping[str, Fact]:
        """The facts that have not expired, by feature; the same object until one changes.

        Quick: it is asked for every ticket.
        """
        ...

    def record(self, base_url: str, model: str, feature: str, fact: Fact) -> None:
        """Keep a fact, unless one that overrides it is believed; see `with_fact`.

        A ledger that cannot be written stays silent.
        """
        ...


def believed(known: Mapping[str, Fact], now: datetime) -> Mapping[str, Fact]:
    """The facts that have not expired; `known` itself where none has."""
    if all(fact.expires is None or now < fact.expires for fact in known.values()):
        return known
    return MappingProxyType(
        {
            feature: fact
            for feature, fact in known.items()
            if fact.expires is None or now < fact.expires
        }
    )


def with_fact(
    known: Mapping[str, Fact], feature: str, fact: Fact, now: datetime
) -> Mapping[str, Fact]:
    """The facts with another one, and without those that have expired.

    A fact gives way to one of a later origin, and to one of its own origin that was found out
    later or at the same time. One without a date was found out now.
    """
    if fact.checked is None:
        fact = replace(fact, checked=now)
    still = believed(known, now)
    older = still.get(feature)
    is_over = fact.expires is not None and fact.expires <= now
    if is_over or (older is not None and _weight(older, now) > _weight(fact, now)):
        return still
    return MappingProxyType({**still, feature: fact})


def _weight(fact: Fact, now: datetime) -> tuple[int, datetime]:
    # A clock that runs ahead elsewhere must not make its facts last longer than others.
    return ORIGINS.index(fact.origin), min(fact.checked or now, now)
