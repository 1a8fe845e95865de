"""A model's files, converted once into a folder that loads in a second.

Dequantising takes most of ten seconds, reading the vocabulary two more; both are done on the first
load, once per precision. The folder holds `model.safetensors`, `tokenizer.json`, and a
`config.json` of our own; it is written aside and renamed, so it is there whole or not at all.

Weights keep their `transformers` names, but what is multiplied with the same input lies together:
`self_attn.qkv_proj` has the rows of query, key and value, `mlp.gate_up_proj` those of gate and up.
With int8 every matrix is `<name>.weight` int8 [N, K] beside `<name>.scale` float32 [N], a weight
being their product; norms stay float32, and the head is never tied.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from weighbridge.errors import EngineError
from weighbridge.local_engine.models.checkpoint import Checkpoint, StoredTensor, check
from weighbridge.local_engine.models.folder import folder_files, read_folder
from weighbridge.local_engine.models.gguf import read_gguf
from weighbridge.local_engine.models.int8 import write_int8
from weighbridge.local_engine.models.weight_file import WeightFile

CONVERTER_VERSION = 2

Precision: TypeAlias = Literal["float32", "int8", "bfloat16"]

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

# What is stored, and which matrices of the checkpoint it is made of.
_LAYER = {
    "input_layernorm": ("input_layernorm",),
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.o_proj": ("self_attn.o_proj",),
    "post_attention_layernorm": ("post_attention_layernorm",),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down_proj": ("mlp.down_proj",),
}


def converted(source: Path, cache: Path, precision: Precision) -> Path:
    """The converted folder of a model; converts on first use.

    Args:
        source: a GGUF file, or a folder in the layout of the Hugging Face Hub.
        cache: the folder that holds all converted ones.
        precision: of the weights; bfloat16 is for GPUs.

    Raises:
        ModelCorrupt: the files cannot be read.
        EngineError: a model that would be read wrongly, or no room for it.
    """
    files = folder_files(source) if source.is_dir() else [source]
    identity = [CONVERTER_VERSION, precision, *map(_identity, files)]
    name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:24]
    folder = cache / "converted" / name
    if not (folder / "config.json").is_file():
        checkpoint = read_folder(source) if source.is_dir() else read_gguf(source)
        check(checkpoint)
        config = _config(checkpoint, _fingerprint(files), precision)
        try:
            _write(folder, checkpoint, config, precision)
        except OSError as error:  # the wording is the system's: path and reason
            raise EngineError(f"the converted model cannot be written: {error}") from None
    return folder


def _identity(file: Path) -> list[Any]:
    stat = file.stat()
    return [str(file.resolve()), stat.st_size, stat.st_mtime_ns]


def _fingerprint(files: list[Path]) -> str:
    """The sha256 of a file; of several, that of the list of theirs."""
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def _config(checkpoint: Checkpoint, digest: str, precision: Precision) -> dict[str, Any]:
    return {
        "llama": dict(checkpoint.llama),
        "precision": precision,
        "fingerprint": f"sha256:{digest}:{precision}",
        "eos_ids": sorted(checkpoint.eos_ids),
        "chat_template": checkpoint.chat_template,
        "bos_token": checkpoint.bos_token,
        "eos_token": checkpoint.eos_token,
        "adds_bos": checkpoint.adds_bos,
    }


def _write(
    folder: Path, checkpoint: Checkpoint, config: dict[str, Any], precision: Precision
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
    try:
        _write_weights(aside / "model.safetensors", checkpoint, precision)
        (aside / "tokenizer.json").write_text(checkpoint.tokenizer, "utf-8")
        (aside / "config.json").write_text(json.dumps(config, indent=1), "utf-8")
        _take_place(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _take_place(aside: Path, folder: Path) -> None:
    try:
        os.replace(aside, folder)
    except OSError:
        # There is a folder. Another process was faster and may be reading it: it stays. Only one
        # that a hand left incomplete has to go.
        if not (folder / "config.json").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(aside, folder)


def _write_weights(path: Path, checkpoint: Checkpoint, precision: Precision) -> None:
    stored = {stem: _joined(checkpoint.tensors, parts) for stem, parts in _stems(checkpoint)}
    if precision == "int8":
        write_int8(path, checkpoint, stored)
        return
    layout = {
        f"{stem}.weight": (_DTYPES[precision] if len(t.shape) == 2 else torch.float32, t.shape)
        for stem, t in stored.items()
    }
    with WeightFile(path, layout) as file:
        for stem, tensor in stored.items():
            weight = checkpoint.read_finite(stem, tensor)
            file.put(f"{stem}.weight", weight.to(layout[f"{stem}.weight"][0]))


def _stems(checkpoint: Checkpoint) -> Iterator[tuple[str, list[str]]]:
    """The names to store, without `.weight`, and the tensors that each is made of."""
    yield "model.embed_tokens", ["model.embed_tokens.weight"]
    for index in range(int(checkpoint.llama["num_layers"])):
        prefix = f"model.layers.{index}."
        for stem, parts in _LAYER.items():
            yield prefix + stem, [f"{prefix}{part}.weight" for part in parts]
    yield "model.norm", ["model.norm.weight"]
    if "lm_head.weight" in checkpoint.tensors:
        yield "lm_head", ["lm_head.weight"]


def _joined(tensors: Mapping[str, StoredTensor], names: list[str]) -> StoredTensor:
    """Several tensors as one, row under row."""
    parts = [tensors[name] for name in names]
    if len(parts) == 1:
        return parts[0]
    rows = sum(part.shape[0] for part in parts)
    return StoredTensor(
        (rows, *parts[0].shape[1:]), lambda: torch.cat([part.read() for part in parts])
    )
