"""Settings of the law tests, and the public JSON Schema test suite."""

import json
from pathlib import Path

import pytest
from hypothesis import settings

# Absolute times are never asserted: a busy machine would fail a good law.
settings.register_profile("schemas", deadline=None)
settings.load_profile("schemas")

SUITE = Path(__file__).parents[2].parent / "shared/data/json-schema-test-suite/draft2020-12.jsonl"


@pytest.fixture(scope="session")
def suite():
    """The groups of the public suite whose schema could be a task's."""
    if not SUITE.exists():
        pytest.skip(f"NOT CHECKED AGAINST THE PUBLIC JSON SCHEMA SUITE: {SUITE} is missing")
    groups = map(json.loads, SUITE.read_text(encoding="utf-8").splitlines())
    # A task's schema is no boolean; and a vocabulary of its own may switch keywords off.
    return [g for g in groups if isinstance(g["schema"], dict) and g["file"] != "vocabulary"]
