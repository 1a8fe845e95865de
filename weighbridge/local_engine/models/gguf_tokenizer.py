"""The tokenizer of a GGUF file, as the `tokenizer.json` that reads the same.

Two kinds: `gpt2`, a byte-level BPE whose name for the way it splits text stands for regular
expressions that are not in the file; and `llama`, a SentencePiece BPE that joins, of all
neighbours, those that make the piece with the highest score.

Source: `llama-vocab.cpp` of llama.cpp for the expressions by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weighbridge.errors import EngineError, ModelCorrupt

# The kinds of tokens in the GGUF format.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_SPLITS = {
    "gpt-2": _GPT2,
    "smollm": (r"\p{N}", *_GPT2),
    "llama-bpe": _LLAMA3,
    "qwen2": (_LLAMA3[0].replace(r"\p{N}{1,3}", r"\p{N}"),),
    # What llama.cpp falls back to where the converter knew no name.
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2[0], r"\p{N}+", r"[0-9][0-9][0-9]"),
}
_MAX_PIECE = 1_000
_IGNORES_MERGES = ("llama-bpe",)  # a word that is a token is that token, whatever the merges say


def tokenizer_json(fields: Mapping[str, Any], path: Path) -> str:
    """The tokenizer, with its control tokens among the added ones.

    Raises:
        ModelCorrupt: tokens, merges or scores that are not what they should be.
        EngineError: a kind that is not known to be read exactly.
    """
    model = str(fields["tokenizer.ggml.model"])
    build = _BUILDERS.get(model)
    if build is None:
        named = repr(model[:80])
        raise EngineError(f"{path}: the tokenizer {named} is not supported, only gpt2 and llama")
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    if not _all_are(str, tokens) or not _all_are(int, kinds) or len(tokens) != len(kinds):
        raise ModelCorrupt(str(path), "its tokens are no list of texts with a kind for each")
    tokenizer = build(fields, path)
    _add(tokenizer, [t for t, kind in zip(tokens, kinds, strict=True) if kind == USER_DEFINED])
    special = (CONTROL, UNKNOWN, UNUSED)
    _add(tokenizer, [t for t, k in zip(tokens, kinds, strict=True) if k in special], special=True)
    text: str = tokenizer.to_str()
    return text


def reads_bos(fields: Mapping[str, Any]) -> bool:
    """Whether plain text is read after the begin-of-text token."""
    usual = (
        fields["tokenizer.ggml.model"] == "llama" or fields.get("tokenizer.ggml.pre") == "llama-bpe"
    )
    return bool(fields.get("tokenizer.ggml.add_bos_token", usual))


def merges_by_score(
    tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]
) -> list[tuple[str, str]]:
    """The pairs that a SentencePiece BPE may join, in the order in which it prefers them.

    It joins whatever makes a piece, the highest score first. So every way to cut a piece into two
    pieces is a merge, and has the rank of the whole. Pieces of more than `_MAX_PIECE` characters
    are not joined: the trainer makes none of more than a few dozen, and trying each cut takes the
    square of the length.
    """
    pieces = {
        token: (-score, i)
        for i, (token, score, kind) in enumerate(zip(tokens, scores, kinds, strict=True))
        if kind == NORMAL and len(token) <= _MAX_PIECE
    }
    ranked = [
        (rank, piece[:cut], piece[cut:])
        for piece, rank in pieces.items()
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]
    return [(left, right) for _, left, right in sorted(ranked)]


def _all_are(kind: type, found: Any) -> bool:
    return isinstance(found, list) and all(type(each) is kind for each in found)


def _add(tokenizer: Any, names: list[str], *, special: bool = False) -> None:
    from tokenizers import AddedToken

    tokenizer.add_tokens([AddedToken(name, normalized=False, special=special) for name in names])


def _byte_level(fields: Mapping[str, Any], path: Path) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    pre, merges = str(fields.get("tokenizer.ggml.pre", "default")), fields["tokenizer.ggml.merges"]
    if pre not in _SPLITS:
        known, named = ", ".join(_SPLITS), repr(pre[:80])
        raise EngineError(f"{path}: the pre-tokenizer {named} is not supported, only {known}")
    if not _all_are(str, merges) or not all(" " in merge for merge in merges):
        raise ModelCorrupt(str(path), "its merges are no list of pairs")
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(fields["tokenizer.ggml.tokens"])},
            merges=[tuple(merge.split(" ", 1)) for merge in merges],
            ignore_merges=pre in _IGNORES_MERGES,
        )
    )
    splits = [pre_tokenizers.Split(Regex(regex), "isolated") for regex in _SPLITS[pre]]
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(fields: Mapping[str, Any], path: Path) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers

    for key in ("precompiled_charsmap", "remove_extra_whitespaces"):
        if fields.get(f"tokenizer.ggml.{key}"):
            raise EngineError(f"{path}: tokenizer.ggml.{key} is not supported")
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    scores = fields["tokenizer.ggml.scores"]
    if not _all_are(float, scores) or len(scores) != len(tokens):
        raise ModelCorrupt(str(path), "its tokens do not have a score each")
    if not all(map(math.isfinite, scores)):
        raise ModelCorrupt(str(path), "its tokens have scores that are not finite")
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=merges_by_score(tokens, scores, kinds),
            byte_fallback=True,
        )
    )
    spaces: list[Any] = [normalizers.Replace(" ", "\u2581")]
    texts: list[Any] = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    if fields.get("tokenizer.ggml.add_space_prefix", True):
        spaces.insert(0, normalizers.Prepend("\u2581"))
        texts.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(spaces)
    tokenizer.decoder = decoders.Sequence(texts)
    return tokenizer


_BUILDERS: dict[str, Callable[[Mapping[str, Any], Path], Any]] = {
    "gpt2": _byte_level,
    "llama": _sentencepiece,
}
