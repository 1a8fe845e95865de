"""Exact scores of all options of a choice, in one packed forward pass.

The probability of an option is that of its spelling, closed by *any* token that begins with the
closing character: counting the bare quote alone would change it by orders of magnitude. The
spelling is the tokenizer's own (the canonical one); where the closing character would merge with
the end of the text into one token, that spelling counts too. Both are disjoint events, so their
sum is a lower bound of the probability over all spellings. Every spelling begins with a token that
is consistent with the text, so the mass on those first tokens is an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from weighbridge.local_engine.models.llama import KVCache, Llama
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.local_engine.trie import ROOT, Trie

MAX_ROWS = 512  # rows of one packed pass; their logits take 100 MB at 49,152 tokens
END_OF_TEXT = ""  # closer of an option that nothing follows


class Text(NamedTuple):
    """How one option is written: the text, and the character that closes it."""

    stem: str
    closer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A place where a choice stands: tokens between the end of the cache and the first option."""

    prefix: tuple[int, ...]
    texts: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScores:
    """What the model thinks of each option at one place.

    Args:
        log_probs: float64 [number of options]; natural log of the probability of each option,
            raw logits at temperature 1, closing included.
        mass: (low, high), certified bounds of the probability that one of the options is spelled,
            in any spelling.
    """

    log_probs: Tensor
    mass: tuple[float, float]


def score(
    model: Llama,
    tokenizer: ByteTokenizer,
    cache: KVCache,
    after: Tensor,
    branches: Sequence[Branch],
) -> list[ChoiceScores]:
    """Score every option of every branch.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        cache: the text before all branches.
        after: float32 [V], log-probabilities of the token that follows the cache.
        branches: at least one.

    Returns:
        One result for each branch, in order.
    """
    log_probs = [torch.full((len(b.texts),), -torch.inf, dtype=torch.float64) for b in branches]
    bounds = [0.0] * len(branches)
    for pack in _packs(tokenizer, branches):
        rows = _rows(model, cache, after, pack)
        for spelling in pack.spellings:
            value = _spelled(rows, pack, spelling)
            target = log_probs[spelling.branch]
            target[spelling.option] = torch.logaddexp(target[spelling.option], value)
        for branch, root in pack.roots.items():
            first = _first_tokens(tokenizer, branches[branch].texts)
            bounds[branch] = float(rows[root].double()[first].logsumexp(0).exp())
    results = []
    for scores, bound in zip(log_probs, bounds, strict=True):
        low = float(scores.logsumexp(0).exp())
        results.append(ChoiceScores(log_probs=scores, mass=(low, min(1.0, max(low, bound)))))
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spelling:
    branch: int
    option: int
    root: int
    end: int  # node after the last token before the closing one
    closing: tuple[int, ...]  # the tokens that may close it


@dataclass(frozen=True, slots=True)
class _Pack:
    """One forward pass: a trie, the spellings in it, and the root node of each branch."""

    trie: Trie
    spellings: list[_Spelling]
    roots: dict[int, int]


def _packs(tokenizer: ByteTokenizer, branches: Sequence[Branch]) -> list[_Pack]:
    packs = [_Pack(Trie(), [], {})]
    for index, branch in enumerate(branches):
        for option, text in enumerate(branch.texts):
            if len(packs[-1].trie) >= MAX_ROWS:
                packs.append(_Pack(Trie(), [], {}))
            trie, spellings, roots = packs[-1].trie, packs[-1].spellings, packs[-1].roots
            root = roots[index] = trie.insert(branch.prefix)
            for path, closing in spell(tokenizer, text):
                end = trie.insert(path, below=root)
                spellings.append(
                    _Spelling(branch=index, option=option, root=root, end=end, closing=closing)
                )
    return packs


def spell(tokenizer: ByteTokenizer, text: Text) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The canonical spellings of an option: tokens, and the tokens that may close them.

    Usually one. A second where the closing character merges with the end of the text.
    """
    alone = tuple(tokenizer.encode(text.stem))
    if text.closer == END_OF_TEXT:
        return [(alone, tuple(sorted(tokenizer.eos_ids)))]
    closer = text.closer.encode()
    spellings = [(alone, tuple(tokenizer.starting_with(closer)))]
    stem = text.stem.encode()
    spelled, path = 0, []
    for token in tokenizer.encode(text.stem + text.closer):
        if spelled + len(tokenizer.token_bytes[token]) > len(stem):
            break
        spelled += len(tokenizer.token_bytes[token])
        path.append(token)
    if tuple(path) != alone:
        spellings.append((tuple(path), tuple(tokenizer.starting_with(stem[spelled:] + closer))))
    return spellings


def _rows(model: Llama, cache: KVCache, after: Tensor, pack: _Pack) -> dict[int, Tensor]:
    """Log-probabilities [V] after each node at or below a root, by node."""
    rows = {ROOT: after}
    nodes = sorted(
        {n for s in pack.spellings for n in (s.root, *pack.trie.path(s.end, above=s.root))} - {ROOT}
    )
    if nodes:
        tokens, parents = torch.tensor(pack.trie.tokens), torch.tensor(pack.trie.parents)
        hidden, _ = model.forward(tokens, cache, parents=parents)
        rows.update(zip(nodes, model.log_probs(hidden[nodes]), strict=True))
    return rows


def _spelled(rows: dict[int, Tensor], pack: _Pack, spelling: _Spelling) -> Tensor:
    """Log-probability of one spelling with its closing, float64 scalar."""
    total = torch.zeros((), dtype=torch.float64)
    for node in pack.trie.path(spelling.end, above=spelling.root):
        total += rows[pack.trie.parents[node]][pack.trie.tokens[node]]
    closing = torch.tensor(spelling.closing)
    return total + rows[spelling.end][closing].double().logsumexp(0)


def _first_tokens(tokenizer: ByteTokenizer, texts: Sequence[Text]) -> Tensor:
    """Ids of every token that may begin one of the texts, in whatever spelling."""
    ids: set[int] = set()
    for text in texts:
        if text.closer == END_OF_TEXT and not text.stem:
            ids |= tokenizer.eos_ids
        ids.update(tokenizer.consistent_with((text.stem + text.closer).encode()))
    return torch.tensor(sorted(ids))
