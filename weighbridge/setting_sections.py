"""Sections of the settings: what each may say, and its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    model_validator,
)

from weighbridge.addresses import is_loopback
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
