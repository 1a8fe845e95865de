"""Settings: what `weighbridge.toml` and the environment may say, checked as a whole.

Keys of the file can be overridden by environment variables: `WEIGHBRIDGE_ROUTER__DEADLINE=20s`.
Secrets never stand in the file: it names an environment variable or a file that holds them.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from weighbridge.errors import ConfigError
from weighbridge.setting_errors import PREFIX, Location, error_at, in_words, not_json, set_variables
from weighbridge.setting_sections import (
    BudgetSettings,
    CacheSettings,
    GateSettings,
    LocalSettings,
    ProviderSettings,
    RedactionSettings,
    RemoteSettings,
    ReviewSettings,
    RouterSettings,
    TaskSettings,
    TelemetrySettings,
)

FILE_NAME = "weighbridge.toml"


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
