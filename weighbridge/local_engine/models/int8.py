"""The weights of a Llama written as int8, smoothed, one block in memory at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from weighbridge.local_engine.models.block import LlamaConfig
from weighbridge.local_engine.models.checkpoint import Checkpoint, StoredTensor
from weighbridge.local_engine.models.linear import MAX_LOOKUP, MAX_WEIGHT, quantized
from weighbridge.local_engine.models.smoothing import CALIBRATION_TEXT, Smoother
from weighbridge.local_engine.models.weight_file import WeightFile


def write_int8(path: Path, checkpoint: Checkpoint, stored: Mapping[str, StoredTensor]) -> None:
    """Write every matrix as int8 beside its scales; norms stay float32.

    Args:
        path: the file.
        checkpoint: of a Llama.
        stored: what to write, by name without `.weight`; blocks in order.

    Raises:
        ModelCorrupt: a tensor holds infinities or NaN.
    """
    config = LlamaConfig(**checkpoint.llama)  # type: ignore[arg-type]  # int or float, as they come
    shapes = {stem: tensor.shape for stem, tensor in stored.items()}
    # Smoothing multiplies the head, so it is a matrix of its own even where it is tied.
    shapes["lm_head"] = shapes["model.embed_tokens"]
    with WeightFile(path, _layout(shapes)) as file:
        embedding = checkpoint.read_finite("model.embed_tokens", stored["model.embed_tokens"])
        ids = Tokenizer.from_str(checkpoint.tokenizer).encode(CALIBRATION_TEXT).ids
        smoother = Smoother(config, embedding[torch.tensor(ids)])
        _put(file, "model.embed_tokens", embedding, MAX_LOOKUP)
        del embedding  # a fifth of a small model
        for index in range(config.num_layers):
            prefix = f"model.layers.{index}."
            names = [stem for stem in stored if stem.startswith(prefix)]
            block = {f"{stem}.weight": checkpoint.read_finite(stem, stored[stem]) for stem in names}
            for name, weight in smoother.block(block, index).items():
                _put(file, name.removesuffix(".weight"), weight)
        head_name = "lm_head" if "lm_head" in stored else "model.embed_tokens"
        head = checkpoint.read_finite(head_name, stored[head_name])
        norm = checkpoint.read_finite("model.norm", stored["model.norm"])
        norm, head = smoother.output(norm, head)
        _put(file, "model.norm", norm)
        _put(file, "lm_head", head)


def _layout(
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    layout: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for stem, shape in shapes.items():
        layout[f"{stem}.weight"] = (torch.int8 if len(shape) == 2 else torch.float32), shape
        if len(shape) == 2:
            layout[f"{stem}.scale"] = torch.float32, shape[:1]
    return layout


def _put(file: WeightFile, stem: str, weight: Tensor, largest: int = MAX_WEIGHT) -> None:
    if weight.ndim == 2:
        weight, scale = quantized(weight, largest)
        file.put(f"{stem}.scale", scale)
    file.put(f"{stem}.weight", weight)
