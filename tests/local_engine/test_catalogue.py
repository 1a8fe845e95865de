"""Where models lie, by name and by path."""

from __future__ import annotations

import pytest

from weighbridge.errors import ModelCorrupt, ModelMissing, ModelUnknown
from weighbridge.local_engine.catalogue import (
    KNOWN_MODELS,
    cache_folder,
    locate,
    model_folder,
    say_remedy,
)
from weighbridge.local_engine.encoder import Encoder
from weighbridge.local_engine.models.gguf import read_gguf
from weighbridge.local_engine.models.load import load_generator


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
    with pytest.raises(ModelCorrupt, match=r"no config\.json"):
        locate(str(tmp_path), "generator")
    (tmp_path / "config.json").touch()
    assert locate(str(tmp_path), "generator") == tmp_path  # its weights may be in several files


@pytest.mark.parametrize("name", ["", "nothing", "../models", "~nobody", "a" * 5000, "\0"])
def test_anything_else_is_unknown(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelUnknown):
        locate(name, "generator")


@pytest.mark.parametrize("role", ["generator", "encoder"])
def test_folder_without_a_model_names_what_is_missing(role, tmp_path):
    """It is there, so it is not called unknown; the hint says what would do."""
    with pytest.raises(ModelCorrupt, match="the folder has no") as caught:
        locate(str(tmp_path), role)
    assert "Give a GGUF file" in caught.value.hint


@pytest.mark.parametrize("name", ["smolm2-135m", "SmolLM2-135M", "smollm2"])
def test_misspelt_name_is_told_the_nearest(name):
    with pytest.raises(ModelUnknown, match="no local model is called") as caught:
        locate(name, "generator")
    assert caught.value.hint.startswith("Did you mean smollm2-135m? ")


@pytest.mark.parametrize("name", ["./nothing", "models/nothing", "nothing.gguf", "..\\nothing"])
def test_path_that_is_not_there_is_no_name(name, tmp_path, monkeypatch):
    """What looks like a path is called one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelUnknown, match="no such file or folder") as caught:
        locate(name, "generator")
    assert "Did you mean" not in caught.value.hint


def test_damage_in_our_own_cache_is_mended_by_deleting_it(tmp_path):
    """A file of the user's own is never to be deleted for our sake."""
    pulled = ModelCorrupt(str(model_folder("smollm2-135m") / "model.gguf"), "cut short")
    made = ModelCorrupt(str(cache_folder() / "converted" / "abc"), "cut short")
    own = ModelCorrupt(str(tmp_path / "own.gguf"), "cut short")
    for error in (pulled, made, own):
        say_remedy(error)
    assert pulled.hint.endswith("model pull smollm2-135m")
    assert str(model_folder("smollm2-135m")) in pulled.hint
    assert str(cache_folder() / "converted" / "abc") in made.hint
    assert "elete" not in own.hint
    assert own.hint.startswith("Give a GGUF file")


def test_whoever_reads_a_damaged_file_of_our_cache_says_how_to_mend_it(tmp_path):
    """Generator, converted folder and encoder; a file of the user's own is left alone."""
    own, pulled = tmp_path / "own.gguf", model_folder("smollm2-135m") / "model.gguf"
    encoder = model_folder("all-minilm-l6-v2") / "model.safetensors"
    for file in (own, pulled, encoder):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"damaged")
    made = cache_folder() / "converted" / "abc"
    hints = {}
    for path, read in (
        (own, read_gguf),
        (pulled, read_gguf),
        (made, load_generator),
        (encoder, Encoder.load),
    ):
        with pytest.raises(ModelCorrupt) as caught:
            read(path)
        hints[path] = caught.value.hint
    assert hints[own].startswith("Give a GGUF file")
    assert hints[pulled].endswith("model pull smollm2-135m")
    assert hints[made].endswith("it is made again when it is needed.")
    assert hints[encoder].endswith("model pull all-minilm-l6-v2")
