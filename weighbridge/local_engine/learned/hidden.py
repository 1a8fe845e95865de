"""Hidden states of a ticket: what the language model makes of it, whatever is asked about it.

The ticket is read under a prompt of its own that names no label. So what was learned from the
states stays true when labels are added, renamed or described anew, which the task's own prompt, a
list of all labels, would not allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from weighbridge.local_engine.cut import cut_middle
from weighbridge.local_engine.models.protocol import LanguageModel, Read, read_batch
from weighbridge.local_engine.vocabulary import Vocabulary

_QUESTION = "\nCategory:"
_BATCH_TOKENS = 1024


class HiddenReader:
    """Reads tickets for their hidden states.

    Args:
        model: the generator.
        vocabulary: of it.
        max_tokens: longer tickets are cut in the middle.
    """

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary, max_tokens: int) -> None:
        self._model, self._vocabulary, self._max_tokens = model, vocabulary, max_tokens
        self._question = vocabulary.encode(_QUESTION)

    def read(self, texts: Sequence[str]) -> Tensor:
        """The last layer's states, float32 [number of texts, 2 D], on the CPU.

        First the mean over the ticket, then the state in which the model would name a category. The
        very first token is left out of the mean: its state is large and the same for every text.

        Raises:
            ContextTooLong: the model cannot read as many tokens as `max_tokens` allows.
        """
        found: dict[int, Tensor] = {}
        for batch in self._batches(texts):
            reads = [
                Read(torch.tensor([*ids, *self._question]), self._model.empty_cache())
                for _, ids in batch
            ]
            for (place, ids), (rows, _) in zip(batch, read_batch(self._model, reads), strict=True):
                end = len(ids) or len(rows)  # of an empty ticket, the question is all there is
                mean = rows[min(1, end - 1) : end].float().mean(0)
                found[place] = torch.cat([mean, rows[-1].float()]).cpu()
        return torch.stack([found[place] for place in range(len(texts))])

    def _batches(self, texts: Sequence[str]) -> Iterator[list[tuple[int, list[int]]]]:
        """Tickets as tokens, as many together as are read quickest."""
        batch: list[tuple[int, list[int]]] = []
        size = 0
        for place, text in enumerate(texts):
            ids, _ = cut_middle(self._vocabulary, text, self._max_tokens)
            if batch and size + len(ids) > _BATCH_TOKENS:
                yield batch
                batch, size = [], 0
            batch.append((place, ids))
            size += len(ids) + len(self._question)
        if batch:
            yield batch
