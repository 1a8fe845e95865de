"""The local engine: reads a ticket and weighs every answer of a finite language."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.local_engine.chat import ChatML
from weighbridge.local_engine.encoder import Encoder
from weighbridge.local_engine.language import is_foreign
from weighbridge.local_engine.models.cache import KVCache
from weighbridge.local_engine.models.convert import Precision, converted
from weighbridge.local_engine.models.llama import Llama
from weighbridge.local_engine.models.load import best_device, load_generator, precision_for
from weighbridge.local_engine.prior import LabelPoints, LabelPrior
from weighbridge.local_engine.scoring import Prompt, Scorer, Scores
from weighbridge.local_engine.tokenizer import ByteTokenizer
from weighbridge.local_engine.weighing import FieldSpec, Weights, weigh
from weighbridge.schemas.finite import FiniteLanguage, Literal

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


class Engine:
    """A generator, its tokenizer, and a label prior if there is one.

    One call at a time: a second thread must wait or have an engine of its own.

    Args:
        model: the generator.
        tokenizer: of the generator; must know ChatML.
        fingerprint: of weights and precision; what is calibrated for one holds for no other.
        prior: None leaves the generator alone.
        max_ticket_tokens: longer tickets are cut in the middle.
    """

    def __init__(
        self,
        model: Llama,
        tokenizer: ByteTokenizer,
        *,
        fingerprint: str,
        prior: LabelPrior | None = None,
        max_ticket_tokens: int = 1024,
    ) -> None:
        self.model, self.tokenizer, self.prior = model, tokenizer, prior
        self.fingerprint, self.max_ticket_tokens = fingerprint, max_ticket_tokens
        self._chat = ChatML(tokenizer)
        self._scorer = Scorer(model, tokenizer)
        self._tasks: dict[Hashable, _TaskCache] = {}

    @classmethod
    def load(
        cls,
        generator: str = "smollm2-135m",
        *,
        prior: str | None = "all-minilm-l6-v2",
        precision: Precision | None = None,
        threads: int | None = None,
        max_ticket_tokens: int = 1024,
    ) -> Engine:
        """Load models by known name or by path.

        Args:
            generator: a known name or a GGUF file.
            prior: a known name or the folder of a sentence encoder; None for none.
            precision: of the generator; None for int8 on a CPU, bfloat16 on a GPU.
            threads: torch threads, for the whole process; None leaves torch's own choice.
            max_ticket_tokens: longer tickets are cut in the middle.

        Raises:
            ModelUnknown, ModelMissing, ModelCorrupt, EngineError: see `weighbridge.errors`.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        encoder = None if prior is None else Encoder.load(locate(prior, "encoder"))
        device = best_device()
        source = locate(generator, "generator")
        folder = converted(source, cache_folder(), precision_for(device, precision))
        loaded = load_generator(folder, device)
        return cls(
            loaded.model,
            loaded.tokenizer,
            fingerprint=loaded.fingerprint,
            prior=None if encoder is None else LabelPrior(encoder),
            max_ticket_tokens=max_ticket_tokens,
        )

    def weigh(
        self, system: str, ticket: str, language: FiniteLanguage, fields: Sequence[FieldSpec]
    ) -> Weighed:
        """Weigh every answer to one ticket.

        Args:
            system: the instructions, equal for every ticket of a task; read once.
            ticket: plain text; what looks like a control token in it is plain text too.
            language: the answers.
            fields: the fields to report.
        """
        task = self._task(system, language, fields)
        user, ticket_tokens = self._chat.user(ticket, self.max_ticket_tokens)
        opinions = {}
        if self.prior is not None:
            opinions = self.prior.opinions(ticket, task.points)
        weights = weigh(
            language,
            fields,
            opinions,
            encode=self.tokenizer.encode,
            scores=self._scores(task.prefix, [*user, *task.before_answer]),
            baseline=task.baseline,
        )
        return Weighed(
            weights=weights,
            is_foreign=self.prior is not None and is_foreign(ticket),
            ticket_tokens=ticket_tokens,
            read_tokens=min(ticket_tokens, self.max_ticket_tokens),
        )

    def _task(
        self, system: str, language: FiniteLanguage, fields: Sequence[FieldSpec]
    ) -> _TaskCache:
        key = _key(system, language, fields)
        if key not in self._tasks:
            first = language.parts[0] if language.parts else None
            scaffold = first.text if isinstance(first, Literal) else ""
            ids = torch.tensor(self._chat.before_user(system))
            _, prefix = self.model.forward(ids, self.model.empty_cache())
            points = {}
            if self.prior is not None:
                points = {
                    spec.path: self.prior.points(spec.labels) for spec in fields if spec.labels
                }
            before_answer = self._chat.before_answer(scaffold)
            empty = self._scores(prefix, [*self.tokenizer.encode(_NO_TICKET), *before_answer])
            if len(self._tasks) >= _MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]
            self._tasks[key] = _TaskCache(prefix, before_answer, points, empty)
        return self._tasks[key]

    def _scores(self, prefix: KVCache, ids: list[int]) -> Scores:
        """The scores after a prompt, given what all tickets share and the rest of it."""
        return Scores(partial(self._scorer.score, Prompt(prefix, tuple(ids))))


@dataclass(frozen=True, slots=True)
class _TaskCache:
    """What all tickets of a task share."""

    prefix: KVCache
    before_answer: list[int]
    points: dict[tuple[str, ...], LabelPoints]
    baseline: Scores


def _key(system: str, language: FiniteLanguage, fields: Sequence[FieldSpec]) -> Hashable:
    """What a task's cache depends on; options as their texts, since objects cannot be keys."""
    texts = tuple(
        part.text if isinstance(part, Literal) else tuple(option.text for option in part.options)
        for part in language.parts
    )
    return system, texts, tuple((spec.path, spec.labels) for spec in fields)
