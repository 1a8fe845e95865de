"""Asking: what is known of a provider, turned into how a task is put to it. Pure.

A clear no is obeyed: a tuning parameter is left out and listed, a schema that cannot be enforced is
shown to the model instead, and what the task cannot do without makes the provider ineligible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


def approach(task: Task, profile: Profile, facts: Mapping[str, Fact], wishes: Wishes) -> Approach:
    """The best way to put a task to a provider: the strictest mode that it is believed to have.

    Args:
        task: what is asked.
        profile: the speaker.
        facts: declared ones, and over them what was probed and learned.
        wishes: beside the answer.

    Raises:
        SchemaRefused: nobody could check an answer against the schema.
        CapabilityMissing: the task cannot do without something that the provider lacks.
    """
    bias = task.logit_bias
    if bias and bias.required and not _sendable_bias(task, profile, facts):
        raise CapabilityMissing(profile.name, Feature.LOGIT_BIAS)
    dropped = _dropped(task, profile, facts, wishes)
    for mode, feature in MODE_FEATURES.items():
        if feature is not None and not _is_open(mode, feature, task, facts, wishes):
            continue
        dialect = profile.dialect if mode in ("native", "tool") else "prompt"
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
    chosen: Approach,
    task: Task,
    profile: Profile,
    model: str,
    facts: Mapping[str, Fact],
    wishes: Wishes,
    *,
    output_factor: int = 1,
) -> RequestOptions:
    """What one request carries.

    Args:
        chosen: how the task is asked.
        task: what is asked.
        profile: the speaker.
        model: name at the provider.
        facts: as for `approach`.
        wishes: beside the answer.
        output_factor: how many times the usual limit the answer may take.
    """

    def usable(feature: Feature) -> bool:
        return facts.get(feature, NOTHING_KNOWN).is_usable

    limit = wishes.max_output_tokens
    if wishes.thinking != "off" and usable(Feature.REASONING):
        limit += wishes.thinking_tokens
    return RequestOptions(
        model=model,
        mode=chosen.mode,
        max_output_tokens=limit * output_factor,
        num_alternatives=_num_alternatives(facts) if wishes.logprobs else None,
        seed=wishes.seed if usable(Feature.SEED) else None,
        temperature=wishes.temperature if usable(Feature.TEMPERATURE) else None,
        logit_bias=_sendable_bias(task, profile, facts),
        thinking=wishes.thinking if usable(Feature.REASONING) else None,
        length_feature=_length_feature(facts),
    )


def _is_open(
    mode: Mode, feature: Feature, task: Task, facts: Mapping[str, Fact], wishes: Wishes
) -> bool:
    """Whether a mode is worth a request."""
    fact = facts.get(feature, NOTHING_KNOWN)
    # An endpoint that nobody knows is asked for its strict mode once; the others must be known.
    if not (fact.is_usable if mode == "native" else fact.status in _KNOWN_TO_WORK):
        return False
    if not facts.get(f"{feature}:{task.schema_hash}", NOTHING_KNOWN).is_usable:
        return False
    is_thinking = wishes.thinking not in (None, "off")
    return not is_thinking or facts.get(Feature.THINKING_WITH_SCHEMA, NOTHING_KNOWN).is_usable


def _dropped(
    task: Task, profile: Profile, facts: Mapping[str, Fact], wishes: Wishes
) -> tuple[str, ...]:
    wanted = {
        Feature.LOGPROBS: wishes.logprobs,
        Feature.SEED: wishes.seed is not None,
        Feature.TEMPERATURE: wishes.temperature is not None,
        Feature.REASONING: wishes.thinking is not None,
    }
    dropped = {
        feature.value
        for feature, is_wanted in wanted.items()
        if is_wanted and not facts.get(feature, NOTHING_KNOWN).is_usable
    }
    if task.logit_bias and not _sendable_bias(task, profile, facts):
        dropped.add(Feature.LOGIT_BIAS.value)
    return tuple(sorted(dropped))


def _num_alternatives(facts: Mapping[str, Fact]) -> int | None:
    if not facts.get(Feature.LOGPROBS, NOTHING_KNOWN).is_usable:
        return None
    top = facts.get(Feature.TOP_LOGPROBS, NOTHING_KNOWN)
    if not top.is_usable:
        return 0
    return MAX_ALTERNATIVES if top.limit is None else min(MAX_ALTERNATIVES, int(top.limit))


def _length_feature(facts: Mapping[str, Fact]) -> Feature:
    """The newer field, unless only the older one is known to be read."""
    newer = facts.get(Feature.MAX_COMPLETION_TOKENS, NOTHING_KNOWN)
    older = facts.get(Feature.MAX_TOKENS, NOTHING_KNOWN)
    is_newer = newer.status in _KNOWN_TO_WORK or (
        newer.is_usable and older.status not in _KNOWN_TO_WORK
    )
    return Feature.MAX_COMPLETION_TOKENS if is_newer else Feature.MAX_TOKENS


def _sendable_bias(
    task: Task, profile: Profile, facts: Mapping[str, Fact]
) -> Mapping[int | str, float]:
    """The whole logit bias of a task, or nothing: half of one would mean something else."""
    bias = task.logit_bias
    # Unknown is no yes here: a server that ignores a bias says nothing.
    status = facts.get(Feature.LOGIT_BIAS, NOTHING_KNOWN).status
    if bias is None or status not in _KNOWN_TO_WORK:
        return {}
    names_texts = any(isinstance(token, str) for token in bias.by_token)
    return {} if names_texts and not profile.biases_texts else bias.by_token
