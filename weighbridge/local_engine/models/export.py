"""A model of the Llama family written as the folder that `transformers` loads.

Whoever reads such folders then has the model that the local engine weighs with: the weights as they
are dequantised, the tokenizer with its control tokens, the chat template that the engine follows.
The folder is written aside and renamed, so it is there whole or not at all.

Source: the files that `save_pretrained` of `transformers` 5 writes, and the names it reads of older
ones.
"""

from __future__ import annotations

import json
import math
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from weighbridge.errors import EngineError
from weighbridge.local_engine.chat_template import CHATML
from weighbridge.local_engine.models.checkpoint import Checkpoint, check
from weighbridge.local_engine.models.folder import read_folder
from weighbridge.local_engine.models.gguf import read_gguf
from weighbridge.local_engine.models.weight_file import WeightFile

ExportType: TypeAlias = Literal["float32", "bfloat16", "float16"]

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
SETTINGS = ("config.json", "generation_config.json", "tokenizer_config.json")

_DTYPES: dict[ExportType, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def export_model(
    source: Path,
    folder: Path,
    dtype: ExportType = "float32",
    *,
    force: bool = False,
    report: Callable[[int, int], None] | None = None,
) -> None:
    """Write a model as a folder of safetensors.

    Args:
        source: a GGUF file, or a folder in the layout of the Hugging Face Hub.
        folder: where it goes; an empty one may be there.
        dtype: of every tensor; float32 keeps what the engine calls float32 to the last bit.
        force: take the place of an earlier export, never of anything else.
        report: called with the bytes of weights that are written, and with all there are.

    Raises:
        FileExistsError: what is there stays there.
        ModelCorrupt: the model cannot be read.
        EngineError: it cannot be written exactly, or there is no room or no permission.
    """
    folder = folder.resolve()  # a link stays a link
    with _system_named(folder):
        problem = _in_the_way(folder, force=force)
    if problem:
        raise FileExistsError(problem)
    checkpoint = read_folder(source) if source.is_dir() else read_gguf(source)
    check(checkpoint)
    texts = {TOKENIZER: _tokenizer(checkpoint)}
    for name, settings in zip(SETTINGS, _settings(checkpoint, dtype), strict=True):
        texts[name] = json.dumps(settings, indent=2) + "\n"
    with _system_named(folder), _aside(folder) as aside:
        for name, text in texts.items():
            (aside / name).write_text(text, "utf-8")
        _write_weights(aside / WEIGHTS, checkpoint, _DTYPES[dtype], report or _silent)
        _take_place(aside, folder, force=force)


def _in_the_way(folder: Path, *, force: bool) -> str:
    """Why a folder may not be written; empty if it may."""
    if not folder.exists():
        return ""
    if not folder.is_dir():
        return f"{folder} is a file"
    names = {path.name for path in folder.iterdir()}
    if foreign := sorted(names - {WEIGHTS, TOKENIZER, *SETTINGS}):
        # The folder goes as a whole, and it may be somebody's home.
        return f"{folder} is no export of a model: there is {foreign[0]!r}"
    return "" if force or not names else f"{folder} is there already; --force overwrites it"


@contextmanager
def _system_named(folder: Path) -> Iterator[None]:
    """What the system refuses is an error that names the folder."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EngineError(f"{folder} cannot be written: {reason}") from None


def _silent(written_bytes: int, all_bytes: int) -> None:
    pass


def _tokenizer(checkpoint: Checkpoint) -> str:
    """The tokenizer, which reads plain text after the begin-of-text token where the model does."""
    content = json.loads(checkpoint.tokenizer)
    if checkpoint.adds_bos and content["post_processor"] is None:
        name = checkpoint.bos_token
        bos: dict[str, Any] = {"SpecialToken": {"id": name, "type_id": 0}}
        text, second = ({"Sequence": {"id": part, "type_id": 0}} for part in "AB")
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [bos, text],
            "pair": [bos, text, bos, second],
            "special_tokens": {name: {"id": name, "ids": [_ids(content)[name]], "tokens": [name]}},
        }
    return json.dumps(content, ensure_ascii=False)


def _ids(tokenizer: dict[str, Any]) -> dict[str, int]:
    """The ids of a `tokenizer.json` by name, added tokens among them."""
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {**tokenizer["model"]["vocab"], **added}


def _settings(checkpoint: Checkpoint, dtype: str) -> tuple[dict[str, Any], ...]:
    """What is in the files of `SETTINGS`."""
    content = json.loads(checkpoint.tokenizer)
    ids = _ids(content)
    named = ids.get(checkpoint.eos_token)
    first = named if named in checkpoint.eos_ids else min(checkpoint.eos_ids)
    ends = {
        # None has to be said: left out it would be 1.
        "bos_token_id": ids.get(checkpoint.bos_token) if checkpoint.bos_token else None,
        "eos_token_id": [first, *sorted(checkpoint.eos_ids - {first})],
    }
    added = {token["content"] for token in content["added_tokens"]}
    is_chatml = {"<|im_start|>", "<|im_end|>"} <= added
    tokens = {
        "bos_token": checkpoint.bos_token,
        "eos_token": checkpoint.eos_token,
        # For batches of prompts; which token it is never shows.
        "pad_token": next((name for name, i in ids.items() if i == first), ""),
        # Without a template of its own the engine writes such a model ChatML.
        "chat_template": checkpoint.chat_template or (CHATML if is_chatml else ""),
    }
    tokenizer = {
        # It takes a tokenizer.json as it is. Llama's own class would put SentencePiece's spaces in
        # the place of whatever the file says.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": checkpoint.llama["max_positions"],
        "clean_up_tokenization_spaces": False,  # before version 5 it was usual
        **{key: value for key, value in tokens.items() if value},
    }
    return {**_config(checkpoint, dtype), **ends}, {**ends, "pad_token_id": first}, tokenizer


def _config(checkpoint: Checkpoint, dtype: str) -> dict[str, Any]:
    llama, tensors = checkpoint.llama, checkpoint.tensors
    gates = [name for name in tensors if name.endswith("mlp.gate_proj.weight")]
    inner = {tensors[name].shape[0] for name in gates}
    if len(inner) != 1:
        raise EngineError(f"{checkpoint.path}: the feed-forward size differs by layer")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": llama["vocab_size"],
        "hidden_size": llama["hidden_size"],
        "intermediate_size": inner.pop(),
        "num_hidden_layers": llama["num_layers"],
        "num_attention_heads": llama["num_heads"],
        "num_key_value_heads": llama["num_kv_heads"],
        "head_dim": llama["head_size"],
        "max_position_embeddings": llama["max_positions"],
        "rms_norm_eps": llama["norm_eps"],
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "lm_head.weight" not in tensors,
        "rope_parameters": {"rope_type": "default", "rope_theta": llama["rope_base"]},
        "dtype": dtype,
        # The last two as they were called before version 5, and are by other readers still.
        "rope_theta": llama["rope_base"],
        "torch_dtype": dtype,
    }


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A folder beside another, gone afterwards unless it was renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Not by `tempfile`, whose folders only their owner may read: a server may be another user.
    aside = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    aside.mkdir()
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_weights(
    path: Path, checkpoint: Checkpoint, dtype: torch.dtype, report: Callable[[int, int], None]
) -> None:
    layout = {name: (dtype, tensor.shape) for name, tensor in checkpoint.tensors.items()}
    sizes = {name: math.prod(shape) * dtype.itemsize for name, (_, shape) in layout.items()}
    written_bytes, all_bytes = 0, sum(sizes.values())
    with WeightFile(path, layout) as file:
        for name, tensor in checkpoint.tensors.items():
            weight = checkpoint.read_finite(name, tensor).to(dtype)
            low, high = weight.aminmax()
            if not bool(low.isfinite() & high.isfinite()):
                raise EngineError(f"{checkpoint.path}: {name} has weights too large for {dtype}")
            file.put(name, weight)
            written_bytes += sizes[name]
            report(written_bytes, all_bytes)


def _take_place(aside: Path, folder: Path, *, force: bool) -> None:
    if not folder.exists():
        aside.rename(folder)
    elif not force:
        folder.rmdir()  # no longer empty, it stays
        aside.rename(folder)
    else:
        old = aside.with_name(f"{aside.name}-old")
        folder.rename(old)
        try:
            aside.rename(folder)
        except BaseException:
            old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
