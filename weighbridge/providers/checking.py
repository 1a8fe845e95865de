"""Checking: whether an endpoint can be reached with its key, by the cheapest request there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from weighbridge.capability import Fact
from weighbridge.decision import FailureKind, Json
from weighbridge.providers.anthropic import VERSION
from weighbridge.providers.failures import body_json, classify, classify_error
from weighbridge.providers.probe_session import ProbeSession, Send, Stopped
from weighbridge.providers.profiles import Profile, Wire
from weighbridge.providers.protocol import Adapter, Failure, HttpRequest

# Documented requests that cost nothing, by wire, and by profile where the wire's is open to all.
_FREE: Mapping[Wire, str] = {
    "openai": "/models",
    "gemini": "/models?pageSize=1000",
    "anthropic": "/v1/models?limit=1000",
    "ollama": "/api/tags",
    "systemone": "/health",
}
_FREE_AT: Mapping[str, str] = {"openrouter": "/key"}

# Where it lists something else than what requests name: models that were not deployed, or one that
# answers to every name.
_LISTS_OTHERS = frozenset({"azure_openai", "llama_cpp_server"})
_NAME_KEYS = ("id", "name", "model")
_MORE_KEYS = ("has_more", "nextPageToken")

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
        detail: why not further, or what to look at, in our words.
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
    if not 200 <= response.status <= 299:
        return _judged(classify(response))
    body = body_json(response.body)
    if isinstance(body, dict) and (error := body.get("error")):
        return _judged(classify_error(response.status, {}, {"error": error}))
    if body is None and profile.wire != "systemone":  # whose health may be told in a word
        detail = "what answers there is no API; see base_url"
        return Checked(reach=Reach.REFUSED, detail=detail)
    listed = None if profile.name in _LISTS_OTHERS else _listed(body)
    if listed is None or _plain(model) in listed:
        return Checked(reach=Reach.REACHABLE)
    # No more than a warning: some vendors list a part of what they serve.
    detail = f"but does not list the model {model!r}"
    return Checked(reach=Reach.REACHABLE, detail=detail)


def _listed(body: Json) -> frozenset[str] | None:
    """The names of all models, in the shapes of any wire; None where it is no whole list."""
    if isinstance(body, dict):
        if any(body.get(key) for key in _MORE_KEYS):
            return None
        body = body.get("data", body.get("models"))
    if not isinstance(body, list):
        return None
    entries = (entry for entry in body if isinstance(entry, dict))
    names = (entry.get(key) for entry in entries for key in _NAME_KEYS)
    return frozenset(_plain(name) for name in names if isinstance(name, str))


def _plain(name: str) -> str:
    """A model's name without what may be left out of it."""
    return name.lower().removeprefix("models/").removesuffix(":latest")


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
    words = {
        FailureKind.CREDENTIAL: "the key is not taken",
        FailureKind.QUOTA: "no credit is left",
        FailureKind.MODEL_GONE: "see base_url" if failure.is_path else "there is no such model",
    }
    why = words.get(failure.kind, failure.kind.value.replace("_", " "))
    return Checked(reach=Reach.REFUSED, detail=f"{why}: {failure.detail}")


async def _no_sleep(seconds: float) -> None:
    """Whoever checks would rather know now."""
