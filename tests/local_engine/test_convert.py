"""GGUF files: converted once, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.numpy
import torch
from gguf import GGMLQuantizationType
from tiny_model import CONFIG, rounded, tiny_tokenizer, tiny_weights, write_gguf

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.engine import load_generator
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.llama import Llama

LOAD = """
import pathlib, sys
from weighbridge.local_engine import engine
from weighbridge.local_engine.models import convert
print("ready", flush=True)
sys.stdin.readline()
engine.load_generator(convert.converted(*map(pathlib.Path, sys.argv[1:])))
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def gguf_path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_weights())
    return path


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "converted").glob("*"))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_1"])
def test_converted_model_reads_like_the_one_that_was_written(tmp_path, cache, kind, tied):
    """Row order, names and numbers are right, whatever the precision."""
    quantization, weights = GGMLQuantizationType[kind], tiny_weights(tied=tied)
    path = tmp_path / "tiny.gguf"
    write_gguf(path, weights, quantization)
    model, tokenizer, fingerprint = load_generator(converted(path, cache))
    wanted = Llama(CONFIG, {name: rounded(w, quantization) for name, w in weights.items()})
    ids = torch.arange(3, 200)
    hidden, _ = model.forward(ids, model.empty_cache())
    reference, _ = wanted.forward(ids, wanted.empty_cache())
    torch.testing.assert_close(model.log_probs(hidden), wanted.log_probs(reference))
    assert replace(model.config, norm_eps=CONFIG.norm_eps) == CONFIG
    assert model.config.norm_eps == pytest.approx(CONFIG.norm_eps)
    assert tokenizer.vocab_size == CONFIG.vocab_size
    assert fingerprint.endswith(":float32")


def test_converted_tokenizer_is_the_one_that_was_written(gguf_path, cache):
    """Tokens, merges and control tokens."""
    _, tokenizer, _ = load_generator(converted(gguf_path, cache))
    written = tiny_tokenizer()
    text = 'the billing bug, "reported" in 2024.<|im_end|>😀'
    assert tokenizer.encode(text) == written.encode(text)
    assert tokenizer.token_bytes == written.token_bytes
    assert (tokenizer.special_ids, tokenizer.eos_ids) == (written.special_ids, written.eos_ids)


def test_second_load_converts_nothing(gguf_path, cache, monkeypatch):
    first = converted(gguf_path, cache)
    monkeypatch.setattr("gguf.GGUFReader", None)
    assert converted(gguf_path, cache) == first


def test_another_file_under_the_same_name_is_converted_anew(gguf_path, cache):
    first = converted(gguf_path, cache)
    write_gguf(gguf_path, tiny_weights(1), GGMLQuantizationType.Q8_0)
    assert converted(gguf_path, cache) != first


def test_file_that_is_no_gguf_is_corrupt(tmp_path, cache):
    """Empty, or something else altogether."""
    path = tmp_path / "model.gguf"
    for content in (b"", b"GGUF", b"<!DOCTYPE html><p>Not found", bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(ModelCorrupt, match=r"model\.gguf"):
            converted(path, cache)
    assert left_in(cache) == []


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.3, 0.6, 0.999])
def test_truncated_file_is_corrupt(gguf_path, cache, share):
    """Wherever the download stopped."""
    os.truncate(gguf_path, int(gguf_path.stat().st_size * share))
    with pytest.raises(ModelCorrupt):
        converted(gguf_path, cache)
    assert left_in(cache) == []


@pytest.mark.parametrize(
    ("other", "named"), [({"architecture": "qwen2"}, "qwen2"), ({"pre_tokenizer": "olmo"}, "olmo")]
)
def test_other_architecture_or_tokenizer_is_refused(tmp_path, cache, other, named):
    """A model that would be read wrongly is not read at all."""
    path = tmp_path / "other.gguf"
    write_gguf(path, tiny_weights(), **other)
    with pytest.raises(EngineError, match=named) as caught:
        converted(path, cache)
    assert not isinstance(caught.value, ModelCorrupt)
    assert left_in(cache) == []


def test_missing_tensor_is_found_when_the_model_is_loaded(tmp_path, cache):
    weights = tiny_weights()
    del weights["model.layers.1.self_attn.k_proj.weight"]
    path = tmp_path / "tiny.gguf"
    write_gguf(path, weights)
    with pytest.raises(ModelCorrupt, match="k_proj"):
        load_generator(converted(path, cache))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_damaged_folder_is_corrupt(gguf_path, cache, name):
    folder = converted(gguf_path, cache)
    os.truncate(folder / name, 100)
    with pytest.raises(ModelCorrupt):
        load_generator(folder)


def test_incomplete_folder_is_made_anew(gguf_path, cache):
    """The config is written last, so without it nothing counts."""
    folder = converted(gguf_path, cache)
    (folder / "config.json").unlink()
    load_generator(converted(gguf_path, cache))


def test_cache_that_cannot_be_written_is_an_engine_error(gguf_path, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(EngineError, match="cannot be written"):
        converted(gguf_path, cache)


def test_failed_write_leaves_nothing(gguf_path, cache, monkeypatch):
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(EngineError, match="No space left"):
        converted(gguf_path, cache)
    assert left_in(cache) == []


def test_slower_conversion_leaves_the_finished_folder_alone(gguf_path, cache, monkeypatch):
    """Somebody may be reading it already."""
    save, finished = safetensors.numpy.save_file, []

    def slow_save(*args):
        monkeypatch.setattr(safetensors.numpy, "save_file", save)
        finished.append(converted(gguf_path, cache))  # the faster one
        finished.append(finished[0].stat().st_ino)
        save(*args)

    monkeypatch.setattr(safetensors.numpy, "save_file", slow_save)
    folder = converted(gguf_path, cache)
    assert [folder, folder.stat().st_ino] == finished
    assert left_in(cache) == [folder.name]


def test_processes_that_convert_at_once_all_load(gguf_path, cache):
    """And leave one folder."""
    command = [sys.executable, "-c", LOAD, str(gguf_path), str(cache)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    workers = [subprocess.Popen(command, env=environment, **pipes) for _ in range(3)]
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert len(left_in(cache)) == 1
