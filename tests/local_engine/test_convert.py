"""Model files: converted once for each precision, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import load_file
from tiny_model import CONFIG, fused, rounded, tiny_tokenizer, tiny_weights, write_gguf

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.models import convert
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.models.load import load_generator
from weighbridge.local_engine.models.weight_file import WeightFile

LOAD = """
import pathlib, sys
from weighbridge.local_engine.models import convert, load
print("ready", flush=True)
sys.stdin.readline()
load.load_generator(convert.converted(*map(pathlib.Path, sys.argv[1:]), "float32"))
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
    generator = load_generator(converted(path, cache, "float32"))
    model = generator.model
    wanted = Llama(CONFIG, fused({name: rounded(w, quantization) for name, w in weights.items()}))
    ids = torch.arange(3, 200)
    hidden, _ = model.forward(ids, model.empty_cache())
    reference, _ = wanted.forward(ids, wanted.empty_cache())
    torch.testing.assert_close(model.logits(hidden), wanted.logits(reference))
    assert replace(model.config, norm_eps=CONFIG.norm_eps) == CONFIG
    assert model.config.norm_eps == pytest.approx(CONFIG.norm_eps)
    assert generator.tokenizer.vocab_size == CONFIG.vocab_size
    assert generator.fingerprint.endswith(":float32")


def test_converted_tokenizer_is_the_one_that_was_written(gguf_path, cache):
    """Tokens, merges and control tokens."""
    tokenizer = load_generator(converted(gguf_path, cache, "float32")).tokenizer
    written = tiny_tokenizer()
    text = 'the billing bug, "reported" in 2024.<|im_end|>😀'
    assert tokenizer.encode(text) == written.encode(text)
    assert tokenizer.token_bytes == written.token_bytes
    assert (tokenizer.special_ids, tokenizer.eos_ids) == (written.special_ids, written.eos_ids)


def test_second_load_converts_nothing(gguf_path, cache, monkeypatch):
    first = converted(gguf_path, cache, "float32")
    monkeypatch.setattr(convert, "read_gguf", None)
    assert converted(gguf_path, cache, "float32") == first


def test_another_file_under_the_same_name_is_converted_anew(gguf_path, cache):
    first = converted(gguf_path, cache, "float32")
    write_gguf(gguf_path, tiny_weights(1), GGMLQuantizationType.Q8_0)
    assert converted(gguf_path, cache, "float32") != first


def test_file_that_is_no_gguf_is_corrupt(tmp_path, cache):
    """Empty, or something else altogether."""
    path = tmp_path / "model.gguf"
    for content in (b"", b"GGUF", b"<!DOCTYPE html><p>Not found", bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(ModelCorrupt, match=r"model\.gguf"):
            converted(path, cache, "float32")
    assert left_in(cache) == []


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.3, 0.6, 0.999])
def test_truncated_file_is_corrupt(gguf_path, cache, share):
    """Wherever the download stopped."""
    os.truncate(gguf_path, int(gguf_path.stat().st_size * share))
    with pytest.raises(ModelCorrupt):
        converted(gguf_path, cache, "float32")
    assert left_in(cache) == []


@pytest.mark.parametrize(
    ("other", "named"), [({"architecture": "qwen2"}, "qwen2"), ({"pre_tokenizer": "olmo"}, "olmo")]
)
def test_other_architecture_or_tokenizer_is_refused(tmp_path, cache, other, named):
    """A model that would be read wrongly is not read at all."""
    path = tmp_path / "other.gguf"
    write_gguf(path, tiny_weights(), **other)
    with pytest.raises(EngineError, match=named) as caught:
        converted(path, cache, "float32")
    assert not isinstance(caught.value, ModelCorrupt)
    assert left_in(cache) == []


def test_precisions_live_side_by_side_under_fingerprints_of_their_own(gguf_path, cache):
    """What is calibrated for one holds for no other."""
    folders = [converted(gguf_path, cache, p) for p in ("float32", "int8", "bfloat16")]
    configs = [json.loads((folder / "config.json").read_text()) for folder in folders]
    assert len(set(folders)) == len({config["fingerprint"] for config in configs}) == 3
    assert [config["precision"] for config in configs] == ["float32", "int8", "bfloat16"]


def test_matrices_of_one_input_are_stored_as_one(gguf_path, cache):
    stored = load_file(converted(gguf_path, cache, "float32") / "model.safetensors")
    wanted = fused(tiny_weights())
    assert stored.keys() == wanted.keys()
    for name, tensor in stored.items():
        assert torch.equal(tensor, wanted[name])


