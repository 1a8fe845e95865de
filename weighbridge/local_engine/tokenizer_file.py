"""A `tokenizer.json` taken apart: what reads plain text, and the tokens that no text may become.

What a file adds around the model (spaces put before a text, control tokens found inside it) would
make encoding lossy or let a ticket write control tokens. It is taken out and reported, so that only
a chat template can put it back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tokenizers import Tokenizer

from weighbridge.errors import EngineError
from weighbridge.local_engine.byte_tables import byte_tokens

SpacePrefix: TypeAlias = Literal["never", "first", "always", "legacy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerParts:
    """A tokenizer without its additions, and the additions.

    Args:
        tokenizer: reads plain text: no control token, no space that was not there.
        special: control tokens by name; they stand for no text.
        added: other tokens that only a template may write, by name; they stand for their name.
        space_prefix: where the file would put a space before a text that has none: "never"; before
            the "first" one if no control token precedes it; "always", after control tokens too;
            "legacy" is "always", but even before another space.
    """

    tokenizer: Tokenizer
    special: dict[str, int]
    added: dict[str, int]
    space_prefix: SpacePrefix


def take_apart(text: str) -> TokenizerParts:
    """Take the content of a `tokenizer.json` apart.

    The normaliser NFC, which would change the text, is left out: what is encoded can always be
    decoded again, byte by byte.

    Raises:
        EngineError: a kind of tokenizer that is not known to be read exactly.
        Exception: whatever a damaged file leads the library to.
    """
    content = json.loads(text)
    added = {token["content"]: token for token in content["added_tokens"]}
    special = {name: token["id"] for name, token in added.items() if token["special"]}
    model = content["model"]
    _refuse_other_models(model)
    ids = {token["id"] for token in content["added_tokens"]}
    # By id as well: another name for a control token would let a text write it.
    removed = {name for name, i in model["vocab"].items() if i in ids} | added.keys()
    model["vocab"] = {name: i for name, i in model["vocab"].items() if name not in removed}
    model["merges"] = [merge for merge in model["merges"] if not _involves(removed, merge)]
    if model["unk_token"] in removed:
        model["unk_token"] = None
    normalizers, legacy = _normalizers(content["normalizer"])
    splitters, prefix = _splitters(content["pre_tokenizer"])
    if model["byte_fallback"]:
        if len(byte_tokens(model["vocab"])) < 256:
            raise EngineError("a SentencePiece vocabulary must have a token for every byte")
    elif not any(step["type"] == "ByteLevel" for step in (*normalizers, *splitters)):
        raise EngineError("a BPE tokenizer must be byte-level or have a byte fallback")
    content |= {
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters},
        "post_processor": None,
    }
    return TokenizerParts(
        tokenizer=Tokenizer.from_str(json.dumps(content)),
        special=special,
        added={name: token["id"] for name, token in added.items() if name not in special},
        space_prefix="legacy" if legacy else prefix,
    )


def _refuse_other_models(model: dict[str, Any]) -> None:
    if model["type"] != "BPE":
        raise EngineError(f"a tokenizer of type {model['type']} is not supported, only BPE is")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise EngineError(f"a BPE tokenizer with {key} is not supported")


def _involves(names: set[str], merge: str | list[str]) -> bool:
    """Whether a merge is of one of the tokens or makes one."""
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return not names.isdisjoint((left, right, left + right))


def _normalizers(found: dict[str, Any] | None) -> tuple[list[dict[str, Any]], bool]:
    """The steps that lose nothing, and whether one put a space before every text."""
    kept, legacy = [], False
    for step in _steps(found, "normalizers"):
        match step:
            case {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}:
                kept.append(step)
            case {"type": "ByteLevel"}:
                kept.append(step)
            case {"type": "Prepend", "prepend": "\u2581"}:
                legacy = True
            case {"type": "NFC"}:
                pass
            case _:
                raise EngineError(f"a tokenizer with the normaliser {step['type']} is unsupported")
    return kept, legacy


def _splitters(found: dict[str, Any] | None) -> tuple[list[dict[str, Any]], SpacePrefix]:
    """The pre-tokenizers without the spaces they add, and where they would have added them."""
    kept: list[dict[str, Any]] = []
    prefix: SpacePrefix = "never"
    for step in _steps(found, "pretokenizers"):
        match step:
            case {"type": "ByteLevel"}:
                prefix = "always" if step["add_prefix_space"] else prefix
                kept.append({**step, "add_prefix_space": False})
            case {"type": "Metaspace", "replacement": "\u2581"}:
                adds = "always" if step.get("add_prefix_space", True) else "never"
                prefix = step.get("prepend_scheme", adds)
                plain = {key: value for key, value in step.items() if key != "add_prefix_space"}
                kept.append({**plain, "prepend_scheme": "never"})
            case {"type": "Digits"}:
                kept.append(step)
            case {"type": "Split" | "Punctuation", "behavior": behavior} if behavior != "Removed":
                kept.append(step)
            case _:
                raise EngineError(f"a tokenizer that splits by {step['type']} is unsupported")
    return kept, prefix


def _steps(found: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """Sequences inside sequences as one list."""
    if found is None:
        return []
    if found["type"] != "Sequence":
        return [found]
    return [step for inner in found[key] for step in _steps(inner, key)]
