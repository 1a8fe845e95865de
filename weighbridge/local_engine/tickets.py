"""Tickets weighed one after the other: what all tickets of a task share is read once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weighbridge.errors import EngineError
from weighbridge.local_engine.chat_template import ChatTemplate
from weighbridge.local_engine.cut import cut_middle
from weighbridge.local_engine.language import is_foreign
from weighbridge.local_engine.learned.head import Head
from weighbridge.local_engine.learned.hidden import HiddenReader
from weighbridge.local_engine.models.protocol import LanguageModel
from weighbridge.local_engine.posterior import opening
from weighbridge.local_engine.prior import LabelPoints, LabelPrior, PriorOpinion, without_opinion
from weighbridge.local_engine.scoring import Prompt, Scorer, Scores
from weighbridge.local_engine.vocabulary import Vocabulary
from weighbridge.local_engine.weighing import FieldSpec, Weights, weigh
from weighbridge.schemas.finite import FiniteLanguage, Literal, Path

_NO_TICKET = "Hello, please help me. Thanks."  # all of a ticket but what it is about
_MAX_TASKS = 8  # prompts whose caches are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """An answer, its weights, and how much of the ticket was read.

    Args:
        weights: the answer and its fields.
        is_foreign: the ticket is in a language that the label prior does not know.
        ticket_tokens: length of the ticket.
        read_tokens: how many of them the language model read.
    """

    weights: Weights
    is_foreign: bool
    ticket_tokens: int
    read_tokens: int


class TicketWeigher:
    """Weighs tickets.

    Args:
        model: the generator.
        vocabulary: of it.
        chat: its chat template.
        scorer: of the same model.
        prior: None leaves the generator alone.
        max_ticket_tokens: longer tickets are cut in the middle.
    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        chat: ChatTemplate,
        scorer: Scorer,
        prior: LabelPrior | None,
        max_ticket_tokens: int,
    ) -> None:
        self._model, self._vocabulary, self._chat, self._scorer = model, vocabulary, chat, scorer
        self._prior, self._max_ticket_tokens = prior, max_ticket_tokens
        self._hidden = HiddenReader(model, vocabulary, max_ticket_tokens)
        self._tasks: dict[Hashable, _Task] = {}

    def weigh(
        self,
        system: str,
        ticket: str,
        language: FiniteLanguage,
        fields: Sequence[FieldSpec],
        heads: Mapping[Path, Head],
    ) -> Weighed:
        """Weigh every answer to one ticket; see `Engine.weigh`."""
        task = self._task(system, language, fields)
        text = self._chat.user_text(ticket, system)
        user, ticket_tokens = cut_middle(self._vocabulary, text, self._max_ticket_tokens)
        opinions = self._opinions(ticket, fields, task, heads)
        weights = weigh(
            language,
            fields,
            opinions,
            encode=self._vocabulary.encode,
            scores=self._scores(task.prefix, [*user, *task.after]),
            baseline=task.baseline,
        )
        return Weighed(
            weights=weights,
            is_foreign=self._prior is not None and is_foreign(ticket),
            ticket_tokens=ticket_tokens,
            read_tokens=min(ticket_tokens, self._max_ticket_tokens),
        )

    def zero_shot(
        self, texts: Sequence[str], spec: FieldSpec
    ) -> tuple[Tensor, Tensor, list[PriorOpinion]]:
        """What a head is fitted on: embeddings, hidden states, and the opinions it starts from.

        Args:
            texts: at least one.
            spec: the field.

        Returns:
            float32 [N, E], float32 [N, 2 D] and N opinions over the options of the field.
        """
        if self._prior is None:
            raise EngineError("nothing can be learned without a label prior")
        embeddings, points = self._prior.embed(texts), {}
        if spec.labels:
            points = {spec.path: self._prior.points(spec.labels)}
        opinions = [
            self._prior.opinions(embedding, points).get(spec.path)
            or without_opinion(len(spec.options))
            for embedding in embeddings
        ]
        return embeddings, self._hidden.read(texts), opinions

    def _opinions(
        self,
        ticket: str,
        fields: Sequence[FieldSpec],
        task: _Task,
        heads: Mapping[Path, Head],
    ) -> dict[Path, PriorOpinion]:
        """Of the label prior, and of what was learned where there is something."""
        if self._prior is None:
            return {}
        [embedding] = self._prior.embed([ticket])
        opinions = self._prior.opinions(embedding, task.points)
        learned = [spec for spec in fields if spec.path in heads]
        if learned:
            [hidden] = self._hidden.read([ticket])
            for spec in learned:
                zero = opinions.get(spec.path) or without_opinion(len(spec.options))
                opinions[spec.path] = heads[spec.path].opinion(
                    zero, spec.options, embedding, hidden
                )
        return opinions

    def _task(self, system: str, language: FiniteLanguage, fields: Sequence[FieldSpec]) -> _Task:
        key = _key(system, language, fields)
        if key not in self._tasks:
            if len(self._tasks) >= _MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]
            self._tasks[key] = self._new_task(system, language, fields)
        return self._tasks[key]

    def _new_task(
        self, system: str, language: FiniteLanguage, fields: Sequence[FieldSpec]
    ) -> _Task:
        before, prefix = self._chat.before_user(system), self._model.empty_cache()
        if before:  # a template may begin with the user's text
            _, prefix = self._model.forward(torch.tensor(before), prefix)
        after = [*self._chat.after_user(system), *self._vocabulary.encode(opening(language))]
        empty = self._vocabulary.encode(self._chat.user_text(_NO_TICKET, system))
        points = {}
        if self._prior is not None:
            points = {spec.path: self._prior.points(spec.labels) for spec in fields if spec.labels}
        return _Task(prefix, after, points, self._scores(prefix, [*empty, *after]))

    def _scores(self, prefix: Any, ids: list[int]) -> Scores:
        """The scores after a prompt, given what all tickets share and the rest of it."""
        return Scores(partial(self._scorer.score, Prompt(prefix, tuple(ids))))


@dataclass(frozen=True, slots=True)
class _Task:
    """What all tickets of a task share."""

    prefix: Any  # a cache of the model
    after: list[int]
    points: dict[tuple[str, ...], LabelPoints]
    baseline: Scores


def _key(system: str, language: FiniteLanguage, fields: Sequence[FieldSpec]) -> Hashable:
    """What a task's cache depends on; options as their texts, since objects cannot be keys."""
    texts = tuple(
        part.text if isinstance(part, Literal) else tuple(option.text for option in part.options)
        for part in language.parts
    )
    return system, texts, tuple((spec.path, spec.labels) for spec in fields)
