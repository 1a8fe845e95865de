"""What the laws are tried on: tiny random models over small vocabularies."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

# The tiny model is shared with the engine's own tests, and lives there.
sys.path.append(str(Path(__file__).parents[1] / "local_engine"))

import tiny_model

from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.tokenizer import ByteTokenizer

# Absolute times are never asserted: a busy machine would fail a good law.
settings.register_profile("laws", deadline=None)
settings.load_profile("laws")


@pytest.fixture(scope="session")
def tiny() -> Llama:
    return tiny_model.tiny_llama()


@pytest.fixture(scope="session")
def tiny_tokenizer() -> ByteTokenizer:
    return tiny_model.tiny_tokenizer()
