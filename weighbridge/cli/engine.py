"""The local engine as it is configured, for commands that use it without a router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.setting_sections import LocalSettings
from weighbridge.settings import Settings

if TYPE_CHECKING:
    from weighbridge.local_engine.engine import Engine


def configured(settings: Settings) -> LocalSettings:
    """Its settings: those of the first local provider that is asked, or else the defaults."""
    local = (provider for provider in settings.asked if isinstance(provider, LocalSettings))
    return next(local, LocalSettings(kind="local"))


def check_engine(local: LocalSettings, *, prior: str | None) -> None:
    """See that the engine could be loaded, without the seconds that importing torch takes.

    Args:
        local: how it is configured.
        prior: the label prior; None leaves it out.

    Raises:
        ExtraMissing: a package of the extra [local] is not installed.
        EngineError: a model is not there.
    """
    from weighbridge.providers.local import LocalProvider

    LocalProvider(model=local.model, prior=prior).check()


def load_engine(local: LocalSettings, *, prior: str | None) -> Engine:
    """The engine, with or without a label prior.

    Raises:
        EngineError: it cannot be loaded.
    """
    from weighbridge.local_engine.engine import Engine

    return Engine.load(
        local.model,
        prior=prior,
        precision=local.precision,
        threads=local.threads,
        max_ticket_tokens=local.max_ticket_tokens,
    )
