"""Settings: what `weighbridge.toml` and the environment may say, and its defaults.

Keys of the file can be overridden by environment variables: `WEIGHBRIDGE_ROUTER__DEADLINE=20s`.
Secrets never stand in the file: it names an environment variable or a file that holds them.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from weighbridge.addresses import is_loopback
from weighbridge.errors import ConfigError
from weighbridge.setting_errors import PREFIX, Location, error_at, in_words, not_json, set_variables
from weighbridge.setting_types import (
    BaseUrl,
    Days,
    Dollars,
    Limit,
    Name,
    Seconds,
    Share,
    Variable,
)

FILE_NAME = "weighbridge.toml"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class PriceSettings(_Section):
    """US dollars for a million tokens."""

    prompt: Dollars
    completion: Dollars


class RemoteSettings(_Section):
    """An endpoint behind HTTP, and one of its models."""

    name: Name
    kind: Literal["openai", "gemini", "ollama", "anthropic", "systemone"]
    allow_http: bool = False  # without encryption, to a host that is not this machine
    profile: str = ""  # who speaks there; empty: recognised by base_url
    base_url: BaseUrl | None = None  # None: the vendor's own
    model: Annotated[str, Field(min_length=1)]
    api_key_env: Variable | None = None
    api_key_file: Path | None = None
    timeout: Seconds = 15.0
    logprobs: Literal["premask", "postmask", "unknown_mask", "off"] | None = None
    max_output_tokens: Annotated[int, Field(ge=16)] = 1024
    thinking: Literal["off", "low", "medium", "high"] | None = None
    thinking_tokens: Annotated[int, Field(ge=0)] = 4096
    seed: int | None = 0
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    samples: Annotated[int, Field(ge=1, le=20)] = 1
    mass_probe_rate: Share = 0.0
    weight: Annotated[float, Field(ge=0)] = 1.0  # for the strategy "weighted"
    price: PriceSettings | None = None
    usd_per_day: Dollars | None = None
    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    max_concurrency: Limit | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.api_key_env and self.api_key_file:
            raise ValueError("give api_key_env or api_key_file, not both")
        url = urlsplit(self.base_url or "")
        if url.scheme == "http" and not self.allow_http and not is_loopback(url.hostname or ""):
            raise ValueError(
                "base_url sends tickets and key without encryption; allow_http = true permits it"
            )
        return self


class LocalSettings(_Section):
    """The local engine."""

    name: Name = "local"
    kind: Literal["local"]
    model: str = "smollm2-135m"
    prior: str = "all-minilm-l6-v2"  # "off" leaves the language model alone
    precision: Literal["int8", "float32", "bfloat16"] | None = None  # int8 on a CPU
    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    max_ticket_tokens: Annotated[int, Field(ge=64, le=4096)] = 1024
    timeout: Seconds = 60.0
    reserve: Seconds = 8.0


ProviderSettings = Annotated[RemoteSettings | LocalSettings, Field(discriminator="kind")]


class RouterSettings(_Section):
    """Order and limits; see `weighbridge.router.order` and `Policy`."""

    order: tuple[str, ...] = ()  # empty: as the providers stand in the file
    strategy: Literal["configured", "cheapest", "fastest", "weighted"] = "configured"
    stronger: tuple[str, ...] = ()  # asked where an answer is unsure
    share_health: bool = False  # cooldowns, with other processes, through the review database
    hedge_after: Annotated[float, Field(ge=0.5, lt=1)] | None = None
    deadline: Seconds = 30.0
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 8


class GateSettings(_Section):
    """Thresholds of acceptance; see `weighbridge.router.gate`."""

    mass: Share = 0.5
    probability: Share = 0.8
    support: Share = 0.5
    without_evidence: Literal["review", "accept", "second_opinion"] = "review"


class WebhookSettings(_Section):
    """An address that is told of the queue; see `weighbridge.review.telling.webhooks`."""

    name: Name
    url: SecretStr  # it may hold a secret of its own
    secret_env: Variable | None = None
    secret_file: Path | None = None
    events: tuple[Literal["enqueued", "settled", "reopened"], ...] = ("settled", "reopened")
    include_answer: bool = False  # else ids alone
    allow_private: bool = False  # to addresses that only this network can reach
    allow_http: bool = False  # without encryption, to a host that is not this machine
    timeout: Seconds = 10.0


class ReviewSettings(_Section):
    """Where decisions wait for a person, who sees them, and what is promised from it."""

    database: str = ""  # empty: in the user's data folder
    audit_rate: Share = 0.02  # of all tickets, drawn blindly: every guarantee rests on them
    order: Literal["fair", "uncertainty", "oldest"] = "fair"  # in which items are handed out
    overlap: Annotated[int, Field(ge=1, le=10)] = 1  # people who judge each item
    audit_overlap: Annotated[int, Field(ge=1, le=10)] = 1  # the same for audits
    certificate_validity: Days = 30 * 86_400.0
    retention: Days | None = None  # after which the texts of settled items are removed; None: never
    webhook: tuple[WebhookSettings, ...] = ()


class TelemetrySettings(_Section):
    """What is told to the world outside; see `weighbridge.router.telemetry`."""

    opentelemetry: bool = True  # wherever the application has loaded it


class BudgetSettings(_Section):
    """US dollars that may be spent in a day (UTC), by all processes; see `router.budget`."""

    usd_per_day: Dollars | None = None
    usd_per_ticket: Dollars | None = None


class CacheSettings(_Section):
    """Accepted decisions that are kept for tickets that say the same; see `router.cache`."""

    enabled: bool = False
    kind: Literal["memory", "database"] = "memory"
    max_entries: Limit = 10_000
    max_age: Days = 86_400.0


class RedactionSettings(_Section):
    """What is hidden, and from whom; see `weighbridge.schemas.redaction`."""

    enabled: bool = False  # from providers away from this machine
    queue: bool = False  # from the review queue, where nothing is put back
    built_in: tuple[str, ...] = ("EMAIL", "IBAN", "CARD", "PHONE")
    extra: dict[str, str] = Field(default_factory=dict)  # NAME: a regular expression


class FieldSettings(_Section):
    """What the decision depends on."""

    required: bool


class LabelSettings(_Section):
    """One option, with how customers put it."""

    description: str = ""
    phrases: tuple[str, ...] = ()


def _label(value: Any) -> Any:
    return {"description": value} if isinstance(value, str) else value


# Told apart by hand: of a plain union, pydantic would report the branch that nobody meant.
Labels = Annotated[
    Annotated[dict[str, Annotated[LabelSettings, BeforeValidator(_label)]], Tag("mapping")]
    | Annotated[list[str], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "mapping"),
]


class TaskSettings(_Section):
    """Your own labels and instructions for the built-in task."""

    instructions: str | None = None
    categories: Labels | None = None
    priorities: Labels | None = None
    fields: dict[Literal["category", "priority"], FieldSettings] = Field(default_factory=dict)


class Settings(BaseSettings):
    """The whole configuration."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    provider: tuple[ProviderSettings, ...] = (LocalSettings(kind="local"),)
    router: RouterSettings = RouterSettings()
    gate: GateSettings = GateSettings()
    review: ReviewSettings = ReviewSettings()
    redaction: RedactionSettings = RedactionSettings()
    budget: BudgetSettings = BudgetSettings()
    decision_cache: CacheSettings = CacheSettings()
    task: TaskSettings = TaskSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before the file."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [provider.name for provider in self.provider]
        if not names:
            raise ValueError("at least one [[provider]] is needed")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two providers are called {name!r}")
        for name in self.router.order:
            if name not in names:
                raise ValueError(f"router.order names {name!r}; there are {', '.join(names)}")
            if self.router.order.count(name) > 1:
                raise ValueError(f"router.order names {name!r} twice")
        for name in self.router.stronger:
            if name not in (self.router.order or names):
                raise ValueError(f"router.stronger names {name!r}, which is not asked at all")
        first, *others = self.asked
        if self.gate.without_evidence == "second_opinion" and not others:
            raise ValueError(
                f"gate.without_evidence wants a second opinion, and {first.name!r} alone is asked;"
                " the local engine would do as the second"
            )
        kept_s = sum(other.reserve for other in others if isinstance(other, LocalSettings))
        if kept_s >= self.router.deadline:
            raise ValueError(
                f"router.deadline leaves {first.name!r} no time: {kept_s:g} s of it are kept back "
                "for the local engine (`reserve`)"
            )
        return self

    @property
    def asked(self) -> tuple[ProviderSettings, ...]:
        """The providers that are asked, in their order."""
        by_name = {provider.name: provider for provider in self.provider}
        return tuple(by_name[name] for name in self.router.order or by_name)


