"""`weighbridge init`: a commented configuration that fits this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from weighbridge.cli.output import stderr, usage
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
without_evidence = "review"  # "accept" trusts answers whose probabilities nobody has calibrated

[review]
# database = "sqlite:///weighbridge.db"   # without it: in your data folder

# Your own labels:
# [task.categories]
# billing = "charges, invoices, refunds"
# outage = {{ description = "the service is down", phrases = ["Nothing loads.", "Is it down?"] }}
"""

_PROVIDER = """
[[provider]]
name = "{name}"
kind = "openai"
base_url = "{base_url}"
model = "{model}"
{key}{logprobs}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    name: str
    base_url: str
    model: str
    key_env: str | None = None  # a hosted service; None: a server on this machine
    logprobs: str = "unknown_mask"  # where its numbers are taken


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
        logprobs="off",
    ),
    _Endpoint(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        model="openai/gpt-4.1-mini",
        key_env="OPENROUTER_API_KEY",
    ),
    _Endpoint(
        name="llama-server",
        base_url="http://127.0.0.1:8080/v1",
        model="default",
        logprobs="premask",
    ),
    _Endpoint(
        name="vllm", base_url="http://127.0.0.1:8000/v1", model="default", logprobs="postmask"
    ),
    _Endpoint(name="lm-studio", base_url="http://127.0.0.1:1234/v1", model="default"),
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
    found = []
    for endpoint in _ENDPOINTS:
        model = _found(endpoint)
        stderr().print(f"{endpoint.name}: {'found' if model else 'not found'}")
        if model:
            found.append((endpoint, model))
    providers = "".join(_section(endpoint, model) for endpoint, model in found)
    order = ", ".join(f'"{name}"' for name in [*(e.name for e, _ in found), "offline"])
    try:
        path.write_text(_TEMPLATE.format(providers=providers, order=order), "utf-8")
    except OSError as error:
        usage(f"{path} cannot be written: {error.strerror}")
    stderr().print(f"wrote {path}")


def _found(endpoint: _Endpoint) -> str | None:
    """The model to ask, if the key is set or the server answers."""
    if endpoint.key_env is not None:
        return endpoint.model if os.environ.get(endpoint.key_env) else None
    import httpx

    try:
        models = httpx.get(f"{endpoint.base_url}/models", timeout=_PROBE_S, trust_env=False).json()
        model = str(models["data"][0]["id"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
    return model if model.isprintable() else None  # it goes into the file


def _section(endpoint: _Endpoint, model: str) -> str:
    key = f'api_key_env = "{endpoint.key_env}"\n' if endpoint.key_env else ""
    comment = {
        "off": "  # it has none to give",
        "premask": "  # taken before its grammar mask: mass can be trusted",
        "postmask": "  # taken after its grammar mask: they say nothing about mass",
        "unknown_mask": "  # nobody has established whether before or after its grammar mask",
    }[endpoint.logprobs]
    # A server names its models; a quote or backslash in a name must not break the file.
    safe = model.replace("\\", "\\\\").replace('"', '\\"')
    return _PROVIDER.format(
        name=endpoint.name,
        base_url=endpoint.base_url,
        model=safe,
        key=key,
        logprobs=f'logprobs = "{endpoint.logprobs}"{comment}\n',
    )
