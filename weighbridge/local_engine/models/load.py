"""A converted folder, loaded: model, tokenizer and what the config says of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch

from weighbridge.errors import EngineError
from weighbridge.local_engine.chat_template import ChatTemplate
from weighbridge.local_engine.models.checkpoint import damage_named
from weighbridge.local_engine.models.convert import Precision
from weighbridge.local_engine.models.llama import Llama, LlamaConfig
from weighbridge.local_engine.tokenizer import ByteTokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """A model that is ready to read.

    Args:
        model: weights and forward pass.
        tokenizer: in the width of the model's logits.
        chat_template: Jinja source; empty where the model's files have none.
        bos_token: what the template calls by this name; empty where there is none.
        eos_token: the same.
        bos_id: what plain text is read after; None for models that read it as it is.
        fingerprint: of weights and precision; what is calibrated for one holds for no other.
    """

    model: Llama
    tokenizer: ByteTokenizer
    chat_template: str
    bos_token: str
    eos_token: str
    bos_id: int | None
    fingerprint: str

    def chat(self) -> ChatTemplate | None:
        """How the model writes conversations; None where its files do not say and ChatML is out.

        Raises:
            EngineError: a template that cannot be followed.
        """
        if not self.chat_template and "<|im_start|>" not in self.tokenizer.added_tokens:
            return None
        return ChatTemplate(self.chat_template, self.tokenizer, self.bos_token, self.eos_token)


def best_device() -> str:
    """The GPU where there is one, as torch names it, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def precision_for(device: str, wanted: Precision | None = None) -> Precision:
    """The precision to load: int8 on a CPU, bfloat16 on a GPU, unless another is wanted.

    Raises:
        EngineError: a precision that is slow or wrong on this device.
        ValueError: there is no such precision.
    """
    if wanted is not None and wanted not in get_args(Precision):
        raise ValueError(f"precision must be {', '.join(get_args(Precision))} or None")
    usual: Precision = "int8" if device == "cpu" else "bfloat16"
    if wanted == "bfloat16" and device == "cpu":
        # Without AMX or AVX-512 BF16 it runs six times slower than float32, and never better.
        raise EngineError("bfloat16 is for GPUs; on a CPU use int8 or float32")
    if wanted == "int8" and device != "cpu":
        raise EngineError("int8 is for CPUs; on a GPU use bfloat16 or float32")
    return wanted or usual


def load_generator(folder: Path, device: str = "cpu") -> Generator:
    """Load a folder that `converted` has written; on a CPU the weights stay memory-mapped.

    Raises:
        ModelCorrupt: the folder is incomplete or damaged.
    """
    from safetensors.torch import load_file

    with damage_named(folder):
        config = json.loads((folder / "config.json").read_text("utf-8"))
        numbers = LlamaConfig(**config["llama"])
        tokenizer = ByteTokenizer.load(
            folder / "tokenizer.json", config["eos_ids"], vocab_size=numbers.vocab_size
        )
        weights = load_file(folder / "model.safetensors")
        dtype = torch.bfloat16 if config["precision"] == "bfloat16" else torch.float32
        return Generator(
            model=Llama(numbers, weights, dtype=dtype, device=device),
            tokenizer=tokenizer,
            chat_template=config["chat_template"],
            bos_token=config["bos_token"],
            eos_token=config["eos_token"],
            bos_id=tokenizer.control(config["bos_token"]) if config["adds_bos"] else None,
            fingerprint=config["fingerprint"],
        )
