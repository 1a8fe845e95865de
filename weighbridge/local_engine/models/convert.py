"""A GGUF file, converted once into a folder that loads in a second: weights, tokenizer, config.

Dequantising takes most of ten seconds, reading the vocabulary two more; both are done on the first
load. The folder holds float32 safetensors under `transformers` names, a `tokenizer.json`, and a
`config.json` of our own; it is written aside and renamed, so it is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weighbridge.errors import EngineError, ModelCorrupt

CONVERTER_VERSION = 1

_TENSOR_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def converted(gguf_path: Path, cache: Path) -> Path:
    """The converted folder of a GGUF file; converts on first use.

    Raises:
        ModelCorrupt: the file is no readable GGUF.
        EngineError: a readable GGUF of another architecture or tokenizer, or no room for it.
    """
    stat = gguf_path.stat()
    identity = f"{gguf_path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}:{CONVERTER_VERSION}"
    folder = cache / "converted" / hashlib.sha256(identity.encode()).hexdigest()[:24]
    if not (folder / "config.json").is_file():
        _convert(gguf_path, folder)
    return folder


def _convert(gguf_path: Path, folder: Path) -> None:
    from safetensors import SafetensorError

    config, tokenizer, tensors = _read(gguf_path)
    try:
        _write(folder, config, tokenizer, tensors)
    except (OSError, SafetensorError) as error:  # both wordings are the system's: path and reason
        raise EngineError(f"the converted model cannot be written: {error}") from None


def _read(gguf_path: Path) -> tuple[dict[str, Any], str, dict[str, Any]]:
    from gguf import GGUFReader

    try:
        reader = GGUFReader(gguf_path)
        fields = {key: field.contents() for key, field in reader.fields.items()}
        config = _config(fields, gguf_path)
        return config, _tokenizer_json(fields, gguf_path), dict(_tensors(reader, config))
    except EngineError:
        raise
    except Exception as error:  # noqa: BLE001  # the reader raises whatever the bytes lead it to
        raise ModelCorrupt(
            str(gguf_path), f"not a readable GGUF ({type(error).__name__})"
        ) from None


def _write(folder: Path, config: dict[str, Any], tokenizer: str, tensors: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
    try:
        save_file(tensors, aside / "model.safetensors")
        (aside / "tokenizer.json").write_text(tokenizer, "utf-8")
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


def _config(fields: dict[str, Any], path: Path) -> dict[str, Any]:
    if fields["general.architecture"] != "llama":
        raise EngineError(f"{path}: architecture {fields['general.architecture']!r} is not llama")
    hidden, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    kinds = fields["tokenizer.ggml.token_type"]
    control = [i for i, kind in enumerate(kinds) if kind == 3]  # 3 is CONTROL in the GGUF format
    with path.open("rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "llama": {
            "num_layers": fields["llama.block_count"],
            "hidden_size": hidden,
            "num_heads": heads,
            "num_kv_heads": fields.get("llama.attention.head_count_kv", heads),
            "head_size": fields.get("llama.rope.dimension_count", hidden // heads),
            "vocab_size": len(fields["tokenizer.ggml.tokens"]),
            "max_positions": fields["llama.context_length"],
            "rope_base": fields.get("llama.rope.freq_base", 10_000.0),
            "norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        },
        "special_ids": control,
        # An answer may end with the model's own end of turn or with the end of text.
        "eos_ids": sorted({fields["tokenizer.ggml.eos_token_id"], *_end_of_text(fields)}),
        "chat_template": fields.get("tokenizer.chat_template", ""),
        "fingerprint": f"sha256:{fingerprint}:float32",
    }


def _end_of_text(fields: dict[str, Any]) -> list[int]:
    return [i for i, t in enumerate(fields["tokenizer.ggml.tokens"]) if t == "<|endoftext|>"]


def _tokenizer_json(fields: dict[str, Any], path: Path) -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    model, pre = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre")
    if (model, pre) != ("gpt2", "smollm"):
        raise EngineError(
            f"{path}: tokenizer {model!r} with pre-tokenizer {pre!r} is not supported"
        )
    vocabulary = {token: i for i, token in enumerate(fields["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    text: str = tokenizer.to_str()
    return text


def _tensors(reader: Any, config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    import numpy
    from gguf.quants import dequantize

    llama = config["llama"]
    for tensor in reader.tensors:
        name, known = _rename(tensor.name)
        if not known:  # rope frequency tables and the like: derived, not weights
            continue
        weight = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if name.endswith("q_proj.weight"):
            weight = _to_rotate_half(weight, llama["num_heads"])
        elif name.endswith("k_proj.weight"):
            weight = _to_rotate_half(weight, llama["num_kv_heads"])
        yield name, numpy.ascontiguousarray(weight)


def _rename(name: str) -> tuple[str, bool]:
    """`blk.3.attn_q.weight` to `model.layers.3.self_attn.q_proj.weight`, and if it is known."""
    *layer, stem, suffix = name.split(".")
    new = _TENSOR_NAMES.get(stem)
    if new is None:
        return name, False
    return (f"model.layers.{layer[1]}.{new}.{suffix}" if layer else f"{new}.{suffix}"), True


def _to_rotate_half(weight: Any, num_heads: int) -> Any:
    """Undo the row order that GGUF uses for interleaved rotary positions."""
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)
