"""What a model's files say, whatever their format: numbers, tokenizer, and weights yet to be read.

`gguf` and `folder` make one, `convert` writes it down for loading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from weighbridge.errors import ModelCorrupt

# Control tokens that end a turn or a text; a model's files name only one or two of its own.
TURN_ENDS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>")


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file.

    Args:
        shape: rows first.
        read: reads it, float32, into memory of its own.
    """

    shape: tuple[int, ...]
    read: Callable[[], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model of the Llama family as its files describe it.

    Args:
        llama: the fields of `LlamaConfig`; `vocab_size` counts the rows of the embedding, which may
            be more than the tokenizer has tokens.
        tensors: by `transformers` name; `lm_head.weight` absent means tied.
        tokenizer: a `tokenizer.json`; control tokens are among its `added_tokens`.
        eos_ids: the tokens that end an answer; at least one.
        chat_template: Jinja source; empty where the files have none.
        bos_token: what the template calls by this name; empty where there is none.
        eos_token: the same.
        adds_bos: whether plain text is read after `bos_token`.
    """

    llama: Mapping[str, int | float]
    tensors: Mapping[str, StoredTensor]
    tokenizer: str
    eos_ids: frozenset[int]
    chat_template: str
    bos_token: str
    eos_token: str
    adds_bos: bool


def read_finite(name: str, tensor: StoredTensor) -> Tensor:
    """Read a tensor.

    Raises:
        ModelCorrupt: it holds infinities or NaN.
    """
    weight = tensor.read()
    low, high = weight.aminmax()  # NaN wins both; a mask of all weights would be as large as they
    if not bool(low.isfinite() & high.isfinite()):
        raise ModelCorrupt(name, "the tensor has weights that are not finite")
    return weight
