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
        hosts: host names, `host:port` of servers on this machine, and `host/path` of routes, by
            which it is recognised.
        auth: the header that carries the key; "bearer" is `authorization: Bearer`.
        seed_field: what the wire calls the seed.
        schema_field: where the native mode of OpenAI's wire has its schema.
        json_mode_schema: whether OpenAI's any-JSON-object mode takes a schema beside it.
        tool_choice: how OpenAI's wire forces a tool: by its name, or "required" where the server
            reads words alone.
        tool_extra: sent with every request that offers a tool.
        extra: sent with every request.
        thinking: what is sent for each wish; wishes that are missing cannot be expressed.
        biases_texts: whether logit biases may name texts and not only token ids.
        shows_schema: whether the schema must stand in the prompt as well, in every mode.
        features: declared facts, by feature, for any model.
        models: (patterns of model names, facts that differ for them); later ones override.
        model_thinking: the same for `thinking`, which is replaced as a whole.
    """

    name: str
    wire: Wire
    dialect: str
    base_url: str = ""
    hosts: tuple[str, ...] = ()
    auth: Auth = "bearer"
    seed_field: str = "seed"
    schema_field: Literal["response_format", "structured_outputs"] = "response_format"
    json_mode_schema: bool = False
    tool_choice: Literal["named", "required"] = "named"
    tool_extra: Mapping[str, Json] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)
    thinking: Mapping[Thinking, Mapping[str, Json]] = field(default_factory=dict)
    biases_texts: bool = False
    shows_schema: bool = False
    features: Mapping[str, Fact] = field(default_factory=dict)
    models: tuple[tuple[tuple[str, ...], Mapping[str, Fact]], ...] = ()
    model_thinking: tuple[tuple[tuple[str, ...], Mapping[Thinking, Mapping[str, Json]]], ...] = ()

    def declared(self, model: str) -> dict[str, Fact]:
        """The declared facts for a model, by feature."""
        facts = dict(self.features)
        for patterns, differing in self.models:
            if _matches(model, patterns):
                facts |= differing
        return facts

    def thinking_fields(self, model: str, wish: Thinking) -> Mapping[str, Json] | None:
        """What is sent to a model for a wish; None where the wish cannot be expressed.

        >>> named("groq").thinking_fields("openai/gpt-oss-20b", "low")
        {'reasoning_effort': 'low'}
        """
        fields = self.thinking
        for patterns, differing in self.model_thinking:
            if _matches(model, patterns):
                fields = differing
        return fields.get(wish)


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

    Of several that know it, the first in the table.

    >>> of_url("openai", "https://api.groq.com/openai/v1").name
    'groq'
    >>> of_url("openai", "https://llm.example.com/v1").name
    'openai_compatible'
    """
    place = urlsplit(base_url.lower())
    host = place.hostname or ""
    for profile in _profiles().values():
        for pattern in profile.hosts if profile.wire == wire else ():
            # A star must not reach from the host into the path.
            found = [f"{host}{place.path}"] if "/" in pattern else [host, place.netloc]
            if any(fnmatch.fnmatchcase(name, pattern) for name in found):
                return profile
    return named(GENERIC[wire])


@cache
def _profiles() -> dict[str, Profile]:
    text = resources.files(__package__).joinpath("capabilities.toml").read_text("utf-8")
    table = tomllib.loads(text)
    sources = table.pop("sources")
    return {name: _profile(name, _whole(entry, table), sources) for name, entry in table.items()}


def _whole(entry: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The entry on top of the one that it is `like`, if it is."""
    base = table[entry["like"]] if "like" in entry else {}
    features = {**base.get("features", {}), **entry.get("features", {})}
    models = [*base.get("models", ()), *entry.get("models", ())]
    return {**base, **entry, "features": features, "models": models}


def _matches(model: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(model.lower(), pattern) for pattern in patterns)


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
        schema_field=entry.get("schema_field", "response_format"),
        json_mode_schema=entry.get("json_mode_schema", False),
        tool_choice=entry.get("tool_choice", "named"),
        tool_extra=entry.get("tool_extra", {}),
        extra=entry.get("extra", {}),
        thinking=entry.get("thinking", {}),
        biases_texts=entry.get("biases_texts", False),
        shows_schema=entry.get("shows_schema", False),
        features=_facts(entry["features"], sources),
        models=tuple(
            (tuple(one["match"]), _facts(one.get("features", {}), sources))
            for one in entry["models"]
        ),
        model_thinking=tuple(
            (tuple(one["match"]), one["thinking"]) for one in entry["models"] if "thinking" in one
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
