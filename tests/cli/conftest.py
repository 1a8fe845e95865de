from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from provider_stub import Stub, configure, serving

from weighbridge.cli import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output, one JSON value a line."""
        return [json.loads(line) for line in self.out.split("\n")[:-1]]


Cli = Callable[..., Ran]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving(Stub()) as stub:
        yield stub


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stub: Stub) -> Path:
    """A working directory whose only provider is the stub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("WEIGHBRIDGE_CONFIG", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    configure(tmp_path, stub)
    return tmp_path


@pytest.fixture(autouse=True, scope="session")
def _commands() -> Iterator[None]:
    """Are put together once, as in a process: that takes longer than most of them run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", cache(typer.main.get_command))
        yield


@pytest.fixture
def cli(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Runs `weighbridge` with arguments and bytes on standard input."""

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["weighbridge", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run
