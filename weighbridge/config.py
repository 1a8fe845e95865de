"""Settings → objects: the one place where all parts are put together."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from pydantic import SecretStr

from weighbridge.errors import ConfigError, TaskInvalid
from weighbridge.schemas.task import Task
from weighbridge.settings import Labels, LocalSettings, RemoteSettings, Settings

if TYPE_CHECKING:
    from weighbridge.capability import Ledger
    from weighbridge.providers.http import HttpProvider, Price
    from weighbridge.providers.profiles import Profile
    from weighbridge.providers.protocol import Provider
    from weighbridge.providers.systemone import SystemOneProvider
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.router.router import Router
    from weighbridge.schemas.redaction import Redactor
    from weighbridge.store.database import Database
    from weighbridge.store.ledger import CapabilityLedger


def build_task(settings: Settings) -> Task:
    """The task that `triage` asks.

    Raises:
        ConfigError: labels that cannot be used.
    """
    chosen = settings.task
    given: dict[str, Any] = {}
    for name in ("categories", "priorities"):
        labels: Labels | None = getattr(chosen, name)
        if labels is not None:
            given[name] = _plain_labels(labels)
    if chosen.instructions is not None:
        given["instructions"] = chosen.instructions
    required = {"category": True} | {name: f.required for name, f in chosen.fields.items()}
    given["required"] = [name for name, needed in required.items() if needed]
    try:
        return Task.triage(**given)
    except TaskInvalid as error:
        raise ConfigError("[task]", error.pointer.strip("/"), error.problem, error.hint) from None


def build_redactor(settings: Settings) -> Redactor | None:
    """What hides personal data from providers away from this machine; None where nothing does.

    Raises:
        ConfigError: an unknown pattern, or one that is no regular expression.
    """
    from weighbridge.schemas.redaction import Redaction

    chosen = settings.redaction
    if not chosen.enabled:
        return None
    try:
        return Redaction(built_in=chosen.built_in, extra=chosen.extra).redactor()
    except ValueError as error:
        raise ConfigError("[redaction]", "", str(error)) from None


def open_queue(settings: Settings) -> ReviewQueue:
    """The review queue.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    from weighbridge.review.queue import ReviewQueue

    return ReviewQueue(open_database(settings))


@contextmanager
def open_ledger(settings: Settings) -> Iterator[CapabilityLedger]:
    """What was probed and learned of endpoints, written down when the block ends.

    Raises:
        QueueUnavailable: the database cannot be opened.
    """
    from weighbridge.store.ledger import CapabilityLedger

    with closing(open_database(settings)) as database, closing(CapabilityLedger(database)) as it:
        yield it


def open_database(settings: Settings) -> Database:
    """The database of queue and ledger.

    Raises:
        QueueUnavailable: it cannot be opened.
    """
    from weighbridge.store.database import Database

    return Database(settings.review.database or default_database())


def default_database() -> str:
    """A SQLite file in the user's data folder."""
    folder = Path(platformdirs.user_data_dir("weighbridge"))
    return f"sqlite:///{folder / 'weighbridge.db'}"


def build_router(settings: Settings) -> Router:
    """Put a router together; see `Router.from_config`."""
    from weighbridge.review.queue import ReviewQueue
    from weighbridge.router.chain import Policy
    from weighbridge.router.gate import Gate
    from weighbridge.router.router import Router
    from weighbridge.store.ledger import CapabilityLedger

    with ExitStack() as on_error:
        database = on_error.enter_context(closing(open_database(settings)))
        ledger = on_error.enter_context(closing(CapabilityLedger(database)))
        router = Router(
            _checked([build_provider(chosen, ledger) for chosen in settings.asked]),
            ReviewQueue(database),
            ledger=ledger,
            redact=build_redactor(settings),
            task=build_task(settings),
            gate=Gate(**settings.gate.model_dump()),
            deadline_s=settings.router.deadline,
            policy=Policy(
                strategy=settings.router.strategy,
                max_attempts=settings.router.max_attempts,
                stronger=frozenset(settings.router.stronger),
                hedge_after=settings.router.hedge_after,
            ),
        )
        on_error.pop_all()  # from here on the router closes them
        return router


def _checked(providers: list[Provider]) -> list[Provider]:
    """The same, if there is one that may answer: better an error now than no answers."""
    from weighbridge.providers.local import LocalProvider

    local = [provider for provider in providers if isinstance(provider, LocalProvider)]
    if len(local) == len(providers):
        for provider in local:
            provider.check()
    return providers


def read_key(chosen: RemoteSettings) -> SecretStr | None:
    """The API key of a provider; None if the configuration names none.

    Raises:
        ConfigError: the variable is not set or the file cannot be read.
    """
    where = f"[[provider]] {chosen.name}"
    if chosen.api_key_env is not None:
        value = os.environ.get(chosen.api_key_env, "").strip()
        if not value:
            hint = f"Set {chosen.api_key_env} to the API key."
            problem = f"the environment variable {chosen.api_key_env} is not set"
            raise ConfigError(where, "api_key_env", problem, hint)
        return _secret(value, where, "api_key_env")
    if chosen.api_key_file is not None:
        try:
            value = chosen.api_key_file.expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeError, RuntimeError) as error:  # the last: whose home is `~name`?
            problem = f"{chosen.api_key_file} cannot be read ({type(error).__name__})"
            raise ConfigError(where, "api_key_file", problem) from None
        if not value:
            raise ConfigError(where, "api_key_file", f"{chosen.api_key_file} is empty")
        return _secret(value, where, "api_key_file")
    return None


def _secret(value: str, where: str, key: str) -> SecretStr:
    if not (value.isascii() and value.isprintable()):  # it goes into a header
        raise ConfigError(where, key, "what it names holds more than one line of ASCII")
    return SecretStr(value)


def build_provider(chosen: RemoteSettings | LocalSettings, ledger: Ledger) -> Provider:
    """One provider; the local engine is loaded later, with the first ticket.

    Args:
        chosen: the configured provider.
        ledger: what was probed and learned of endpoints.

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
    from weighbridge.providers.http import Price

    if chosen.price is None:
        return prices.of(profile, chosen.model)
    return Price(**chosen.price.model_dump())


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
        hint = "Give the address below which its API is found."
        raise ConfigError(where, "base_url", f"{profile.name} has no address of its own", hint)
    return profile, base_url


def _plain_labels(labels: Labels) -> Any:
    if isinstance(labels, list):
        return labels
    return {name: meaning.model_dump() for name, meaning in labels.items()}
