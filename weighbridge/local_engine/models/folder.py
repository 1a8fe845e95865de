"""A model of the Llama family in a folder as the Hugging Face Hub has them.

Read are `config.json`, safetensors (one file, or several and their index), `tokenizer.json`, and
where they are there `tokenizer_config.json`, `chat_template.jinja` and `generation_config.json`.
What the config asks for and the forward pass does not do is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.models.checkpoint import (
    TURN_ENDS,
    Checkpoint,
    StoredTensor,
    damage_named,
    positive_number,
    whole_number,
)

_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
_INDEX = "model.safetensors.index.json"
_KINDS = ("F32", "F16", "BF16")


def folder_files(path: Path) -> list[Path]:
    """The files of a folder that `read_folder` reads.

    Raises:
        ModelCorrupt: it has no weights, or none as safetensors.
    """
    index = path / _INDEX
    weights = [path / "model.safetensors"]
    if index.is_file():
        named = _json(index).get("weight_map")
        names = sorted(set(map(str, named.values()))) if isinstance(named, dict) else []
        if not names or any(Path(name).name != name for name in names):
            raise ModelCorrupt(str(index), "names no file of the folder")
        weights = [index, *(path / name for name in names)]
    missing = [file for file in (path / "config.json", *weights) if not file.is_file()]
    if missing:
        raise ModelCorrupt(str(path), f"{missing[0].name} is missing")
    return [*(path / name for name in _FILES if (path / name).is_file()), *weights]


def read_folder(path: Path) -> Checkpoint:
    """Read everything but the weights, and find out where those are.

    Raises:
        ModelCorrupt: a file is missing or damaged.
        EngineError: a model that cannot be read exactly.
    """
    with damage_named(path):
        return _checkpoint(path)


def _checkpoint(path: Path) -> Checkpoint:
    config = _json(path / "config.json")
    _refuse_what_differs(config, path)
    numbers = _numbers(config, path)
    tensors = dict(_tensors(path))
    if config.get("tie_word_embeddings", False):
        tensors.pop("lm_head.weight", None)
    elif "lm_head.weight" not in tensors:
        raise ModelCorrupt(str(path), "lm_head.weight is missing, and the head is not tied")
    numbers["vocab_size"] = tensors["model.embed_tokens.weight"].shape[0]
    tokenizer = (path / "tokenizer.json").read_text("utf-8")
    settings = _optional(path / "tokenizer_config.json")
    eos_token, bos_token = _token(settings, "eos_token"), _token(settings, "bos_token")
    return Checkpoint(
        path=path,
        llama=numbers,
        tensors=tensors,
        tokenizer=tokenizer,
        eos_ids=_eos_ids(path, config, tokenizer, eos_token),
        chat_template=_chat_template(path, settings),
        bos_token=bos_token,
        eos_token=eos_token,
        adds_bos=bool(bos_token) and _adds(tokenizer, bos_token),
    )


def _refuse_what_differs(config: Mapping[str, Any], path: Path) -> None:
    kind = config.get("model_type")
    if kind not in ("llama", "mistral"):
        raise EngineError(f"{path}: model_type {kind!r} is not supported, only llama and mistral")
    positions = whole_number(path, config, "max_position_embeddings")
    usual: dict[str, tuple[Any, ...]] = {
        "hidden_act": ("silu",),
        "attention_bias": (False, None),
        "mlp_bias": (False, None),
        "rope_scaling": (None,),
        "partial_rotary_factor": (1.0, None),
        "quantization_config": (None,),
    }
    if kind == "mistral" and (config.get("sliding_window") or positions) < positions:
        usual["sliding_window"] = (None,)
    for key, values in usual.items():
        found = config.get(key, values[0])
        if found not in values and not (key == "rope_scaling" and _is_plain_rope(found)):
            raise EngineError(f"{path}: {key} = {found!r} is not supported")
    if not _is_plain_rope(config.get("rope_parameters", {})):
        kind = config["rope_parameters"].get("rope_type")
        raise EngineError(f"{path}: rotary positions of the type {kind!r} are not supported")


def _is_plain_rope(parameters: Mapping[str, Any] | None) -> bool:
    parameters = parameters or {}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    return bool(kind == "default" and parameters.get("partial_rotary_factor", 1.0) == 1.0)


def _numbers(config: Mapping[str, Any], path: Path) -> dict[str, int | float]:
    hidden = whole_number(path, config, "hidden_size")
    heads = whole_number(path, config, "num_attention_heads")
    rope = config.get("rope_parameters") or config
    return {
        "num_layers": whole_number(path, config, "num_hidden_layers"),
        "hidden_size": hidden,
        "num_heads": heads,
        "num_kv_heads": whole_number(path, config, "num_key_value_heads", heads),
        "head_size": whole_number(path, config, "head_dim", hidden // heads),
        "vocab_size": 0,
        "max_positions": whole_number(path, config, "max_position_embeddings"),
        "rope_base": positive_number(path, rope, "rope_theta", 10_000.0),
        "norm_eps": positive_number(path, config, "rms_norm_eps", 1e-6),
    }


def _tensors(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    from safetensors import safe_open

    for file in folder_files(path):
        if file.suffix != ".safetensors":
            continue
        opened: Any = safe_open(file, framework="pt")
        for name in opened.keys():  # noqa: SIM118  # no mapping
            if name.endswith("rotary_emb.inv_freq"):  # old checkpoints keep what can be computed
                continue
            part = opened.get_slice(name)
            kind = part.get_dtype()
            if kind not in _KINDS:
                raise EngineError(f"{file}: {name!r} is stored as {kind}; not supported")
            yield name, StoredTensor(tuple(part.get_shape()), _reading(opened, name))


def _reading(opened: Any, name: str) -> Any:
    def read() -> Tensor:
        tensor: Tensor = opened.get_tensor(name)
        return tensor.to(torch.float32, copy=True)

    return read


def _eos_ids(
    path: Path, config: Mapping[str, Any], tokenizer: str, eos_token: str
) -> frozenset[int]:
    added = {t["content"]: t["id"] for t in json.loads(tokenizer)["added_tokens"] if t["special"]}
    ids = {i for name, i in added.items() if name in TURN_ENDS or name == eos_token}
    for source in (config, _optional(path / "generation_config.json")):
        named = source.get("eos_token_id")
        ids |= set(named if isinstance(named, list) else [named]) - {None}
    if not ids:
        raise EngineError(f"{path}: no end-of-text token is named")
    return frozenset(ids)


def _chat_template(path: Path, settings: Mapping[str, Any]) -> str:
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    found = settings.get("chat_template") or ""
    if isinstance(found, list):  # several by name, for tools and the like
        found = {entry["name"]: entry["template"] for entry in found}.get("default", "")
    return str(found)


def _token(settings: Mapping[str, Any], key: str) -> str:
    found = settings.get(key) or ""
    return str(found["content"] if isinstance(found, dict) else found)


def _adds(tokenizer: str, bos_token: str) -> bool:
    from tokenizers import Tokenizer

    whole = Tokenizer.from_str(tokenizer)
    return bool(whole.encode("a").tokens[:1] == [bos_token])


def _optional(path: Path) -> dict[str, Any]:
    return _json(path) if path.is_file() else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ModelCorrupt(str(path), "not a JSON object")
    return found
