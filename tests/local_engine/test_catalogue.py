"""Where models lie, by name and by path."""

from __future__ import annotations

import pytest

from weighbridge.errors import ModelMissing, ModelUnknown
from weighbridge.local_engine.catalogue import KNOWN_MODELS, cache_folder, locate, model_folder


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("WEIGHBRIDGE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", KNOWN_MODELS)
def test_known_model_is_missing_until_every_file_is_there(name):
    model = KNOWN_MODELS[name]
    folder = model_folder(name)
    folder.mkdir(parents=True)
    for file in model.files:
        with pytest.raises(ModelMissing) as caught:
            locate(name, model.role)
        assert str(cache_folder()) in str(caught.value)
        assert caught.value.hint == f"Run: weighbridge model pull {name}"
        (folder / file).touch()
    assert locate(name, model.role) == folder / model.main


def test_model_of_another_role_is_unknown():
    """An encoder answers nothing; the error names what could."""
    with pytest.raises(ModelUnknown) as caught:
        locate("all-minilm-l6-v2", "generator")
    assert caught.value.hint == "Known models: smollm2-135m."


def test_file_or_folder_may_stand_for_a_model(tmp_path):
    weights = tmp_path / "model.safetensors"
    weights.touch()
    assert locate(str(tmp_path), "encoder") == locate(str(weights), "encoder") == weights
    with pytest.raises(ModelUnknown):
        locate(str(tmp_path), "generator")
    (tmp_path / "config.json").touch()
    assert locate(str(tmp_path), "generator") == tmp_path  # its weights may be in several files


@pytest.mark.parametrize("name", ["", "nothing", "../models", "/", "~nobody", "a" * 5000, "\0"])
def test_anything_else_is_unknown(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelUnknown):
        locate(name, "generator")
