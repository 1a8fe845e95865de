"""From the settings of webhooks to webhooks, and to what each of them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.errors import ConfigError
from weighbridge.secret_source import read_secret
from weighbridge.setting_sections import WebhookSettings
from weighbridge.settings import Settings

if TYPE_CHECKING:
    from weighbridge.review.telling.subscriptions import Subscription
    from weighbridge.review.telling.webhooks import Webhook


def build_subscriptions(settings: Settings) -> list[Subscription]:
    """What each webhook is told; whoever only tells needs no secret.

    Raises:
        ConfigError: two webhooks of one name.
    """
    from weighbridge.review.telling.subscriptions import EventKind, Subscription

    chosen = settings.review.webhook
    names = [webhook.name for webhook in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("[[review.webhook]]", "name", f"two webhooks are called {name!r}")
    return [
        Subscription(
            target=webhook.name,
            events=frozenset(EventKind[event.upper()] for event in webhook.events),
            include_answer=webhook.include_answer,
        )
        for webhook in chosen
    ]


def build_webhooks(settings: Settings) -> list[Webhook]:
    """Where events are delivered to.

    Raises:
        KeyMissing: a secret is not there.
        ConfigError: an address or a secret that cannot be used.
    """
    from weighbridge.review.telling.webhooks import Webhook

    webhooks = []
    for chosen in settings.review.webhook:
        secret = _secret(chosen)
        try:
            webhook = Webhook(
                name=chosen.name,
                url=chosen.url.get_secret_value(),
                secret=secret,
                allow_private=chosen.allow_private,
                allow_http=chosen.allow_http,
                timeout_s=chosen.timeout,
            )
        except ValueError as error:
            raise ConfigError(_where(chosen), "url", str(error)) from None
        webhooks.append(webhook)
    return webhooks


def _secret(chosen: WebhookSettings) -> str:
    from weighbridge.review.telling.signing import key_of

    hint = "A long random text that the receiver has too, such as `openssl rand -hex 32` prints."
    if chosen.secret_env is not None and chosen.secret_file is None:
        key = "secret_env"
        secret = read_secret(_where(chosen), key, chosen.secret_env, hint)
    elif chosen.secret_file is not None and chosen.secret_env is None:
        key = "secret_file"
        secret = read_secret(_where(chosen), key, chosen.secret_file, hint)
    else:
        raise ConfigError(_where(chosen), "", "give secret_env or secret_file, one of them", hint)
    try:
        key_of(secret)
    except ValueError as error:
        raise ConfigError(_where(chosen), key, f"what it names is no secret: {error}") from None
    return secret


def _where(chosen: WebhookSettings) -> str:
    return f"[[review.webhook]] {chosen.name}"
