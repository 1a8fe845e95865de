"""`weighbridge init`: a commented configuration that fits this machine."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from weighbridge.cli.output import harmless, stderr, usage
from weighbridge.errors import WeighbridgeError
from weighbridge.setting_sections import LocalSettings
from weighbridge.settings import FILE_NAME

_PROBE_S = 0.5

_TEMPLATE = """\
# weighbridge: who is asked, and when an answer may be acted on.
# Secrets never stand here: name an environment variable or a file that holds them.
{providers}
# The last resort: weighs every answer on this machine, offline.
[[provider]]
name = "offline"
kind = "local"
model = "smollm2-135m"
prior = "all-minilm-l6-v2"   # a sentence encoder that knows the labels; "off" for none

[router]
order = [{order}]
deadline = "30s"             # for one ticket, over all retries and providers

[gate]                       # what an answer needs to be accepted without a person
probability = 0.8            # of the chosen option
support = 0.5                # nearness of the ticket to any label (label prior)
mass = 0.5                   # raw probability on all options (language model alone)
# What becomes of answers without numbers that can be weighed, as those of most hosted models:
# a person looks at each; or "second_opinion": another provider must agree; or "accept": trust them.
without_evidence = "review"

[review]
# database = "sqlite:///weighbridge.db"   # without it: in your data folder
audit_rate = 0.02            # of all tickets a person sees blindly; what certify proves rests on it
order = "fair"               # or "uncertainty": the most unsure first; or "oldest"
overlap = 1                  # people who judge each item; audit_overlap for the audits
certificate_validity = "30d"

[redaction]                  # what no provider away from this machine reads; put back in answers
enabled = false              # e-mail addresses, IBANs, payment cards, phone numbers

# Your own labels:
# [task.categories]
# billing = "charges, invoices, refunds"
# outage = {{ description = "the service is down", phrases = ["Nothing loads.", "Is it down?"] }}
"""

_PROVIDER = """
[[provider]]
name = "{name}"
kind = "{kind}"
{profile}{base_url}model = "{model}"
{key}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """A hosted service, found by its key, or a server on this machine, found by its models."""

    name: str
    model: str = ""
    kind: str = "openai"
    base_url: str = ""  # empty: the vendor's own
    profile: str = ""  # empty: recognised by the address
    key_env: str | None = None
    models: tuple[str, ...] = ()  # below base_url: where a server lists its models, and by what key


_LISTED = ("/models", "data", "id")
_ENDPOINTS = (
    _Endpoint(
        name="openai",
        base_url="https://api.openai.com/v1",
        model="gpt-4.1-mini",
        key_env="OPENAI_API_KEY",
    ),
    _Endpoint(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        model="openai/gpt-oss-20b",
        key_env="GROQ_API_KEY",
    ),
    _Endpoint(
        name="gemini", kind="gemini", model="gemini-3.1-flash-lite", key_env="GEMINI_API_KEY"
    ),
    _Endpoint(
        name="anthropic",
        kind="anthropic",
        model="claude-haiku-4-5",
        key_env="ANTHROPIC_API_KEY",
    ),
    _Endpoint(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        model="mistral-small-latest",
        key_env="MISTRAL_API_KEY",
    ),
    _Endpoint(
        name="deepseek",
        base_url="https://api.deepseek.com",
        model="deepseek-flash",
        key_env="DEEPSEEK_API_KEY",
    ),
    _Endpoint(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        model="openai/gpt-4.1-mini",
        key_env="OPENROUTER_API_KEY",
    ),
    _Endpoint(
        name="ollama",
        kind="ollama",
        base_url="http://127.0.0.1:11434",
        models=("/api/tags", "models", "name"),
    ),
    _Endpoint(name="llama-server", base_url="http://127.0.0.1:8080/v1", models=_LISTED),
    _Endpoint(name="vllm", profile="vllm", base_url="http://127.0.0.1:8000/v1", models=_LISTED),
    _Endpoint(name="lm-studio", base_url="http://127.0.0.1:1234/v1", models=_LISTED),
)


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path(FILE_NAME),
    force: Annotated[bool, typer.Option(help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented weighbridge.toml with the providers that are found here.

    Looks for API keys in the environment and for model servers on this machine's usual ports.
    """
    if path.exists() and not force:
        usage(f"{path} exists; --force overwrites it")
    if not path.parent.is_dir():
        usage(f"{path} cannot be written: there is no such folder")
    found = []
    for endpoint in _ENDPOINTS:
        model = _found(endpoint)
        stderr().print(f"{endpoint.name}: {_told(endpoint, model)}", style=None if model else "dim")
        if model:
            found.append((endpoint, model))
    stderr().print(f"offline: {_offline()}")
    providers = "".join(_section(endpoint, model) for endpoint, model in found)
    order = ", ".join(f'"{name}"' for name in [*(e.name for e, _ in found), "offline"])
    try:
        path.write_text(_TEMPLATE.format(providers=providers, order=order), "utf-8")
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror}")
    option = "" if path == Path(FILE_NAME) else f" --config {shlex.quote(str(path))}"
    stderr().print(f"Wrote {path}. See who can be reached:  weighbridge providers check{option}")


def _told(endpoint: _Endpoint, model: str | None) -> str:
    """What was looked for, and what was found."""
    if endpoint.key_env is not None:
        return f"{endpoint.key_env} is {'set' if model else 'not set'}"
    if model is None:
        return f"nobody at {endpoint.base_url}"
    return harmless(f"{model} at {endpoint.base_url}", limit=100)


def _offline() -> str:
    """Whether the local engine could answer; the file names it in any case."""
    from weighbridge.cli.endpoints import trouble
    from weighbridge.provider_config import build_provider
    from weighbridge.providers.ledger import MemoryLedger
    from weighbridge.providers.local import LocalProvider

    provider = build_provider(LocalSettings(kind="local"), MemoryLedger())
    assert isinstance(provider, LocalProvider)
    try:
        provider.check()
    except WeighbridgeError as error:
        return trouble(error)
    return "ready on this machine"


def _found(endpoint: _Endpoint) -> str | None:
    """The model to ask, if the key is set or the server answers."""
    if endpoint.key_env is not None:
        return endpoint.model if os.environ.get(endpoint.key_env) else None
    import httpx

    path, listed, name = endpoint.models
    try:
        models = httpx.get(endpoint.base_url + path, timeout=_PROBE_S, trust_env=False).json()
        model = str(models[listed][0][name])
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
    return model if model.isprintable() else None  # it goes into the file


def _section(endpoint: _Endpoint, model: str) -> str:
    # A server names its models; a quote or backslash in a name must not break the file.
    safe = model.replace("\\", "\\\\").replace('"', '\\"')
    return _PROVIDER.format(
        name=endpoint.name,
        kind=endpoint.kind,
        base_url=f'base_url = "{endpoint.base_url}"\n' if endpoint.base_url else "",
        model=safe,
        profile=f'profile = "{endpoint.profile}"\n' if endpoint.profile else "",
        key=f'api_key_env = "{endpoint.key_env}"\n' if endpoint.key_env else "",
    )
