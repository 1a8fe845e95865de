"""Probing: what an endpoint really does, found out in a dozen tiny calls; facts for a ledger.

That something is accepted proves nothing: servers take a schema, or ask for log-probabilities, and
ignore both. So the question is one whose natural answer the schema forbids, and what counts is what
came back. Calls go through the adapter and the transport that tickets take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from weighbridge.capability import Fact
from weighbridge.decision import FailureKind
from weighbridge.providers.probe_session import ProbeSession, Send, Stopped
from weighbridge.providers.probe_steps import STEPS
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import Adapter, Failure

LIMIT_S: Final = 180.0

Report: TypeAlias = Callable[[str, Mapping[str, Fact]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe found.

    Args:
        facts: by feature; what could not be proved is left out.
        num_calls: how many requests were sent.
        prompt_tokens: as reported.
        completion_tokens: as reported.
        failure: why it ended early; None if it did not.
    """

    facts: Mapping[str, Fact]
    num_calls: int
    prompt_tokens: int
    completion_tokens: int
    failure: Failure | None = None


async def probe(
    profile: Profile,
    model: str,
    adapter: Adapter,
    send: Send,
    *,
    known: Mapping[str, Fact],
    now: datetime,
    report: Report = lambda step, facts: None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    limit_s: float = LIMIT_S,
) -> Probed:
    """Find out what one model at one endpoint does.

    Args:
        profile: the speaker.
        model: name at the provider.
        adapter: for the wire format.
        send: one request to the endpoint, with its key; as `HttpProvider.send`.
        known: what is believed of it so far, by feature.
        now: facts are dated by it.
        report: called after each of `STEPS` with its name and what it found.
        sleep: in seconds.
        limit_s: for everything.

    Returns:
        Never an exception for what a provider or a network does: a failure, and the facts that
        were found before it.
    """
    session = ProbeSession(profile, model, adapter, send, known=known, now=now, sleep=sleep)
    failure = None
    try:
        async with asyncio.timeout(limit_s):
            for step in STEPS:
                before = dict(session.facts)
                await step.run(session)
                news = {f: fact for f, fact in session.facts.items() if before.get(f) != fact}
                report(step.name, news)
    except Stopped as stopped:
        failure = stopped.failure
    except TimeoutError:
        failure = Failure(kind=FailureKind.DEADLINE, detail=f"not done within {limit_s:g} s")
    return Probed(
        facts=session.facts,
        num_calls=session.num_calls,
        prompt_tokens=session.prompt_tokens,
        completion_tokens=session.completion_tokens,
        failure=failure,
    )
