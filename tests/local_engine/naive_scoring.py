"""Scores by the slowest way: the whole text through the model for each option, no cache."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from weighbridge.local_engine.logprobs import log_probs
from weighbridge.local_engine.models.protocol import LanguageModel
from weighbridge.local_engine.spellings import END_OF_TEXT, Text
from weighbridge.local_engine.vocabulary import Vocabulary


def all_log_probs(model: LanguageModel, ids: Sequence[int], last: int = 1) -> Tensor:
    """Log-probabilities after each of the last tokens, float64 [last, V], in one uncached pass."""
    hidden, _ = model.forward(torch.tensor(ids), model.empty_cache())
    return log_probs(model.logits(hidden[-last:])).double()


def option_log_probs(
    model: LanguageModel, vocabulary: Vocabulary, prompt: Sequence[int], texts: Sequence[Text]
) -> list[float]:
    """Log-probability of each option: of every token that closes it after a canonical beginning.

    Beginnings are those of all options' own spellings, alone and before the closer.
    """
    beginnings: set[tuple[int, ...]] = {()}
    for text in texts:
        together = vocabulary.encode(text.stem + text.closer)
        while len(spelled(vocabulary, together)) > len(text.stem.encode()):
            together = together[:-1]
        for path in (vocabulary.encode(text.stem), together):
            beginnings |= {tuple(path[:end]) for end in range(len(path) + 1)}
    totals = [0.0] * len(texts)
    for path in beginnings:
        rows = all_log_probs(model, [*prompt, *path], last=len(path) + 1)
        reached = sum(float(rows[i, token]) for i, token in enumerate(path))
        for index, text in enumerate(texts):
            closing = _closing(vocabulary, text, spelled(vocabulary, path))
            totals[index] += sum(math.exp(reached + float(rows[-1, token])) for token in closing)
    return [math.log(total) for total in totals]


def _closing(vocabulary: Vocabulary, text: Text, begun: bytes) -> list[int]:
    stem = text.stem.encode()
    if not stem.startswith(begun):
        return []
    if text.closer == END_OF_TEXT:
        return sorted(vocabulary.eos_ids) if begun == stem else []
    rest = stem[len(begun) :] + text.closer.encode()
    return [i for i, data in enumerate(vocabulary.token_bytes) if data.startswith(rest)]


def any_spelling(
    model: LanguageModel, tokenizer: Vocabulary, prompt: Sequence[int], text: Text
) -> float:
    """Probability that the text and its closer are spelled in any way: all are tried."""

    def below(ids: tuple[int, ...], wanted: bytes) -> float:
        after = all_log_probs(model, [*prompt, *ids])[-1].exp()
        if not wanted:  # only where nothing closes the text
            return sum(float(after[i]) for i in tokenizer.eos_ids)
        total = 0.0
        for token, data in enumerate(tokenizer.token_bytes):
            if data and wanted.startswith(data) and (data != wanted or not text.closer):
                total += float(after[token]) * below((*ids, token), wanted[len(data) :])
            elif data.startswith(wanted) and text.closer:
                total += float(after[token])
        return total

    return below((), (text.stem + text.closer).encode())


def spelled(vocabulary: Vocabulary, ids: Sequence[int]) -> bytes:
    return b"".join(vocabulary.token_bytes[i] for i in ids)
