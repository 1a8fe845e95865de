"""The default generator as the peers want it: a folder that `transformers` loads by itself.

Its own reader of GGUF takes half a minute. Here the weights come from our float32 conversion, so
that all contenders start from the same numbers. It is written by a process of its own, `python -m
bench.contenders.checkpoint FOLDER`, which ends with one JSON object: a child's peak memory begins
at what its parent once held, so whoever starts contenders must stay small.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.contenders.job import Weights
from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.local_engine.models.convert import converted

GENERATOR = "smollm2-135m"


def prepare(folder: str) -> Weights:
    """Write the checkpoint; convert for us and read every file once, so that nobody waits for it.

    Args:
        folder: an empty one.
    """
    source = locate(GENERATOR, "generator")
    converted(source, cache_folder(), "int8")
    ours = converted(source, cache_folder(), "float32")
    write_checkpoint(ours, Path(folder))
    source.read_bytes()
    shapes, num_layers = _matrix_shapes(ours)
    return Weights(gguf=str(source), checkpoint=folder, shapes=shapes, num_layers=num_layers)


def main() -> None:
    """Prepare the folder that is named."""
    print(json.dumps(prepare(sys.argv[1])))


def write_checkpoint(source: Path, target: Path) -> None:
    """Write weights, config and tokenizer in the layout of the Hugging Face Hub.

    No chat template is written: outlines would put every prompt into it, and the prompts are whole.

    Args:
        source: a folder that `converted` has written, in float32.
        target: an empty folder.
    """
    from safetensors.torch import load_file, save_file

    config = json.loads((source / "config.json").read_text("utf-8"))
    llama = config["llama"]
    queries, keys = (llama[heads] * llama["head_size"] for heads in ("num_heads", "num_kv_heads"))
    weights: dict[str, Tensor] = {}
    for name, tensor in load_file(source / "model.safetensors").items():
        parts = _parts(name, tensor, queries, keys)
        weights.update({part: value.contiguous() for part, value in parts.items()})
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(_config(config, weights)), "utf-8")
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": config["bos_token"],
        "eos_token": config["eos_token"],
        "pad_token": config["eos_token"],
    }
    (target / "tokenizer_config.json").write_text(json.dumps(tokenizer), "utf-8")


def _matrix_shapes(folder: Path) -> tuple[list[list[int]], int]:
    """[N, K] of every matrix of one block, and the number of blocks."""
    from safetensors import safe_open

    config = json.loads((folder / "config.json").read_text("utf-8"))
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = [name for name in file.keys() if name.startswith("model.layers.0.")]  # noqa: SIM118
        shapes = [list(file.get_slice(name).get_shape()) for name in names]
    return [shape for shape in shapes if len(shape) == 2], config["llama"]["num_layers"]


def _parts(name: str, tensor: Tensor, queries: int, keys: int) -> dict[str, Tensor]:
    """A tensor of ours under the library's names: two of our matrices are several of theirs."""
    if "qkv_proj" in name:
        split = torch.split(tensor, [queries, keys, keys])
        return {name.replace("qkv", x): t for x, t in zip("qkv", split, strict=True)}
    if "gate_up_proj" in name:
        split = tensor.chunk(2)
        return {name.replace("gate_up", x): t for x, t in zip(("gate", "up"), split, strict=True)}
    return {name: tensor}


def _config(config: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    llama = config["llama"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": llama["vocab_size"],
        "hidden_size": llama["hidden_size"],
        "intermediate_size": weights["model.layers.0.mlp.down_proj.weight"].shape[1],
        "num_hidden_layers": llama["num_layers"],
        "num_attention_heads": llama["num_heads"],
        "num_key_value_heads": llama["num_kv_heads"],
        "head_dim": llama["head_size"],
        "max_position_embeddings": llama["max_positions"],
        "rms_norm_eps": llama["norm_eps"],
        "rope_parameters": {"rope_type": "default", "rope_theta": llama["rope_base"]},
        "tie_word_embeddings": "lm_head.weight" not in weights,
        "eos_token_id": config["eos_ids"],
        "pad_token_id": max(config["eos_ids"]),
    }


if __name__ == "__main__":
    main()
