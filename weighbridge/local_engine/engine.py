"""The local engine: reads a ticket and weighs every answer of a finite language."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from weighbridge.errors import EngineError, ModelCorrupt
from weighbridge.local_engine.catalogue import cache_folder, locate
from weighbridge.local_engine.chat import ChatML
from weighbridge.local_engine.encoder import Encoder
from weighbridge.local_engine.language import is_foreign
from weighbridge.local_engine.models.convert import converted
from weighbridge.local_engine.models.llama import KVCache, Llama, LlamaConfig
from weighbridge.local_engine.prior import LabelPoints, LabelPrior
from weighbridge.local_engine.scoring import Branch, ChoiceScores, score
from weighbridge.local_engine.tokenizer import ByteTokenizer, read_tokenizer
from weighbridge.local_engine.weighing import Baseline, FieldSpec, Weights, weigh
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
        self._tasks: dict[Hashable, _TaskCache] = {}

    @classmethod
    def load(
        cls,
        generator: str = "smollm2-135m",
        *,
        prior: str | None = "all-minilm-l6-v2",
        threads: int | None = None,
        max_ticket_tokens: int = 1024,
    ) -> Engine:
        """Load models by known name or by path.

        Args:
            generator: a known name or a GGUF file.
            prior: a known name or the folder of a sentence encoder; None for none.
            threads: torch threads, for the whole process; None leaves torch's own choice.
            max_ticket_tokens: longer tickets are cut in the middle.

        Raises:
            ModelUnknown, ModelMissing, ModelCorrupt, EngineError: see `weighbridge.errors`.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        encoder = None if prior is None else Encoder.load(locate(prior, "encoder"))
        folder = converted(locate(generator, "generator"), cache_folder())
        model, tokenizer, fingerprint = load_generator(folder)
        return cls(
            model,
            tokenizer,
            fingerprint=fingerprint,
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
            scorer=self._read(task.prefix, [*user, *task.before_answer]).score,
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
            empty = self._read(prefix, [*self.tokenizer.encode(_NO_TICKET), *before_answer])
            if len(self._tasks) >= _MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]
            self._tasks[key] = _TaskCache(prefix, before_answer, points, Baseline(empty.score))
        return self._tasks[key]

    def _read(self, prefix: KVCache, ids: list[int]) -> _Reading:
        hidden, cache = self.model.forward(torch.tensor(ids), prefix)
        return _Reading(self, cache, self.model.log_probs(hidden[-1:])[0])


@dataclass(frozen=True, slots=True)
class _TaskCache:
    """What all tickets of a task share."""

    prefix: KVCache
    before_answer: list[int]
    points: dict[tuple[str, ...], LabelPoints]
    baseline: Baseline


@dataclass(frozen=True, slots=True)
class _Reading:
    """A prompt that has been read up to the first choice."""

    engine: Engine
    cache: KVCache
    after: Tensor  # float32 [V]

    def score(self, branches: Sequence[Branch]) -> list[ChoiceScores]:
        engine = self.engine
        return score(engine.model, engine.tokenizer, self.cache, self.after, branches)


def _key(system: str, language: FiniteLanguage, fields: Sequence[FieldSpec]) -> Hashable:
    """What a task's cache depends on; options as their texts, since objects cannot be keys."""
    texts = tuple(
        part.text if isinstance(part, Literal) else tuple(option.text for option in part.options)
        for part in language.parts
    )
    return system, texts, tuple((spec.path, spec.labels) for spec in fields)


def load_generator(folder: Path) -> tuple[Llama, ByteTokenizer, str]:
    """Model, tokenizer and fingerprint from a converted folder; weights stay memory-mapped.

    Raises:
        ModelCorrupt: the folder is incomplete or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        tokenizer = ByteTokenizer(
            read_tokenizer(folder / "tokenizer.json"),
            special_ids=frozenset(config["special_ids"]),
            eos_ids=frozenset(config["eos_ids"]),
        )
        weights = load_file(folder / "model.safetensors")
        return Llama(LlamaConfig(**config["llama"]), weights), tokenizer, config["fingerprint"]
    except EngineError:
        raise
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        problem = f"the converted model is damaged ({type(error).__name__})"
        raise ModelCorrupt(str(folder), problem) from None
