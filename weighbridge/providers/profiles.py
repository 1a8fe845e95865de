"""Profiles: what is known of each vendor and server before anybody has asked it, as data.

The table is `capabilities.toml`. A profile says how a wire format is spoken by one of its speakers
(header of the key, names of fields, dialect of schemas), and declares its capabilities, per model
where they differ.
"""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from weighbridge.capability import Fact, Status
from weighbridge.decision import Json
from weighbridge.providers.protocol import Thinking

Wire: TypeAlias = Literal["openai", "gemini", "ollama", "anthropic", "systemone"]
Auth: TypeAlias = Literal["bearer", "api-key", "x-api-key", "x-goog-api-key"]

GENERIC: Mapping[Wire, str] = {
    "openai": "openai_compatible",
    "gemini": "gemini_native",
    "ollama": "ollama_native",
    "anthropic": "anthropic",
    "systemone": "systemone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One speaker of a wire format.

    Args:
        name: its key in the table.
        wire: the format.
        dialect: of JSON Schema, in its native mode and in strict tools.
        base_url: where it is found; "" where everybody runs it at a place of their own.
        hosts: host names, and `host:port` of servers on this machine, by which it is recognised.
        auth: the header that carries the key; "bearer" is `authorization: Bearer`.
        seed_field: what the wire calls the seed.
        extra: sent with every request.
        thinking: what is sent for each wish; wishes that are missing cannot be expressed.
        biases_texts: whether logit biases may name texts and not only token ids.
        shows_schema: whether the schema must stand in the prompt as well, in every mode.
        features: declared facts, by feature, for any model.
        models: (patterns of model names, facts that differ for them); later ones override.
    """

    name: str
    wire: Wire
    dialect: str
    base_url: str = ""
    hosts: tuple[str, ...] = ()
    auth: Auth = "bearer"
    seed_field: str = "seed"
    extra: Mapping[str, Json] = field(default_factory=dict)
    thinking: Mapping[Thinking, Mapping[str, Json]] = field(default_factory=dict)
    biases_texts: bool = False
    shows_schema: bool = False
    features: Mapping[str, Fact] = field(default_factory=dict)
    models: tuple[tuple[tuple[str, ...], Mapping[str, Fact]], ...] = ()

    def declared(self, model: str) -> dict[str, Fact]:
        """The declared facts for a model, by feature."""
        facts = dict(self.features)
        for patterns, differing in self.models:
            if any(fnmatch.fnmatchcase(model.lower(), pattern) for pattern in patterns):
                facts |= differing
        return facts


def named(name: str) -> Profile:
    """The profile of a name.

    Raises:
        KeyError: with the nearest name there is.

    >>> named("groq").features["logit_bias"].status.value
    'unsupported'
    """
    profiles = _profiles()
    if name not in profiles:
        near = difflib.get_close_matches(name, profiles, 1, cutoff=0)[0]
        raise KeyError(f"no profile {name!r}; the nearest is {near!r}")
    return profiles[name]


def names(wire: Wire) -> list[str]:
    """The names of all profiles of a wire format."""
    return [profile.name for profile in _profiles().values() if profile.wire == wire]


def of_url(wire: Wire, base_url: str) -> Profile:
    """The profile that an endpoint is recognised by; the format's own where it is not known.

    >>> of_url("openai", "https://api.groq.com/openai/v1").name
    'groq'
    >>> of_url("openai", "https://llm.example.com/v1").name
    'openai_compatible'
    """
    place = urlsplit(base_url.lower())
    found = {place.hostname or "", place.netloc}
    for profile in _profiles().values():
        if profile.wire == wire and any(
            fnmatch.fnmatchcase(name, pattern) for name in found for pattern in profile.hosts
        ):
            return profile
    return named(GENERIC[wire])


@cache
def _profiles() -> dict[str, Profile]:
    text = resources.files(__package__).joinpath("capabilities.toml").read_text("utf-8")
    table = tomllib.loads(text)
    sources = table.pop("sources")
    return {name: _profile(name, entry, sources) for name, entry in table.items()}


def _profile(name: str, entry: dict[str, Any], sources: Mapping[str, str]) -> Profile:
    wire: Wire = entry["wire"]
    assert wire in get_args(Wire)
    return Profile(
        name=name,
        wire=wire,
        dialect=entry["dialect"],
        base_url=entry.get("base_url", ""),
        hosts=tuple(entry.get("hosts", ())),
        auth=entry.get("auth", "bearer"),
        seed_field=entry.get("seed_field", "seed"),
        extra=entry.get("extra", {}),
        thinking=entry.get("thinking", {}),
        biases_texts=entry.get("biases_texts", False),
        shows_schema=entry.get("shows_schema", False),
        features=_facts(entry.get("features", {}), sources),
        models=tuple(
            (tuple(one["match"]), _facts(one["features"], sources))
            for one in entry.get("models", ())
        ),
    )


def _facts(features: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Fact]:
    return {name: _fact(entry, sources) for name, entry in features.items()}


def _fact(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Fact:
    checked = entry["checked"]
    return Fact(
        status=Status(entry["status"]),
        limit=entry.get("limit"),
        value=entry.get("value"),
        note=entry.get("note", ""),
        source=sources[entry["source"]],
        checked=datetime(checked.year, checked.month, checked.day, tzinfo=UTC),
    )


