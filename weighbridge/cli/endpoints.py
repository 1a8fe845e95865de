"""Endpoints: configured providers called on purpose, to see who is there and what they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx

from weighbridge.capability import Fact, Ledger
from weighbridge.errors import ConfigError, KeyMissing, WeighbridgeError
from weighbridge.provider_config import build_provider, endpoint, read_key
from weighbridge.providers.adapters import adapter_for
from weighbridge.providers.checking import Checked, Reach, check
from weighbridge.providers.ledger import MemoryLedger
from weighbridge.providers.local import LocalProvider
from weighbridge.providers.probe_session import Send
from weighbridge.providers.probe_steps import STEPS
from weighbridge.providers.probing import probe
from weighbridge.providers.profiles import Profile
from weighbridge.providers.protocol import Failure, HttpRequest, HttpResponse
from weighbridge.providers.transport import send
from weighbridge.setting_sections import LocalSettings, RemoteSettings

NUM_STEPS = len(STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How one provider was found.

    Args:
        name: the configured name.
        reach: how far one got; None if it was not asked, since something is missing on this side.
        seconds: how long it took.
        detail: why not further.
    """

    name: str
    reach: Reach | None
    seconds: float
    detail: str


@dataclass(slots=True, kw_only=True)
class ProbeResult:
    """What a probe has found so far; grows while it runs.

    Args:
        name: the configured name.
        model: that was asked.
        declared: what the table says, by feature.
        facts: what was found.
        believed: what the ledger holds, the facts among it that were overridden by none.
        num_calls: how many requests were sent.
        num_tokens: of prompts and answers, as reported.
        failure: why it ended early; "" if it did not.
    """

    name: str
    model: str
    declared: Mapping[str, Fact] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    believed: Mapping[str, Fact] = field(default_factory=dict)
    num_calls: int = 0
    num_tokens: int = 0
    failure: str = ""


def trouble(error: WeighbridgeError) -> str:
    """Why a provider cannot be asked at all, for a line that names the provider already.

    >>> trouble(KeyMissing("[[provider]] a", "api_key_env", "A_KEY is not set", "Set A_KEY."))
    'api_key_env: A_KEY is not set'
    """
    if not isinstance(error, ConfigError):
        return f"{error}. {error.hint}".removesuffix(" ")
    told = f"{error.key}: {error.problem}"
    # What to do about a key that is not set is plain.
    return told if isinstance(error, KeyMissing) else f"{told}. {error.hint}".removesuffix(" ")


async def check_all(chosen: Sequence[RemoteSettings | LocalSettings]) -> list[Reached]:
    """All at once; the local engine is looked at, and nothing is loaded."""
    async with httpx.AsyncClient() as client:
        return await asyncio.gather(*(_timed(client, one) for one in chosen))


async def probe_all(
    chosen: Sequence[RemoteSettings],
    ledger: Ledger,
    *,
    started: Callable[[ProbeResult], None],
    progressed: Callable[[str], None],
) -> None:
    """One after the other; every fact goes into the ledger as soon as it is found.

    Args:
        chosen: whom to probe.
        ledger: where facts are kept.
        started: called with each result before its probe begins.
        progressed: called with the name of each step that is done.
    """
    async with httpx.AsyncClient() as client:
        for one in chosen:
            result = ProbeResult(name=one.name, model=one.model)
            started(result)
            try:
                profile, base_url = _place(one)
                sending = _sending(client, one, profile, base_url)
            except WeighbridgeError as error:
                result.failure = trouble(error)
                continue
            await _probe(one, profile, base_url, sending, ledger, result, progressed)


async def _probe(
    chosen: RemoteSettings,
    profile: Profile,
    base_url: str,
    sending: Send,
    ledger: Ledger,
    result: ProbeResult,
    progressed: Callable[[str], None],
) -> None:
    result.declared = profile.declared(chosen.model)

    def keep(step: str, facts: Mapping[str, Fact]) -> None:
        for feature, fact in facts.items():
            ledger.record(base_url, chosen.model, feature, fact)
        result.facts.update(facts)
        result.believed = ledger.facts(base_url, chosen.model)
        progressed(step)

    found = await probe(
        profile,
        chosen.model,
        adapter_for(profile),
        sending,
        # Not what was probed before: a server that was updated is to be seen with fresh eyes.
        known=result.declared,
        now=datetime.now(UTC),
        report=keep,
    )
    keep(
        "", {feature: fact for feature, fact in found.facts.items() if feature not in result.facts}
    )
    result.num_calls = found.num_calls
    result.num_tokens = found.prompt_tokens + found.completion_tokens
    if found.failure is not None:
        result.failure = f"{found.failure.kind.value.replace('_', ' ')}: {found.failure.detail}"


async def _timed(client: httpx.AsyncClient, chosen: RemoteSettings | LocalSettings) -> Reached:
    start = time.monotonic()
    reach: Reach | None
    try:
        checked = await _checked(client, chosen)
        reach, detail = checked.reach, checked.detail
    except WeighbridgeError as error:
        reach, detail = None, trouble(error)
    seconds = time.monotonic() - start
    return Reached(name=chosen.name, reach=reach, seconds=seconds, detail=detail)


async def _checked(client: httpx.AsyncClient, chosen: RemoteSettings | LocalSettings) -> Checked:
    if isinstance(chosen, LocalSettings):
        provider = build_provider(chosen, MemoryLedger())
        assert isinstance(provider, LocalProvider)
        provider.check()
        return Checked(reach=Reach.REACHABLE, detail="on this machine")
    profile, base_url = _place(chosen)
    return await check(
        profile,
        chosen.model,
        None if chosen.kind == "systemone" else adapter_for(profile),
        _sending(client, chosen, profile, base_url),
        facts=profile.declared(chosen.model),
    )


def _place(chosen: RemoteSettings) -> tuple[Profile, str]:
    profile, base_url = endpoint(chosen)
    return profile, base_url.rstrip("/")


def _sending(
    client: httpx.AsyncClient, chosen: RemoteSettings, profile: Profile, base_url: str
) -> Send:
    key = read_key(chosen)

    async def sending(request: HttpRequest) -> HttpResponse | Failure:
        return await send(
            client,
            request,
            base_url=base_url,
            key=key,
            auth=profile.auth,
            timeout_s=chosen.timeout,
        )

    return sending
