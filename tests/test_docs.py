"""The README's code is run as it stands there, in order, against the real engine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from weighbridge.settings import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.mark.models
def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a queue of its own, so that nobody's real one is touched."""
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__DATABASE", f"sqlite:///{tmp_path}/queue.db")
    monkeypatch.setenv("WEIGHBRIDGE_ROUTER__DEADLINE", "10m")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec", dont_inherit=True), names)
    assert names["routing"].name == "Routing"  # type: ignore[attr-defined]


def test_configuration_of_the_readme_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key in it is known, and every documented section is in it."""
    (block,) = blocks("toml")
    settings = load_settings(tomllib.loads(block))
    assert [provider.name for provider in settings.provider] == ["groq", "offline"]


@pytest.mark.parametrize("name", ["weighbridge.toml", "without-prior.toml"])
def test_example_configuration_is_valid(name: str) -> None:
    assert load_settings(ROOT / "examples" / name).provider[0].kind == "local"
