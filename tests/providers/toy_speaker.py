"""A toy model and the manners of whoever serves it, whatever the wire.

It says that the sky is blue unless something keeps it from doing so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

FILLERS = [f"w{number}" for number in range(30)]
Verdict = Literal["honoured", "ignored", "refused"]


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """How one endpoint behaves.

    Args:
        profile: whose wire and manners.
        model: its name.
        schema: what becomes of the strict schema.
        tool: of a forced strict tool.
        json_mode: of the mode for any JSON object.
        thinking: what becomes of a wish to think, or not to.
        must_think: a wish not to think is refused, whatever becomes of other wishes.
        num_thoughts: tokens that are spent before the answer, unless thinking is off.
        loses_schema: the thinking under which the schema has no effect.
        logprobs: what becomes of them.
        most: alternatives above this number are refused.
        lists: how many come back at most.
        order: of mask and log-probabilities.
        bias: what becomes of a logit bias.
        refuses: further names of the request that are refused.
        forbids: the same, with a 403 that says nothing.
        drops_with_schema: log-probabilities are left out where a schema is enforced.
        shape: of log-probabilities on OpenAI's wire.
        fingerprint: name and version that it tells, where the wire has a place for it.
    """

    profile: str
    model: str = "toy-1"
    schema: Verdict = "honoured"
    tool: Verdict = "honoured"
    json_mode: Verdict = "honoured"
    thinking: Verdict = "ignored"
    must_think: bool = False
    num_thoughts: int = 0
    loses_schema: frozenset[str | None] = frozenset()
    logprobs: Verdict = "honoured"
    most: int | None = None
    lists: int = 30
    order: Literal["before_mask", "after_mask"] = "before_mask"
    bias: Verdict = "ignored"
    refuses: frozenset[str] = frozenset()
    forbids: frozenset[str] = frozenset()
    drops_with_schema: bool = False
    shape: Literal["objects", "lists"] = "objects"
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request, whatever the wire."""

    mode: Literal["native", "tool", "json", None] = None
    options: Sequence[str] = ()
    thinking: str | None = None  # "off", "on", or nothing said
    alternatives: int | None = None
    bias: Mapping[str, float] = field(default_factory=dict)
    max_tokens: int = 1000
    names: frozenset[str] = frozenset()  # everything that the request names


@dataclass(frozen=True, kw_only=True)
class Said:
    """An answer, whatever the wire: tokens, each with ranked alternatives."""

    tokens: Sequence[tuple[str, Mapping[str, float]]]
    is_cut: bool = False
    calls_tool: bool = False
    has_logprobs: bool = False

    @property
    def text(self) -> str:
        return "".join(token for token, _ in self.tokens)


class Refused(Exception):
    """A request is not taken: a status and a body in the speaker's own words."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status)
        self.status, self.body = status, body


def sample(speaker: Speaker, asked: Asked) -> Said:
    """What the toy model says under what the speaker enforces."""
    if speaker.bias == "honoured" and any(bias >= 100 for bias in asked.bias.values()):
        return Said(tokens=[_sure("zz")] * asked.max_tokens, is_cut=True)
    if asked.thinking != "off" and speaker.num_thoughts >= asked.max_tokens:
        return Said(tokens=[], is_cut=True)
    is_lost = asked.thinking in speaker.loses_schema
    obeyed = {"native": speaker.schema, "tool": speaker.tool, "json": speaker.json_mode, None: ""}
    has_logprobs = speaker.logprobs == "honoured" and asked.alternatives is not None
    if obeyed[asked.mode] != "honoured" or (is_lost and asked.mode == "native"):
        tokens = [_sure(word) for word in ("The", " sky", " is", " blue", ".")]
        return Said(tokens=tokens, has_logprobs=has_logprobs)
    if asked.mode == "json":
        tokens = [_sure(word) for word in ('{"', "colour", '":"', "blue", '"}')]
        return Said(tokens=tokens, has_logprobs=has_logprobs)
    chosen = asked.options[0]
    others = {option[:2]: 0.03 for option in asked.options[1:]}
    at_value = (
        {chosen[:2]: 0.97, **others}
        if speaker.order == "after_mask"
        else {"blue": 0.9, "Blue": 0.05, chosen[:2]: 1e-3, **_fill(0.01)}
    )
    start = [_sure(word) for word in ('{"', "answer", '":"')]
    tokens = [*start, (chosen[:2], at_value), _sure(chosen[2:]), _sure('"}')]
    return Said(
        tokens=tokens,
        calls_tool=asked.mode == "tool",
        has_logprobs=has_logprobs and not speaker.drops_with_schema,
    )


def _sure(token: str) -> tuple[str, Mapping[str, float]]:
    return token, {token: 0.95, **_fill(0.04)}


def _fill(mass: float) -> dict[str, float]:
    return {word: mass / len(FILLERS) for word in FILLERS}


def listed(speaker: Speaker, asked: Asked, ranked: Mapping[str, float]) -> list[tuple[str, float]]:
    """The alternatives that come back, with natural logarithms."""
    number = min(asked.alternatives or 0, speaker.lists)
    best = sorted(ranked.items(), key=lambda item: -item[1])[:number]
    return [(token, math.log(p)) for token, p in best]
