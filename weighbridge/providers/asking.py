"""Asking: what is known of a provider, turned into how a task is put to it. Pure.

A clear no is obeyed: a tuning parameter is left out and listed, a schema that cannot be enforced is
shown to the model instead, and what the task cannot do without makes the provider ineligible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from weighbridge.capability import NOTHING_KNOWN, Fact, Feature, Mode, Status
from weighbridge.errors import CapabilityMissing, SchemaRefused
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import Approach, RequestOptions, Thinking
from weighbridge.schemas.plan import plan
from weighbridge.schemas.task import Task

MAX_ALTERNATIVES = 20  # the most that any documented API lists for a token

# In the order in which they are tried. What is prompted is always possible.
MODE_FEATURES: Mapping[Mode, Feature | None] = {
    "native": Feature.JSON_SCHEMA,
    "tool": Feature.TOOL,
    "json_mode": Feature.JSON_OBJECT,
    "prompted": None,
}
_WITHOUT_THINKING = "thinking_off"  # value of a fact: the feature is refused while a model thinks
_KNOWN_TO_WORK = frozenset({Status.SUPPORTED, Status.CONDITIONAL, Status.PARTIAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a configured provider is asked for beside the answer.

    Args:
        max_output_tokens: limit of the answer.
        thinking_tokens: added to it where the model may think.
        logprobs: whether to ask for log-probabilities.
        seed: a tuning parameter; None: none is sent.
        temperature: the same.
        thinking: None: as the server does by itself.
        samples: answers to one ticket where no log-probabilities come; 1 asks no further.
        mass_probe_rate: share of tickets that are asked once more without any constraint, where
            log-probabilities are taken after the mask or nobody knows.
    """

    max_output_tokens: int = 1024
    thinking_tokens: int = 4096
    logprobs: bool = True
    seed: int | None = 0
    temperature: float | None = 0.0
    thinking: Thinking | None = None
    samples: int = 1
    mass_probe_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model at an endpoint, and what is believed of it.

    Args:
        profile: who speaks there.
        model: name at the provider.
        facts: declared ones, and over them what was probed and learned.
    """

    profile: Profile
    model: str
    facts: Mapping[str, Fact]

    def fact(self, feature: str) -> Fact:
        """What is believed of a feature."""
        return self.facts.get(feature, NOTHING_KNOWN)

    def has(self, feature: Feature) -> bool:
        """Whether it is known to work, at least under some condition."""
        return self.fact(feature).status in _KNOWN_TO_WORK


def approach(task: Task, target: Target, wishes: Wishes) -> Approach:
    """The best way to put a task to a provider: the strictest mode that it is believed to have.

    Args:
        task: what is asked.
        target: of whom.
        wishes: beside the answer.

    Raises:
        SchemaRefused: nobody could check an answer against the schema.
        CapabilityMissing: the task cannot do without something that the provider lacks.
    """
    bias = task.logit_bias
    if bias and bias.required and not _sendable_bias(task, target, wishes):
        raise CapabilityMissing(target.profile.name, Feature.LOGIT_BIAS)
    dropped = _dropped(task, target, wishes)
    for mode, feature in MODE_FEATURES.items():
        if feature is not None and not _is_open(mode, feature, task, target, wishes):
            continue
        for dialect in _dialects(mode, target.profile):
            try:
                schema = plan(task.asked_schema, dialect, name=task.name)
            except SchemaRefused:
                if mode == "prompted":
                    raise
                continue
            return Approach(mode=mode, schema=schema, schema_hash=task.schema_hash, dropped=dropped)
    raise AssertionError("what is prompted is planned or refused")


def shown(task: Task) -> Approach:
    """A task put to a provider without any constraint: the schema only stands in the prompt."""
    schema = plan(task.asked_schema, "prompt", name=task.name)
    return Approach(mode="prompted", schema=schema, schema_hash=task.schema_hash)


def options(
    chosen: Approach, task: Task, target: Target, wishes: Wishes, *, output_factor: int = 1
) -> RequestOptions:
    """What one request carries.

    Args:
        chosen: how the task is asked.
        task: what is asked.
        target: of whom.
        wishes: beside the answer.
        output_factor: how many times the usual limit the answer may take.
    """
    limit = wishes.max_output_tokens
    length = _length_feature(target)
    is_silenced = wishes.thinking == "off" and _takes_wish(target, wishes)
    if target.fact(Feature.REASONING).is_usable and not is_silenced:
        limit += wishes.thinking_tokens
    return RequestOptions(
        model=target.model,
        mode=chosen.mode,
        max_output_tokens=_clipped(limit * output_factor, target.fact(length).limit),
        num_alternatives=_num_alternatives(target, wishes) if wishes.logprobs else None,
        seed=wishes.seed if takes(Feature.SEED, target, wishes) else None,
        temperature=wishes.temperature if takes(Feature.TEMPERATURE, target, wishes) else None,
        logit_bias=_sendable_bias(task, target, wishes),
        thinking=wishes.thinking if _takes_wish(target, wishes) else None,
        length_feature=length,
    )


def takes(feature: Feature, target: Target, wishes: Wishes) -> bool:
    """Whether a tuning parameter is worth sending beside the wish to think."""
    fact = target.fact(feature)
    is_thinking = wishes.thinking != "off" and _takes_wish(target, wishes)
    return fact.is_usable and not (is_thinking and fact.value == _WITHOUT_THINKING)


def _clipped(number: int, limit: float | None) -> int:
    return number if limit is None else min(number, int(limit))


def _dialects(mode: Mode, profile: Profile) -> tuple[str, ...]:
    """The dialects in which a mode takes its schema, the best first."""
    match mode:
        case "native" | "tool":
            return (profile.dialect,)
        case "json_mode" if profile.json_mode_schema:
            return (profile.dialect, "prompt")
        case "json_mode" | "prompted":
            return ("prompt",)
        case _:
            assert_never(mode)


def _is_open(mode: Mode, feature: Feature, task: Task, target: Target, wishes: Wishes) -> bool:
    """Whether a mode is worth a request."""
    # An endpoint that nobody knows is asked for its strict mode once; the others must be known.
    if not (target.fact(feature).is_usable if mode == "native" else target.has(feature)):
        return False
    if not target.fact(f"{feature}:{task.schema_hash}").is_usable:
        return False
    pair = target.fact(Feature.THINKING_WITH_SCHEMA)
    if wishes.thinking == "off":
        return pair.value != "not_off"  # some servers forget the schema without the thoughts
    return wishes.thinking is None or pair.is_usable


def _dropped(task: Task, target: Target, wishes: Wishes) -> tuple[str, ...]:
    is_lacking = {
        Feature.LOGPROBS: wishes.logprobs and not takes(Feature.LOGPROBS, target, wishes),
        Feature.SEED: wishes.seed is not None and not takes(Feature.SEED, target, wishes),
        Feature.TEMPERATURE: wishes.temperature is not None
        and not takes(Feature.TEMPERATURE, target, wishes),
        Feature.REASONING: wishes.thinking is not None and not _takes_wish(target, wishes),
        Feature.LOGIT_BIAS: task.logit_bias is not None
        and not _sendable_bias(task, target, wishes),
    }
    return tuple(sorted(feature.value for feature, lacks in is_lacking.items() if lacks))


def _takes_wish(target: Target, wishes: Wishes) -> bool:
    """Whether the wish to think, or not to, can be sent."""
    if wishes.thinking is None or not target.fact(Feature.REASONING).is_usable:
        return False
    return target.profile.thinking_fields(target.model, wishes.thinking) is not None


def _num_alternatives(target: Target, wishes: Wishes) -> int | None:
    if not takes(Feature.LOGPROBS, target, wishes):
        return None
    if not takes(Feature.TOP_LOGPROBS, target, wishes):
        return 0
    top = target.fact(Feature.TOP_LOGPROBS)
    return MAX_ALTERNATIVES if top.limit is None else min(MAX_ALTERNATIVES, int(top.limit))


def _length_feature(target: Target) -> Feature:
    """The newer field, unless only the older one is known to be read."""
    newer, older = Feature.MAX_COMPLETION_TOKENS, Feature.MAX_TOKENS
    if target.has(newer) or (target.fact(newer).is_usable and not target.has(older)):
        return newer
    return older


def _sendable_bias(task: Task, target: Target, wishes: Wishes) -> Mapping[int | str, float]:
    """The whole logit bias of a task, or nothing: half of one would mean something else."""
    bias = task.logit_bias
    # Unknown is no yes here: a server that ignores a bias says nothing.
    is_taken = target.has(Feature.LOGIT_BIAS) and takes(Feature.LOGIT_BIAS, target, wishes)
    if bias is None or not is_taken:
        return {}
    names_texts = any(isinstance(token, str) for token in bias.by_token)
    return {} if names_texts and not target.profile.biases_texts else bias.by_token
