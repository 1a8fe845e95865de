"""Scores by the slowest way: the whole text through the model for each option, no cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.scoring import END_OF_TEXT, Text
from weighbridge.local_engine.tokenizer import ByteTokenizer


def all_log_probs(model: Llama, ids: Sequence[int], last: int = 1) -> Tensor:
    """Log-probabilities after each of the last tokens, float64 [last, V], in one uncached pass."""
    hidden, _ = model.forward(torch.tensor(ids), model.empty_cache())
    return model.log_probs(hidden[-last:]).double()


def option_log_prob(
    model: Llama, tokenizer: ByteTokenizer, prompt: Sequence[int], text: Text
) -> float:
    """Log-probability of an option's own spelling, and of that in which its end is merged."""
    total = -torch.inf
    for path, closing in _spellings(tokenizer, text):
        rows = all_log_probs(model, [*prompt, *path], last=len(path) + 1)
        value = sum(rows[i, token] for i, token in enumerate(path))
        total = torch.logaddexp(
            torch.as_tensor(total, dtype=torch.float64), value + rows[-1, closing].logsumexp(0)
        )
    return float(total)


def _spellings(tokenizer: ByteTokenizer, text: Text) -> list[tuple[list[int], list[int]]]:
    alone = tokenizer.encode(text.stem)
    if text.closer == END_OF_TEXT:
        return [(alone, sorted(tokenizer.eos_ids))]
    spellings = [(alone, text.closer.encode())]
    together = tokenizer.encode(text.stem + text.closer)
    while len(_bytes(tokenizer, together)) > len(text.stem.encode()):
        together = together[:-1]
    if together != alone:
        rest = (text.stem + text.closer).encode()[len(_bytes(tokenizer, together)) :]
        spellings.append((together, rest))
    return [(path, _starting_with(tokenizer, rest)) for path, rest in spellings]


def any_spelling(
    model: Llama, tokenizer: ByteTokenizer, prompt: Sequence[int], text: Text
) -> float:
    """Probability that the text and its closer are spelled in any way: all are tried."""

    def below(ids: tuple[int, ...], wanted: bytes) -> float:
        after = all_log_probs(model, [*prompt, *ids])[-1].exp()
        if not wanted:  # only where nothing closes the text
            return sum(float(after[i]) for i in tokenizer.eos_ids)
        total = 0.0
        for token, spelled in enumerate(tokenizer.token_bytes):
            if spelled and wanted.startswith(spelled) and (spelled != wanted or not text.closer):
                total += float(after[token]) * below((*ids, token), wanted[len(spelled) :])
            elif spelled.startswith(wanted) and text.closer:
                total += float(after[token])
        return total

    return below((), (text.stem + text.closer).encode())


def _bytes(tokenizer: ByteTokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(tokenizer.token_bytes[i] for i in ids)


def _starting_with(tokenizer: ByteTokenizer, prefix: bytes) -> list[int]:
    return [i for i, spelled in enumerate(tokenizer.token_bytes) if spelled.startswith(prefix)]