def test_bfloat16_rounds_matrices_and_leaves_norms(gguf_path, cache):
    stored = load_file(converted(gguf_path, cache, "bfloat16") / "model.safetensors")
    for name, tensor in fused(tiny_weights()).items():
        wanted = tensor if tensor.ndim == 1 else tensor.bfloat16()
        assert stored[name].dtype == wanted.dtype
        assert torch.equal(stored[name], wanted)


def test_int8_keeps_every_matrix_in_a_byte_a_weight(gguf_path, cache):
    stored = load_file(converted(gguf_path, cache, "int8") / "model.safetensors")
    for name in fused(tiny_weights(tied=False)):
        weight = stored[name]
        assert weight.dtype == (torch.int8 if weight.ndim == 2 else torch.float32)
        if weight.ndim == 2:
            assert stored[name.replace(".weight", ".scale")].shape == weight.shape[:1]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_missing_tensor_is_corrupt(tmp_path, cache, precision):
    weights = tiny_weights()
    del weights["model.layers.1.self_attn.k_proj.weight"]
    path = tmp_path / "tiny.gguf"
    write_gguf(path, weights)
    with pytest.raises(ModelCorrupt, match=r"model\.layers\.1\.self_attn\.k_proj"):
        converted(path, cache, precision)
    assert left_in(cache) == []


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_corrupt(tmp_path, cache, precision, value):
    weights = tiny_weights()
    weights["model.layers.0.mlp.down_proj.weight"][3, 5] = value
    path = tmp_path / "tiny.gguf"
    write_gguf(path, weights)
    with pytest.raises(ModelCorrupt, match="not finite"):
        converted(path, cache, precision)
    assert left_in(cache) == []


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_damaged_folder_is_corrupt(gguf_path, cache, name):
    folder = converted(gguf_path, cache, "float32")
    os.truncate(folder / name, 100)
    with pytest.raises(ModelCorrupt):
        load_generator(folder)


def test_incomplete_folder_is_made_anew(gguf_path, cache):
    """The config is written last, so without it nothing counts."""
    folder = converted(gguf_path, cache, "float32")
    (folder / "config.json").unlink()
    load_generator(converted(gguf_path, cache, "float32"))


def test_cache_that_cannot_be_written_is_an_engine_error(gguf_path, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(EngineError, match="cannot be written"):
        converted(gguf_path, cache, "float32")


def test_failed_write_leaves_nothing(gguf_path, cache, monkeypatch):
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(EngineError, match="No space left"):
        converted(gguf_path, cache, "float32")
    assert left_in(cache) == []


def test_slower_conversion_leaves_the_finished_folder_alone(gguf_path, cache, monkeypatch):
    """Somebody may be reading it already."""
    read, finished = convert.read_gguf, []

    def slow_read(path):
        monkeypatch.setattr(convert, "read_gguf", read)
        finished.append(converted(gguf_path, cache, "float32"))  # the faster one
        finished.append(finished[0].stat().st_ino)
        return read(path)

    monkeypatch.setattr(convert, "read_gguf", slow_read)
    folder = converted(gguf_path, cache, "float32")
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


LAYOUT = {
    "bytes": (torch.int8, (3, 5)),
    "norm": (torch.float32, (7,)),
    "half": (torch.bfloat16, (2, 2)),
}


def test_weight_file_is_read_by_the_library(tmp_path):
    """Whatever the order of writing; each tensor starts at a multiple of its own width."""
    path = tmp_path / "model.safetensors"
    tensors = {name: torch.ones(shape, dtype=dtype) * 3 for name, (dtype, shape) in LAYOUT.items()}
    with WeightFile(path, LAYOUT) as file:
        for name, tensor in tensors.items():
            file.put(name, tensor)
    stored = load_file(path)
    assert stored.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(stored[name], tensor)
        assert stored[name].data_ptr() % tensor.itemsize == 0


def test_weight_file_takes_only_what_its_layout_says(tmp_path):
    with (
        pytest.raises(ValueError, match="norm"),
        WeightFile(tmp_path / "model.safetensors", LAYOUT) as file,
    ):
        file.put("norm", torch.ones(8))
    with (
        pytest.raises(AssertionError, match="norm"),
        WeightFile(tmp_path / "model.safetensors", LAYOUT) as file,
    ):
        file.put("half", torch.ones(2, 2, dtype=torch.bfloat16))
