"""Settings → providers: each with its endpoint, its key and its price."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pydantic import SecretStr

from weighbridge.errors import ConfigError
from weighbridge.secret_source import read_secret
from weighbridge.setting_sections import LocalSettings, RemoteSettings

if TYPE_CHECKING:
    from weighbridge.capability import Ledger
    from weighbridge.providers.http import HttpProvider
    from weighbridge.providers.local import LearnedSource
    from weighbridge.providers.prices import Price
    from weighbridge.providers.profiles import Profile
    from weighbridge.providers.protocol import Provider
    from weighbridge.providers.systemone import SystemOneProvider


def read_key(chosen: RemoteSettings) -> SecretStr | None:
    """The API key of a provider; None if the configuration names none.

    Raises:
        KeyMissing: the variable is not set, or the file cannot be read or is empty.
        ConfigError: what is there is no key.
    """
    where = f"[[provider]] {chosen.name}"
    if chosen.api_key_env is not None:
        name, hint = "api_key_env", f"Set {chosen.api_key_env} to the API key."
        key = read_secret(where, name, chosen.api_key_env, hint)
    elif chosen.api_key_file is not None:
        name = "api_key_file"
        key = read_secret(where, name, chosen.api_key_file)
    else:
        return None
    if not (key.isascii() and key.isprintable()):  # it goes into a header
        raise ConfigError(where, name, "what it names holds more than one line of ASCII")
    return SecretStr(key)


def build_provider(
    chosen: RemoteSettings | LocalSettings, ledger: Ledger, learned: LearnedSource | None = None
) -> Provider:
    """One provider; the local engine is loaded later, with the first ticket.

    Args:
        chosen: the configured provider.
        ledger: what was probed and learned of endpoints.
        learned: what verdicts taught the local engine.

    Raises:
        ConfigError: its key is missing, or nothing says where and what it is.
    """
    if isinstance(chosen, LocalSettings):
        from weighbridge.providers.local import LocalProvider

        return LocalProvider(
            name=chosen.name,
            model=chosen.model,
            prior=None if chosen.prior == "off" else chosen.prior,
            precision=chosen.precision,
            threads=chosen.threads,
            max_ticket_tokens=chosen.max_ticket_tokens,
            timeout_s=chosen.timeout,
            reserve_s=chosen.reserve,
            learned=learned,
        )
    return _build_remote(chosen, ledger)


def _build_remote(chosen: RemoteSettings, ledger: Ledger) -> HttpProvider | SystemOneProvider:
    from weighbridge.providers.adapters import adapter_for
    from weighbridge.providers.asking import Wishes
    from weighbridge.providers.http import HttpProvider
    from weighbridge.providers.systemone import SystemOneProvider

    profile, base_url = endpoint(chosen)
    price = _price(chosen, profile)
    if chosen.kind == "systemone":
        return SystemOneProvider(
            name=chosen.name,
            model=chosen.model,
            base_url=base_url,
            profile=profile,
            ledger=ledger,
            key=read_key(chosen),
            timeout_s=chosen.timeout,
            price=price,
            weight=chosen.weight,
        )
    return HttpProvider(
        name=chosen.name,
        model=chosen.model,
        base_url=base_url,
        profile=profile,
        adapter=adapter_for(profile),
        ledger=ledger,
        key=read_key(chosen),
        wishes=Wishes(
            max_output_tokens=chosen.max_output_tokens,
            thinking_tokens=chosen.thinking_tokens,
            logprobs=chosen.logprobs != "off",
            seed=chosen.seed,
            temperature=chosen.temperature,
            thinking=chosen.thinking,
            samples=chosen.samples,
            mass_probe_rate=chosen.mass_probe_rate,
        ),
        timeout_s=chosen.timeout,
        weight=chosen.weight,
        logprobs=None if chosen.logprobs == "off" else chosen.logprobs,
        price=price,
    )


def _price(chosen: RemoteSettings, profile: Profile) -> Price | None:
    """What was configured; else what the vendor is known to have published."""
    from weighbridge.providers import prices

    if chosen.price is None:
        return prices.of(profile, chosen.model)
    return prices.Price(**chosen.price.model_dump())


def endpoint(chosen: RemoteSettings) -> tuple[Profile, str]:
    """Who speaks at a configured endpoint, and its base URL.

    Raises:
        ConfigError: an unknown profile, or no base URL where the vendor has none of its own.
    """
    from weighbridge.providers import profiles

    where = f"[[provider]] {chosen.name}"
    if chosen.profile:
        known = profiles.names(chosen.kind)
        if chosen.profile not in known:
            near = difflib.get_close_matches(chosen.profile, known, 1, cutoff=0)[0]
            hint = f"There are, for kind {chosen.kind!r}: {', '.join(known)}."
            problem = f"no profile {chosen.profile!r}; the nearest is {near!r}"
            raise ConfigError(where, "profile", problem, hint)
        profile = profiles.named(chosen.profile)
    elif chosen.base_url:
        profile = profiles.of_url(chosen.kind, chosen.base_url)
    else:
        profile = profiles.named(profiles.GENERIC[chosen.kind])
    base_url = chosen.base_url or profile.base_url
    if not base_url:
        problem = f"is missing: {profile.name} has no address of its own"
        hint = "Give the address below which its API is found"
        openai = profiles.named("openai").base_url
        hint += f"; OpenAI's own is {openai}." if chosen.kind == "openai" else "."
        raise ConfigError(where, "base_url", problem, hint)
    return profile, base_url
