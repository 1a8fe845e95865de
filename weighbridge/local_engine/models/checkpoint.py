"""What a model's files say, whatever their format: numbers, tokenizer, and weights yet to be read.

`gguf` and `folder` make one, `convert` writes it down for loading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.catalogue import say_remedy
from weighbridge.local_engine.tokenizer import ByteTokenizer

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
        path: of the file or folder, for messages.
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

    path: Path
    llama: Mapping[str, int | float]
    tensors: Mapping[str, StoredTensor]
    tokenizer: str
    eos_ids: frozenset[int]
    chat_template: str
    bos_token: str
    eos_token: str
    adds_bos: bool

    def read_finite(self, name: str, tensor: StoredTensor) -> Tensor:
        """Read a tensor, or several joined under a name.

        Raises:
            ModelCorrupt: it holds infinities or NaN.
        """
        weight = tensor.read()
        # NaN wins both; a mask of all weights would be as large as they.
        low, high = weight.aminmax()
        if not bool(low.isfinite() & high.isfinite()):
            raise ModelCorrupt(str(self.path), f"{name} has weights that are not finite")
        return weight


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Whatever the content of a model's file leads a reader to is an error that names the file.

    Raises:
        ModelCorrupt: in the place of any error that is not of our own tree.
    """
    try:
        try:
            yield
        except EngineError:
            raise
        except KeyError as error:
            raise ModelCorrupt(str(path), f"{str(error)[:80]} is missing") from None
        except Exception as error:  # noqa: BLE001  # the libraries raise whatever the bytes lead to
            problem = f"not a readable model ({type(error).__name__})"
            raise ModelCorrupt(str(path), problem) from None
    except ModelCorrupt as error:
        say_remedy(error)
        raise


def whole_number(path: Path, found: Mapping[str, Any], key: str, usual: int | None = None) -> int:
    """A count out of a model's settings; where it is null or not there, the usual one.

    Raises:
        KeyError: it is not there, and nothing is usual.
        ModelCorrupt: no whole number above 0.
    """
    value = _setting(found, key, usual)
    if type(value) is not int or value < 1:
        raise ModelCorrupt(str(path), f"{key} is no whole number above 0")
    return value


def positive_number(
    path: Path, found: Mapping[str, Any], key: str, usual: float | None = None
) -> float:
    """Like `whole_number`, but any finite number above 0."""
    value = _setting(found, key, usual)
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise ModelCorrupt(str(path), f"{key} is no finite number above 0")
    return float(value)


def check(checkpoint: Checkpoint) -> None:
    """See that numbers, tensors and tokenizer of a checkpoint fit together, before any is written.

    Raises:
        ModelCorrupt: a tensor is missing or of another shape, or an id is beyond the vocabulary.
        EngineError: a tensor that no Llama has, or a tokenizer that cannot be read exactly.
    """
    where, wanted = str(checkpoint.path), _shapes(checkpoint)
    for name, shape in wanted.items():
        if name not in checkpoint.tensors:
            raise ModelCorrupt(where, f"the tensor {name} is missing")
        found = checkpoint.tensors[name].shape
        if found != shape:
            raise ModelCorrupt(where, f"the tensor {name} has shape {found}, wanted {shape}")
    for name in sorted(checkpoint.tensors.keys() - wanted.keys()):  # it must not go unread
        raise EngineError(f"{where}: the model has the tensor {name!r}, which no Llama has")
    vocab_size = int(checkpoint.llama["vocab_size"])
    for end in checkpoint.eos_ids:
        if type(end) is not int or not 0 <= end < vocab_size:
            raise ModelCorrupt(where, f"the end-of-text token is no id from 0 to {vocab_size - 1}")
    try:
        with damage_named(checkpoint.path):
            tokenizer = ByteTokenizer.from_json(
                checkpoint.tokenizer, checkpoint.eos_ids, vocab_size=vocab_size
            )
            if checkpoint.adds_bos:
                tokenizer.control(checkpoint.bos_token)
    except ModelCorrupt:
        raise
    except EngineError as error:
        raise EngineError(f"{where}: {error}") from None


def _setting(found: Mapping[str, Any], key: str, usual: float | None) -> Any:
    value = found[key] if usual is None else found.get(key)
    return usual if value is None else value


def _shapes(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a Llama, by name."""
    llama = {key: int(value) for key, value in checkpoint.llama.items()}
    hidden, heads, kv_heads = llama["hidden_size"], llama["num_heads"], llama["num_kv_heads"]
    layers, head_size = llama["num_layers"], llama["head_size"]
    where, names = str(checkpoint.path), checkpoint.tensors.keys()
    if heads % kv_heads or head_size % 2:
        problem = f"{heads} heads of {head_size} cannot share {kv_heads} key heads and turn"
        raise ModelCorrupt(where, problem)
    if layers > len(names):
        raise ModelCorrupt(where, f"{layers} layers cannot be made of {len(names)} tensors")
    table = llama["vocab_size"], hidden
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": table}
    for index in range(layers):
        prefix = f"model.layers.{index}."
        down = checkpoint.tensors.get(f"{prefix}mlp.down_proj.weight")
        inner = max(1, *(down.shape[1:] if down is not None else ()), 1)
        layer: dict[str, tuple[int, ...]] = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (heads * head_size, hidden),
            "self_attn.k_proj": (kv_heads * head_size, hidden),
            "self_attn.v_proj": (kv_heads * head_size, hidden),
            "self_attn.o_proj": (hidden, heads * head_size),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        shapes |= {f"{prefix}{name}.weight": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if "lm_head.weight" in names:
        shapes["lm_head.weight"] = table
    return shapes
