"""The models that the tests share: a tiny random one, and the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_model
from hypothesis import settings

from weighbridge.errors import ModelMissing
from weighbridge.local_engine.chat_template import ChatTemplate
from weighbridge.local_engine.engine import Engine
from weighbridge.local_engine.models.convert import Precision
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.tokenizer import ByteTokenizer

# Absolute times are never asserted: a busy machine would fail a good law.
settings.register_profile("local_engine", deadline=None)
settings.load_profile("local_engine")


@pytest.fixture(scope="session")
def tiny() -> Llama:
    return tiny_model.tiny_llama()


@pytest.fixture(scope="session")
def tiny_tokenizer() -> ByteTokenizer:
    return tiny_model.tiny_tokenizer()


@pytest.fixture(scope="session")
def tiny_engine(tiny: Llama, tiny_tokenizer: ByteTokenizer) -> Engine:
    chat = ChatTemplate("", tiny_tokenizer)
    return Engine(tiny, tiny_tokenizer, chat=chat, fingerprint="tiny", max_ticket_tokens=64)


@pytest.fixture(scope="session")
def models() -> Engine:
    """The real models as they are used; a test that needs them fails where they are not."""
    return _loaded()


@pytest.fixture(scope="session")
def exact_models() -> Engine:
    """The real models with unrounded weights, for tests against a reference."""
    return _loaded("float32")


def _loaded(precision: Precision | None = None) -> Engine:
    try:
        return Engine.load(precision=precision)
    except ModelMissing as error:
        pytest.fail(f"{error}; {error.hint}", pytrace=False)


@pytest.fixture(scope="session")
def tickets() -> Path:
    """The folder of development tickets, which is not part of the repository."""
    folder = Path(__file__).parents[2].parent / "shared" / "data" / "tickets"
    if not folder.is_dir():
        pytest.skip("the development tickets are not here")
    return folder
