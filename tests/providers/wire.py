"""Recorded and hand-written exchanges with providers, as pytest parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weighbridge.providers.protocol import HttpResponse

WIRE = Path(__file__).parents[2].parent / "shared" / "wire"


def exchanges(part: str, *, adapter: str) -> list[Any]:
    """Whole exchanges of one part, "recorded" or "synthetic"; one skipped case without the folder.

    Answers that call tools are left out: weighbridge sends none.
    """
    if not WIRE.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(f"no recorded traffic at {WIRE}"))]
    cases = [
        (path.relative_to(WIRE).with_suffix("").as_posix(), json.loads(path.read_text("utf-8")))
        for path in sorted((WIRE / part).rglob("*.json"))
    ]
    skip = pytest.mark.skip("calls a tool instead of answering")
    return [
        pytest.param(case, id=name, marks=[skip] if case["expected"].get("tool_calls") else [])
        for name, case in cases
        if case["adapter"] == adapter and not case["stream"]
    ]


def response(
    status: int = 200, body: Any = None, *, headers: dict[str, str] | None = None
) -> HttpResponse:
    """A response with a JSON body; bytes go as they are, None is no body at all."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return HttpResponse(status=status, headers=headers or {}, body=raw)


def replay(case: dict[str, Any]) -> HttpResponse:
    """The response of an exchange."""
    came = case["response"]
    return response(came["status"], came["json"], headers=came["headers"])
