"""Checking: whether an endpoint can be reached with its key, by the cheapest request there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from weighbridge.capability import Fact
from weighbridge.decision import FailureKind
from weighbridge.providers.anthropic import VERSION
from weighbridge.providers.failures import body_json, classify, classify_error
from weighbridge.providers.probe_session import ProbeSession, Send, Stopped
from weighbridge.providers.profiles import Profile, Wire
from weighbridge.providers.protocol import Adapter, Failure, HttpRequest, HttpResponse

# Documented requests that cost nothing, by wire, and by profile where the wire's is open to all.
_FREE: Mapping[Wire, str] = {
    "openai": "/models",
    "gemini": "/models?pageSize=1",
    "anthropic": "/v1/models?limit=1",
    "ollama": "/api/tags",
    "systemone": "/health",
}
_FREE_AT: Mapping[str, str] = {"openrouter": "/key"}

_FEW_TOKENS: Final = 16
_NOT_THERE = frozenset({404, 405, 501})


class Reach(StrEnum):
    """How far one gets."""

    REACHABLE = "reachable"
    REFUSED = "refused"  # somebody is there, and does not serve us
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How an endpoint was found.

    Args:
        reach: how far one gets.
        detail: why not further, in our words.
    """

    reach: Reach
    detail: str = ""


async def check(
    profile: Profile, model: str, adapter: Adapter | None, send: Send, *, facts: Mapping[str, Fact]
) -> Checked:
    """Ask for something that costs nothing; where that is not there, for 16 tokens.

    Args:
        profile: the speaker.
        model: name at the provider.
        adapter: for its wire format; None where nothing but the free request can be asked.
        send: one request to the endpoint, with its key.
        facts: what is believed of it, by feature.
    """
    headers = {"accept": "application/json"}
    if profile.wire == "anthropic":
        headers["anthropic-version"] = VERSION
    path = _FREE_AT.get(profile.name, _FREE[profile.wire])
    response = await send(HttpRequest(method="GET", path=path, headers=headers, body=b""))
    if isinstance(response, Failure):
        return Checked(reach=Reach.DOWN, detail=response.detail)
    if response.status in _NOT_THERE:
        if adapter is None:
            return Checked(reach=Reach.REACHABLE, detail="answers; its key was not tried")
        session = ProbeSession(
            profile, model, adapter, send, known=facts, now=datetime.now(UTC), sleep=_no_sleep
        )
        return await _few_tokens(session)
    failure = _failure(response)
    return Checked(reach=Reach.REACHABLE) if failure is None else _judged(failure)


def _failure(response: HttpResponse) -> Failure | None:
    if not 200 <= response.status <= 299:
        return classify(response)
    body = body_json(response.body)
    error = body.get("error") if isinstance(body, dict) else None
    return classify_error(response.status, {}, {"error": error}) if error else None


async def _few_tokens(session: ProbeSession) -> Checked:
    try:
        outcome = await session.ask(may_grow=False, max_output_tokens=_FEW_TOKENS)
    except Stopped as stopped:
        return _judged(stopped.failure)
    # A cut answer, or none that we would take: somebody spoke.
    if isinstance(outcome, Failure) and outcome.status != 200:
        return _judged(outcome)
    return Checked(reach=Reach.REACHABLE)


def _judged(failure: Failure) -> Checked:
    if failure.kind is FailureKind.RATE_LIMIT:
        return Checked(reach=Reach.REACHABLE, detail="busy: " + failure.detail)
    if failure.kind is FailureKind.TRANSIENT:
        return Checked(reach=Reach.DOWN, detail=failure.detail)
    words = {FailureKind.CREDENTIAL: "the key is not taken", FailureKind.QUOTA: "no credit is left"}
    why = words.get(failure.kind, failure.kind.value.replace("_", " "))
    return Checked(reach=Reach.REFUSED, detail=f"{why}: {failure.detail}")


async def _no_sleep(seconds: float) -> None:
    """Whoever checks would rather know now."""
