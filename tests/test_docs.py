"""The README's code is run as it stands there, in order, against the real engine."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from weighbridge.cli.trail import WORDS, print_trails
from weighbridge.decision import Attempt, Decision, FailureKind, Reason
from weighbridge.router.router import Router
from weighbridge.settings import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


ENGINE_PAGE = (ROOT / "docs" / "engine.md").read_text("utf-8")
PROVIDERS_PAGE = (ROOT / "docs" / "providers.md").read_text("utf-8")
OBSERVABILITY_PAGE = (ROOT / "docs" / "observability.md").read_text("utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.mark.models
def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a queue of its own, so that nobody's real one is touched."""
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__DATABASE", f"sqlite:///{tmp_path}/queue.db")
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__AUDIT_RATE", "0")
    monkeypatch.setenv("WEIGHBRIDGE_ROUTER__DEADLINE", "10m")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec", dont_inherit=True), names)
    assert names["routing"].name == "Routing"  # type: ignore[attr-defined]


@pytest.mark.models
def test_python_of_the_engine_page_runs() -> None:
    """In order, on the default model; what the page says of a result holds."""
    names: dict[str, Any] = {}
    for block in blocks("python", ENGINE_PAGE):
        exec(compile(block, "engine.md", "exec", dont_inherit=True), names)
    assert names["answer"].text in {"billing", "bug", "how_to"}
    assert len(names["cities"]) == 4
    weights = names["weights"]
    assert len(weights.joint()) == 6
    assert sum(weights.joint().values()) == pytest.approx(1.0)
    assert sum(weights.marginal(("category",)).values()) == pytest.approx(1.0)
    assert 0 < weights.mass[0] < weights.mass[1] < 1
    assert weights.dropped == 0.0
    assert b"".join(names["pieces"]).decode().startswith(names["streamed"].text)
    assert len(names["streamed"].steps[0].free) == 3
    assert set(names["labels"].marginal()) == {'" billing"', '" bugs"'}


def test_every_notation_of_the_engine_page_writes_what_it_says() -> None:
    """Each line of the page that writes with the toy model, held against its comment."""
    from weighbridge.local_engine import Engine, guides

    (block,) = [block for block in blocks("python", ENGINE_PAGE) if "def write(" in block]
    names: dict[str, Any] = {"Engine": Engine, "guides": guides}
    setup, *lines = block.split("\nwrite(")
    exec(compile(setup, "engine.md", "exec", dont_inherit=True), names)
    written = []
    for line in lines:
        call, *rest = f"write({line}".split("\n")
        written.append(eval(call, names))
        exec(compile("\n".join(rest), "engine.md", "exec", dont_inherit=True), names)
    wanted = [
        "closed",
        "[A-Z]{2}-[0-9]{4}",
        '"bug"|7|null',
        "(yes|no) (yes|no)",
        "#[0-9]{2}",
        "refund",
        "bug",
        "bug|refund",
        "[0-9]{3}",
    ]
    assert len(written) == len(wanted)
    for text, pattern in zip(written, wanted, strict=True):
        assert re.fullmatch(pattern, text), (text, pattern)


@pytest.mark.models
def test_python_of_the_observability_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, since a process has one place where its spans go."""
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__DATABASE", f"sqlite:///{tmp_path}/queue.db")
    monkeypatch.setenv("WEIGHBRIDGE_REVIEW__AUDIT_RATE", "0")
    page = OBSERVABILITY_PAGE
    code = "\n".join(blocks("python", page))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("invoke_workflow triage", "new mail"))
    assert re.search(r"INFO weighbridge ticket \w+: \w+.* in [\d.]+ s, 1 attempts", done.stderr)
    (settings,) = blocks("toml", page)
    assert load_settings(tomllib.loads(settings)).telemetry.opentelemetry is False


def test_every_guide_is_on_the_engine_page() -> None:
    from weighbridge.local_engine import guides

    missing = [name for name in guides.__all__ if f"`{name}(" not in ENGINE_PAGE]
    assert missing == []


def test_configuration_of_the_readme_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key in it is known, and every documented section is in it."""
    (block,) = blocks("toml")
    settings = load_settings(tomllib.loads(block))
    assert [provider.name for provider in settings.provider] == ["groq", "offline"]


@pytest.mark.parametrize("name", ["weighbridge.toml", "without-prior.toml"])
def test_example_configuration_is_valid(name: str) -> None:
    assert load_settings(ROOT / "examples" / name).provider[0].kind == "local"


def test_python_of_the_providers_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in blocks("python", PROVIDERS_PAGE):
        exec(compile(block, "providers.md", "exec", dont_inherit=True), names)
    assert names["task"].reasoning


