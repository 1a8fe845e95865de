"""The wire corpus: recorded and written exchanges with providers, as pytest parameters.

A folder holds `recorded/` and `synthetic/`; the project's own exchanges stand beside this file.
`WEIGHBRIDGE_WIRE_DIR` names another folder than the default one.
"""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from outcomes import profile_name

from weighbridge.providers import profiles
from weighbridge.providers.profiles import Wire
from weighbridge.providers.protocol import Adapter, HttpResponse

OWN = Path(__file__).parent / "exchanges"
DEFAULT = Path(__file__).parents[2].parent / "shared" / "wire"
NAMED = os.environ.get("WEIGHBRIDGE_WIRE_DIR")
FOLDER = Path(NAMED or DEFAULT)

ADAPTERS: dict[str, str] = {
    "openai": "OpenAIAdapter",
    "gemini": "GeminiAdapter",
    "ollama": "OllamaAdapter",
    "anthropic": "AnthropicAdapter",
}
_WIRES: tuple[Wire, ...] = ("openai", "gemini", "ollama", "anthropic", "systemone")
_PROFILES = frozenset(name for wire in _WIRES for name in profiles.names(wire))

Exchange = dict[str, Any]


def load() -> dict[str, Exchange]:
    """All exchanges by name; the first part of a name is `own`, `recorded` or `synthetic`."""
    found = {f"own/{path.stem}": path for path in sorted(OWN.glob("*.json"))}
    for part in ("recorded", "synthetic"):
        for path in sorted((FOLDER / part).rglob("*.json")):
            found[path.relative_to(FOLDER).with_suffix("").as_posix()] = path
    return {name: json.loads(path.read_text("utf-8")) for name, path in found.items()}


EXCHANGES = load()


def why_not_read(exchange: Exchange) -> str | None:
    """Why no adapter reads an exchange; None where one does."""
    if exchange["stream"]:
        return "a stream: none is ever asked for"
    if exchange["adapter"] is None:
        return f"no adapter for {exchange['kind']}"
    if exchange["expected"].get("tool_calls") and not takes_tools(exchange["adapter"]):
        return f"the adapter {exchange['adapter']} offers no tool"
    return None


def is_error(exchange: Exchange) -> bool:
    """Whether an exchange ends in an error status, which needs no adapter to be understood."""
    return not 200 <= exchange["response"]["status"] <= 299


def cases(part: str) -> list[Any]:
    """The readable exchanges of a part, as parameters."""
    return [
        pytest.param(exchange, id=name)
        for name, exchange in EXCHANGES.items()
        if name.startswith(f"{part}/") and why_not_read(exchange) is None
    ]


def errors(part: str) -> list[Any]:
    """The exchanges of a part that end in an error status, whoever would read them."""
    return [
        pytest.param(exchange, id=name)
        for name, exchange in EXCHANGES.items()
        if name.startswith(f"{part}/") and is_error(exchange)
    ]


def takes_tools(adapter: str) -> bool:
    """Whether an adapter can be told the name of the tool that takes the answer."""
    return "tool" in {field.name for field in fields(_adapter_class(adapter))}


def adapter_for(exchange: Exchange) -> Adapter:
    """The adapter of an exchange; its tool is the one whose call is the answer."""
    make = _adapter_class(exchange["adapter"])
    profile = profiles.named(profile_name(exchange["kind"], _PROFILES))
    calls = exchange["expected"].get("tool_calls")
    adapter: Adapter = make(profile, tool=calls[0]["name"]) if calls else make(profile)
    return adapter


def replay(exchange: Exchange) -> HttpResponse:
    """The response of an exchange."""
    came = exchange["response"]
    body = came["text"] if "text" in came else json.dumps(came["json"], ensure_ascii=False)
    return HttpResponse(
        status=came["status"], headers=came["headers"], body=body.encode("utf-8", "surrogatepass")
    )


def _adapter_class(adapter: str) -> Any:
    module = importlib.import_module(f"weighbridge.providers.{adapter}")
    return getattr(module, ADAPTERS[adapter])
