"""The steps of a probe: what is asked beside the question, and what the answer then proves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from weighbridge.capability import NOTHING_KNOWN, Feature, Mode, Status
from weighbridge.decision import FailureKind
from weighbridge.providers.asking import MAX_ALTERNATIVES, MODE_FEATURES
from weighbridge.providers.mask_order import mask_order
from weighbridge.providers.probe_session import (
    FIELD,
    WORDS,
    ProbeSession,
    Stopped,
    is_forced,
    is_refusal,
    is_sensible,
    json_value,
)
from weighbridge.providers.protocol import Failure, Reply

_LENGTHS = (Feature.MAX_COMPLETION_TOKENS, Feature.MAX_TOKENS)
_SOME_TOKEN = 1000  # whatever it spells: in every vocabulary, and no answer to anything
_ENOUGH = 3  # alternatives, to see a forbidden one if there is any
# The same token over and over, or nothing but blanks.
_WITHOUT_END = frozenset({FailureKind.TRUNCATED, FailureKind.INVALID})
_NO_FIELD = "the wire format has no such thing"
_OBEYED = "obeyed; the model could read what was wanted of it"
_ACCEPTED = "accepted; whether it has an effect cannot be seen"


class Step(NamedTuple):
    """One thing to find out."""

    name: str
    run: Callable[[ProbeSession], Awaitable[None]]


async def _bare(session: ProbeSession) -> None:
    """The question alone must be answered: only then does a refusal tell of what was added."""
    await session.identify()
    outcome = await session.ask()
    for _ in range(3):
        if not is_refusal(outcome):
            break
        length = session.base.length_feature
        if outcome.parameter == length and length not in session.facts:
            session.found(length, Status.UNSUPPORTED, note=outcome.detail)
            other = _LENGTHS[1 - _LENGTHS.index(length)]
            session.base = replace(session.base, length_feature=other)
        elif session.base.thinking is not None and session.has_field(thinking="off"):
            session.is_off_refused = True
            session.base = replace(session.base, thinking=None)
        else:
            break
        outcome = await session.ask()
    if isinstance(outcome, Failure) and (is_refusal(outcome) or outcome.status != 200):
        raise Stopped(outcome)
    session.is_talking = True


async def _native(session: ProbeSession) -> None:
    await _mode(session, "native")
    is_off = session.base.thinking is not None and session.has_field(thinking="off")
    if is_off and session.facts.get(Feature.JSON_SCHEMA, NOTHING_KNOWN).status is Status.IGNORED:
        # Some servers lose the schema when they are told not to think.
        outcome = await session.ask(mode="native", thinking=None)
        if isinstance(outcome, Reply) and is_forced(outcome.text):
            session.found(Feature.JSON_SCHEMA, Status.SUPPORTED)
            session.found(
                Feature.THINKING_WITH_SCHEMA,
                Status.PARTIAL,
                value="not_off",
                note="the schema is lost where thinking is switched off",
            )
            session.base = replace(session.base, thinking=None)


async def _tool(session: ProbeSession) -> None:
    await _mode(session, "tool")


async def _json(session: ProbeSession) -> None:
    await _mode(session, "json_mode")


async def _mode(session: ProbeSession, mode: Mode) -> None:
    feature = MODE_FEATURES[mode]
    assert feature is not None
    if not session.has_field(mode=mode):
        session.found(feature, Status.UNSUPPORTED, note=_NO_FIELD)
        return
    outcome = await session.ask(mode=mode)
    if is_refusal(outcome):
        session.found(feature, Status.UNSUPPORTED, note=outcome.detail)
    elif isinstance(outcome, Reply):
        obeyed = (
            isinstance(json_value(outcome.text), dict)
            if mode == "json_mode"
            else is_forced(outcome.text)
        )
        is_shown = mode != "native" or session.profile.shows_schema
        session.found(
            feature,
            Status.SUPPORTED if obeyed else Status.IGNORED,
            note=_OBEYED if obeyed and is_shown else "",
        )


async def _thinking(session: ProbeSession) -> None:
    """A schema and thoughts before the answer: a pair that servers often break."""
    if not session.has_field(thinking="low"):
        if session.is_off_refused:
            session.found(Feature.REASONING, Status.UNSUPPORTED)
        return
    if not _holds(session, Feature.JSON_SCHEMA):
        return
    outcome = await session.ask(mode="native", thinking="low")
    if is_refusal(outcome):
        if is_refusal(await session.ask(thinking="low")):
            session.found(Feature.REASONING, Status.UNSUPPORTED, note=outcome.detail)
        else:
            session.found(Feature.THINKING_WITH_SCHEMA, Status.UNSUPPORTED, note=outcome.detail)
        return
    if session.is_off_refused:
        session.found(Feature.REASONING, Status.PARTIAL, note="cannot be switched off")
    if isinstance(outcome, Reply):
        if not is_forced(outcome.text):
            session.found(Feature.THINKING_WITH_SCHEMA, Status.IGNORED)
        elif Feature.THINKING_WITH_SCHEMA not in session.facts:
            session.found(Feature.THINKING_WITH_SCHEMA, Status.SUPPORTED)


async def _logprobs(session: ProbeSession) -> None:
    """How many alternatives came back, not how many may be asked for."""
    if not session.has_field(num_alternatives=0):
        for feature in (Feature.LOGPROBS, Feature.TOP_LOGPROBS):
            session.found(feature, Status.UNSUPPORTED, note=_NO_FIELD)
        return
    declared = session.known.get(Feature.TOP_LOGPROBS, NOTHING_KNOWN).limit
    asked = MAX_ALTERNATIVES if declared is None else min(MAX_ALTERNATIVES, int(declared))
    outcome = await session.ask(num_alternatives=asked)
    was_refused = False
    while is_refusal(outcome):
        fewer = asked if outcome.limit is None else int(outcome.limit)
        if outcome.parameter == Feature.LOGPROBS or asked == 0:
            session.found(Feature.LOGPROBS, Status.UNSUPPORTED, note=outcome.detail)
            session.found(Feature.TOP_LOGPROBS, Status.UNSUPPORTED, note=outcome.detail)
            return
        was_refused = True
        asked = fewer if 0 <= fewer < asked else 5 if asked > 5 else 0
        outcome = await session.ask(num_alternatives=asked)
    if not isinstance(outcome, Reply):
        return
    if not any(token.logprob is not None for token in outcome.logprobs or ()):
        session.found(Feature.LOGPROBS, Status.IGNORED)
        session.found(Feature.TOP_LOGPROBS, Status.IGNORED)
        return
    came = max(len(token.top) for token in outcome.logprobs or ())
    session.found(Feature.LOGPROBS, Status.SUPPORTED)
    if not came:
        refused_all = was_refused and asked == 0
        status = Status.UNSUPPORTED if refused_all else Status.IGNORED
        session.found(Feature.TOP_LOGPROBS, status)
        return
    is_short = came < asked
    session.found(
        Feature.TOP_LOGPROBS,
        Status.PARTIAL if is_short else Status.SUPPORTED,
        limit=came if is_short or was_refused else declared,
        note=f"{came} of {asked} came back" if is_short else "",
    )


async def _order(session: ProbeSession) -> None:
    """Whether log-probabilities are taken before or after the mask, where there is one."""
    if not (_holds(session, Feature.JSON_SCHEMA) and _holds(session, Feature.LOGPROBS)):
        return
    top = session.facts[Feature.TOP_LOGPROBS]
    asked = MAX_ALTERNATIVES if top.limit is None else min(MAX_ALTERNATIVES, int(top.limit))
    if not top.is_usable:
        asked = 0
    outcome = await session.ask(mode="native", num_alternatives=asked)
    if is_refusal(outcome) or (isinstance(outcome, Reply) and not outcome.logprobs):
        session.found(Feature.LOGPROBS, Status.PARTIAL, note="not together with a schema")
        return
    if isinstance(outcome, Reply) and is_forced(outcome.text) and asked >= _ENOUGH:
        order = mask_order(outcome.text, outcome.logprobs or (), (FIELD,), WORDS)
        if order is not None:
            session.found(Feature.MASK_ORDER, Status.SUPPORTED, value=order)


async def _tuning(session: ProbeSession) -> None:
    """Seed and temperature: together, and apart only where the pair is refused."""
    values: dict[Feature, dict[str, Any]] = {
        Feature.SEED: {"seed": 7},
        Feature.TEMPERATURE: {"temperature": 0.0},
    }
    there = {feature: one for feature, one in values.items() if session.has_field(**one)}
    for feature in values.keys() - there.keys():
        session.found(feature, Status.UNSUPPORTED, note=_NO_FIELD)
    together = {name: value for one in there.values() for name, value in one.items()}
    outcome = await session.ask(**together) if there else None
    outcomes: dict[Feature, Reply | Failure | None] = dict.fromkeys(there, outcome)
    if is_refusal(outcome) and len(there) > 1:
        outcomes = {feature: await session.ask(**one) for feature, one in there.items()}
    for feature, outcome in outcomes.items():
        before = session.known.get(feature, NOTHING_KNOWN)
        if is_refusal(outcome):
            session.found(feature, Status.UNSUPPORTED, note=outcome.detail)
        elif isinstance(outcome, Reply) and before.status is not Status.IGNORED:
            is_known = before.status is Status.SUPPORTED
            status = Status.SUPPORTED if is_known else Status.CONDITIONAL
            session.found(feature, status, limit=before.limit, note=_ACCEPTED)


async def _bias(session: ProbeSession) -> None:
    """A token that is forced is all that comes, until the limit."""
    bias = {_SOME_TOKEN: 100.0}
    if not session.has_field(logit_bias=bias):
        session.found(Feature.LOGIT_BIAS, Status.UNSUPPORTED, note=_NO_FIELD)
        return
    fact = session.facts.get(Feature.TEMPERATURE, NOTHING_KNOWN)
    # Chance must not look like an effect.
    steady = {"temperature": 0.0} if fact.status in (Status.SUPPORTED, Status.CONDITIONAL) else {}
    outcome = await session.ask(logit_bias=bias, may_grow=False, **steady)
    if is_refusal(outcome):
        session.found(Feature.LOGIT_BIAS, Status.UNSUPPORTED, note=outcome.detail)
    elif is_sensible(outcome):
        session.found(Feature.LOGIT_BIAS, Status.IGNORED)
    elif (
        isinstance(outcome, Failure)
        and outcome.kind in _WITHOUT_END
        and isinstance(await session.ask(may_grow=False, **steady), Reply)
    ):
        limit = session.known.get(Feature.LOGIT_BIAS, NOTHING_KNOWN).limit
        session.found(Feature.LOGIT_BIAS, Status.SUPPORTED, limit=limit)


def _holds(session: ProbeSession, feature: Feature) -> bool:
    fact = session.facts.get(feature)
    return fact is not None and fact.status is Status.SUPPORTED


STEPS: Final = (
    Step("the bare question", _bare),
    Step("strict schema", _native),
    Step("strict tool", _tool),
    Step("JSON mode", _json),
    Step("thinking with a schema", _thinking),
    Step("log-probabilities", _logprobs),
    Step("order of mask and log-probabilities", _order),
    Step("seed and temperature", _tuning),
    Step("logit bias", _bias),
)
