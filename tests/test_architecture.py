"""Who may import whom, and what importing the package must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "weighbridge"

# What each part may import, apart from itself. A part that is not named may import nothing.
ALLOWED: dict[str, set[str]] = {
    "errors": {"decision"},  # for the type of an attribute only, see below
    "capability": set(),
    "decision": {"capability"},
    "schemas": {"errors", "decision"},
    "providers": {"errors", "capability", "decision", "schemas"},
    "providers.local": {"errors", "capability", "decision", "schemas", "providers", "local_engine"},
    "local_engine": {"errors", "decision", "schemas.finite"},
    "store": {"errors", "capability", "decision"},
    "review": {"errors", "addresses", "decision", "store"},
    "service": {"errors", "decision", "review", "store"},
    "router": {"errors", "decision", "schemas", "providers"},
    "addresses": set(),
    "setting_types": {"addresses"},
    "setting_errors": {"errors"},
    "setting_sections": {"addresses", "setting_types"},
    "settings": {"errors", "setting_errors", "setting_sections"},
    "secret_source": {"errors"},
    "provider_config": {"errors", "capability", "secret_source", "setting_sections", "providers"},
    "webhook_config": {"errors", "secret_source", "setting_sections", "settings", "review"},
    "config": {
        "provider_config",
        "webhook_config",
        "errors",
        "capability",
        "setting_sections",
        "settings",
        "schemas",
        "providers",
        "router",
        "review",
        "store",
    },
    "_api": {"decision", "router"},
    "cli": {
        "__init__",
        "capability",
        "config",
        "provider_config",
        "webhook_config",
        "decision",
        "errors",
        "local_engine",
        "review",
        "router",
        "schemas",
        "setting_sections",
        "settings",
        "providers",
        "service",
        "store.copying",
        "store.credentials",
        "store.database",
        "store.people",
        "store.roles",
    },
    "__main__": {"cli"},
    "__init__": {"_api", "decision", "errors", "router", "schemas"},
}

# One import stands against the arrows: the front door of a router is on the router.
EXCEPTIONS = {("router.router", "config"), ("router.router", "settings")}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package, by its name below it."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        yield name, ast.parse(path.read_text("utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports of the package, wherever in the module it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module == "weighbridge":
                names = [f"weighbridge.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("weighbridge."):
                yield name.removeprefix("weighbridge.")


def is_part(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


def test_imports_follow_the_arrows() -> None:
    """A part that needs another against the arrow declares a protocol instead."""
    wrong = []
    for module, tree in modules():
        part = module if module in ALLOWED else module.split(".")[0]
        own = "providers" if part == "providers.local" else part
        for target in imports(tree):
            may = ALLOWED[part] | {own}
            known = any(is_part(target, name) for name in may)
            if not known and (module, target) not in EXCEPTIONS:
                # `from weighbridge import name` takes a name of the package itself.
                if "__init__" in may and "." not in target and not (ROOT / target).exists():
                    continue
                wrong.append(f"{module} imports {target}")
    assert wrong == []


def test_errors_know_decisions_as_a_type_only() -> None:
    """At run time the arrow between the two points the other way."""
    at_run_time = {
        node.module
        for name, tree in modules()
        if is_part(name, "errors")
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("weighbridge")
    }
    assert at_run_time == {f"weighbridge.errors.{part}" for part in ("engine", "general", "review")}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("weighbridge", "torch httpx sqlalchemy pydantic jsonschema sklearn fastapi ray"),
        ("weighbridge.router.router", "torch sqlalchemy alembic tokenizers numpy fastapi"),
        ("weighbridge.cli", "torch sqlalchemy alembic tokenizers numpy"),
        ("weighbridge.review.queue", "torch httpx"),
        ("weighbridge.service", "fastapi starlette sqlalchemy argon2"),
        ("weighbridge.local_engine", "torch numpy tokenizers llguidance transformers jinja2"),
        ("weighbridge.local_engine.pull", "torch numpy httpx sqlalchemy"),
        ("weighbridge.local_engine.engine", "transformers matplotlib rich llguidance httpx"),
    ],
)
def test_importing_a_part_loads_nothing_heavy_of_another(module: str, absent: str) -> None:
    """Each heavy package is loaded by the part that is its home, when that part is used."""
    code = f"import sys, {module}; print([n for n in {absent.split()!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