def test_configuration_of_the_providers_page_is_valid() -> None:
    """Each block by itself, with the providers that it only names."""
    first, second = (tomllib.loads(block) for block in blocks("toml", PROVIDERS_PAGE))
    named = [
        {"name": name, "kind": "local"}
        if name == "offline"
        else {**first["provider"][0], "name": name}
        for name in second["router"]["order"]
    ]
    assert len(load_settings(first).provider) == 2
    assert load_settings({**second, "provider": named}).router.stronger == ("gpu-box",)


NOBODY = {"name": "a", "kind": "openai", "base_url": "http://127.0.0.1:9", "model": "m"}


def test_numbers_of_the_guarantees_page_are_right() -> None:
    """Each line with a call is held against the number in its comment."""
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    block, collecting, by_hand = blocks("python", page)
    names: dict[str, Any] = {}
    exec(compile(block, "guarantees.md", "exec", dont_inherit=True), names)
    exec(compile(collecting, "guarantees.md", "exec", dont_inherit=True), names)
    with Router.from_config({"provider": [NOBODY], "review": {"database": "sqlite://"}}) as router:
        assert names["collect"](router, 7) == 7
    lines = re.findall(r"^(sample_size.*?)  +# (\d+)", block, re.MULTILINE)
    assert len(lines) == 3
    assert [eval(call, names) for call, _ in lines] == [int(number) for _, number in lines]
    exec(compile(by_hand, "guarantees.md", "exec", dont_inherit=True), names)
    shares = re.findall(r"^(\w+\(.*?)  *# (0\.\d+)", by_hand, re.MULTILINE)
    assert len(shares) == 3
    assert [f"{eval(call, names):.3f}" for call, _ in shares] == [share for _, share in shares]
    (settings,) = blocks("toml", page)
    assert load_settings(tomllib.loads(settings)).review.certificate_validity == 30 * 86_400


def test_configuration_of_the_routing_page_is_valid() -> None:
    """All blocks together, with the providers that they only name."""
    page = (ROOT / "docs" / "routing.md").read_text("utf-8")
    merged: dict[str, Any] = {}
    providers: list[Any] = []
    for block in blocks("toml", page):
        merged |= tomllib.loads(block)
        providers += merged.pop("provider", [])
    merged["provider"] = [
        *providers,
        {"name": "openai", "kind": "openai", "base_url": "https://api.openai.com/v1", "model": "m"},
        {"name": "offline", "kind": "local"},
    ]
    settings = load_settings(merged)
    assert [provider.name for provider in settings.provider][:2] == ["groq", "gateway"]
    assert (settings.router.hedge_after, settings.decision_cache.max_age) == (0.95, 86_400.0)
    assert settings.budget.usd_per_ticket == 0.05


def test_every_profile_is_on_the_providers_page() -> None:
    """Whoever runs a server at a place of its own has to name one."""
    from weighbridge.providers.profiles import GENERIC, names

    for wire in ("openai", "ollama"):
        missing = [name for name in names(wire) if f"`{name}`" not in PROVIDERS_PAGE]
        assert missing in ([], [GENERIC[wire]])


def test_trail_of_the_observability_page_is_printed_so() -> None:
    """Drawn from the attempts that it tells of."""
    shown = next(block for block in blocks("", OBSERVABILITY_PAGE) if "--trail" in block)
    trail = (
        Attempt(
            provider="openai",
            model="gpt-4.1-mini",
            failure=FailureKind.COOLING,
            detail="cooling down for 12.4 s: rate limit, as it asked for",
        ),
        Attempt(
            provider="groq",
            model="openai/gpt-oss-20b",
            failure=FailureKind.RATE_LIMIT,
            status=429,
            seconds=0.31,
            mode="native",
            detail="status 429, rate_limit_exceeded",
        ),
        Attempt(
            provider="groq",
            model="openai/gpt-oss-20b",
            status=200,
            seconds=0.52,
            waited_s=2.0,
            prompt_tokens=812,
            completion_tokens=14,
            cost_usd=0.000065,
            mode="native",
            dropped=("logit_bias",),
            losses=("maxLength at /reply",),
        ),
    )
    decision = Decision(
        ticket_id="t-17",
        task="triage",
        status="review",
        value=None,
        reasons=(Reason.UNCALIBRATED,),
        trail=trail,
    )
    console = Console(file=io.StringIO(), width=120, highlight=False)
    print_trails(console, [decision])
    assert isinstance(console.file, io.StringIO)
    printed = [line.rstrip() for line in console.file.getvalue().strip().splitlines()]
    assert shown.splitlines()[2:] == printed


def test_every_outcome_of_an_attempt_is_on_the_observability_page() -> None:
    """With its words in the trail, its class everywhere else, and what to do."""
    for kind, words in WORDS.items():
        assert f"\n| {words} | `{kind.value}` | " in OBSERVABILITY_PAGE
