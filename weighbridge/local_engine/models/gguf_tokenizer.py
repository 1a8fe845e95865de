"""The tokenizer of a GGUF file, as a `tokenizer.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weighbridge.errors import EngineError


def tokenizer_json(fields: dict[str, Any], path: Path) -> str:
    """The tokenizer, its control tokens among the added ones.

    Raises:
        EngineError: a kind that is not known to be read exactly.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    model, pre = fields["tokenizer.ggml.model"], fields.get("tokenizer.ggml.pre")
    if (model, pre) != ("gpt2", "smollm"):
        raise EngineError(
            f"{path}: tokenizer {model!r} with pre-tokenizer {pre!r} is not supported"
        )
    tokens = fields["tokenizer.ggml.tokens"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [i for i, kind in enumerate(fields["tokenizer.ggml.token_type"]) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(tokens[i], special=True) for i in control])
    text: str = tokenizer.to_str()
    return text