def find_file(start: Path | None = None) -> Path | None:
    """The configuration file: `$WEIGHBRIDGE_CONFIG`, else the nearest upward; None without any.

    Raises:
        ConfigError: the variable names a file that is not there.
    """
    if named := os.environ.get("WEIGHBRIDGE_CONFIG"):
        if not Path(named).is_file():
            raise ConfigError("WEIGHBRIDGE_CONFIG", "", f"there is no file {named!r}")
        return Path(named)
    folder = (start or Path.cwd()).resolve()
    candidates = (parent / FILE_NAME for parent in (folder, *folder.parents))
    return next((path for path in candidates if path.is_file()), None)


def load_settings(source: str | Path | Mapping[str, Any] | None = None) -> Settings:
    """Settings from a path, a mapping, or wherever the file is found; defaults without any.

    Raises:
        ConfigError: unreadable, no TOML, an unknown key (with the nearest valid one), a bad value.
    """
    if isinstance(source, Mapping):
        return _validated(source, "configuration")
    path = find_file() if source is None else Path(source)
    if path is None:
        return _validated({}, "defaults")
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(str(path), "", error.strerror or "cannot be read") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigError(str(path), "", f"not valid TOML: {error}") from None
    return _validated(content, str(path))


def _validated(content: Mapping[str, Any], source: str) -> Settings:
    for key in map(str, content):
        if key.startswith("_"):  # pydantic-settings would take it for an order to itself
            raise _unknown(content, source, (key,))
    for variable in set_variables():
        section, is_nested, _ = variable.upper().removeprefix(PREFIX).lower().partition("__")
        # pydantic-settings looks for the sections that it knows, and sees no others.
        if is_nested and section not in Settings.model_fields:
            raise _unknown(content, variable, (section,))
    try:
        return Settings(**{str(key): value for key, value in content.items()})
    except SettingsError:
        raise not_json() from None
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        # Those first: where a key is misspelt, the right one is missing.
        unknown = (one["loc"] for one in found if one["type"] == "extra_forbidden")
        if (location := next(unknown, None)) is not None:
            raise _unknown(content, source, location) from None
        raise error_at(content, source, found[0]["loc"], in_words(found[0])) from None


def _unknown(content: Mapping[str, Any], source: str, location: Location) -> ConfigError:
    hint = f"The nearest is {_nearest(location)!r}."
    return error_at(content, source, location, "unknown key", hint)


def _nearest(location: Location) -> str:
    """The valid key nearest to the last part of a location."""
    remote = get_args(RemoteSettings.model_fields["kind"].annotation)
    kinds: dict[str, type[BaseModel]] = {
        **dict.fromkeys(remote, RemoteSettings),
        "local": LocalSettings,
    }
    sections: list[type[BaseModel]] = [Settings]
    for part in location[:-1]:
        if len(sections) > 1 and part in kinds:
            sections = [kinds[str(part)]]
        elif part in sections[0].model_fields:
            annotation = sections[0].model_fields[str(part)].annotation
            sections = _sections(annotation) or sections
    names = list(sections[0].model_fields)
    return difflib.get_close_matches(str(location[-1]), names, 1, cutoff=0)[0]


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections anywhere in a type, such as in `tuple[A | B, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]
